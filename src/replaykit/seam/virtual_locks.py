"""Locks on the virtual clock.

Python's `Condition` waits on a new lock for each wait. With a lock of this kind instead, everything that is based on it
waits for the clock: `Event`, `Queue`, `Future.result`, `concurrent.futures.wait`, `Barrier`.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Any

from replaykit.seam.virtual_clock import NEVER, Member, VirtualClock, Wait

# The name of every release of a semaphore: it does not matter who releases it.
_OF_SEMAPHORES = "release"
ClockOf = Callable[[], VirtualClock | None]


class VirtualLock:
    """A lock; threads of the run wait for it on the clock, others as usual."""

    __slots__ = ("__weakref__", "_clock_of", "_real", "_strangers", "_waits")

    def __init__(self, clock_of: ClockOf) -> None:
        self._clock_of = clock_of
        self._real = _thread.allocate_lock()
        self._waits: list[Wait] = []
        self._strangers = 0  # threads outside of the run that wait for it

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._real.acquire(False):
            return True
        if not blocking or timeout == 0:
            return False
        clock = self._clock_of()
        member = None if clock is None or not clock.is_open else clock.member()
        if clock is None or member is None or member.real:
            self._strangers += 1
            try:
                return self._real.acquire(blocking, timeout)
            finally:
                self._strangers -= 1
        return self._acquire_virtually(clock, member, timeout)

    def _acquire_virtually(self, clock: VirtualClock, member: Member, timeout: float) -> bool:
        due = NEVER if timeout < 0 else clock.now() + timeout
        while clock.is_open:
            wait = Wait(due)
            with clock.mutex:
                if self._real.acquire(False):
                    return True
                if due <= clock.base:
                    return False
                self._waits.append(wait)
            try:
                clock.block(member, wait, timed=due < NEVER)
            finally:
                with clock.mutex:
                    if wait in self._waits:
                        self._waits.remove(wait)
        return self._real.acquire(True, -1 if timeout < 0 else min(timeout, threading.TIMEOUT_MAX))

    def release(self) -> None:
        clock = self._clock_of()
        if clock is None:
            self._real.release()
            return
        with clock.mutex:
            self._real.release()
            waiting = None
            if self._waits:
                waiting = next((wait for wait in self._waits if not wait.done), None)
            if waiting is not None:
                clock.check_limit(waiting)
                clock.wake(waiting)
            elif self._strangers:
                clock.expect_stranger()

    def locked(self) -> bool:
        return self._real.locked()

    def _at_fork_reinit(self) -> None:
        self._real = _thread.allocate_lock()
        self._waits = []

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    acquire_lock, release_lock, locked_lock = acquire, release, locked


def lock_class(clock_of: ClockOf) -> type[VirtualLock]:
    """Return the replacement of `threading.Lock`: a class, as it is in newer versions of Python."""

    class Lock(VirtualLock):
        __slots__ = ()

        def __init__(self) -> None:
            super().__init__(clock_of)

    # The names under which it is found: managers of `multiprocessing` send the class itself to another process.
    Lock.__module__, Lock.__qualname__ = "threading", "Lock"
    return Lock


class ReentrantLock(threading._PyRLock):  # type: ignore[name-defined, misc]
    """The replacement of `threading.RLock`: Python's own implementation in Python, based on the lock above."""

    __module__ = "_thread"  # the module of Python's own in C: trio refuses any other


def new_reentrant_lock() -> ReentrantLock:
    """Return a lock; a function, as `threading.RLock` is one."""
    return ReentrantLock()


new_reentrant_lock.__module__, new_reentrant_lock.__qualname__ = "threading", "RLock"  # as for `Lock` above


def _is_of(waiter: Any, clock_of: ClockOf) -> bool:
    return isinstance(waiter, VirtualLock) and waiter._clock_of == clock_of


def notify(clock_of: ClockOf) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Wrap `Condition.notify`: a thread that has waited since before the run may now do work for it."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def notify_some(condition: Any, n: int = 1) -> None:
            clock = clock_of()
            if clock is not None and not all(_is_of(waiter, clock_of) for waiter in condition._waiters):
                with clock.mutex:
                    clock.expect_stranger()
            if clock is not None and clock.is_open and sys._getframe(1).f_code.co_name != _OF_SEMAPHORES:
                clock.signal(condition)
            original(condition, n)

        return notify_some

    return make


def wait(clock_of: ClockOf) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Wrap `Condition.wait`: notes a limit that passed shortly before a signal came."""

    def make(original: Callable[..., bool]) -> Callable[..., bool]:
        def wait_for_signal(condition: Any, timeout: float | None = None) -> bool:
            is_signalled = original(condition, timeout)
            clock = None if is_signalled else clock_of()
            if clock is not None and clock.is_open and clock.member() is not None:
                clock.limit_passed(condition)
            return is_signalled

        return wait_for_signal

    return make


# A pool asks in every `submit` whether a worker is idle, with a timeout of zero. Python would create a lock, wait for
# it and read the clock twice: a fifth of the whole cost of a call through a pool.
def acquire_semaphore(original: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap `Semaphore.acquire`: a timeout of zero does not wait at all."""

    def acquire(semaphore: Any, blocking: bool = True, timeout: float | None = None) -> bool:
        if timeout == 0 and blocking:
            return original(semaphore, False)
        return original(semaphore, blocking, timeout)

    return acquire


def simple_queue_maker(original: Any, in_python: Any) -> Callable[[], Any]:
    """Return the replacement of `queue.SimpleQueue`, whose waits in C are invisible. A pool's workers wait for jobs in
    one, and do not belong to the run while they do."""

    def simple_queue() -> Any:
        is_pool = sys._getframe(1).f_globals.get("__name__") == "concurrent.futures.thread"
        return original() if is_pool else in_python()

    return simple_queue
