"""Put a virtual clock in the place of time: `time`, timeouts, sleeps, event loops and the date.

For the threads of one run only; others have the time of the machine. The date is that of the whole process.
"""

from __future__ import annotations

import sys
import threading
import time
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic, perf_counter  # the real ones
from typing import Any

from replaykit.seam.forked_clocks import standing
from replaykit.seam.hooks import Hooks, Table
from replaykit.seam.left_behind import RunOver, stopped
from replaykit.seam.pinning import travelled
from replaykit.seam.virtual_clock import VirtualClock
from replaykit.seam.virtual_locks import ReentrantLock, lock_class, notify, simple_queue_maker, wait
from replaykit.seam.virtual_loops import call_soon_threadsafe, run_once, send
from replaykit.seam.virtual_threads import Threads
from replaykit.seam.virtual_trio import trio_run
from replaykit.seam.watching import Watcher

_taken = threading.Lock()
_bound: dict[str, tuple[int, tuple[tuple[str, str], ...]]] = {}
"""Of modules that were looked through: how many names they had, and which of them are functions of `time`."""
_LEFT_S = 1.0
"""How long threads that a run has left behind have to end."""
_BETWEEN = ("replaykit.seam.pinning", "replaykit.seam.virtual_time", "time_machine")
"""What stands between the agent and the clock."""
_AFTERWARDS: Table = {
    "threading": (("Thread", "start", stopped),),
    "_thread": (("", "start_new_thread", stopped),),
    "concurrent.futures.thread": (("ThreadPoolExecutor", "submit", stopped),),
}
"""What starts threads and jobs."""
_has_left_threads = False
"""True once a replay in this process has left threads behind: the hooks above are in place for good."""
_TIMES = ("sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")


class VirtualTime:
    """A clock that takes the place of time for one session; a process has one of them at once."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._watcher = Watcher(clock)
        self._is_installed = False

    def clock(self) -> VirtualClock | None:
        """Return the clock while it stands."""
        return self._clock if self._is_installed else None

    @contextmanager
    def installed(self, started_at: float = 0.0) -> Iterator[bool]:
        """Time is virtual inside; False where another clock stands already. `started_at`: the date at the start."""
        if not _taken.acquire(blocking=False):
            yield False
            return
        standing.append(self)
        try:
            with ExitStack() as stack:
                stack.enter_context(self._stopping_left_behind())
                stack.enter_context(Hooks(self._table(), is_optional=True).installed())
                self._is_installed = True
                stack.enter_context(self._bound_names())
                stack.enter_context(travelled(started_at, self._look))
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
        """Threads of the run start nothing more when it is over. Under all other hooks, since these may stay."""
        global _has_left_threads
        if _has_left_threads:
            yield
            return
        hooks = Hooks(_AFTERWARDS, is_optional=True)
        hooks.install()
        try:
            yield
        finally:
            _has_left_threads = self._clock.has_left_threads
            if not _has_left_threads:
                hooks.uninstall()

    def end(self) -> None:
        """End the clock, and with it the threads of the run that are left."""
        if self._clock.is_open:
            self._clock.close()
            self._clock.wait_for_own(_LEFT_S)

    @property
    def mutex(self) -> Any:
        """The lock that the clock's threads share."""
        return self._clock.mutex

    def renew(self) -> None:
        """Go on in a forked child."""
        self._watcher.renew()
        self._clock.renew()

    def _table(self) -> Table:
        threads = Threads(self.clock)
        new_lock = lock_class(self.clock)
        return {
            "time": tuple(("", name, self._replacement(name)) for name in _TIMES),
            "_thread": (("", "start_new_thread", threads.start_plain),),
            "threading": (
                ("", "_time", self._replacement("monotonic")),
                ("", "_allocate_lock", lambda _: new_lock),
                ("", "Lock", lambda _: new_lock),
                ("", "RLock", lambda _: ReentrantLock),
                ("Condition", "notify", notify(self.clock)),
                ("Condition", "wait", wait(self.clock)),
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
            "os": (("", "fork", self._watcher.fork),),
            "multiprocessing.util": (("", "spawnv_passfds", self._watcher.spawn),),
            "trio": (("", "run", trio_run(self.clock)),),
        }

    def _replacement(self, name: str) -> Callable[[Any], Any]:
        return lambda original: self._sleep(original) if name == "sleep" else self._time(name, original)

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

    def _look(self) -> float:
        """Return the moment for who asks, and remember that the agent has done so."""
        moment = self._clock.now()
        member = self._clock.members.get(get_ident())
        if member is not None and _is_asked_by_agent():
            member.looked_s = moment
        return moment

    @contextmanager
    def _bound_names(self) -> Iterator[None]:
        """Replace `from time import sleep` and the like in modules that are not Python's own."""
        replaced = []
        real = {id(original): (name, original) for name, original in _REAL.items()}
        for module_name, module in list(sys.modules.items()):
            for name, of_time in _names_bound(module_name, module, real):
                original = _REAL[of_time]
                if vars(module).get(name) is original:
                    replaced.append((module, name, original))
                    setattr(module, name, getattr(time, of_time))
        try:
            yield
        finally:
            for module, name, original in replaced:
                setattr(module, name, original)


_REAL: dict[str, Any] = {name: getattr(time, name) for name in _TIMES}


def _is_asked_by_agent() -> bool:
    """True when the time is asked for by code that is neither Python's own nor ours."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        is_between = module in _BETWEEN or (package == "asyncio" and frame.f_code.co_name == "time")
        if not is_between:
            is_pythons_own = package in sys.stdlib_module_names and package != "__main__"
            return not is_pythons_own and package != "replaykit"
        frame = frame.f_back
    return False


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
