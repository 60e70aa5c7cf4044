"""A clock: says when the time of a turn is up, turn after turn, in one thread. A timer is a thread for each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

_NEVER = float("inf")


class ReplayClock:
    """Keeps time for one turn at once."""

    _now = staticmethod(monotonic)  # an agent that puts something in the place of `time.monotonic` does not get at it

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._late: Callable[[], None] | None = None
        self._due = _NEVER
        self._looks_at = _NEVER  # when the thread wakes up by itself
        self._stopped = False

    def start(self, seconds: float, late: Callable[[], None]) -> None:
        """A turn begins; `late` is called in the clock's thread when it has not ended so many seconds later."""
        with self._changed:
            self._late, self._due = late, self._now() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="replaykit-clock", daemon=True)
                self._thread.start()
            elif self._due < self._looks_at:  # hardly ever: turns have about the same time
                self._changed.notify()

    def cancel(self) -> None:
        """The turn has ended."""
        with self._changed:
            self._late, self._due = None, _NEVER

    def stop(self) -> None:
        """There are no more turns."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _watch(self) -> None:
        while (late := self._next_late()) is not None:
            late()

    def _next_late(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._stopped:
                left = self._due - self._now()
                if self._late is not None and left <= 0:
                    late, self._late, self._due = self._late, None, _NEVER
                    return late
                self._looks_at = self._due
                self._changed.wait(None if left == _NEVER else min(left, threading.TIMEOUT_MAX))
        return None
