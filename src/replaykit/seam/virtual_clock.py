"""A virtual clock: time passes when nothing else can happen, and costs nothing.

`active` counts everything in the run that can make progress: running threads, jobs that a pool is about to run, event
loops with something to do. Whoever brings it to 0 lets the next event happen: the earliest timer or the earliest
recorded end, to which the clock jumps. Whoever wakes a thread counts it as active before going idle itself.
"""

from __future__ import annotations

import _thread
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time, sleep  # the real ones: `time` itself is patched during a session
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from replaykit.seam.foreign_threads import RunOver

if TYPE_CHECKING:
    from replaykit.seam.virtual_loops import LoopState

NEVER = float("inf")
TIE_S = 0.05
"""Moments closer than this are too close to call, unless the recording has an order; see also `VirtualClock.tie_s`."""
SLACK_S = 0.05
"""The distance from a recorded moment at which a candidate still counts as being there."""
# The time for a thread outside of the run to make itself known after the run has woken it.
_STRANGER_S = 0.25
MOST_TIES = 64
"""Further ties are not counted: there are more orders than anybody tries."""
TOP = 15  # of a heap, which includes its first few entries
_MOMENT_S = 0.0005
MANY = 100
"""A thread that looks at the clock so often, or a loop that turns so often, without an event is just waiting."""
_TICK_S = 1e-6  # the step of each look at the clock: no two looks return the same
_new_lock = _thread.allocate_lock
_ident = _thread.get_ident


class Member:
    """A thread of the run."""

    __slots__ = ("cause", "is_daemon", "is_own", "is_parked", "looked_s", "real", "since", "tid", "waiting")

    def __init__(self, cause: int = 0, *, is_own: bool = False, is_daemon: bool = False) -> None:
        self.cause = cause  # the number of the timer or recorded end that woke it or the thread that started it
        self.is_own = is_own  # started by the run, and ends with it
        self.is_daemon = is_daemon
        self.since = perf_counter()  # when it began to run, in real time
        self.waiting: Wait | None = None
        self.looked_s = -NEVER  # when the agent's own code in it last looked at the clock
        self.is_parked = False  # it waits in a place that the clock cannot see, and does not hold it up
        self.tid = _thread.get_native_id()
        self.real = 0  # the number of its actions in real time: while there are any, its time is real


class Wait:
    """Something to wait for: a moment on the clock, or another thread's action."""

    __slots__ = (
        "cause",
        "done",
        "due",
        "failed",
        "interrupted_by",
        "is_over",
        "is_recorded",
        "lock",
        "loop",
        "position",
    )

    takes_real_time = False
    """True for an event that must not come sooner than in real time to a thread that computes."""

    def __init__(self, due: float = NEVER, position: int | None = None) -> None:
        self.due = due
        self.position = position  # of a recorded begin or end
        self.is_recorded = position is not None  # False for moments that the agent itself has chosen
        self.cause = 0  # what has ended it; see `Member.cause`
        self.done = False
        self.failed = False  # given up: the event will never come
        self.interrupted_by = 0  # the cause of an alarm, whose handler the waiting thread has to run
        self.is_over = False  # the run has ended, and the wait with it
        self.lock: Any = None
        self.loop: Any = None  # the event loop that waits

    def deliver(self, clock: VirtualClock) -> None:
        """Make the event happen; needs the clock's mutex."""
        clock.wake(self)

    @property
    def can_come(self) -> bool:
        return not self.done

    @property
    def can_come_meanwhile(self) -> bool:
        """True if the event can come to a thread that does not wait for it in a way that the clock sees."""
        return not self.done


class _Signal(NamedTuple):
    """The last signal to a wait target."""

    thread: int
    moment: float
    cause: int


class Ties:
    """Decides the order of events at nearly the same moment.

    By default it is the recorded one. Repeating a replay with other picks shows whether the order makes a difference.
    """

    def __init__(self, picks: Iterable[int] = ()) -> None:
        """`picks`: which event comes first, for each tie in turn; after the last pick, the first one does."""
        self._picks = iter(picks)
        self.choices: list[int] = []
        """The number of events to pick from, for the first ties."""

    def pick(self, count: int) -> int:
        """Return the index of the event that comes first, among so many."""
        if len(self.choices) < MOST_TIES:
            self.choices.append(count)
        return min(next(self._picks, 0), count - 1)


Entry: TypeAlias = tuple[float, int, int, Wait]
"""When it is due, its position among the recorded ones, and a unique number."""


class VirtualClock:
    """The time of one replay, for the threads and event loops of the run."""

    def __init__(self, origin: float, chooser: Callable[[Wait, Wait], Wait] | None = None) -> None:
        self.mutex = _thread.RLock()  # reentrant: the garbage collector may run code that looks at the clock
        self.origin = origin
        """The value of `time.monotonic` at the start of the run."""
        self.tie_s = TIE_S
        """`TIE_S`, or more if a busy machine delayed the recorded run."""
        self.is_open = False
        self.base = 0.0
        """The latest moment, in seconds since the run began."""
        self.members: dict[int, Member] = {}
        self.active = 0
        self.progress = 0
        """Counts events, for the watcher."""
        self.real_work = 0
        """The number of actions in real time: meanwhile, the clock follows the real one."""
        self.next_begin_s: Callable[[], float] = lambda: NEVER
        self.on_block: Callable[[], None] = lambda: None
        """Called before a thread really waits."""
        self.on_look: Callable[..., None] = lambda _moment, is_own: None
        """Called when somebody has looked at the clock, with the result; `is_own`: the agent rather than a library."""
        self.on_tie: Callable[[str], None] = lambda _: None
        """Called with a description of an undecided order."""
        self.on_race: Callable[[str], None] = lambda _: None
        """Called when events that may come in either order happened at nearly the same moment; see `ties`."""
        self.ring: Callable[[], None] = lambda: None
        """Runs the handler of an alarm."""
        self.ties = Ties()
        self._causes = itertools.count(1)
        # The causes that are timers, and not ends of recorded calls.
        self._timers_gone_off: set[int] = set()
        self._signals: WeakKeyDictionary[Any, _Signal] = WeakKeyDictionary()
        # When somebody last waited for a target in vain.
        self._limits: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        # When the latest of several events happened that somebody waits for together.
        self._completions: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self.loops: dict[Any, LoopState] = {}
        self._stranger_until = 0.0
        self._is_delayed = False
        self._choose = chooser or _earlier
        self.timers: list[Entry] = []
        self.ends: list[Entry] = []
        """The ends of recorded calls."""
        self._endless: list[Wait] = []
        self.idle_threads: set[int] = set()
        """Threads of the run that were idle when it ended, and stay so."""
        self._count = itertools.count()
        self._looks = 0  # since the last event
        self.anchor = 0.0
        self._since = perf_counter()
        self.cpu: float | None = None

    def now(self) -> float:
        """Return the moment, in seconds since the run began; never the same one twice for a thread of the run."""
        if _ident() not in self.members:
            return self.base
        with self.mutex:
            return self.look()

    def look(self) -> float:
        """Do the same as `now` for callers that hold the mutex."""
        if self.real_work:
            moment = self.anchor + perf_counter() - self._since
        elif self.cpu is None:  # the first look since the last event
            self.cpu = process_time()
            self._looks = 0
            moment = self.anchor
        else:
            self._looks += 1
            moment = self.anchor + self._spent()
            if self._looks > MANY and moment > self.anchor:
                moment = self._pass(moment)
        self.base = moment if moment > self.base + _TICK_S else self.base + _TICK_S
        return self.base

    def _spent(self) -> float:
        """Return the CPU time since the last event. A little counts as nothing, and the next recorded begin is not
        passed unless it is clear that it does not come."""
        cpu_s = process_time() - (self.cpu or 0.0) - SLACK_S
        if cpu_s <= 0.0:
            return 0.0
        room_s = self.next_begin_s() - self.anchor
        return room_s if 0.0 <= room_s < cpu_s < 2 * room_s + SLACK_S else cpu_s

    def _pass(self, moment: float) -> float:
        """Return the moment for a thread that computes and keeps looking at the clock; earlier events happen first."""
        upcoming = self.next_meanwhile()
        if upcoming is None or upcoming.due > moment:
            return moment
        self.happen_meanwhile(upcoming)
        return self.base

    def move(self, moment: float) -> None:
        """Advance to a moment unless it is past already; needs the mutex."""
        if moment > self.base:
            self.base = moment
        self.anchor = self.base
        self.cpu = None
        if self.real_work:
            self._since = perf_counter()

    def member(self) -> Member | None:
        """Return this thread's membership; None for a thread outside of the run."""
        member = self.members.get(_ident())
        if member is not None and member.is_parked:
            with self.mutex:
                self.unpark(member)
        return member

    def unpark(self, member: Member) -> None:
        """Note that the thread continues after all; needs the mutex."""
        if member.is_parked:
            member.is_parked = False
            self.active += 1
            self.progress += 1

    def park(self, member: Member) -> None:
        """Note that the thread waits in a place that the clock cannot see; needs the mutex."""
        if not member.is_parked:
            member.is_parked = True
            self.active -= 1

    def admit(self, cause: int = 0, *, is_own: bool = False, is_daemon: bool = False) -> Member:
        """Make this thread a member; whoever started it has counted it as active."""
        member = self.members[_ident()] = Member(cause, is_own=is_own, is_daemon=is_daemon)
        return member

    @property
    def cause(self) -> int:
        """Return the cause of this thread's actions; see `Member.cause`."""
        member = self.members.get(_ident())
        return 0 if member is None else member.cause

    def adopt(self) -> Member:
        """Make an older thread a member from now on."""
        with self.mutex:
            self.active += 1
            self._stranger_until = 0.0
            return self.admit()

    def expect_stranger(self) -> None:
        """Note that a thread outside of the run was woken, which may make a call or wake somebody; needs the mutex."""
        self._stranger_until = perf_counter() + _STRANGER_S

    @property
    def is_stranger_expected(self) -> bool:
        return self._stranger_until > 0.0 and perf_counter() < self._stranger_until

    def dismiss(self) -> None:
        """End this thread's membership."""
        with self.mutex:
            member = self.members.pop(_ident(), None)
            if member is None or not member.is_parked:
                self.add(-1)

    def add(self, count: int) -> None:
        """Change the number of active things; needs the mutex."""
        self.active += count
        self.progress += 1
        if not self.active:
            self.advance()

    @property
    def is_alone(self) -> bool:
        """True if nothing but the calling thread can make progress; needs the mutex."""
        if self.active != 1 or not self.is_open:
            return False
        return not (self.timers and _is_any_left(self.timers)) and not (self.ends and _is_any_left(self.ends))

    def sleep(self, member: Member, seconds: float, *, is_recorded: bool = False) -> None:
        """Let time pass; `is_recorded`: as in the recording, rather than at the agent's request."""
        with self.mutex:
            due = self.look() + seconds
            if self.is_alone and not self.real_work:
                self.move(due)
                return
        wait = Wait(due)
        wait.is_recorded = is_recorded
        self.block(member, wait, timed=True)

    def block(self, member: Member, wait: Wait, *, timed: bool = False, ends: bool = False) -> None:
        """Wait for the event. `timed`: at most until its moment; `ends`: it is the end of a recorded call."""
        with self.mutex:
            if not self.is_open or wait.done:
                return
            self.unpark(member)
            if timed:
                self.add_timer(wait)
            elif ends:
                self.add_end(wait)
            member.waiting = wait
            self.active -= 1
            if not self.active:
                self.advance()
            if not wait.done:
                wait.lock = _new_lock()
                wait.lock.acquire()
        try:
            self._stand(member, wait)
        except BaseException:  # raised by a signal handler
            with self.mutex:
                if not wait.done:
                    self.wake(wait)
            raise
        finally:
            member.waiting = None
            member.since = perf_counter()
        member.cause = wait.cause
        if wait.is_over:
            raise RunOver

    def _stand(self, member: Member, wait: Wait) -> None:
        while not wait.done or wait.interrupted_by:
            if wait.interrupted_by:
                self._run_handler(member, wait)
            else:
                self.on_block()
                wait.lock.acquire()

    def interrupt(self, wait: Wait, cause: int) -> None:
        """Make the waiting thread run the handler of an alarm, and then continue to wait; needs the mutex."""
        if wait.interrupted_by:
            return  # it is about to: of two signals of one kind, one is delivered
        wait.interrupted_by = cause
        if wait.loop is not None:  # a loop takes another turn anyway
            wait.cause = cause
            self.wake(wait)
            return
        self.active += 1
        self.progress += 1
        if wait.lock is not None:
            wait.lock.release()

    def _run_handler(self, member: Member, wait: Wait) -> None:
        with self.mutex:
            member.cause, wait.interrupted_by = wait.interrupted_by, 0
            wait.lock.acquire(blocking=False)  # it may have been released before anybody waited
        try:
            self.ring()
        except BaseException:
            with self.mutex:
                self.active -= 1
            raise
        with self.mutex:
            member.waiting = wait  # the handler may have waited for something else
            self.add(-1)

    def add_timer(self, wait: Wait) -> None:
        heapq.heappush(self.timers, (wait.due, wait.position or 0, next(self._count), wait))

    def add_end(self, wait: Wait) -> None:
        """Add the end of a recorded call; one that never ends is given up when nothing else is left."""
        if wait.due == NEVER:
            self._endless.append(wait)
        else:
            heapq.heappush(self.ends, (wait.due, wait.position or 0, next(self._count), wait))

    def is_idle_until(self, moment: float) -> bool:
        """True if no timer and no recorded end is due before this moment; needs the mutex."""
        return all(not heap or not _is_any_left(heap) or heap[0][0] > moment for heap in (self.timers, self.ends))

    def begin_before(self, position: int) -> float | None:
        """Return when a thread continues that waits to begin a call recorded to begin before this position, if that is
        about now."""
        with self.mutex:
            begins = [(wait.position, wait.due) for *_, wait in self.timers if not wait.done]
            until = self.base + self.tie_s
        earlier = [due for begin, due in begins if begin is not None and begin < position and due < until]
        return min(earlier, default=None)

    def has_end_before(self, position: int) -> bool:
        """True if a recorded call that ended before this position has yet to end; needs the mutex."""
        return any(not wait.done and wait.position is not None and wait.position < position for *_, wait in self.ends)

    def wake(self, wait: Wait) -> None:
        """Wake the waiting thread; needs the mutex."""
        wait.done = True
        wait.cause = wait.cause or self.cause
        self.active += 1
        self.progress += 1
        if wait.loop is not None:
            wait.loop.woken()
        elif wait.lock is not None:
            wait.lock.release()

    def advance(self) -> None:
        """Let the next event happen, since nothing in the run can make progress; needs the mutex."""
        if self.real_work or not self.is_open:
            return
        if self.is_stranger_expected:
            self._is_delayed = True  # the watcher continues later
            self.on_block()
            return
        self._is_delayed = False
        timer, end = _first(self.timers), self._first_end()
        if timer is None and end is None:
            self._let_go()
            return
        if timer is None or end is None:
            chosen = timer or end
        else:
            chosen = self._choose(timer, end)
        assert chosen is not None
        self._happen(chosen, is_timer=chosen is timer)

    def _happen(self, chosen: Wait, *, is_timer: bool) -> None:
        self.move(chosen.due)
        chosen.cause = next(self._causes)
        if is_timer and not chosen.is_recorded:
            self._timers_gone_off.add(chosen.cause)
        chosen.deliver(self)

    def next_meanwhile(self) -> Wait | None:
        """Return the next event if nothing in the run could make progress; needs the mutex."""
        if self.real_work or not self.is_open or self.is_stranger_expected:
            return None
        coming = [entry for heap in (self.timers, self.ends) for entry in heap if entry[-1].can_come_meanwhile]
        return min(coming)[-1] if coming else None

    def happen_meanwhile(self, chosen: Wait) -> None:
        """Let an event happen while the run computes, or only seems to; needs the mutex."""
        self.on_tie("the agent computed while a call or a timer of another thread or task was about to end")
        self._happen(chosen, is_timer=any(entry[-1] is chosen for entry in self.timers))

    def _first_end(self) -> Wait | None:
        """Return the next end of a recorded call. Event loops end theirs in recorded order; threads may have continued
        in another order after calls that ended at nearly the same moment."""
        first = _first(self.ends)
        if first is None or type(first) is not Wait or len(self.ends) == 1:
            return first
        coming = [wait for *_, wait in sorted(self.ends[:TOP]) if wait.can_come and type(wait) is Wait]
        near = [wait for wait in coming if wait.due - first.due < self.tie_s]
        return near[self.ties.pick(len(near))] if len(near) > 1 else first

    def _let_go(self) -> None:
        """Give up a call without an end, because somebody waits for it and nothing else is left to happen."""
        if not any(member.is_parked for member in list(self.members.values())):
            self.give_up_one()

    def give_up_one(self) -> None:
        """Give up a call without an end; needs the mutex."""
        while self._endless:
            wait = self._endless.pop(0)
            if wait.can_come:
                wait.failed = True
                wait.deliver(self)
                return

    def advance_delayed(self) -> None:
        """Continue what had to wait for a thread outside of the run; needs the mutex."""
        if self._is_delayed and not self.active:
            self.advance()

    def due_now(self) -> None:
        """Let events happen that are due by the real clock; needs the mutex."""
        moment = self.look()
        for heap in (self.timers, self.ends):
            while (wait := _first(heap)) is not None and wait.due <= moment:
                heapq.heappop(heap)
                wait.deliver(self)

    def signal(self, target: Any) -> None:
        """Note that a thread signals something that others wait for, such as a condition or an event loop. If two
        threads do so at nearly the same moment, and neither because of the other, chance decides which comes first."""
        ident = _ident()
        member = self.members.get(ident)
        if member is None:
            return
        with self.mutex:
            self.unpark(member)
            before = self._signals.get(target)
            self._signals[target] = _Signal(ident, self.base, member.cause)
            if before is None or before.thread == ident or before.cause == member.cause:
                return
            # The recording has the order of the two ends; only what happens afterwards is left to chance.
            is_race = self._timers_gone_off.isdisjoint((before.cause, member.cause))
            if self.base - before.moment < self.tie_s:
                note = self.on_race if is_race else self.on_tie
                note(f"two threads that others wait for went on within {self.tie_s * 1000:.0f} ms of each other")

    def limit_passed(self, target: Any) -> None:
        """Note that a thread has waited for a signal in vain."""
        with self.mutex:
            self._signals[target] = _Signal(_ident(), self.base, self.cause)
            self._limits[target] = self.base
            self._check_completion(target)

    def completed(self, target: Any) -> None:
        """Note one of several events that a thread awaits with one limit. It wakes nobody, but it matters whether it
        came before the limit."""
        with self.mutex:
            self._completions[target] = self.base
            self._check_completion(target)

    def _check_completion(self, target: Any) -> None:
        moments = (self._limits.get(target), self._completions.get(target))
        if None not in moments and abs(moments[0] - moments[1]) < self.tie_s:  # type: ignore[operator]
            self.on_tie(f"something that a thread waits for came within {self.tie_s * 1000:.0f} ms of the limit")

    def check_limit(self, wait: Wait) -> None:
        """Note that a wait ended shortly before its limit; needs the mutex."""
        if wait.due - self.base < self.tie_s and not wait.is_recorded:
            self.on_tie(f"a wait ended within {self.tie_s * 1000:.0f} ms of its limit")

    @property
    def has_own(self) -> bool:
        """True while there are threads that the run has started."""
        return any(member.is_own for member in list(self.members.values()))

    @property
    def has_left_threads(self) -> bool:
        """True if threads that the run has started still work after its end."""
        return any(member.is_own and ident not in self.idle_threads for ident, member in list(self.members.items()))

    def _check_end(self) -> None:
        """Note events that were due shortly after the end of the run; needs the mutex."""
        for *_, wait in (*self.timers, *self.ends):
            if not wait.done and wait.due - self.base < self.tie_s:
                self.on_tie(f"the run ended within {self.tie_s * 1000:.0f} ms of what one of its threads waits for")
                return

    @contextmanager
    def really(self, member: Member) -> Iterator[None]:
        """Make time real for everybody during the block."""
        self.begin_real_work(member)
        try:
            yield
        finally:
            self.end_real_work(member)

    def begin_real_work(self, member: Member | None = None) -> None:
        with self.mutex:
            self.move(self.look())
            self._since = perf_counter()
            self.real_work += 1
            if member is not None:
                member.real += 1

    def end_real_work(self, member: Member | None = None) -> None:
        with self.mutex:
            self.move(self.look())
            self._since = perf_counter()
            self.real_work -= 1
            self.progress += 1
            if member is not None:
                member.real -= 1

    def open(self) -> None:
        """Start the clock, with this thread as the only member."""
        self.admit()
        self.active = 1
        self.is_open = True
        self.move(self.base)

    def renew(self) -> None:
        """Continue in a forked child, in which this thread is the only one."""
        self.mutex = _thread.RLock()
        self.members.clear()
        self.loops.clear()
        for waiting in (self.timers, self.ends, self._endless):
            waiting.clear()
        self.real_work = 0
        self.open()

    def close(self) -> None:
        """Stop the clock: time is real again. Threads that the run has started end where they wait; others continue."""
        with self.mutex:
            if not self.is_open:
                return
            self._check_end()
            self.is_open = False
            for ident, member in list(self.members.items()):
                wait = member.waiting
                if wait is not None and not wait.done:
                    wait.is_over = _ends_with_run(member, wait)
                    if member.is_own and not wait.is_over:
                        self.idle_threads.add(ident)
                    self.wake(wait)
            for *_, wait in (*self.timers, *self.ends):
                if not wait.done:
                    wait.deliver(self)
            for wait in self._endless:
                if not wait.done:
                    wait.deliver(self)

    def wait_for_own(self, seconds: float) -> None:
        """Wait for a limited time until the run's own threads have ended, or are blocked."""
        until = perf_counter() + seconds
        while perf_counter() < until:
            with self.mutex:
                known = list(self.members.items())
            own = {ident for ident, member in known if member.is_own and not member.is_parked}
            if own <= self.idle_threads:
                return
            sleep(_MOMENT_S)


def _ends_with_run(member: Member, wait: Wait) -> bool:
    """True for a thread of the run that waits for something in the run. A daemon that waits without a limit may be a
    worker that others use."""
    if not member.is_own:
        return False
    is_sleeping = wait.due < NEVER or wait.position is not None
    return not member.is_daemon or (is_sleeping and wait.loop is None)


def _earlier(timer: Wait, end: Wait) -> Wait:
    return timer if timer.due < end.due else end


def _is_any_left(heap: list[Entry]) -> bool:
    """True if an event is still to come; removes handled ones from the top."""
    while heap and heap[0][-1].done:
        heapq.heappop(heap)
    return bool(heap)


def _first(heap: list[Entry]) -> Wait | None:
    """Return the first event that can come now."""
    if not _is_any_left(heap):
        return None
    if heap[0][-1].can_come:
        return heap[0][-1]
    return next((entry[-1] for entry in sorted(heap) if entry[-1].can_come), None)
