"""How a span ended: errors in all their disguises."""

from __future__ import annotations

from replaykit.importers.errors import error_of
from replaykit.importers.otel.span import Span
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json
from replaykit.wire.fields import as_text

_LEVEL = "langfuse.observation.level"
_NO_ERROR = ("", "_OTHER")


def error_in(span: Span, *, has_outcome: bool) -> ErrorInfo | None:
    """The error that a span ended with: by its status, its attributes, or an exception with nothing after it."""
    happenings, said = span.happenings, span.attributes
    thrown = [happening.attributes for happening in happenings if happening.name == "exception"] if happenings else []
    kind = as_text(said.get("error.type"))
    failed = span.failed or bool(kind) or said.get(_LEVEL) == "ERROR"
    if not failed and (not thrown or has_outcome):
        return None
    if thrown:
        return _of_exception(thrown[-1], span)
    message = span.message or as_text(said.get("langfuse.observation.status_message"))
    return error_of(message, kind if kind not in _NO_ERROR else "Error")


def _of_exception(said: dict[str, Json], span: Span) -> ErrorInfo:
    module, _, kind = as_text(said.get("exception.type")).rpartition(".")
    return ErrorInfo(
        type=kind or as_text(span.attributes.get("error.type")) or "Error",
        module=module,
        message=as_text(said.get("exception.message")) or span.message,
        traceback=as_text(said.get("exception.stacktrace")) or None,
    )
