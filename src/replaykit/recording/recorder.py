"""The recording handler: one event per call, on disk when the call returns."""

from __future__ import annotations

from replaykit.model.events import AnyEvent
from replaykit.model.values import Json
from replaykit.seam.logged import event_of
from replaykit.seam.scope import Outcome, PendingCall
from replaykit.store.protocol import RunWriter


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

    def amend(self, step: str | None, state: Json) -> Json:
        """The state as it is."""
        return state
