"""Errors and statuses of foreign traces, as the model has them."""

from __future__ import annotations

import re

from msgspec.structs import replace

from replaykit.model.events import ErrorInfo
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus
from replaykit.model.values import ABSENT, Json, JsonObject, Raw, encode, raw
from replaykit.wire.json_fields import EMPTY, as_text, joined_texts

_REPR = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)", re.DOTALL)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"', "\\": "\\"}
_TYPED = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Timeout|Interrupt|Exceeded|Warning)):\s*(.*)", re.DOTALL)

ERROR = "Error: "
"""The usual start of an error that an agent reports to a model."""
_SPOKEN = ("Error:", "ERROR:")
_OPENAI_AGENTS = "An error occurred while running the tool"
"""The start of an exception's text in OpenAI's Agents SDK."""

STATUSES: dict[str, RunStatus] = {
    **dict.fromkeys(
        ("success", "succeeded", "successful", "ok", "complete", "completed", "done", "finished", "passed"),
        RunStatus.SUCCESS,
    ),
    **dict.fromkeys(
        ("error", "errored", "fail", "failed", "failure", "exception", "crashed", "incomplete"), RunStatus.ERROR
    ),
    **dict.fromkeys(("timeout", "timed_out", "timedout", "deadline_exceeded", "expired"), RunStatus.TIMEOUT),
    **dict.fromkeys(("cancelled", "canceled", "aborted", "interrupted", "stopped", "killed"), RunStatus.CANCELLED),
    **dict.fromkeys(("running", "in_progress", "pending", "started", "queued"), RunStatus.RUNNING),
}
"""Words of traces for the statuses of a run."""
_ENDINGS = {
    "TimeoutError": RunStatus.TIMEOUT,
    "CancelledError": RunStatus.CANCELLED,
    "KeyboardInterrupt": RunStatus.CANCELLED,
}


def status_of(word: str) -> RunStatus | None:
    """The status a trace's word means; None when it is not known."""
    return STATUSES.get(re.sub(r"[\s-]+", "_", word.strip().lower()))


def ending_of(error: ErrorInfo) -> RunStatus:
    """Return the status of a run that ended with this error, as a recording would have it."""
    return _ENDINGS.get(error.type, RunStatus.ERROR)


_UNKNOWN = "Error"
"""The type of an error that a trace keeps no type of."""


def error_of(value: Json, fallback_type: str = _UNKNOWN) -> ErrorInfo:
    """The error a trace's text or object tells of; anything it says beyond type and message is kept."""
    if isinstance(value, str):
        typed = _TYPED.fullmatch(value.strip())
        if typed:
            name, message = typed[1], typed[2]
            return ErrorInfo(type=name.rpartition(".")[2], module=name.rpartition(".")[0], message=message)
        return ErrorInfo(type=fallback_type, message=value)
    if isinstance(value, dict):
        if value.keys() == {"error"} and isinstance(value["error"], str):
            return error_of(value["error"], fallback_type)
        return _error_of_object(value, fallback_type)
    return ErrorInfo(type=fallback_type, message="" if value is None else encode(value).decode())


def error_of_repr(text: str, fallback_type: str = "Error") -> ErrorInfo:
    """The error that a text tells of which may be the `repr` of an exception: `TimeoutError('too late')`."""
    shown = _REPR.fullmatch(text.strip())
    if shown is None:
        return error_of(text.strip(), fallback_type)
    message = shown[2]
    quoted = _QUOTED.fullmatch(message.strip().removesuffix(","))
    if quoted is not None:
        message = _plain(quoted[1] or quoted[2] or "")
    module, _, kind = shown[1].rpartition(".")
    return ErrorInfo(type=kind, module=module, message=message)


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), text)


def result_error(result: Json, *, is_error: bool = False) -> ErrorInfo | None:
    """The error that a tool's result is, where it says so; MCP has `isError` beside the content."""
    if isinstance(result, dict) and (result.get("isError") is True or result.get("is_error") is True):
        content = result.get("content")
        parts = joined_texts(content, "\n") or None
        return error_of(as_text(content) or parts or encode(result).decode(), "ToolError")
    if not is_error:
        return None
    return error_of(result if isinstance(result, str | dict) else encode(result).decode(), "ToolError")


def spoken_error(result: Json) -> ErrorInfo | None:
    """The error that a model was told of, where only what it was told is known: `Error: …`, `TimeoutError: …`."""
    if not isinstance(result, str):
        return None
    text, fallback_type = result, ""
    if result.startswith((*_SPOKEN, _OPENAI_AGENTS)):
        fallback_type = "ToolError"
    if result.startswith(_SPOKEN):
        text = result.partition(":")[2].lstrip()
    found = error_of(text, fallback_type)
    if found.type:
        return found
    return None


def tool_outcome(
    content: Json, *, failed: bool | None = None, error: ErrorInfo | None = None, ending: ToolErrors | None = None
) -> tuple[ErrorInfo | None, Raw]:
    """The error and the result of a tool's call, of which the model was told `content`.

    `failed` and `error` are what the format says of a failure; where it says nothing, the text does. `ending` is for a
    format that knows whether the failed tool raised. Without it, a failure that the format knows of was raised, and
    one that only the text tells of was returned; a case can say otherwise, since such a call keeps both.
    """
    is_known = error is not None or failed is True or as_text(content).startswith(_OPENAI_AGENTS)
    if error is None and failed is not False:
        error = spoken_error(content)
    error = error or result_error(content, is_error=failed is True)
    if error is None:
        return None, raw(content)
    error = _with_type(error, content)
    if ending is ToolErrors.RAISED or content in EMPTY:
        return error, ABSENT
    is_raised = is_known and ending is None
    return replace(error, raised=is_raised), raw(content)


def _with_type(error: ErrorInfo, content: Json) -> ErrorInfo:
    """The error; of a trace that keeps no types, with the one that the agent told the model of the same error."""
    if error.type != _UNKNOWN or not error.message or not isinstance(content, str):
        return error
    described = error_of_repr(content)
    if described.message != error.message:
        return error
    return replace(error, type=described.type, module=described.module)


def _error_of_object(value: JsonObject, fallback_type: str) -> ErrorInfo:
    fields = dict(value)
    kind = _pop_text(fields, "type", "name", "error_type", "code")
    message = _pop_text(fields, "message", "error", "msg", "detail")
    traceback = _pop_text(fields, "traceback", "stack", "stacktrace")
    return ErrorInfo(
        type=kind or fallback_type,
        message=message or "",
        traceback=traceback,
        attributes_json=raw(fields) if fields else ABSENT,
    )


def _pop_text(fields: JsonObject, *names: str) -> str | None:
    for name in names:
        if isinstance(fields.get(name), str):
            return str(fields.pop(name))
    return None
