"""A finished call as an event of the log."""

from __future__ import annotations

import msgspec

from replaykit.model.events import AnyEvent, Call, Exchange, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Raw, canonical
from replaykit.seam.scope import Answer, Outcome, PendingCall

CALL_TYPES: dict[str, type[Call]] = {str(kind.__struct_config__.tag): kind for kind in (ToolCall, LlmCall, Exchange)}


def event_of(call: PendingCall, answer: Answer, duration_s: float) -> AnyEvent:
    """The event that says what was asked and what was answered."""
    event = CALL_TYPES[call.kind](
        seq=call.seq,
        at=call.at,
        duration_s=round(duration_s, 6),
        step=call.step,
        parent=call.parent,
        path=call.path,
        name=call.name,
        arguments_json=Raw(call.arguments if call.override is None else canonical(call.override)),
        asked_json=ABSENT if call.override is None else Raw(call.arguments),
        result_json=answer.result_json,
        error=answer.error,
        items_json=answer.items_json,
        complete=answer.complete,
        wire=answer.wire,
        faults=() if call.injected is None else call.injected.faults,
    )
    if not isinstance(event, LlmCall) or not isinstance(answer, LlmCall | Outcome):
        return event  # type: ignore[return-value]
    return msgspec.structs.replace(event, usage=answer.usage, finish_reason=answer.finish_reason)
