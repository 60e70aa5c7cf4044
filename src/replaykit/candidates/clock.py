"""A clock for the time limit of one replay after another, in a single thread.

`threading.Timer` would start one for each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

_NEVER = float("inf")


class ReplayClock:
    """Watches one time limit at a time."""

    _now = staticmethod(monotonic)  # bound here, so that an agent that patches `time.monotonic` does not affect it

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._late: Callable[[], None] | None = None
        self._due = _NEVER
        self._looks_at = _NEVER  # when the thread will wake up by itself
        self._stopped = False

    def start(self, seconds: float, late: Callable[[], None]) -> None:
        """Start a time limit. If it is not cancelled within `seconds`, call `late` in the clock's thread."""
        with self._changed:
            self._late, self._due = late, self._now() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="replaykit-clock", daemon=True)
                self._thread.start()
            elif self._due < self._looks_at:  # rare, as time limits are usually the same
                self._changed.notify()

    def cancel(self) -> None:
        """Cancel the current time limit."""
        with self._changed:
            self._late, self._due = None, _NEVER

    def stop(self) -> None:
        """Stop the clock's thread."""
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
