"""Spans: where each call of a recording begins and ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from time import perf_counter  # an agent that replaces `time.perf_counter` does not change what is recorded
from typing import Any, TypeAlias

from replaykit.model.events import CallSpan
from replaykit.seam.loop_turns import counted_loop, turn_of
from replaykit.seam.scheduling_delays import HoldUps
from replaykit.seam.scope import PendingCall

_Begun: TypeAlias = tuple[PendingCall, int, float, Any, tuple[int, int] | None]
"""A call that has begun: its position, when it began, its event loop and the turn of that."""


class SpanLog:
    """Counts begins and ends of calls, and times them from the start of the run."""

    def __init__(self, hold_ups: HoldUps, started: float | None = None) -> None:
        self._hold_ups = hold_ups
        self._started = perf_counter() if started is None else started
        self.numbers: Iterator[int] | None = None
        """Of the session's events."""
        self._positions = itertools.count()
        self._beginning = threading.Lock()
        self._latest = -1  # the highest number of a call that has begun
        self._running: dict[int, _Begun] = {}
        self._ended: float | None = None  # when a call has last ended

    def begin(self, call: PendingCall) -> None:
        """Note that a call begins."""
        loop = counted_loop() if call.is_awaited else None
        turn = None if loop is None else turn_of(loop)
        if self._hold_ups.is_watching:
            self._hold_ups.look()
            position = self._turn_of(call)
        else:
            position = next(self._positions)
            if loop is not None and getattr(loop, "_scheduled", None):  # a limit runs
                self._hold_ups.watch()
        self._running[call.seq] = (call, position, perf_counter(), loop, turn)

    def _turn_of(self, call: PendingCall) -> int:
        """Return the position of a begin. Calls are numbered in the order of their begins, though another thread may
        have begun one since this one got its number."""
        with self._beginning:
            if call.seq < self._latest and self.numbers is not None:
                call.seq = next(self.numbers)
            self._latest = call.seq
            return next(self._positions)

    def end(self, call: PendingCall) -> CallSpan | None:
        """Return the span of a call that ends now; None for one that never began here."""
        begun = self._running.pop(call.seq, None)
        if begun is None:
            return None
        _, position, began, loop, begun_in = begun
        turn = None if loop is None else turn_of(loop)  # quicker than to look for the loop again
        if self._hold_ups.is_watching:
            self._hold_ups.look()
        self._ended = ended = perf_counter()
        # Both are rounded down to the microsecond; `round` takes four times as long.
        return CallSpan(
            begin=position,
            begin_s=(began - self._started) * 1e6 // 1 / 1e6,
            end=next(self._positions),
            end_s=(ended - self._started) * 1e6 // 1 / 1e6,
            loop=turn if turn != begun_in else None,
        )

    @property
    def idle_s(self) -> float:
        """How long ago the last call has ended; 0 while one is running, and before the first."""
        if self._running or self._ended is None:
            return 0.0
        return perf_counter() - self._ended

    def left(self) -> list[tuple[PendingCall, CallSpan, float]]:
        """Return the calls that are still running, with their spans and how long they have run; they end nowhere."""
        now = perf_counter()
        running, self._running = list(self._running.values()), {}
        return [
            (call, CallSpan(begin=position, begin_s=round(began - self._started, 6)), now - began)
            for call, position, began, _, _ in running
        ]
