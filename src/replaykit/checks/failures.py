"""Failures: whether a call failed, by what it raised or by what its result says."""

from __future__ import annotations

import re

from replaykit.model.events import Call
from replaykit.model.values import Json

_ERROR_TEXT = re.compile(r"\s*(Error\b|ERROR\b|error:|Exception\b|Traceback\b|[A-Za-z_.]*(Error|Exception):)")
_ERROR_KEYS = ("error", "errors", "is_error", "isError")
_STATUS_KEYS = ("status", "status_code", "code")
_REASON_CHARS = 200


def call_failed(call: Call) -> str | None:
    """Why the call counts as failed, in one line; None when it does not.

    It failed when it raised, when its result is a text that starts like an error, or when its result is an
    object with a truthy `error`, `errors` or `is_error`, or a status from 400 to 599.
    """
    if call.error is not None:
        return _one_line(str(call.error))
    if not call.result_json:
        return None
    return _result_failed(call.result)


def _result_failed(result: Json) -> str | None:
    if isinstance(result, str):
        return _one_line(result) if _ERROR_TEXT.match(result) else None
    if not isinstance(result, dict):
        return None
    for key in _ERROR_KEYS:
        if result.get(key):
            return _one_line(_reason(result[key], result))
    for key in _STATUS_KEYS:
        code = result.get(key)
        # The upper bound keeps product codes and postcodes from looking like HTTP statuses.
        if type(code) is int and 400 <= code <= 599:
            return _one_line(f"{key} {code}{_message_of(result)}")
    return None


def _reason(error: Json, result: dict[str, Json]) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error)
    if error is True:
        return f"is_error{_message_of(result)}"
    return str(error)


def _message_of(result: dict[str, Json]) -> str:
    message = next((result[key] for key in ("message", "detail", "content") if result.get(key)), None)
    return "" if message is None else f": {message}"


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * _REASON_CHARS].split())
    return line if len(line) <= _REASON_CHARS else line[: _REASON_CHARS - 1] + "…"
