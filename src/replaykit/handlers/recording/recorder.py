"""The recording handler: writes one event per call, with its begin and end, to disk before the call returns."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from os import getpid  # bound here: recording patches `os.getpid`
from time import perf_counter  # bound here: an agent may patch `time.perf_counter`
from typing import Any, TypeAlias

from replaykit.errors import StoreError, StoreFull
from replaykit.handlers.recording.interrupted import NoWriter, warn_stopped
from replaykit.model.events import AnyEvent, CallSpan
from replaykit.model.values import Json
from replaykit.seam.call_events import event_of
from replaykit.seam.propagate import running_loop, turn_of
from replaykit.seam.scheduling_delays import HoldUps
from replaykit.seam.scope import Outcome, PendingCall
from replaykit.seam.through import ABANDONED
from replaykit.store.protocol import RunWriter

# Shorter times between the last call and the end of the run are not recorded, because a replay could not distinguish
# them.
_NOTED_S = 0.05


class Recorder:
    """The handler of a recording: every call happens, and is written down until the run ends.

    Calls by tasks and threads that outlive the run happen without being recorded.
    """

    def __init__(self, writer: RunWriter, started: float | None = None) -> None:
        """`started` is the `time.perf_counter()` of the run's start, by default now."""
        self._writer: RunWriter = writer
        self._process = getpid()
        self._over = False
        self.stopped = ""
        """The reason why recording stopped; empty while it works."""
        self.hold_ups = HoldUps()
        self.after_calls_s = 0.0
        """See `Chance.after_calls_s`."""
        self._spans = SpanLog(self.hold_ups, started)
        # Held while an end is counted and written, so that calls return in the order in which their ends are counted.
        self._ending = threading.RLock()

    def number_by(self, numbers: Iterator[int]) -> None:
        """Use a session's event numbers to renumber calls that begin in another order than they were numbered in."""
        self._spans.numbers = numbers

    @property
    def is_at_work(self) -> bool:
        """False after the run has ended, and in a forked child, which cannot write to its parent's run."""
        return not self._over and self._process == getpid()

    def end(self) -> None:
        """End the run: record calls in progress as abandoned, and later calls not at all."""
        with self._ending:
            self._over = True
            self.hold_ups.end()
            idle_s = self._spans.idle_s
            self.after_calls_s = round(idle_s, 3) if idle_s > _NOTED_S else 0.0
            running = self._spans.left() if self._process == getpid() else []
            for call, span, duration_s in running:
                if not call.is_forgotten:
                    self.keep(event_of(call, ABANDONED, duration_s, span))

    def serve(self, call: PendingCall) -> None:
        """Let the call happen, unless it could not be recorded."""
        if self._process != getpid() and not self._over:
            raise StoreError(
                f"`{call.name}` was not called: run {self._writer.run_id} belongs to process {self._process}, not to "
                "this forked child",
                hint="Start a run of its own in the child, with `rk.record`, or record the whole program: "
                "replaykit record -- CMD",
            )
        self._spans.begin(call)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """Record the call."""
        self._ending.acquire()  # `with` takes twice as long
        try:
            if not self._over:
                self._writer.append(event_of(call, outcome, duration_s, self._spans.end(call)))
        except StoreFull as error:
            self.stop(error)
        finally:
            self._ending.release()

    def keep(self, event: AnyEvent) -> None:
        """Record an event.

        Unlike calls, which are dropped, this fails after the run has ended: the caller expects it to be stored.
        """
        try:
            self._writer.append(event)
        except StoreFull as error:
            self.stop(error)

    def stop(self, error: StoreFull) -> None:
        """Stop recording with a warning. The agent must not fail because of its recording."""
        is_first = not self.stopped
        self.stopped = error.message
        # For good: an event that is written after a lost one would hide the gap.
        self._writer = NoWriter(self._writer.run_id, self._writer.cleaning)
        if is_first:
            warn_stopped(error)

    def amend(self, step: str | None, state: Json) -> Json:
        """Return the state unchanged."""
        return state


# A call in progress: position, start time, event loop, and the loop's turn.
_Begun: TypeAlias = tuple[PendingCall, int, float, Any, tuple[int, int] | None]


class SpanLog:
    """Counts the begins and ends of calls, and times them from the start of the run."""

    def __init__(self, hold_ups: HoldUps, started: float | None = None) -> None:
        self._hold_ups = hold_ups
        self._started = perf_counter() if started is None else started
        self.numbers: Iterator[int] | None = None
        """The numbers of the session's events."""
        self._positions = itertools.count()
        self._beginning = threading.Lock()
        self._latest = -1  # the highest number of a call that has begun
        self._running: dict[int, _Begun] = {}
        self._ended: float | None = None  # when the latest call ended

    def begin(self, call: PendingCall) -> None:
        """Note the begin of a call."""
        loop = running_loop() if call.is_awaited else None
        turn = None if loop is None else turn_of(loop)
        if self._hold_ups.is_watching:
            self._hold_ups.look()
            position = self._turn_of(call)
        else:
            position = next(self._positions)
            if loop is not None and getattr(loop, "_scheduled", None):  # a timeout may be running
                self._hold_ups.watch()
        self._running[call.seq] = (call, position, perf_counter(), loop, turn)

    def _turn_of(self, call: PendingCall) -> int:
        """Return the position of a begin. If another thread has overtaken this call, renumber it."""
        with self._beginning:
            if call.seq < self._latest and self.numbers is not None:
                call.seq = next(self.numbers)
            self._latest = call.seq
            return next(self._positions)

    def end(self, call: PendingCall) -> CallSpan | None:
        """Return the span of a call that ends now; None if its begin was not seen."""
        begun = self._running.pop(call.seq, None)
        if begun is None:
            return None
        _, position, began, loop, begun_in = begun
        turn = None if loop is None else turn_of(loop)  # faster than looking up the loop again
        if self._hold_ups.is_watching:
            self._hold_ups.look()
        self._ended = ended = perf_counter()
        # Floor to microseconds; `round` takes four times as long.
        return CallSpan(
            begin=position,
            begin_s=(began - self._started) * 1e6 // 1 / 1e6,
            end=next(self._positions),
            end_s=(ended - self._started) * 1e6 // 1 / 1e6,
            loop=turn if turn != begun_in else None,
        )

    @property
    def idle_s(self) -> float:
        """The time since the last call ended; 0 while one is running, and before the first."""
        if self._running or self._ended is None:
            return 0.0
        return perf_counter() - self._ended

    def left(self) -> list[tuple[PendingCall, CallSpan, float]]:
        """Return the calls in progress with their open spans and their durations so far."""
        now = perf_counter()
        running, self._running = list(self._running.values()), {}
        return [
            (call, CallSpan(begin=position, begin_s=round(began - self._started, 6)), now - began)
            for call, position, began, _, _ in running
        ]
