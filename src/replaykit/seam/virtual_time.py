"""Replace time by a virtual clock: `time`, timeouts, sleeps, event loops and the date.

It applies to the threads of one run; others have the machine's time. The date applies to the whole process.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import monotonic, perf_counter  # the real ones
from typing import Any

from replaykit.seam.clock_watchdog import Watcher
from replaykit.seam.foreign_threads import RunOver, stopped
from replaykit.seam.forked_clocks import standing
from replaykit.seam.hooks import Hooks, Table
from replaykit.seam.own_code import Function
from replaykit.seam.pinning import travelled
from replaykit.seam.virtual_alarms import ALARMS, Alarms, ring
from replaykit.seam.virtual_clock import VirtualClock
from replaykit.seam.virtual_locks import (
    ClockOf,
    acquire_semaphore,
    lock_class,
    new_reentrant_lock,
    notify,
    simple_queue_maker,
    wait,
)
from replaykit.seam.virtual_loops import call_soon_threadsafe, run_once, send
from replaykit.seam.virtual_threads import Threads

_taken = threading.Lock()
# For each examined module, the number of its names, and those of them that are functions of `time`.
_bound: dict[str, tuple[int, tuple[tuple[str, str], ...]]] = {}
# How long threads that a run has left behind have to end.
_LEFT_S = 1.0
# The modules between the agent and the clock.
_BETWEEN = ("replaykit.seam.pinning", "replaykit.seam.virtual_time", "time_machine")
# The hooks on everything that starts threads and jobs.
_AFTERWARDS: Table = {
    "threading": (("Thread", "start", stopped),),
    "_thread": (("", "start_new_thread", stopped),),
    "concurrent.futures.thread": (("ThreadPoolExecutor", "submit", stopped),),
}
# True once a replay in this process has left threads behind: then the hooks above stay for good.
_has_left_threads = False
_LIBRARIES = ("site-packages", "dist-packages")
_SYSTEM_CLOCKS = ("clock_gettime", "clock_gettime_ns")
_TIMES = ("sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
# System clocks that count from some moment. Others give the date or a computing time.
_COUNTING_CLOCKS = ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_BOOTTIME", "CLOCK_UPTIME", "CLOCK_UPTIME_RAW")


class VirtualTime:
    """Replaces time for one session; a process has one at a time."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        clock.ring = ring
        self._watcher = Watcher(clock)
        self._is_installed = False

    def clock(self) -> VirtualClock | None:
        """Return the clock while it is installed."""
        return self._clock if self._is_installed else None

    @contextmanager
    def installed(self, started_at: float = 0.0) -> Iterator[bool]:
        """Make time virtual during the block; gives False if there is a clock. `started_at`: the date at the start."""
        if not _taken.acquire(blocking=False):
            yield False
            return
        standing.append(self)
        try:
            with ExitStack() as stack:
                stack.enter_context(self._stopping_left_behind())
                stack.enter_context(Hooks(self._table()).installed())
                self._is_installed = True
                bound = list(_names_bound_anywhere())
                stack.enter_context(_rebound(bound, time, _TIMES))
                stack.enter_context(_rebound(bound, signal, ALARMS))
                stack.enter_context(travelled(started_at, self._look))
                stack.enter_context(Hooks(self._system_clocks()).installed())
                stack.enter_context(_rebound(bound, time, _SYSTEM_CLOCKS))
                stack.enter_context(self._watcher.at_work())
                self._clock.open()
                try:
                    yield True
                finally:
                    self.end()
                    self._is_installed = False
        finally:
            standing.clear()
            _taken.release()

    @contextmanager
    def _stopping_left_behind(self) -> Iterator[None]:
        """Keep leftover threads from starting anything. Below all other hooks, since these may stay."""
        global _has_left_threads
        if _has_left_threads:
            yield
            return
        hooks = Hooks(_AFTERWARDS)
        hooks.install()
        try:
            yield
        finally:
            _has_left_threads = self._clock.has_left_threads
            if not _has_left_threads:
                hooks.uninstall()

    def end(self) -> None:
        """End the clock, and with it the remaining threads of the run."""
        if self._clock.is_open:
            self._clock.close()
            self._clock.wait_for_own(_LEFT_S)

    @property
    def mutex(self) -> Any:
        """The lock that the clock's threads share."""
        return self._clock.mutex

    def renew(self) -> None:
        """Continue in a forked child."""
        self._watcher.renew()
        self._clock.renew()

    def _table(self) -> Table:
        threads, alarms = Threads(self.clock), Alarms(self.clock)
        new_lock = lock_class(self.clock)
        return {
            "time": tuple(("", name, self._replacement(name)) for name in _TIMES),
            "signal": tuple(("", name, getattr(alarms, name)) for name in ALARMS),
            "_thread": (("", "start_new_thread", threads.start_plain),),
            "threading": (
                ("", "_time", self._replacement("monotonic")),
                ("", "_allocate_lock", lambda _: new_lock),
                ("", "Lock", lambda _: new_lock),
                ("", "RLock", lambda _: new_reentrant_lock),
                ("Condition", "notify", notify(self.clock)),
                ("Condition", "wait", wait(self.clock)),
                ("Semaphore", "acquire", acquire_semaphore),
                ("Thread", "start", threads.start),
                ("Thread", "join", threads.join),
            ),
            "queue": (
                ("", "time", self._replacement("monotonic")),
                ("", "SimpleQueue", _simple_queue),
            ),
            "concurrent.futures._base": (("", "_create_and_install_waiters", threads.install_waiters),),
            "concurrent.futures.thread": (
                ("ThreadPoolExecutor", "submit", threads.submit),
                ("ThreadPoolExecutor", "shutdown", threads.shutdown),
                ("_WorkItem", "run", threads.run_item),
            ),
            "asyncio.base_events": (
                ("BaseEventLoop", "_run_once", run_once(self.clock)),
                ("BaseEventLoop", "call_soon_threadsafe", call_soon_threadsafe(self.clock)),
            ),
            "asyncio.selector_events": (
                ("_SelectorSocketTransport", "write", send),
                ("_SelectorSocketTransport", "writelines", send),
                ("_SelectorDatagramTransport", "sendto", send),
            ),
            "asyncio.unix_events": (("_UnixWritePipeTransport", "write", send),),
            "subprocess": (("Popen", "__init__", self._watcher.popen),),
            "os": (("", "fork", self._watcher.fork), ("", "times", self._process_times)),
            "multiprocessing.util": (("", "spawnv_passfds", self._watcher.spawn),),
            "trio": (("", "run", _trio_run(self.clock)),),
        }

    def _replacement(self, name: str) -> Callable[[Any], Any]:
        return lambda original: self._sleep(original) if name == "sleep" else self._time(name, original)

    def _system_clocks(self) -> Table:
        """Return hooks for the time in which the date travels: time-machine patches C functions where it finds these
        names, and crashes if it finds a Python function."""
        in_seconds, in_ns = (partial(self._system_clock, name) for name in _SYSTEM_CLOCKS)
        return {"time": (("", "clock_gettime", in_seconds), ("", "clock_gettime_ns", in_ns))}

    def _sleep(self, original: Callable[[float], None]) -> Callable[[float], None]:
        def sleep(seconds: float, /) -> None:
            clock = self.clock()
            member = None if clock is None else clock.member()
            if clock is None or member is None or member.real or not seconds > 0:
                original(seconds)
            elif not clock.is_open and member.is_own:
                raise RunOver
            elif not clock.is_open:
                original(seconds)
            else:
                is_ours = sys._getframe(1).f_globals.get("__name__", "").startswith("replaykit.")
                clock.sleep(member, seconds, is_recorded=is_ours)

        return sleep

    def _time(self, name: str, original: Callable[[], Any]) -> Callable[[], Any]:
        origin, clock = self._clock.origin, self._clock
        zero_s = origin if "monotonic" in name else origin + perf_counter() - monotonic()
        in_ns = name.endswith("_ns")

        def moment() -> Any:
            if not self._is_installed or clock.member() is None:
                return original()
            seconds = zero_s + self._look()
            return int(seconds * 1e9) if in_ns else seconds

        return moment

    def _system_clock(self, name: str, original: Callable[[int], Any]) -> Callable[[int], Any]:
        clocks = {getattr(time, clock) for clock in _COUNTING_CLOCKS if hasattr(time, clock)}
        zero_s = {clock: self._clock.origin + time.clock_gettime(clock) - monotonic() for clock in clocks}
        in_ns = name.endswith("_ns")

        def moment(clock_id: int, /) -> Any:
            if clock_id not in zero_s or not self._is_installed or self._clock.member() is None:
                return original(clock_id)
            seconds = zero_s[clock_id] + self._look()
            return int(seconds * 1e9) if in_ns else seconds

        return moment

    def _process_times(self, original: Callable[[], Any]) -> Callable[[], Any]:
        zero_s = self._clock.origin + original().elapsed - monotonic()

        def times() -> Any:
            real = original()
            if not self._is_installed or self._clock.member() is None:
                return real
            return type(real)((*real[:4], zero_s + self._look()))

        return times

    def _look(self) -> float:
        """Return the moment to the caller, and remember that the agent has looked."""
        moment = self._clock.now()
        member = self._clock.members.get(get_ident())
        file = None if member is None else _file_that_asks()
        if member is not None and file is not None:
            member.looked_s = moment
            self._clock.on_look(moment, is_own=not any(place in file for place in _LIBRARIES))
        return moment


_OF_TIME = [name for name in (*_TIMES, *_SYSTEM_CLOCKS) if hasattr(time, name)]
_REAL: dict[str, Any] = ALARMS | {name: getattr(time, name) for name in _OF_TIME}


def _names_bound_anywhere() -> Iterator[tuple[Any, str, str]]:
    """Return where modules other than Python's own hold `from time import sleep` and the like."""
    real = {id(original): (name, original) for name, original in _REAL.items()}
    for module_name, module in list(sys.modules.items()):
        for name, function in _names_bound(module_name, module, real):
            if vars(module).get(name) is _REAL[function]:
                yield module, name, function


@contextmanager
def _rebound(bound: list[tuple[Any, str, str]], owner: Any, functions: Iterable[str]) -> Iterator[None]:
    """Replace these functions wherever they are held."""
    replaced = [(module, name, function) for module, name, function in bound if function in functions]
    for module, name, function in replaced:
        setattr(module, name, getattr(owner, function))
    try:
        yield
    finally:
        for module, name, function in replaced:
            setattr(module, name, _REAL[function])


def _file_that_asks() -> str | None:
    """Return the file of the code that asks for the time; None if it is Python's own or ours."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        is_between = module in _BETWEEN or (package == "asyncio" and frame.f_code.co_name == "time")
        if not is_between:
            is_pythons_own = package in sys.stdlib_module_names and package != "__main__"
            return None if is_pythons_own or package == "replaykit" else frame.f_code.co_filename
        frame = frame.f_back
    return None


def _names_bound(module_name: str, module: Any, real: dict[int, Any]) -> tuple[tuple[str, str], ...]:
    package = module_name.partition(".")[0]
    if package == "replaykit" or (package in sys.stdlib_module_names and module_name != "__main__"):
        return ()
    names = getattr(module, "__dict__", None)
    if not isinstance(names, dict):
        return ()
    known = _bound.get(module_name)
    if known is None or known[0] != len(names):
        found = tuple((name, real[id(value)][0]) for name, value in list(names.items()) if id(value) in real)
        known = _bound[module_name] = (len(names), found)
    return known[1]


def _simple_queue(original: Any) -> Any:
    import queue  # noqa: PLC0415 (it is loaded: this is called when it is hooked)

    return simple_queue_maker(original, queue._PySimpleQueue)  # type: ignore[attr-defined]


def _trio_run(clock_of: ClockOf) -> Callable[[Function], Function]:
    """Wrap `trio.run`: trio's clock for tests jumps to the next deadline when nothing else can happen."""

    def make(original: Function) -> Function:
        def run(*args: Any, **options: Any) -> Any:
            clock = clock_of()
            if clock is not None and clock.is_open and clock.member() is not None and options.get("clock") is None:
                options["clock"] = _jumping(clock)
            return original(*args, **options)

        return run

    return make


def _jumping(clock: Any) -> Any:
    import trio.testing  # noqa: PLC0415 (trio is loaded where this is called)

    jumping: Any = trio.testing.MockClock(autojump_threshold=0)
    jump = jumping.jump

    def jump_together(seconds: float) -> None:
        jump(seconds)
        with clock.mutex:
            clock.move(clock.base + seconds)

    jumping.jump = jump_together
    return jumping
