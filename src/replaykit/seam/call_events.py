"""A finished call as an event of the log."""

from __future__ import annotations

from msgspec.structs import replace

from replaykit.model.events import AnyEvent, Call, CallSpan, Exchange, LlmCall, ToolCall
from replaykit.model.values import Raw, canonical
from replaykit.seam.scope import CallAnswer, Outcome, PendingCall

CALL_TYPES: dict[str, type[Call]] = {str(kind.__struct_config__.tag): kind for kind in (ToolCall, LlmCall, Exchange)}


def with_source(event: AnyEvent, answer: CallAnswer) -> AnyEvent:
    """Return the event with the number of the taped call that answered it, if one did."""
    if not isinstance(answer, Call):
        return event
    return replace(event, source=answer.seq)


def event_of(call: PendingCall, answer: CallAnswer, duration_s: float, span: CallSpan | None = None) -> AnyEvent:
    """Return the event for a call and its answer."""
    # Fifteen keywords at most: CPython passes more of them in a dict, which takes twice as long.
    event = CALL_TYPES[call.kind](
        seq=call.seq,
        at=call.at,
        duration_s=(duration_s * 1e6 + 0.5) // 1 / 1e6,  # to the microsecond; `round` takes ten times as long
        step=call.step,
        parent=call.parent,
        path=call.path,
        name=call.name,
        arguments_json=Raw(call.arguments),
        result_json=answer.result_json,
        error=answer.error,
        complete=answer.complete,
        wire=answer.wire,
        mutated=call.mutated,
        span=span,
    )
    if answer.items_json is not None:
        event = replace(event, items_json=answer.items_json, sent_json=answer.sent_json, pauses_ms=answer.pauses_ms)
    if call.override is not None:
        arguments = Raw(canonical(call.override))
        event = replace(event, arguments_json=arguments, asked_json=event.arguments_json)
    if call.injected is not None:
        event = replace(event, faults=call.injected.faults)
    if isinstance(event, LlmCall) and isinstance(answer, LlmCall | Outcome):
        event = replace(event, usage=answer.usage, finish_reason=answer.finish_reason)
    return event  # type: ignore[return-value]
