"""How a span ended: errors in all their disguises."""

from __future__ import annotations

from replaykit.importers.errors import error_of
from replaykit.importers.otel.span import Span
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, encode
from replaykit.wire.fields import as_objects, as_text, joined

_LEVEL = "langfuse.observation.level"
_NO_ERROR = ("", "_OTHER")


def error_in(span: Span, *, has_outcome: bool) -> ErrorInfo | None:
    """The error that a span ended with: by its status, its attributes, or an exception with nothing after it."""
    thrown = [happening.attributes for happening in span.happenings if happening.name == "exception"]
    kind = as_text(span.attributes.get("error.type"))
    failed = span.failed or bool(kind) or span.attributes.get(_LEVEL) == "ERROR"
    if not failed and (not thrown or has_outcome):
        return None
    if thrown:
        return _of_exception(thrown[-1], span)
    said = span.message or as_text(span.attributes.get("langfuse.observation.status_message"))
    return error_of(said, kind if kind not in _NO_ERROR else "Error")


def _of_exception(said: dict[str, Json], span: Span) -> ErrorInfo:
    module, _, kind = as_text(said.get("exception.type")).rpartition(".")
    return ErrorInfo(
        type=kind or as_text(span.attributes.get("error.type")) or "Error",
        module=module,
        message=as_text(said.get("exception.message")) or span.message,
        traceback=as_text(said.get("exception.stacktrace")) or None,
    )


def result_error(result: Json, *, is_error: bool = False) -> ErrorInfo | None:
    """The error that a tool's result is, where it says so; MCP has `isError` beside the content."""
    if isinstance(result, dict) and (result.get("isError") is True or result.get("is_error") is True):
        content = result.get("content")
        parts = joined((as_text(part.get("text")) for part in as_objects(content)), "\n")
        return error_of(as_text(content) or parts or encode(result).decode(), "ToolError")
    if not is_error:
        return None
    return error_of(result if isinstance(result, str | dict) else encode(result).decode(), "ToolError")


def spoken_error(result: Json) -> ErrorInfo | None:
    """The error that a model was told of, where only what it was told is known: `TimeoutError: …`."""
    if not isinstance(result, str):
        return None
    found = error_of(result.removeprefix("Error: "), "")
    return found if found.type else None
