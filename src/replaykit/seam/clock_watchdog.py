"""Watch over a virtual clock: threads that wait in places it cannot see must not hold it up.

A thread may wait for a file, a socket or a lock that the clock does not know. One that has not moved for a while, by
its stack and its CPU time, is parked: the clock continues without it until it moves again.
"""

from __future__ import annotations

import os
import platform
import sys
from _thread import start_new_thread  # the real one, as `sleep` below
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import clock_gettime, perf_counter, process_time, sleep  # the real ones
from typing import Any

from replaykit.seam.own_code import is_library
from replaykit.seam.thread_frames import thread_frames
from replaykit.seam.virtual_clock import VirtualClock, Wait

_LOOK_S = 0.01
# A thread that has not moved for this long is parked. On a busy machine, a shorter wait may be for a processor.
_STANDS_S = 0.15
# After this long, jobs that nobody runs are forgotten, and calls without an end are given up.
_STUCK_S = 1.0
# After this much CPU time without an event, somebody probably polls for something that the clock holds back.
_SPINS_S = 0.5
# The same, once somebody has polled.
_SPINS_AGAIN_S = 0.1
# The patience is this many times longer with a thread about to make a call, or while threads wake each other.
_FAR = 10
# The patience for a thread that hardly computes is this many times longer.
_IDLE = 4
# In the number of a clock on Linux: the CPU time of a thread.
_THREAD_CPU = 6


class _Effort:
    """The real time and CPU time since something last changed."""

    def __init__(self) -> None:
        self._last: Any = None
        self._cpu_s = self._real_s = 0.0

    def since(self, now: Any) -> tuple[float, float]:
        """Return the CPU time and the real time."""
        if now != self._last:
            self._last = now
            self._cpu_s, self._real_s = process_time(), perf_counter()
        return process_time() - self._cpu_s, perf_counter() - self._real_s


class Watcher:
    """Watches the threads of a run while some of them wait, and its child processes while there are any."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._children: set[int] = set()
        self._is_running = False
        self._is_over = False
        self._since_move, self._since_progress = _Effort(), _Effort()
        self._patience_s = _SPINS_S

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch during the block, from the first thread that really waits."""
        self._clock.on_block = self._start
        try:
            yield
        finally:
            self._is_over = True

    def popen(self, original: Callable[..., None]) -> Callable[..., None]:
        """Wrap `subprocess.Popen.__init__`."""

        def init(process: Any, *args: Any, **options: Any) -> None:
            original(process, *args, **options)
            self._started(process.pid)

        return init

    def fork(self, original: Callable[[], int]) -> Callable[[], int]:
        """Wrap `os.fork`."""

        def fork() -> int:
            pid = original()
            if pid:
                self._started(pid)
            return pid

        return fork

    def spawn(self, original: Callable[..., int]) -> Callable[..., int]:
        """Wrap `multiprocessing.util.spawnv_passfds`, which also starts helpers of Python's own."""

        def spawn(path: Any, args: Any, passfds: Any) -> int:
            pid = original(path, args, passfds)
            if not any(helper in str(word) for word in args for helper in ("resource_tracker", "forkserver")):
                self._started(pid)
            return pid

        return spawn

    def renew(self) -> None:
        """Start again in a forked child."""
        self._children.clear()
        self._is_running = False

    def _started(self, pid: int) -> None:
        """Note a child process: time is real while it lives."""
        clock = self._clock
        if clock.is_open and clock.member() is not None and hasattr(os, "waitid"):
            clock.begin_real_work()
            self._children.add(pid)
            self._start()

    def _start(self) -> None:
        if not self._is_running:
            self._is_running = True
            start_new_thread(self._watch, ())

    def _watch(self) -> None:
        clock, seen, looks = self._clock, None, 0
        while not self._is_over:
            sleep(_LOOK_S)
            self._let_children_go()
            with clock.mutex:
                if clock.real_work:
                    clock.due_now()
                    seen = None
                    continue
                clock.advance_delayed()
                self._relieve()
                now_seen = (clock.progress, self._standing())
                looks = looks + 1 if now_seen == seen else 0
                seen = now_seen
                if looks * _LOOK_S >= _STANDS_S:
                    self._park(now_seen[1], is_stuck=looks * _LOOK_S >= _STUCK_S)

    def _relieve(self) -> None:
        """Let the next event happen if somebody seems to poll for it without a pause; needs the clock's mutex."""
        clock = self._clock
        move = self._since_move.since(clock.anchor)
        progress = self._since_progress.since((clock.anchor, clock.progress))
        upcoming = clock.next_meanwhile() if clock.active > 0 else None
        if upcoming is None:
            return
        if upcoming.takes_real_time:
            is_time = clock.anchor + move[1] >= upcoming.due
        else:
            is_time = self._is_polled_for(upcoming, progress) or self._is_over_patience(move, _FAR)
        if is_time:
            self._patience_s = _SPINS_AGAIN_S
            clock.happen_meanwhile(upcoming)

    def _is_polled_for(self, upcoming: Wait, effort: tuple[float, float]) -> bool:
        """True if the event is most likely polled for. A thread about to make an earlier call may just be slow."""
        is_call_due = self._clock.next_begin_s() < upcoming.due
        return self._is_over_patience(effort, _FAR if is_call_due else 1)

    def _is_over_patience(self, effort: tuple[float, float], factor: int) -> bool:
        cpu_s, real_s = effort
        return cpu_s > factor * self._patience_s or real_s > _IDLE * factor * self._patience_s

    def _let_children_go(self) -> None:
        for pid in list(self._children):
            if _is_gone(pid):
                self._children.discard(pid)
                self._clock.end_real_work()

    def _standing(self) -> dict[int, Any]:
        """Return the place of each thread that does not wait for the clock, and how much it has computed."""
        frames = thread_frames()
        return {
            ident: (id(frames[ident]), frames[ident].f_lasti, _cpu_s(member.tid))
            for ident, member in list(self._clock.members.items())
            if member.waiting is None and ident in frames
        }

    def _park(self, standing: dict[int, Any], *, is_stuck: bool) -> None:
        clock = self._clock
        if any(_is_runnable(clock.members[ident].tid) for ident in standing):
            return
        for ident in standing:
            self._note_limit(ident)
            clock.park(clock.members[ident])
        if is_stuck:
            clock.active = 0
        if clock.active <= 0:
            before = clock.progress
            clock.advance()
            if is_stuck and clock.progress == before:
                clock.give_up_one()

    def _note_limit(self, ident: int) -> None:
        """Note that the agent waits with a limit in real time, such as that of `select.select`: the event may come at
        any time of the clock."""
        member, frame = self._clock.members[ident], thread_frames().get(ident)
        if frame is None or member.is_parked or is_library(frame.f_code.co_filename):
            return
        if has_limit(member.tid):
            self._clock.on_tie("the agent waited for something that the clock does not know, with a limit")


def _is_runnable(tid: int) -> bool:
    """True for a thread that waits only for a processor; False if that is unknown."""
    try:
        with open(f"/proc/self/task/{tid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].startswith(b"R")
    except OSError:
        return False


def _is_gone(pid: int) -> bool:
    """True if a child has ended, whether or not it was reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _cpu_s(tid: int) -> float:
    """Return the CPU time of a thread; 0.0 if it has ended, or if that is unknown.

    The clock is named by the kernel's number of the thread. `time.pthread_getcpuclockid` would give the same clock, but
    reads memory that a thread frees when it ends.
    """
    if sys.platform != "linux":
        return 0.0
    try:
        return clock_gettime(~tid << 3 | _THREAD_CPU)
    except OSError:
        return 0.0


_NO_LIMIT = 0
_FOREVER_MS = 0xFFFFFFFF
_WAITS_ON_FUTEX = (0, 9)  # FUTEX_WAIT and FUTEX_WAIT_BITSET
_FUTEX_COMMAND = 0x7F

# The numbers of system calls, with the argument that holds the limit.
_POINTERS = {
    "x86_64": {23: 4, 270: 4, 271: 2},  # select, pselect6, ppoll
    "aarch64": {72: 4, 73: 2},
}
_MILLISECONDS = {
    "x86_64": {7: 2, 232: 3, 281: 3},  # poll, epoll_wait, epoll_pwait
    "aarch64": {22: 3},
}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_MACHINE = platform.machine()


def has_limit(tid: int) -> bool:
    """Return whether a thread waits for a file, a socket or a semaphore with a limit; False if that is unknown."""
    try:
        with open(f"/proc/self/task/{tid}/syscall", encoding="ascii") as file:
            words = file.read().split()
        number, *arguments = [int(word, 0) for word in words[:7]]
    except (OSError, ValueError):  # not on Linux, not permitted, or the thread is running
        return False
    if number == _FUTEX.get(_MACHINE):
        return arguments[1] & _FUTEX_COMMAND in _WAITS_ON_FUTEX and arguments[3] != _NO_LIMIT
    if (place := _POINTERS.get(_MACHINE, {}).get(number)) is not None:
        return arguments[place] != _NO_LIMIT
    if (place := _MILLISECONDS.get(_MACHINE, {}).get(number)) is not None:
        return arguments[place] & _FOREVER_MS != _FOREVER_MS
    return False
