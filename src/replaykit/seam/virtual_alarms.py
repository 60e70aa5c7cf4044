"""Alarms on the virtual clock: `signal.alarm` and `signal.setitimer` go off at their moments in the run."""

from __future__ import annotations

import signal
import threading
from math import ceil
from typing import Any

from replaykit.seam.own_code import Function
from replaykit.seam.virtual_clock import VirtualClock, Wait
from replaykit.seam.virtual_locks import ClockOf

ALARMS: dict[str, Any] = {
    name: getattr(signal, name) for name in ("alarm", "setitimer", "getitimer") if hasattr(signal, name)
}
"""The functions that set and read the timer of the process; empty on systems without it."""


class _Alarm(Wait):
    """The timer of the process while it is set."""

    __slots__ = ("alarms", "interval_s")

    takes_real_time = True

    def __init__(self, due: float, interval_s: float, alarms: Alarms) -> None:
        super().__init__(due)
        self.interval_s = interval_s
        self.alarms = alarms

    def deliver(self, clock: VirtualClock) -> None:
        """Ring, and restart the timer if it has an interval."""
        self.done = True
        if not clock.is_open:
            return
        self.alarms.set(clock, self.due + self.interval_s if self.interval_s else None, self.interval_s)
        _interrupt(clock, self.cause)


class Alarms:
    """The timer of the process, and replacements for the functions that use it."""

    def __init__(self, clock_of: ClockOf) -> None:
        self._clock_of = clock_of
        self._set: _Alarm | None = None

    def _clock(self) -> VirtualClock | None:
        """Return the clock if this thread belongs to its run."""
        clock = self._clock_of()
        member = None if clock is None else clock.member()
        if clock is None or member is None or member.real or not clock.is_open:
            return None
        return clock

    def set(self, clock: VirtualClock, due: float | None, interval_s: float) -> None:
        """Set or remove the timer; needs the mutex."""
        if self._set is not None and not self._set.done:
            clock.check_limit(self._set)
            self._set.done = True
        self._set = None
        if due is not None:
            self._set = _Alarm(due, interval_s, self)
            clock.add_timer(self._set)
            clock.on_block()  # an agent may compute until it rings

    def _left(self, clock: VirtualClock) -> tuple[float, float]:
        if self._set is None or self._set.done:
            return 0.0, 0.0
        return max(self._set.due - clock.base, 1e-6), self._set.interval_s

    def setitimer(self, original: Function) -> Function:
        """Wrap `signal.setitimer`."""

        def setitimer(which: int, seconds: float, interval: float = 0.0, /) -> Any:
            clock = self._clock()
            if clock is None or which != signal.ITIMER_REAL or min(seconds, interval) < 0:
                return original(which, seconds, interval)
            with clock.mutex:
                before = self._left(clock)
                self.set(clock, clock.look() + seconds if seconds else None, interval)
            return before

        return setitimer

    def getitimer(self, original: Function) -> Function:
        """Wrap `signal.getitimer`."""

        def getitimer(which: int, /) -> Any:
            clock = self._clock()
            if clock is None or which != signal.ITIMER_REAL:
                return original(which)
            with clock.mutex:
                return self._left(clock)

        return getitimer

    def alarm(self, original: Function) -> Function:
        """Wrap `signal.alarm`."""

        def alarm(seconds: int, /) -> Any:
            clock = self._clock()
            if clock is None or seconds < 0:
                return original(seconds)
            with clock.mutex:
                left_s, _ = self._left(clock)
                self.set(clock, clock.look() + seconds if seconds else None, 0.0)
            return ceil(left_s)

        return alarm


def _interrupt(clock: VirtualClock, cause: int) -> None:
    """Let the main thread run the handler of the alarm; needs the mutex."""
    main = threading.main_thread().ident
    assert main is not None
    member = clock.members.get(main)
    wait = None if member is None else member.waiting
    if wait is None or wait.done:
        signal.pthread_kill(main, signal.SIGALRM)
        return
    clock.check_limit(wait)
    clock.interrupt(wait, cause)


def ring() -> None:
    """Run the handler of the alarm, in the main thread."""
    signal.raise_signal(signal.SIGALRM)
    _let_handlers_run()


def _let_handlers_run() -> None:
    """Call a function: Python handles signals where functions begin."""
