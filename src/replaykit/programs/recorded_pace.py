"""Recorded pace at the proxy, for programs that have timers of their own.

No virtual clock reaches such a program: it measures in real time how long a response takes. Calls that overlapped,
and calls that the program gave up on, take as long as they took, so that its races and timeouts come out as they did.
Everything else is served at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from replaykit.handlers.replay.order import UNDECIDED
from replaykit.handlers.replay.schedule import NEVER, end_of, overlapping, spans_of
from replaykit.model.events import Call, CallSpan
from replaykit.seam.http.call import Served
from replaykit.seam.http.response import at_pace

_PATIENCE_S = 0.5
"""A busy machine may hold up a request of the program for so long."""
_HOLD_S = 10.0
"""So much longer than when it was recorded a program may wait for a response that it gave up on."""
_REACTION_S = 0.02
"""So long a program may take to give up on a response once it has read a chunk."""
_BODY_S = 0.05
"""A response whose body took longer than this is read piece by piece, and its head comes before its turn to end."""


class RecordedPace:
    """The pace of a tape's calls, and the order in which those that ran side by side end."""

    def __init__(self, calls: Iterable[Call], speed: float, note: Callable[[str, str], None]) -> None:
        """`note` writes down what could not be decided. A `speed` that was asked for is the pace of every call."""
        spans = {} if speed else spans_of(calls)
        self.overlapping = overlapping(spans)
        self.note = note
        self._ends = {seq: end_of(span) for seq, span in spans.items()}
        self._earlier = _ended_before(spans)
        self._begun: set[int] = set()
        self._running: set[int] = set()
        self._changed = asyncio.Event()

    @contextmanager
    def turn(self, call: Call, response: Served) -> Iterator[PacedCall]:
        """A recorded call is served inside."""
        self._begun.add(call.seq)
        self._running.add(call.seq)
        self._wake()
        try:
            yield PacedCall(self, call, response)
        finally:
            self._running.discard(call.seq)
            self._wake()

    async def come_to_end(self, seq: int) -> None:
        """Return when the calls that ended before this one have ended; soon, if the program does not make them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while self._has_to_wait(seq):
                    await self._changed.wait()

    def _has_to_wait(self, seq: int) -> bool:
        earlier = self._earlier.get(seq)
        if earlier is not None and earlier not in self._begun:
            return True
        return any(self._ends.get(other, NEVER) < self._ends[seq] for other in self._running)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class PacedCall:
    """A call that is served, on its way to its recorded end."""

    def __init__(self, pace: RecordedPace, call: Call, response: Served) -> None:
        self._pace = pace
        self._call = call
        self._overlaps = call.seq in pace.overlapping
        self.response = response
        """The response, with the times it takes."""
        if not response.waits_s and (self._overlaps or _was_left_at_a_chunk(response)):
            self.response = at_pace(response, call.duration_s - _unanswered_s(response), 1.0)

    @property
    def ends_with_head(self) -> bool:
        """True when the head of the response and its end come at almost the same time."""
        return sum(self.response.waits_s[1:]) < _BODY_S

    async def come_to_end(self) -> None:
        """Return when it is time to end."""
        if self._overlaps:
            await self._pace.come_to_end(self._call.seq)

    async def hold(self) -> None:
        """Wait until the program gives up, which ends this task; for a limited time."""
        await asyncio.sleep(self._call.duration_s + _HOLD_S)
        text = f"`{self._call.name}` was abandoned when it was recorded, and is waited for longer now"
        self._pace.note(text, UNDECIDED)


def _was_left_at_a_chunk(response: Served) -> bool:
    """True when the program gave up on the response on reading a chunk: it may have looked at its clock. One that gave
    up while it waited had a timer, and comes to the same end however early the chunks are there."""
    return response.was_abandoned and bool(response.chunks) and _unanswered_s(response) < _REACTION_S


def _unanswered_s(response: Served) -> float:
    """Return how long the program waited in vain after the last chunk."""
    return sum(response.pauses_ms[len(response.chunks) :]) / 1000


def _ended_before(spans: dict[int, CallSpan]) -> dict[int, int]:
    """Return the call that ended last while a call was under way, for each call that has one."""
    found: dict[int, int] = {}
    before: int | None = None
    for seq, span in sorted(spans.items(), key=lambda item: end_of(item[1])):
        if before is not None and end_of(spans[before]) > span.begin:
            found[seq] = before
        before = seq
    return found
