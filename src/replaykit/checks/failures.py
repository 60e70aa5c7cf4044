"""Failures: whether a call failed, by what it raised or by what its result says.

A tool reports a failure in many forms: an exception, an error object, `success: false`, a status code, an MCP result
with `isError`, a traceback, or a sentence in the language of its author. `failure_texts` reads sentences; this module
reads structures.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from replaykit.checks.failure_texts import text_failure
from replaykit.model.events import Call
from replaykit.model.nesting import decode_json
from replaykit.model.values import Json

_ERROR_KEYS = ("error", "errors", "is_error", "isError", "exception", "error_message", "errorMessage", "__type")
_SUCCESS_KEYS = ("success", "ok", "succeeded", "successful", "isSuccess", "is_success")
_STATUS_KEYS = ("status", "status_code", "statusCode", "http_status", "httpStatus", "http_code", "code")
_STATE_KEYS = ("status", "state", "outcome", "result")
_FAILED_STATES = frozenset({"error", "errored", "failed", "failure", "fail", "timeout", "timed_out", "exception"})
_NO_ERRORS = frozenset({"none", "null", "no error", "no errors", "ok", "0", "false", "n/a", "success"})
_MESSAGE_KEYS = ("message", "detail", "details", "reason", "content", "description", "title", "msg", "text")
_ABOUT_FAILURE = frozenset(
    (
        *_MESSAGE_KEYS,
        *("code", "error_code", "errorCode", "timestamp", "time", "request_id", "requestId", "trace_id", "traceId"),
        *("tool", "name", "hint", "retry_after", "retryAfter", "retryable", "type", "path", "instance", "data", "id"),
    )
)
"""Keys that stand beside `status: failed` when the tool speaks of itself, and not of a job that it looked up."""
_WRAPPERS = frozenset({"result", "response", "output", "data", "value", "body", "content", "structuredContent"})
_MAX_WRAPPING = 4
_MAX_JSON_CHARS = 200_000
"""A longer text is not parsed: an error message is short."""
_REASON_CHARS = 200


def call_failed(call: Call) -> str | None:
    """Return why the call counts as failed, in one line; None when it does not.

    A call failed when it raised, or when its result says so: see `result_failure`.
    """
    if call.error is not None:
        return _one_line(str(call.error))
    if not call.result_json:
        return None
    return result_failure(call.result)


def result_failure(result: Json) -> str | None:
    """Return why a tool's result reports a failure, in one line; None when it reports none."""
    reason = _reason_of(result, 0)
    if reason is None:
        return None
    return _one_line(reason)


def _reason_of(result: Json, depth: int) -> str | None:
    if isinstance(result, str):
        return _text_reason(result, depth)
    if isinstance(result, dict):
        return _object_reason(result, depth)
    if isinstance(result, list):
        text = _content_text(result)
        if text is None:
            return None
        return _text_reason(text, depth)
    return None


def _text_reason(text: str, depth: int) -> str | None:
    stripped = text.strip()
    if stripped[:1] == "{" and len(stripped) <= _MAX_JSON_CHARS and depth < _MAX_WRAPPING:
        try:
            value = decode_json(stripped)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return text_failure(text)
        if isinstance(value, dict):
            return _reason_of(value, depth + 1)
        return None
    return text_failure(text)


def _object_reason(result: dict[str, Json], depth: int) -> str | None:
    for reason in (_error_member(result), _success_member(result), _status_code(result), _failed_state(result)):
        if reason is not None:
            return reason
    if depth >= _MAX_WRAPPING:
        return None
    if isinstance(result.get("content"), list) and "isError" in result:
        return None  # an MCP result that says it is no error
    if len(result) == 1:
        ((key, inner),) = result.items()
        if key in _WRAPPERS:
            return _reason_of(inner, depth + 1)
    return None


def _error_member(result: dict[str, Json]) -> str | None:
    for key in _ERROR_KEYS:
        value = result.get(key)
        if not value or (isinstance(value, str) and value.strip().lower() in _NO_ERRORS):
            continue
        if key == "__type" and not (isinstance(value, str) and value.endswith(("Exception", "Error"))):
            continue
        return _spelled(value, result)
    return None


def _success_member(result: dict[str, Json]) -> str | None:
    for key in _SUCCESS_KEYS:
        value = result.get(key)
        if value is False or (isinstance(value, str) and value.strip().lower() == "false"):
            return f"{key} is false{_message_of(result)}"
    return None


def _status_code(result: dict[str, Json]) -> str | None:
    for key in _STATUS_KEYS:
        code = result.get(key)
        if isinstance(code, str) and key not in ("status", "code") and code.isascii() and code.isdigit():
            code = int(code[:4])
        # The upper bound keeps product codes and postcodes from looking like HTTP statuses.
        if type(code) is int and 400 <= code <= 599:
            return f"{key} {code}{_message_of(result)}"
    return None


def _failed_state(result: dict[str, Json]) -> str | None:
    for key in _STATE_KEYS:
        state = result.get(key)
        if not isinstance(state, str) or state.strip().lower().replace(" ", "_") not in _FAILED_STATES:
            continue
        if all(other == key or other in _ABOUT_FAILURE or result[other] is None for other in result):
            return f"{key} {state}{_message_of(result)}"
    return None


def _content_text(blocks: list[Json]) -> str | None:
    """Return the text of a list of content blocks, as MCP and model APIs have them; None for any other list."""
    texts = list(_block_texts(blocks))
    if texts and len(texts) == len(blocks):
        return "\n".join(texts)
    return None


def _block_texts(blocks: list[Json]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def _spelled(error: Json, result: dict[str, Json]) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error)
    if error is True:
        return f"is_error{_message_of(result)}"
    return str(error)


def _message_of(result: dict[str, Json]) -> str:
    for key in (*_MESSAGE_KEYS, *_ERROR_KEYS):
        message = result.get(key)
        if isinstance(message, list):
            message = _content_text(message) or message
        if message and message is not True:
            return f": {message}"
    return ""


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * _REASON_CHARS].split())
    if len(line) <= _REASON_CHARS:
        return line
    return line[: _REASON_CHARS - 1] + "…"
