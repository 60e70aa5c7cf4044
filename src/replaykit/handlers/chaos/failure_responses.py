"""Replies in the place of an answer: what a tool, a server or the API of a model says when it fails."""

from __future__ import annotations

import math

import orjson

from replaykit.handlers.chaos.answers import body_of
from replaykit.handlers.chaos.mcp_results import CLOSED, TIMED_OUT, failed, refused
from replaykit.model.events import ErrorInfo
from replaykit.model.faults import ModelFault, ToolFault
from replaykit.model.values import Json, raw
from replaykit.seam.failures import ToolError, describe
from replaykit.seam.http.rewriting import api_error, no_response, wire_of, with_body
from replaykit.seam.scope import MCP_RESULT, Outcome, PendingCall
from replaykit.wire.api import ModelApi

_FIRST_STATUS, _LAST_STATUS, _TOO_MANY = 100, 599, 429
_AT_ONCE_MS = 1.0


def no_answer(call: PendingCall, message: str) -> Outcome:
    """Nobody answered in time."""
    text = message or f"`{call.name}` did not answer in time (injected)"
    if call.form == MCP_RESULT:
        return refused(TIMED_OUT, text)
    if call.request is None:
        return Outcome(error=_with_message(ErrorInfo(type="TimeoutError", module="builtins"), text))
    return no_response(call.request, text, timed_out=True)


def failure(call: PendingCall, fault: ToolFault) -> Outcome:
    """The tool failed with a status; an exchange is answered with it."""
    text = fault.message or f"`{call.name}` failed with {fault.error_code} (injected)"
    if call.form == MCP_RESULT:
        if fault.error_code:
            return failed(text, fault.payload)
        return refused(CLOSED, text)
    if call.request is None:
        return Outcome(error=describe(ToolError(text, status=fault.error_code, response=fault.payload)))
    if not _FIRST_STATUS <= fault.error_code <= _LAST_STATUS:
        return no_response(call.request, text, timed_out=False)
    body: Json = fault.payload if fault.payload is not None else {"error": {"code": fault.error_code, "message": text}}
    data = body_of(body) if not isinstance(body, str) else orjson.dumps(body)
    return with_body(wire_of(call.request, fault.error_code), data, "application/json")


def rate_limited(call: PendingCall, fault: ModelFault, api: ModelApi | None) -> Outcome:
    """The model's API says 429, in its own words, and when to come again."""
    text = fault.message or "Rate limit reached. Please try again later. (injected)"
    if call.request is None or api is None:
        return Outcome(error=describe(ToolError(text, status=_TOO_MANY)))
    wait_ms = fault.delay_ms or _AT_ONCE_MS  # SDKs that try again would sleep for longer than anybody asked
    headers = (("retry-after", str(math.ceil(wait_ms / 1000))), ("retry-after-ms", str(math.ceil(wait_ms))))
    return api_error(api, call.request, _TOO_MANY, ErrorInfo(type="RateLimitError", message=text), headers)


def _with_message(error: ErrorInfo, message: str) -> ErrorInfo:
    return ErrorInfo(
        type=error.type, module=error.module, bases=error.bases, message=message, args_json=raw((message,))
    )
