"""Answers that no server sent, in the form in which a server would have sent them.

They are written for forks, for faults, and for the replay of imported runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from http.client import responses as _PHRASES

import msgspec
from msgspec.structs import replace

from replaykit.errors import Unreplayable, UsageError
from replaykit.model.events import ErrorInfo, LlmCall, Usage, WireInfo
from replaykit.model.values import decode, raw
from replaykit.seam.http.cleaning import Headers, clean_url, first_header
from replaykit.seam.http.request import HttpRequest, text_or_bytes
from replaykit.seam.scope import CallAnswer, Outcome, PendingCall
from replaykit.wire.api import ModelApi, finish_reason_in
from replaykit.wire.error_bodies import error_body, error_headers
from replaykit.wire.json_fields import as_object
from replaykit.wire.model_calls import ModelAnswer
from replaykit.wire.routes import api_of
from replaykit.wire.traced_calls import TracedOutcome, outcome_of, seed_of

_OF_THE_OLD_BODY = frozenset({"content-length", "content-encoding", "content-type", "content-md5", "etag", "digest"})
# Each HTTP library has one of these exceptions; the first that it knows is raised.
_TIMEOUT = ErrorInfo(
    type="ReadTimeout",
    bases=(".ReadTimeoutError", ".ServerTimeoutError", "builtins.TimeoutError", "builtins.OSError"),
)
_NO_CONNECTION = ErrorInfo(
    type="ConnectError",
    bases=(".NewConnectionError", ".ServerDisconnectedError", "builtins.ConnectionError", "builtins.OSError"),
)


def written(
    api: ModelApi,
    message: ModelAnswer,
    wire: WireInfo,
    *,
    request: bytes,
    like: Sequence[bytes] = (),
    finish_reason: str | None = None,
    usage: Usage | None = None,
    seed: bytes = b"",
) -> Outcome:
    """Return the outcome in which a model gives this answer, in its API's form and streamed if requested."""
    sent = api.write(message, request=request, like=like, finish_reason=finish_reason, usage=usage, seed=seed)
    response = api.read_response(200, sent.chunks)
    return Outcome(
        result_json=raw(message.message),
        items_json=tuple(raw(text_or_bytes(chunk)) for chunk in sent.chunks),
        wire=answered(wire, sent.content_type),
        usage=response.usage,
        finish_reason=response.finish_reason,
    )


def api_error(api: ModelApi, request: HttpRequest, status: int, error: ErrorInfo, headers: Headers) -> Outcome:
    """Return the outcome in which a model's API answers with an error, in its own form."""
    body = error_body(api, status, error)
    wire = wire_of(request, status, (*headers, *error_headers(api, status)))
    error_info = api.read_response(status, (body,)).error
    return replace(with_body(wire, body, "application/json"), error=error_info)


def no_response(request: HttpRequest, text: str, *, timed_out: bool) -> Outcome:
    """Return the outcome of a request without any response, or without one in time."""
    error = _TIMEOUT if timed_out else _NO_CONNECTION
    error_info = replace(error, message=text, args_json=raw((text,)))
    return Outcome(error=error_info, wire=wire_of(request), complete=False)


def wire_of(request: HttpRequest, status: int = 0, headers: Headers = ()) -> WireInfo:
    """Return a description of the exchange for the log."""
    url, reason = clean_url(request.url), _PHRASES.get(status, "")
    return WireInfo(method=request.method, url=url, status=status, reason=reason, headers=headers)


def with_body(wire: WireInfo, body: bytes, content_type: str = "") -> Outcome:
    """Return the outcome of an exchange with these bytes, and the status in `wire`."""
    kind = content_type or first_header(wire.headers, "content-type")
    items = (raw(text_or_bytes(body)),) if body else ()
    return Outcome(items_json=items, wire=answered(wire, kind, wire.status, wire.reason))


def answered(wire: WireInfo, content_type: str, status: int = 200, reason: str = "OK") -> WireInfo:
    """Return the same exchange with a good status, without headers that describe the original bytes."""
    headers = [(name, value) for name, value in wire.headers if name.lower() not in _OF_THE_OLD_BODY]
    if content_type:
        headers.append(("content-type", content_type))
    return replace(wire, status=status, reason=reason, headers=tuple(headers), pauses_ms=())


def chunks_of(answer: CallAnswer, wire: WireInfo) -> Sequence[bytes]:
    """Return the bytes of a response; empty if they are compressed."""
    if first_header(wire.headers, "content-encoding").lower() not in ("", "identity"):
        return ()
    items = map(decode, answer.items_json or ())
    return [item.encode() if isinstance(item, str) else bytes(item) for item in items]


# Parts of an answer that have to arrive.
_FORMS = ("content", "tool_calls", "refusal", "parts")


def on_the_wire(recorded: LlmCall, call: PendingCall, *, asked_again: bool) -> LlmCall:
    """Return the recorded call with its answer in the form of this call's API; unchanged if it has that form.

    `asked_again`: the trace holds another call like it, so a client that repeats requests by itself may do so. Raises
    `Unreplayable` if the trace or the API cannot express the answer.
    """
    api = None if call.request is None else call.request.api
    if api is None or call.request is None or (recorded.wire is not None and _fits(recorded, call, api)):
        return recorded
    outcome = outcome_of(recorded)
    if outcome.problem:
        raise _unsayable(call, outcome.problem)
    served = _outcome_for(recorded, outcome, call, api, asked_again=asked_again)
    return msgspec.structs.replace(
        recorded,
        items_json=served.items_json,
        wire=served.wire,
        error=served.error,
        complete=served.complete,
        usage=recorded.usage or served.usage,
        finish_reason=served.finish_reason,
    )


def _fits(recorded: LlmCall, call: PendingCall, api: ModelApi) -> bool:
    """True if the recorded bytes fit this request: the same API, and streamed or not alike."""
    wire = recorded.wire
    known = None if wire is None else api_of(wire.method, wire.url)
    if known is None:
        return True
    request = bytes(recorded.request_json)
    if known == api and request == call.arguments:  # the usual case, without parsing a long conversation
        return True
    assert call.request is not None  # checked by the caller
    return (
        known.name == api.name and known.read_request(request).streamed == api.read_request(call.request.body).streamed
    )


def _outcome_for(
    recorded: LlmCall, outcome: TracedOutcome, call: PendingCall, api: ModelApi, *, asked_again: bool
) -> Outcome:
    request = call.request
    assert request is not None  # checked by the caller
    if outcome.error is not None and not outcome.status:
        return no_response(request, outcome.error.message, timed_out=outcome.timed_out)
    if outcome.error is not None:
        # SDKs retry a failed request. The trace shows how often they did: after the last time they must not.
        headers = (("x-should-retry", "true" if asked_again else "false"), ("retry-after-ms", "1"))
        return api_error(api, request, outcome.status, outcome.error, headers)
    assert outcome.answer is not None  # neither an error nor a problem
    if not all(api.dialect.holds(as_object(part)) for part in outcome.answer.parts):
        raise _unsayable(call, f"{api.name} has no place for a part of its answer")
    try:
        served = written(
            api,
            outcome.answer,
            wire_of(request, 200),
            request=request.body,
            finish_reason=finish_reason_in(api.name, recorded.finish_reason),
            usage=recorded.usage,
            seed=seed_of(recorded),
        )
    except UsageError as error:
        raise _unsayable(call, error.message) from None
    _check(served, outcome, call, api)
    return served


def _check(served: Outcome, outcome: TracedOutcome, call: PendingCall, api: ModelApi) -> None:
    """Raise `Unreplayable` if a part of the answer is missing in the API's form."""
    chunks = [msgspec.json.decode(item) for item in served.items_json or ()]
    if not all(isinstance(chunk, str) for chunk in chunks):
        return  # one dialect has binary frames
    answer = api.read_response(200, [chunk.encode() for chunk in chunks]).answer
    lost = [name for name in _FORMS if answer is None or getattr(answer, name) != getattr(outcome.answer, name)]
    lost = [name for name in lost if getattr(outcome.answer, name)]
    if lost:
        raise _unsayable(call, f"{api.name} has no place for its {lost[0]}")


def _unsayable(call: PendingCall, why: str) -> Unreplayable:
    return Unreplayable(f"`{call.name}` cannot be answered from the trace: {why}")
