"""The recording handler: one event per call, on disk when the call returns."""

from __future__ import annotations

import os

from replaykit.errors import StoreError
from replaykit.model.events import AnyEvent
from replaykit.model.values import Json
from replaykit.seam.logged import event_of
from replaykit.seam.scope import Outcome, PendingCall
from replaykit.store.protocol import RunWriter


class Recorder:
    """Behind the seam: everything happens, everything is kept until the run ends.

    Tools that are called by tasks and threads which a run has left behind are just called.
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._process = os.getpid()
        self._over = False

    @property
    def is_at_work(self) -> bool:
        """False when its run has ended, and in a forked child: it cannot write into its parent's run."""
        return not self._over and self._process == os.getpid()

    def end(self) -> None:
        """The run has ended: no more calls are kept."""
        self._over = True

    def serve(self, call: PendingCall) -> None:
        """Nothing is served: the call happens, unless it could not be written down."""
        if self._process != os.getpid() and not self._over:
            raise StoreError(
                f"`{call.name}` was not called: run {self._writer.run_id} belongs to process {self._process}, not to "
                "this forked child",
                hint="Start a run of its own in the child, with `rk.record`, or record the whole program: "
                "replaykit record -- CMD",
            )

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """Write the call down."""
        if not self._over:
            self._writer.append(event_of(call, outcome, duration_s))

    def keep(self, event: AnyEvent) -> None:
        """Write the event down; an error where the run has ended, since whoever says something wants it kept."""
        self._writer.append(event)

    def amend(self, step: str | None, state: Json) -> Json:
        """The state as it is."""
        return state
