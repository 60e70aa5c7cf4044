"""Threads and pools on the virtual clock: which are active, and which ends others wait for."""

from __future__ import annotations

import sys
from _thread import get_ident as _ident
from collections.abc import Callable
from typing import Any

from replaykit.errors import Unreplayable
from replaykit.seam.foreign_threads import RunOver, is_program_ending
from replaykit.seam.own_code import Function
from replaykit.seam.virtual_clock import NEVER, VirtualClock, Wait
from replaykit.seam.virtual_locks import ClockOf

Make = Callable[[Function], Function]


class _Ending:
    """Something whose end others wait for: a thread, or the jobs of a pool."""

    def __init__(self) -> None:
        self.is_over = False
        self.waits: list[Wait] = []

    def end(self, clock: VirtualClock) -> None:
        """Wake everyone who waits; needs the mutex."""
        self.is_over = True
        for wait in self.waits:
            if not wait.done:
                clock.check_limit(wait)
                clock.wake(wait)
        self.waits.clear()

    def wait(self, clock: VirtualClock, timeout: float | None) -> bool:
        """Wait for the end; return True when it has come."""
        member = clock.member()
        wait = Wait(NEVER if timeout is None else clock.now() + max(0.0, timeout))
        with clock.mutex:
            if self.is_over or member is None:
                return True
            self.waits.append(wait)
        clock.block(member, wait, timed=timeout is not None)
        if not self.is_over:
            clock.limit_passed(self)
        return self.is_over or not clock.is_open


class _Pool(_Ending):
    """The jobs of one pool. A job counts as active when a worker is free for it."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.is_over = True
        self._workers = workers
        self._jobs = 0

    def put(self, clock: VirtualClock) -> None:
        """Count one more job; needs the mutex."""
        self.is_over = False
        self._jobs += 1
        if self._jobs <= self._workers:
            clock.add(1)

    def done(self, clock: VirtualClock) -> None:
        """Count one job less; needs the mutex."""
        self._jobs -= 1
        if self._jobs == 0:
            self.end(clock)
        if self._jobs < self._workers:  # no other job takes its place
            clock.add(-1)


class _Job:
    """The job that a pool gets instead of a function of the run."""

    __slots__ = ("cause", "clock", "fn", "pool")

    def __init__(self, clock: VirtualClock, pool: _Pool, fn: Function) -> None:
        self.cause = clock.cause
        self.clock = clock
        self.pool = pool
        self.fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.clock.is_open:  # the run has ended before a worker took it
            raise RunOver
        return self.fn(*args, **kwargs)


class Threads:
    """The threads and pools of a session, and the hooks that observe them."""

    def __init__(self, clock_of: ClockOf) -> None:
        self._clock_of = clock_of
        self._threads: dict[Any, _Ending] = {}
        self._pools: dict[Any, _Pool] = {}
        self._workers: dict[Any, Any] = {}

    def _clock(self) -> VirtualClock | None:
        """Return the clock if this thread belongs to its run."""
        clock = self._clock_of()
        if clock is None or not clock.is_open:
            return None
        member = clock.member()
        return None if member is None or member.real else clock

    def start(self, original: Function) -> Function:
        """Wrap `Thread.start`."""

        def start(thread: Any) -> None:
            clock = self._clock()
            if clock is None:
                return original(thread)  # type: ignore[no-any-return]
            target = getattr(thread, "_target", None)
            is_worker = getattr(target, "__module__", "") == "concurrent.futures.thread"
            if is_worker:
                executor = thread._args[0]()  # a weak reference
                self._workers[thread] = executor._work_queue
            else:
                self._watch_end(clock, thread)
            with clock.mutex:
                clock.add(1)  # the new thread; `start` waits until it runs
            try:
                original(thread)
            except BaseException:
                is_worker = True
                raise
            finally:
                if is_worker:
                    with clock.mutex:
                        clock.add(-1)

        return start

    def start_plain(self, original: Function) -> Function:
        """Wrap `_thread.start_new_thread`: such a thread is unknown before it makes a call."""

        def start(*args: Any) -> Any:
            clock = self._clock()
            if clock is not None:
                with clock.mutex:
                    clock.expect_stranger()
            return original(*args)

        return start

    def _watch_end(self, clock: VirtualClock, thread: Any) -> None:
        ending = self._threads[thread] = _Ending()
        run, cause = thread.run, clock.cause

        def run_as_member() -> None:
            clock.admit(cause, is_own=True, is_daemon=thread.daemon)
            try:
                if clock.is_open:  # otherwise the run has ended before the thread began
                    run()
            except RunOver:
                pass
            except Unreplayable:
                if not is_program_ending():
                    raise
            finally:
                with clock.mutex:
                    clock.member()
                    clock.signal(ending)  # not of a pool: it does not matter who does its last job
                    ending.end(clock)
                clock.dismiss()
                del thread.run

        thread.run = run_as_member

    def join(self, original: Function) -> Function:
        """Wrap `Thread.join`."""

        def join(thread: Any, timeout: float | None = None) -> None:
            clock = self._clock()
            ending = self._threads.get(thread) or self._pools.get(self._workers.get(thread))
            if clock is None or ending is None:
                original(thread, timeout)
            elif ending.wait(clock, timeout):
                original(thread, timeout if not clock.is_open else None)

        return join

    def submit(self, original: Function) -> Function:
        """Wrap `ThreadPoolExecutor.submit`."""

        def submit(executor: Any, fn: Function, /, *args: Any, **kwargs: Any) -> Any:
            clock = self._clock()
            if clock is None:
                return original(executor, fn, *args, **kwargs)
            queue = executor._work_queue
            pool = self._pools.get(queue)
            if pool is None:
                pool = self._pools[queue] = _Pool(executor._max_workers)
            with clock.mutex:
                pool.put(clock)
            try:
                return original(executor, _Job(clock, pool, fn), *args, **kwargs)
            except BaseException:
                with clock.mutex:
                    pool.done(clock)
                raise

        return submit

    def run_item(self, original: Function) -> Function:
        """Wrap `concurrent.futures.thread._WorkItem.run`."""

        def run(item: Any, *args: Any) -> Any:
            job = _function_of(item)
            if type(job) is not _Job:
                return original(item, *args)
            clock, pool = job.clock, job.pool
            with clock.mutex:
                before = clock.members.get(_ident())
                clock.admit(job.cause, is_own=True)
            try:
                return original(item, *args)
            finally:
                with clock.mutex:
                    clock.member()  # counts the thread as active again if it was parked
                    pool.done(clock)  # while it is known whose job it was
                    clock.members.pop(_ident(), None)
                    if before is not None:
                        clock.members[_ident()] = before

        return run

    def install_waiters(self, original: Function) -> Function:
        """Wrap `concurrent.futures._base._create_and_install_waiters`: a thread that waits for several futures is woken
        by one of them or by a limit, and does not see how close the others were."""

        def install(futures: Any, return_when: Any) -> Any:
            waiter = original(futures, return_when)
            clock = self._clock()
            if clock is not None and isinstance(return_when, str):
                is_first = return_when.startswith("FIRST_")
                for future in futures:
                    future.add_done_callback(lambda _: clock.completed(waiter.event._cond))
                    if is_first:
                        future.add_done_callback(lambda _: clock.signal(waiter))
            return waiter

        return install

    def shutdown(self, original: Function) -> Function:
        """Wrap `ThreadPoolExecutor.shutdown`: jobs that it cancels never run."""

        def shutdown(executor: Any, *args: Any, **kwargs: Any) -> Any:
            clock = self._clock()
            pool = None if clock is None else self._pools.get(executor._work_queue)
            if clock is None or pool is None or not kwargs.get("cancel_futures"):
                return original(executor, *args, **kwargs)
            _cancel_jobs(clock, pool, executor)
            return original(executor, *args, **kwargs)

        return shutdown


def _function_of(item: Any) -> Any:
    """Return the function that a `_WorkItem` runs."""
    if sys.version_info >= (3, 14):
        function, _arguments, _keywords = item.task
        return function
    return item.fn


def _cancel_jobs(clock: VirtualClock, pool: _Pool, executor: Any) -> None:
    with executor._shutdown_lock:
        while True:
            try:
                item = executor._work_queue.get_nowait()
            except Exception:  # noqa: BLE001 (`queue.Empty`, of whichever queue it is)
                break
            if item is not None:
                item.future.cancel()
                with clock.mutex:
                    pool.done(clock)
