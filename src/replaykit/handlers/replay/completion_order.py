"""Completion order: make parallel tools end in the order in which they ended when recorded.

A served call takes no time, so of several parallel ones the first to begin would always be the first to end, and code
that collects results as they complete would see another order than recorded. A call therefore waits for the one that
ended before it, but only briefly, because a candidate need not make that one at all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from replaykit.model.events import Call
from replaykit.model.run import ended_before
from replaykit.seam.scope import CallAnswer, Order, PendingCall
from replaykit.seam.through import later

_PATIENCE_S = 0.05
_ROUNDS = 100  # iterations of the event loop
_HEAD_START_S = 0.001  # lets a thread that has just ended deliver its result


class Turns(Order):
    """The calls that have to wait for each other, and those that have ended."""

    def __init__(self, before: dict[int, int]) -> None:
        self._before = before
        self._ended: set[int] = set()
        self._changed = threading.Condition()

    def wait(self, call: PendingCall, answer: CallAnswer) -> None:
        """Return when it is this call's turn to end."""
        if not isinstance(answer, Call):
            return
        with self._changed:
            other = self._before.get(answer.seq)
            if other is not None and other not in self._ended:
                # Bounded, because an edited candidate may never make the other call.
                self._changed.wait_for(lambda: other in self._ended, _PATIENCE_S)
                time.sleep(_HEAD_START_S)
            self._ended.add(answer.seq)
            self._changed.notify_all()

    async def wait_awhile(self, call: PendingCall, answer: CallAnswer) -> None:
        """Do the same as `wait` for an awaited call."""
        if not isinstance(answer, Call):
            return
        other = self._before.get(answer.seq)
        if other is not None and other not in self._ended:
            rounds = 0
            while other not in self._ended and (rounds := rounds + 1) <= _ROUNDS:
                await later(0)
        with self._changed:
            self._ended.add(answer.seq)
            self._changed.notify_all()


def turns_of(calls: Iterable[Call]) -> Turns | None:
    """Return the completion order of a tape's tools; None if none ran in parallel."""
    known = list(calls)
    before = {call.seq: call.after for call in known if call.after is not None} or ended_before(known)
    if before:
        return Turns(before)
    return None
