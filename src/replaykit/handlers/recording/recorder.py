"""The recording handler: one event per call, on disk when the call returns."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from replaykit.errors import StoreError, StoreFull
from replaykit.handlers.recording.interrupted import NoWriter, warn_stopped
from replaykit.handlers.recording.spans import SpanLog
from replaykit.model.events import AnyEvent
from replaykit.model.values import Json
from replaykit.seam.call_events import event_of
from replaykit.seam.scheduling_delays import HoldUps
from replaykit.seam.scope import Outcome, PendingCall
from replaykit.seam.through import ABANDONED
from replaykit.store.protocol import RunWriter

_NOTED_S = 0.05
"""A run that goes on for less than this after its last call is not noted: no replay could tell."""


class Recorder:
    """Behind the seam: everything happens, everything is kept until the run ends.

    Tools that are called by tasks and threads which a run has left behind are just called.
    """

    def __init__(self, writer: RunWriter, started: float | None = None) -> None:
        """`started`: `time.perf_counter()` when the run began, if that was earlier."""
        self._writer: RunWriter = writer
        self._process = os.getpid()
        self._over = False
        self.stopped = ""
        """Why nothing more is recorded; nothing while all is well."""
        self.hold_ups = HoldUps()
        self.after_calls_s = 0.0
        """See `Chance.after_calls_s`."""
        self._spans = SpanLog(self.hold_ups, started)
        # Held while an end is counted and written, so that calls go on in the order that their ends are counted in.
        self._ending = threading.RLock()

    def number_by(self, numbers: Iterator[int]) -> None:
        """Take the numbers of a session's events for calls that begin in another order than they were numbered in."""
        self._spans.numbers = numbers

    @property
    def is_at_work(self) -> bool:
        """False when its run has ended, and in a forked child: it cannot write into its parent's run."""
        return not self._over and self._process == os.getpid()

    def end(self) -> None:
        """The run has ended: calls that are still running are written down as abandoned, and no more are kept."""
        with self._ending:
            self._over = True
            self.hold_ups.end()
            idle_s = self._spans.idle_s
            self.after_calls_s = round(idle_s, 3) if idle_s > _NOTED_S else 0.0
            running = self._spans.left() if self._process == os.getpid() else []
            for call, span, duration_s in running:
                if not call.is_forgotten:
                    self.keep(event_of(call, ABANDONED, duration_s, span))

    def serve(self, call: PendingCall) -> None:
        """Nothing is served: the call happens, unless it could not be written down."""
        if self._process != os.getpid() and not self._over:
            raise StoreError(
                f"`{call.name}` was not called: run {self._writer.run_id} belongs to process {self._process}, not to "
                "this forked child",
                hint="Start a run of its own in the child, with `rk.record`, or record the whole program: "
                "replaykit record -- CMD",
            )
        self._spans.begin(call)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """Write the call down."""
        self._ending.acquire()  # `with` takes twice as long
        try:
            if not self._over:
                self._writer.append(event_of(call, outcome, duration_s, self._spans.end(call)))
        except StoreFull as error:
            self.stop(error)
        finally:
            self._ending.release()

    def keep(self, event: AnyEvent) -> None:
        """Write the event down; an error where the run has ended, since whoever says something wants it kept."""
        try:
            self._writer.append(event)
        except StoreFull as error:
            self.stop(error)

    def stop(self, error: StoreFull) -> None:
        """Record no more: the agent must not fail for what only concerns its recording."""
        is_first = not self.stopped
        self.stopped = error.message
        self._writer = NoWriter(self._writer.run_id, self._writer.cleaning)
        if is_first:
            warn_stopped(error)

    def amend(self, step: str | None, state: Json) -> Json:
        """The state as it is."""
        return state
