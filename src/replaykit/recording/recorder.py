"""The recording handler: one event per call, on disk when the call returns."""

from __future__ import annotations

from replaykit.model.events import AnyEvent, Call, Exchange, LlmCall, ToolCall
from replaykit.model.values import Raw
from replaykit.seam.scope import Answer, Outcome, PendingCall
from replaykit.store.protocol import RunWriter

CALL_TYPES: dict[str, type[Call]] = {str(kind.__struct_config__.tag): kind for kind in (ToolCall, LlmCall, Exchange)}


def event_of(call: PendingCall, outcome: Answer, duration_s: float) -> AnyEvent:
    """A finished call as an event."""
    return CALL_TYPES[call.kind](  # type: ignore[return-value]
        seq=call.seq,
        at=call.at,
        duration_s=round(duration_s, 6),
        step=call.step,
        parent=call.parent,
        path=call.path,
        name=call.name,
        arguments_json=Raw(call.arguments),
        result_json=outcome.result_json,
        error=outcome.error,
        items_json=outcome.items_json,
        complete=outcome.complete,
    )


class Recorder:
    """Behind the seam: everything happens, everything is kept."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer

    def serve(self, call: PendingCall) -> None:
        """Nothing is served: the call happens."""

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """Write the call down."""
        self._writer.append(event_of(call, outcome, duration_s))

    def keep(self, event: AnyEvent) -> None:
        """Write the event down."""
        self._writer.append(event)
