"""Answers of models that only a trace tells of, as the API that the candidate speaks would have sent them."""

from __future__ import annotations

import msgspec

from replaykit.errors import Unreplayable, UsageError
from replaykit.model.events import LlmCall
from replaykit.seam.http.rewriting import api_error, no_response, wire_of, written
from replaykit.seam.scope import Outcome, PendingCall
from replaykit.wire.api import ModelApi
from replaykit.wire.finish_reasons import finish_reason_in
from replaykit.wire.json_fields import as_object
from replaykit.wire.routes import api_of
from replaykit.wire.traced_calls import TracedOutcome, outcome_of, seed_of

_FORMS = ("content", "tool_calls", "refusal", "parts")
"""Parts of an answer that have to arrive."""


def on_the_wire(recorded: LlmCall, call: PendingCall, *, asked_again: bool = False) -> LlmCall:
    """Return the recorded call with the bytes that its answer has in the API of this call; as it is where it has some.

    `asked_again`: the trace holds another call like it, so a client that repeats requests by itself may. Raises
    `Unreplayable` where the trace, or the API, has no words for the answer.
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
    """True when the bytes that were recorded are what this request expects: the same API, streamed or not."""
    wire = recorded.wire
    known = None if wire is None else api_of(wire.method, wire.url)
    if known is None:
        return True
    request = bytes(recorded.request_json)
    if known == api and request == call.arguments:  # as most are: a long conversation need not be read for that
        return True
    assert call.request is not None  # who calls this has looked
    return (
        known.name == api.name and known.read_request(request).streamed == api.read_request(call.request.body).streamed
    )


def _outcome_for(
    recorded: LlmCall, outcome: TracedOutcome, call: PendingCall, api: ModelApi, *, asked_again: bool
) -> Outcome:
    request = call.request
    assert request is not None  # who calls this has looked
    if outcome.error is not None and not outcome.status:
        return no_response(request, outcome.error.message, timed_out=outcome.timed_out)
    if outcome.error is not None:
        # SDKs repeat a request that failed. The trace tells how often that happened: the last time they must not.
        headers = (("x-should-retry", "true" if asked_again else "false"), ("retry-after-ms", "1"))
        return api_error(api, request, outcome.status, outcome.error, headers)
    assert outcome.answer is not None  # what is neither an error nor a problem is an answer
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
    """Raise `Unreplayable` where a part of the answer did not make it into the API's form."""
    chunks = [msgspec.json.decode(item) for item in served.items_json or ()]
    if not all(isinstance(chunk, str) for chunk in chunks):
        return  # frames in binary, of the one dialect that has them
    answer = api.read_response(200, [chunk.encode() for chunk in chunks]).answer
    lost = [name for name in _FORMS if answer is None or getattr(answer, name) != getattr(outcome.answer, name)]
    lost = [name for name in lost if getattr(outcome.answer, name)]
    if lost:
        raise _unsayable(call, f"{api.name} has no place for its {lost[0]}")


def _unsayable(call: PendingCall, why: str) -> Unreplayable:
    return Unreplayable(f"`{call.name}` cannot be answered from the trace: {why}")
