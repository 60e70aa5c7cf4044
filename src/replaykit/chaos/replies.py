"""Replies in the place of an answer: what a tool, a server or the API of a model says when it fails."""

from __future__ import annotations

import math
from http.client import responses as _PHRASES

import msgspec
import orjson

from replaykit.chaos.answers import body_of
from replaykit.chaos.results import CLOSED, TIMED_OUT, failed, refused
from replaykit.model.events import ErrorInfo, WireInfo
from replaykit.model.faults import ModelFault, ToolFault
from replaykit.model.values import Json, raw
from replaykit.seam.failures import ToolError, describe
from replaykit.seam.http.cleaning import clean_url
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.http.rewriting import with_body
from replaykit.seam.scope import MCP_RESULT, Outcome, PendingCall
from replaykit.wire.api import Api, Framing

_FIRST_STATUS, _LAST_STATUS, _TOO_MANY = 100, 599, 429
_AT_ONCE_MS = 1.0
# Each library of HTTP looks these up among its own names: the first that it has is what it raises.
_TIMEOUT = ErrorInfo(
    type="ReadTimeout",
    bases=(".ReadTimeoutError", ".ServerTimeoutError", "builtins.TimeoutError", "builtins.OSError"),
)
_NO_CONNECTION = ErrorInfo(
    type="ConnectError",
    bases=(".NewConnectionError", ".ServerDisconnectedError", "builtins.ConnectionError", "builtins.OSError"),
)


def no_answer(call: PendingCall, message: str) -> Outcome:
    """Nobody answered in time."""
    text = message or f"`{call.name}` did not answer in time (injected)"
    if call.form == MCP_RESULT:
        return refused(TIMED_OUT, text)
    if call.request is None:
        return Outcome(error=_said(ErrorInfo(type="TimeoutError", module="builtins"), text))
    return Outcome(error=_said(_TIMEOUT, text), wire=wire_of(call.request), complete=False)


def failure(call: PendingCall, fault: ToolFault) -> Outcome:
    """The tool failed with a status; an exchange is answered with it."""
    text = fault.message or f"`{call.name}` failed with {fault.error_code} (injected)"
    if call.form == MCP_RESULT:
        return failed(text, fault.payload) if fault.error_code else refused(CLOSED, text)
    if call.request is None:
        return Outcome(error=describe(ToolError(text, status=fault.error_code, response=fault.payload)))
    if not _FIRST_STATUS <= fault.error_code <= _LAST_STATUS:
        return Outcome(error=_said(_NO_CONNECTION, text), wire=wire_of(call.request), complete=False)
    body: Json = fault.payload if fault.payload is not None else {"error": {"code": fault.error_code, "message": text}}
    data = body_of(body) if not isinstance(body, str) else orjson.dumps(body)
    return with_body(wire_of(call.request, fault.error_code), data, "application/json")


def rate_limited(call: PendingCall, fault: ModelFault, api: Api | None) -> Outcome:
    """The model's API says 429, in its own words, and when to come again."""
    text = fault.message or "Rate limit reached. Please try again later. (injected)"
    if call.request is None or api is None:
        return Outcome(error=describe(ToolError(text, status=_TOO_MANY)))
    wait_ms = fault.delay_ms or _AT_ONCE_MS  # SDKs that try again would sleep for longer than anybody asked
    headers = [("retry-after", str(math.ceil(wait_ms / 1000))), ("retry-after-ms", str(math.ceil(wait_ms)))]
    if api.framing is Framing.AWS:
        headers.append(("x-amzn-errortype", "ThrottlingException"))
    wire = wire_of(call.request, _TOO_MANY, tuple(headers))
    body = orjson.dumps(_limit_in_words(api, text))
    error = api.hear(_TOO_MANY, (body,)).error
    return msgspec.structs.replace(with_body(wire, body, "application/json"), error=error)


def wire_of(request: HttpRequest, status: int = 0, headers: tuple[tuple[str, str], ...] = ()) -> WireInfo:
    """How the exchange went, as the log says it."""
    url, reason = clean_url(request.url), _PHRASES.get(status, "")
    return WireInfo(method=request.method, url=url, status=status, reason=reason, headers=headers)


def _limit_in_words(api: Api, text: str) -> Json:
    if api.framing is Framing.AWS:
        return {"message": text}
    family = api.name.partition(".")[0]
    if family == "anthropic":
        return {"type": "error", "error": {"type": "rate_limit_error", "message": text}}
    if family == "gemini":
        told = {"error": {"code": 429, "message": text, "status": "RESOURCE_EXHAUSTED"}}
        return [told] if api.streamed and api.framing is Framing.ARRAY else told
    if family == "ollama":
        return {"error": text}
    kind = "rate_limit_exceeded"
    return {"error": {"message": text, "type": kind, "param": None, "code": kind}}


def _said(error: ErrorInfo, message: str) -> ErrorInfo:
    return ErrorInfo(
        type=error.type, module=error.module, bases=error.bases, message=message, args_json=raw((message,))
    )
