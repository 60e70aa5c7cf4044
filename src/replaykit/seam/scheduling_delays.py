"""Hold-ups: how long the threads of a recording waited for a processor.

A busy machine may decide a race, and nothing else in the recording shows that. Linux counts the time for each thread;
elsewhere nobody knows it, and no hold-up is noted.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from time import perf_counter  # an agent that replaces `time.perf_counter` does not change what is recorded
from typing import Any

from replaykit.seam.own_code import Function

_COUNTER = "/proc/thread-self/schedstat"
"""Of the thread that opens it: nanoseconds on a processor, nanoseconds waited for one, and turns."""
_NOTED_S = 0.02
"""Less is what every machine does. Who was looked at since was not held up for longer, which is quicker to see than to
read a counter; the first read in a thread takes a tenth of a millisecond."""


class _Thread:
    """A thread of the run, and what the kernel counts for it."""

    def __init__(self, since: float) -> None:
        self.since = since
        """When its counter was last read, or when it was started."""
        self.waited_s = 0.0
        """The time that it had waited for a processor by then."""
        self._file: int | None = None
        self._opened = (0, 0)

    def read(self, now: float) -> float:
        """Return how long it has waited since the last time."""
        if self._file is None:
            self._file = os.open(_COUNTER, os.O_RDONLY)
            self._opened = _identity(self._file)
        before_s, self.since = self.waited_s, now
        self.waited_s = int(os.pread(self._file, 64, 0).split()[1]) / 1e9
        return self.waited_s - before_s

    def __del__(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # a program that closes all files may have one of its own by that number
                if _identity(self._file) == self._opened:
                    os.close(self._file)


class HoldUps:
    """The hold-ups of one run. It does nothing before the run begins something beside its own thread."""

    def __init__(self) -> None:
        self.is_watching = False
        self.longest_s = 0.0
        """For how long a thread was held up between two looks, at most; 0 where that is too short to matter."""
        self._older_threads: frozenset[str] = frozenset()
        self._is_over = False
        self._local = threading.local()

    def watch(self) -> None:
        """Look from here on: threads and tasks race from now on, or a limit runs."""
        if self.is_watching:
            return
        self.is_watching = True
        try:
            self._older_threads = frozenset(os.listdir("/proc/self/task"))
        except OSError:  # no Linux
            self._stop()
        else:
            self.look()

    def look(self, started: float = 0.0) -> None:
        """Note for how long this thread was held up since the last look, or since it was `started` by the run."""
        if self._is_over:
            return
        now = perf_counter()
        try:
            thread: _Thread = self._local.thread
        except AttributeError:
            thread = self._added(started, now)
        if now - thread.since < _NOTED_S:
            return
        try:
            held_up_s = thread.read(now)
        except (OSError, ValueError, IndexError):  # no such file, or another one by now
            self._stop()
            return
        if held_up_s > max(_NOTED_S, self.longest_s):
            self.longest_s = round(held_up_s, 3)

    def watched(self, function: Function) -> Function:
        """Return a function that does the same, in a thread or a job of the run, and looks before and after."""
        started = perf_counter()

        def run(*args: Any, **kwargs: Any) -> Any:
            self.look(started)
            try:
                return function(*args, **kwargs)
            finally:
                self.look()

        return run

    def end(self) -> None:
        """Look for the last time: the run is over."""
        if self.is_watching:
            self.look()
            self._stop()

    def _added(self, started: float, now: float) -> _Thread:
        """Take in this thread. What an older one waited before is no part of the run."""
        thread = self._local.thread = _Thread(started)
        if str(threading.get_native_id()) in self._older_threads:
            with suppress(OSError, ValueError, IndexError):  # the next look finds that out
                thread.read(now)
        return thread

    def _stop(self) -> None:
        """Look no more; the counters are closed when nobody has them."""
        self._is_over = True
        self._local = threading.local()


def _identity(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_dev, status.st_ino
