"""Hold-ups: how long the threads of a recording waited for a processor.

A busy machine may decide a race, and nothing else in the recording shows that. Linux counts the time for each thread.
Elsewhere only jobs and threads are known that begin late, or end long before anybody notices.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter  # an agent that replaces `time.perf_counter` does not change what is recorded
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

from replaykit.seam.own_code import Function

# Of the thread that opens it: nanoseconds on a processor, nanoseconds waiting for one, and turns.
_COUNTER = "/proc/thread-self/schedstat"
# Shorter delays are normal. A thread examined less than this ago cannot have been held up for longer, which is quicker
# to see than to read a counter; the first read in a thread takes a tenth of a millisecond.
_NOTED_S = 0.02
# A thread that waits for a processor at the end of the run has done so for at most this long.
_LONGEST_GUESS_S = 0.25


class _Thread:
    """A thread of the run, with the kernel's counter for it."""

    def __init__(self, since: float) -> None:
        self.since = since
        """When its counter was last read, or it was started."""
        self.waited_s = 0.0
        """How long it had waited for a processor by then."""
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
            with suppress(OSError):  # a program that closes all files may have reused the number
                if _identity(self._file) == self._opened:
                    os.close(self._file)


class _JobEnd:
    """The moment at which the function of a job ended, and its thread."""

    moment = 0.0
    thread = 0


class HoldUps:
    """The hold-ups of one run. It does nothing before the run starts another thread or task."""

    def __init__(self) -> None:
        self.is_watching = False
        self._older_threads: frozenset[str] = frozenset()
        self._has_counters = True
        self._is_over = False
        self._local = threading.local()
        # When each thread was last examined, and how long it had waited for a processor by then.
        self._looks: dict[int, tuple[float, float]] = {}
        # The longest time that each thread was held up between two looks.
        self._longest_s: dict[int, float] = {}
        self._lock = threading.Lock()
        # The number of jobs of the run in each pool.
        self._jobs: WeakKeyDictionary[ThreadPoolExecutor, int] = WeakKeyDictionary()
        # The ends of jobs that nobody has noticed yet.
        self._unheard: set[_JobEnd] = set()

    @property
    def held_up_s(self) -> float:
        """The longest time that anything was held up; 0 if it is too short to matter.

        Two threads take part in a wait: the one that signals, and the one that continues.
        """
        return round(sum(sorted(self._longest_s.values())[-2:]), 3)

    def watch(self) -> None:
        """Start watching: from now on threads and tasks race, or a limit runs."""
        if self.is_watching:
            return
        self.is_watching = True
        try:
            self._older_threads = frozenset(os.listdir("/proc/self/task"))
        except OSError:  # not on Linux
            self._has_counters = False
        else:
            self.look()

    def look(self, started: float = 0.0) -> None:
        """Note how long this thread was held up since the last look, or since the run `started` it."""
        if self._is_over or not self._has_counters:
            return
        now = perf_counter()
        try:
            thread: _Thread = self._local.thread
        except AttributeError:
            thread = self._added(started, now)
        if now - thread.since < _NOTED_S:
            return
        try:
            self._note(thread.read(now))
        except (OSError, ValueError, IndexError):  # the file was closed, or its number reused
            self._has_counters = False
            return
        self._looks[threading.get_native_id()] = (now, thread.waited_s)

    def _note(self, held_up_s: float) -> None:
        self._note_of(threading.get_native_id(), held_up_s)

    def _note_of(self, thread: int, held_up_s: float) -> None:
        if held_up_s > max(_NOTED_S, self._longest_s.get(thread, 0.0)):
            self._longest_s[thread] = held_up_s

    def watched(self, function: Function) -> Function:
        """Return the same function for a thread of the run, with a look before and after."""
        started = perf_counter()

        def run(*args: Any, **kwargs: Any) -> Any:
            self._begin_job(started)
            try:
                return function(*args, **kwargs)
            finally:
                self.look()

        return run

    def submit(self, submit: Callable[..., Future[Any]], pool: ThreadPoolExecutor, job: Callable[[], Any]) -> Any:
        """Submit a job of the run; look before and after it, and when its end is noticed."""
        is_next, started, end = self._enter(pool), perf_counter(), _JobEnd()

        def run() -> Any:
            self._begin_job(started, is_next=is_next)
            try:
                return job()
            finally:
                self.look()
                end.moment, end.thread = perf_counter(), threading.get_native_id()
                self._unheard.add(end)

        future = submit(pool, run)
        future.add_done_callback(lambda _: self._end_job(pool, end))
        return future

    def _enter(self, pool: ThreadPoolExecutor) -> bool:
        """Count a job of a pool; return whether it can begin at once."""
        with self._lock:
            jobs = self._jobs[pool] = self._jobs.get(pool, 0) + 1
        return jobs <= pool._max_workers

    def _begin_job(self, started: float, *, is_next: bool = True) -> None:
        if is_next and not self._is_over:
            self._note(perf_counter() - started)
        self.look(started)

    def _end_job(self, pool: ThreadPoolExecutor, end: _JobEnd) -> None:
        with self._lock:
            self._jobs[pool] -= 1
        if end in self._unheard and not self._is_over:  # it was not cancelled
            self._unheard.discard(end)
            self._note_of(end.thread, perf_counter() - end.moment)

    def end(self) -> None:
        """Take the last look at the end of the run."""
        if not self.is_watching:
            return
        self.look()
        now = perf_counter()
        for end in list(self._unheard):
            self._note_of(end.thread, now - end.moment)
        if self._has_counters:
            self._look_at_others(now)
        self._is_over = True
        self._local = threading.local()  # the counters are closed once nothing refers to them

    def _look_at_others(self, now: float) -> None:
        """Note how long other live threads were held up since they were last examined."""
        own = threading.get_native_id()
        for thread, (since, waited_s) in list(self._looks.items()):
            if thread == own:
                continue
            with suppress(OSError, ValueError, IndexError):  # the thread has ended
                place = Path(f"/proc/self/task/{thread}")
                waits = int((place / "schedstat").read_bytes().split()[1]) / 1e9 - waited_s
                if _is_runnable(place):  # the counter does not include the current wait
                    waits += min(now - since - waits, _LONGEST_GUESS_S)
                self._note_of(thread, waits)

    def _added(self, started: float, now: float) -> _Thread:
        """Add this thread. What an older one waited before does not belong to the run."""
        thread = self._local.thread = _Thread(started)
        if str(threading.get_native_id()) in self._older_threads:
            with suppress(OSError, ValueError, IndexError):  # reported by the next look
                thread.read(now)
        self._looks[threading.get_native_id()] = (now, thread.waited_s)
        return thread


def _is_runnable(task: Path) -> bool:
    """Return whether a thread runs, or waits for a processor."""
    return (task / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"R"


def _identity(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_dev, status.st_ino
