"""Event loops on the virtual clock: an idle loop waits for the clock instead of for the machine."""

from __future__ import annotations

from _thread import get_ident as _get_ident
from collections.abc import Callable
from contextlib import suppress
from heapq import heapify
from typing import Any

from replaykit.seam.foreign_threads import RunOver
from replaykit.seam.own_code import Function
from replaykit.seam.propagate import running_loop
from replaykit.seam.through import recorded_pause_over
from replaykit.seam.virtual_clock import MANY, NEVER, TOP, Member, VirtualClock, Wait

# Timers this far apart go off one after the other: a loop never looks at the clock so often in between.
_APART_S = 1e-4
# The time for a loop's files and sockets to get ready before the clock may advance. Another process, such as the proxy,
# answers in real time: without this wait, every timeout would fire.
_MOMENT_S = 0.25
# The same, if something was sent and nothing has come since.
_ANSWER_S = 1.0
# The same, if that time has passed and nothing was sent since: probably an idle connection.
_GLANCE_S = 0.005


class LoopEnd(Wait):
    """The end of a recorded call that is awaited in an event loop."""

    __slots__ = ("burst", "future", "state", "turn")

    def __init__(self, due: float, position: int | None, state: LoopState, turn: tuple[int, int] | None) -> None:
        super().__init__(due, position)
        self.state = state
        self.burst: int | None = None
        self.turn = 0
        if turn is not None and due < NEVER:  # calls that never end are given up one by one
            self.burst, self.turn = turn
        self.future: Any = state.loop.create_future()
        state.ends.add(self)

    def deliver(self, clock: VirtualClock) -> None:
        """End the call in the loop's next iteration, together with those that ended in the same burst of the loop."""
        state = self.state
        if not clock.is_open:
            self._cancel()
            return
        together = [end for end in state.ends if end is self or (self.burst is not None and end.burst == self.burst)]
        for end in sorted(together, key=lambda end: end.position or 0):
            end.done = True
            state.ends.discard(end)
            state.ready.append(end)
        if state.wait is not None and not state.wait.done:
            state.wait.cause = self.cause
            clock.wake(state.wait)

    def _cancel(self) -> None:
        """Cancel the task that waits, since the run is over."""
        self.done = True
        self.state.ends.discard(self)
        with suppress(RuntimeError):  # the loop is closed
            self.state.loop.call_soon_threadsafe(self.future.cancel)

    @property
    def can_come(self) -> bool:
        """False while its loop does something else, such as waiting for a thread."""
        return not self.done and self.state.wait is not None

    @property
    def can_come_meanwhile(self) -> bool:
        """True also while its loop takes turn after turn, for example because a task polls."""
        return self.can_come or (not self.done and self.state.busy_turns > MANY)


class LoopState:
    """An event loop of the run."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.wait: Wait | None = None
        self.ends: set[LoopEnd] = set()
        self.ready: list[LoopEnd] = []
        self.is_selecting = False
        self.busy_turns = 0  # since it was last idle
        self.cause = 0  # of the work that another thread gave it

    def woken(self) -> None:
        """Make the loop look again; needs the clock's mutex."""
        if self.is_selecting:
            self.loop._write_to_self()

    def release(self) -> None:
        """End calls that are ready, each as many iterations after the first as recorded."""
        ready, self.ready = self.ready, []
        first = min((end.turn for end in ready), default=0)
        for end in ready:
            _end_later(self.loop, end.turn - first, end)


def _end_later(loop: Any, iterations: int, end: LoopEnd) -> None:
    if iterations > 0:
        loop.call_soon(_end_later, loop, iterations - 1, end)
    elif not end.future.done():
        end.future.set_result(None)


def state_of(clock: VirtualClock, loop: Any) -> LoopState:
    """Return the clock's state of a loop."""
    state = clock.loops.get(loop)
    if state is None:
        state = clock.loops[loop] = LoopState(loop)
    return state


class VirtualSelector:
    """The selector with which a loop finds ready files, and waits."""

    def __init__(self, real: Any, loop: Any, clock: VirtualClock) -> None:
        self.real = real
        keys = getattr(real, "_fd_to_key", None)
        self.watched = real.get_map() if keys is None else keys  # read in every call; `get_map` is slow
        self.patience_s = _MOMENT_S
        """The real time to wait for files."""
        self._loop = loop
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def register(self, *key: Any) -> Any:
        self.patience_s = max(self.patience_s, _MOMENT_S)
        return self.real.register(*key)

    def modify(self, *key: Any) -> Any:
        self.patience_s = max(self.patience_s, _MOMENT_S)
        return self.real.modify(*key)

    def select(self, timeout: float | None = None) -> Any:
        clock = self._clock
        member = clock.member()
        if member is None or member.real or not clock.is_open:
            return self.real.select(timeout)
        events = self.real.select(0)
        if timeout == 0:
            self._take_busy_turn(clock, state_of(clock, self._loop))
        if not events and (timeout is None or timeout > 0):
            if len(self.watched) > 1:
                events = self.real.select(self.patience_s)
            if not events:
                self.patience_s = _GLANCE_S
                state = state_of(clock, self._loop)
                state.busy_turns = 0
                events = self._wait(member, clock, state)
        if len(self.watched) > 1 and any(key.fileobj is not self._loop._ssock for key, _ in events):
            self.patience_s = _MOMENT_S  # more may be on its way
        return events

    def _take_busy_turn(self, clock: VirtualClock, state: LoopState) -> None:
        """Continue with pending work, and with calls that have ended."""
        state.busy_turns += 1
        if state.busy_turns == MANY:
            clock.on_block()
        if state.ready:
            state.busy_turns = 0
            state.release()

    def _wait(self, member: Member, clock: VirtualClock, state: LoopState) -> Any:
        loop, wait = self._loop, Wait()
        wait.loop = state
        with clock.mutex:
            if loop._ready:  # added by another thread since
                return self.real.select(0)
            if loop._scheduled:
                first = loop._scheduled[0]
                wait.due = first._when - clock.origin
                wait.is_recorded = first._callback is recorded_pause_over
                clock.add_timer(wait)
            state.wait = member.waiting = wait
            clock.active -= 1
            if not clock.active:
                clock.advance()
            state.is_selecting = not wait.done
        events = []
        if state.is_selecting:
            clock.on_block()
            try:
                events = self.real.select(None)
            finally:
                with clock.mutex:
                    state.is_selecting = False
                    if not wait.done:
                        wait.cause = state.cause
                        clock.check_limit(wait)
                        clock.wake(wait)
        with clock.mutex:
            state.wait = member.waiting = None
            member.cause = wait.cause
            if wait.due <= clock.base:
                clock.limit_passed(loop)
                _check_timers(clock, loop)
        state.release()
        if wait.is_over:
            raise RunOver
        if wait.interrupted_by:
            clock.ring()
        return events


def _check_timers(clock: VirtualClock, loop: Any) -> None:
    """Note timers close to the one that goes off. Sleeps end in order, but a delayed loop has ended several of them at
    once."""
    timers = sorted(handle for handle in loop._scheduled[:TOP] if not handle._cancelled)
    if not timers or timers[0]._when - clock.origin > clock.base:
        return
    near = [handle for handle in timers if handle._when - timers[0]._when < clock.tie_s]
    if len(near) == 1:
        return
    if not all(map(_is_sleep, near)):
        clock.on_tie(f"two timers of an event loop are within {clock.tie_s * 1000:.0f} ms of each other")
        return
    clock.on_race(f"two sleeps of an event loop ended within {clock.tie_s * 1000:.0f} ms of each other")
    pick = clock.ties.pick(len(near))
    if pick:
        _end_together(clock, loop, near, count=_other_count(near, pick))


def _other_count(near: list[Any], pick: int) -> int:
    """Return how many of these sleeps end at once: another number for each pick, and none of them the default."""
    by_themselves = sum(handle._when - near[0]._when < _APART_S for handle in near)
    return pick if pick < by_themselves else pick + 1


def _end_together(clock: VirtualClock, loop: Any, near: list[Any], count: int) -> None:
    """Let the first sleeps end in one iteration of the loop, and the others in later ones; needs the mutex."""
    clock.move(near[count - 1]._when - clock.origin)
    latest = near[count - 1]._when
    for handle in near[count:]:
        latest = handle._when = max(handle._when, latest + _APART_S)
    heapify(loop._scheduled)


def _is_sleep(handle: Any) -> bool:
    callback = handle._callback
    return callback is recorded_pause_over or getattr(callback, "__name__", "") == "_set_result_unless_cancelled"


def run_once(clock_of: Callable[[], VirtualClock | None]) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Wrap `BaseEventLoop._run_once`."""

    def make(original: Callable[[Any], None]) -> Callable[[Any], None]:
        def once(loop: Any) -> None:
            clock, selector = clock_of(), getattr(loop, "_selector", None)
            if type(selector) is VirtualSelector:
                if clock is None or selector._clock is not clock:
                    loop._selector = selector.real
            elif clock is not None and selector is not None and clock.member() is not None:
                loop._selector = VirtualSelector(selector, loop, clock)
            original(loop)

        return once

    return make


def send(original: Function) -> Function:
    """Wrap writes to a transport: an answer may come."""

    def sending(transport: Any, *args: Any) -> Any:
        selector = getattr(transport._loop, "_selector", None)
        if type(selector) is VirtualSelector:
            selector.patience_s = _ANSWER_S
        return original(transport, *args)

    return sending


def call_soon_threadsafe(clock_of: Callable[[], VirtualClock | None]) -> Callable[[Any], Any]:
    """Wrap `BaseEventLoop.call_soon_threadsafe`."""

    def make(original: Function) -> Function:
        def call(loop: Any, *args: Any, **options: Any) -> Any:
            clock = clock_of()
            if clock is None or not clock.is_open:
                return original(loop, *args, **options)
            state = clock.loops.get(loop)
            if state is not None:
                state.cause = clock.cause
            elif clock.member() is not None:
                _expect(clock, loop, original)
            handle = original(loop, *args, **options)
            _poke(clock, loop)  # not before: a loop that becomes idle in between would not be counted
            return handle

        return call

    return make


def _poke(clock: VirtualClock, loop: Any) -> None:
    """Count a loop with new work as active."""
    with clock.mutex:
        state = clock.loops.get(loop)
        if state is not None and state.wait is not None and not state.wait.done and loop._ready:
            clock.check_limit(state.wait)
            is_selecting, state.is_selecting = state.is_selecting, False
            clock.wake(state.wait)  # asyncio itself writes to the loop's pipe
            state.is_selecting = is_selecting
        if state is not None:
            clock.signal(loop)


def _expect(clock: VirtualClock, loop: Any, call_soon: Function) -> None:
    """Make the thread of a loop that is older than the run a member, since it gets work."""
    runs_in = getattr(loop, "_thread_id", None)
    if runs_in is None:
        with clock.mutex:
            clock.expect_stranger()
    elif runs_in not in clock.members:
        call_soon(loop, _admit_thread_of(clock))


def _admit_thread_of(clock: VirtualClock) -> Callable[[], None]:
    """Count a loop outside of the run as active, and return a function that makes its thread a member."""
    with clock.mutex:
        clock.add(1)

    def admit() -> None:
        with clock.mutex:
            if _get_ident() in clock.members:  # two threads gave it work at once
                clock.add(-1)
            else:
                clock.admit()

    return admit


def is_idle_until(clock: VirtualClock, loop: Any, due: float) -> bool:
    """True if nothing can happen in a loop or beside it before this moment, or close to it; needs the clock's mutex."""
    selector = loop._selector
    if not clock.is_alone or loop._ready or type(selector) is not VirtualSelector:
        return False
    if loop._scheduled and loop._scheduled[0]._when - clock.origin <= due + clock.tie_s:
        return False
    return due < NEVER and len(selector.watched) <= 1


def is_loop_running() -> bool:
    """True in code that an event loop runs."""
    return running_loop() is not None


def is_loop_idle_until(clock: VirtualClock, moment: float) -> bool:
    """True if no timer of the running loop, if any, is due before this moment."""
    loop = running_loop()
    scheduled = getattr(loop, "_scheduled", None)
    return not scheduled or scheduled[0]._when - clock.origin > moment


def is_loop_quiet() -> bool:
    """True if the running loop has no other work and no timers."""
    loop = running_loop()
    selector = getattr(loop, "_selector", None)
    if type(selector) is not VirtualSelector or loop._ready or loop._scheduled:
        return False
    return len(selector.watched) <= 1
