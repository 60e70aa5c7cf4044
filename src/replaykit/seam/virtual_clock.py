"""A virtual clock: time passes when nothing else can happen, and costs nothing.

`active` counts what of the run can go on by itself: threads that run, jobs that a pool is about to run, event loops
with something to do. Whoever brings it to 0 lets the next thing happen: the earliest timer or the earliest recorded
end. The clock is then at that moment. Whoever wakes somebody else counts it as active before it goes idle itself.
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
"""Moments that are nearer than this are too close to call, unless the recording says which came first; see also
`VirtualClock.tie_s`."""
SLACK_S = 0.05
"""The distance from a recorded moment at which a candidate still counts as being there."""
_STRANGER_S = 0.25
"""The time for a thread that is not of the run to show itself, after somebody of the run has woken it."""
MOST_TIES = 64
"""No more ties are counted: there are more orders than anybody tries."""
TOP = 15  # of a heap: the first few are among them
_MOMENT_S = 0.0005
MANY = 100
"""Whoever looks at the clock so often, or takes so many turns of an event loop, while nothing happens, only waits."""
_TICK_S = 1e-6  # by which each look at the clock moves it: no two looks are alike
_new_lock = _thread.allocate_lock
_ident = _thread.get_ident


class Member:
    """A thread of the run."""

    __slots__ = ("cause", "is_daemon", "is_own", "is_parked", "looked_s", "real", "since", "tid", "waiting")

    def __init__(self, cause: int = 0, *, is_own: bool = False, is_daemon: bool = False) -> None:
        self.cause = cause  # the number of the timer or the recorded end that it goes on after, or its starter does
        self.is_own = is_own  # the run has started it, and it ends with the run
        self.is_daemon = is_daemon
        self.since = perf_counter()  # it has run since then, in real time
        self.waiting: Wait | None = None
        self.looked_s = -NEVER  # when the agent's own code has last looked at the clock in it
        self.is_parked = False  # it stands where nobody sees it, and does not hold the clock meanwhile
        self.tid = _thread.get_native_id()
        self.real = 0  # how many things it does for real: time is real for it


class Wait:
    """Something that is waited for: a moment on the clock, or somebody else's doing."""

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
    """True for what comes no sooner than in real time to somebody who computes."""

    def __init__(self, due: float = NEVER, position: int | None = None) -> None:
        self.due = due
        self.position = position  # of a recorded begin or end
        self.is_recorded = position is not None  # False for the moments that the agent itself has chosen
        self.cause = 0  # what has ended it; see `Member.cause`
        self.done = False
        self.failed = False  # it was given up: what it waits for will never come
        self.interrupted_by = 0  # the cause of an alarm: whoever waits has to run its handler
        self.is_over = False  # the run has ended, and with it whoever waits
        self.lock: Any = None
        self.loop: Any = None  # the event loop that waits

    def deliver(self, clock: VirtualClock) -> None:
        """It has come; the clock's mutex is held."""
        clock.wake(self)

    @property
    def can_come(self) -> bool:
        return not self.done

    @property
    def can_come_meanwhile(self) -> bool:
        """True when it can come to somebody who does not wait for it in a way that the clock knows."""
        return not self.done


class _Signal(NamedTuple):
    """The last signal to something that is waited for."""

    thread: int
    moment: float
    cause: int


class Ties:
    """Decides what comes first of things that happened at nearly the same moment.

    They come as recorded. To see whether that makes a difference, a replay can be repeated with other picks.
    """

    def __init__(self, picks: Iterable[int] = ()) -> None:
        """`picks`: which comes first, for each tie in turn; the first one where they run out."""
        self._picks = iter(picks)
        self.choices: list[int] = []
        """The number of things to pick from, for the first ties."""

    def pick(self, count: int) -> int:
        """Return the index of the one that comes first, among so many."""
        if len(self.choices) < MOST_TIES:
            self.choices.append(count)
        return min(next(self._picks, 0), count - 1)


Entry: TypeAlias = tuple[float, int, int, Wait]
"""When it is due, its position among the recorded ones, and a number that no other entry has."""


class VirtualClock:
    """The time of one replay, for the threads and event loops of the run."""

    def __init__(self, origin: float, chooser: Callable[[Wait, Wait], Wait] | None = None) -> None:
        self.mutex = _thread.RLock()  # the garbage collector may run something in between that looks at the clock
        self.origin = origin
        """The answer of `time.monotonic` at the start of the run."""
        self.tie_s = TIE_S
        """`TIE_S`, or more where the machine held up the recorded run."""
        self.is_open = False
        self.base = 0.0
        """The latest moment, in seconds since the run began."""
        self.members: dict[int, Member] = {}
        self.active = 0
        self.progress = 0
        """Counts what happened, for the watcher."""
        self.real_work = 0
        """The number of things that are done for real: the clock follows the real one meanwhile."""
        self.next_begin_s: Callable[[], float] = lambda: NEVER
        self.on_block: Callable[[], None] = lambda: None
        """Called before a thread waits in earnest."""
        self.on_look: Callable[..., None] = lambda _moment, is_own: None
        """Called when the agent has looked at the clock, with what it saw; `is_own`: not one of its libraries."""
        self.on_tie: Callable[[str], None] = lambda _: None
        """Called with what was too close to call."""
        self.on_race: Callable[[str], None] = lambda _: None
        """Called when things that may come out in either order happened at nearly the same moment; see `ties`."""
        self.ring: Callable[[], None] = lambda: None
        """Runs the handler of an alarm."""
        self.ties = Ties()
        self._causes = itertools.count(1)
        self._timers_gone_off: set[int] = set()
        """The causes that were timers, and not ends of recorded calls."""
        self._signals: WeakKeyDictionary[Any, _Signal] = WeakKeyDictionary()
        self._limits: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        """When somebody has last waited in vain for something."""
        self._completions: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        """When the latest of several things happened that somebody waits for together."""
        self.loops: dict[Any, LoopState] = {}
        self._stranger_until = 0.0
        self._is_delayed = False
        self._choose = chooser or _earlier
        self.timers: list[Entry] = []
        self.ends: list[Entry] = []
        """Of recorded calls."""
        self._endless: list[Wait] = []
        self.idle_threads: set[int] = set()
        """Threads of the run that were waiting for something to do when it ended, and go on doing so."""
        self._count = itertools.count()
        self._looks = 0  # since something happened
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
        """`now`, for who holds the mutex."""
        if self.real_work:
            moment = self.anchor + perf_counter() - self._since
        elif self.cpu is None:  # the first look since something happened
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
        """Return the CPU time since something happened. A little counts as nothing, and the next recorded begin is not
        passed unless it is clear that it does not come."""
        cpu_s = process_time() - (self.cpu or 0.0) - SLACK_S
        if cpu_s <= 0.0:
            return 0.0
        room_s = self.next_begin_s() - self.anchor
        return room_s if 0.0 <= room_s < cpu_s < 2 * room_s + SLACK_S else cpu_s

    def _pass(self, moment: float) -> float:
        """Return the moment for somebody who computes and looks at the clock over and over; what is due before that
        happens first."""
        upcoming = self.next_meanwhile()
        if upcoming is None or upcoming.due > moment:
            return moment
        self.happen_meanwhile(upcoming)
        return self.base

    def move(self, moment: float) -> None:
        """Be at a moment, if it is not past already; the mutex is held."""
        if moment > self.base:
            self.base = moment
        self.anchor = self.base
        self.cpu = None
        if self.real_work:
            self._since = perf_counter()

    def member(self) -> Member | None:
        """Return this thread's membership; None for a thread that is not of the run."""
        member = self.members.get(_ident())
        if member is not None and member.is_parked:
            with self.mutex:
                self.unpark(member)
        return member

    def unpark(self, member: Member) -> None:
        """It goes on after all; the mutex is held."""
        if member.is_parked:
            member.is_parked = False
            self.active += 1
            self.progress += 1

    def park(self, member: Member) -> None:
        """It stands where nobody sees it; the mutex is held."""
        if not member.is_parked:
            member.is_parked = True
            self.active -= 1

    def admit(self, cause: int = 0, *, is_own: bool = False, is_daemon: bool = False) -> Member:
        """Make this thread a member; whoever started it has counted it as active."""
        member = self.members[_ident()] = Member(cause, is_own=is_own, is_daemon=is_daemon)
        return member

    @property
    def cause(self) -> int:
        """The cause of what this thread does; see `Member.cause`."""
        member = self.members.get(_ident())
        return 0 if member is None else member.cause

    def adopt(self) -> Member:
        """Make a thread that was there before a member, from now on."""
        with self.mutex:
            self.active += 1
            self._stranger_until = 0.0
            return self.admit()

    def expect_stranger(self) -> None:
        """A thread that is not of the run was woken: it may make a call, or wake somebody. The mutex is held."""
        self._stranger_until = perf_counter() + _STRANGER_S

    @property
    def is_stranger_expected(self) -> bool:
        return self._stranger_until > 0.0 and perf_counter() < self._stranger_until

    def dismiss(self) -> None:
        """This thread is no member any more, and not active."""
        with self.mutex:
            member = self.members.pop(_ident(), None)
            if member is None or not member.is_parked:
                self.add(-1)

    def add(self, count: int) -> None:
        """Count something as active, or no longer so; the mutex is held."""
        self.active += count
        self.progress += 1
        if not self.active:
            self.advance()

    @property
    def is_alone(self) -> bool:
        """True when nothing but the asking thread can happen; the mutex is held."""
        if self.active != 1 or not self.is_open:
            return False
        return not (self.timers and _is_any_left(self.timers)) and not (self.ends and _is_any_left(self.ends))

    def sleep(self, member: Member, seconds: float, *, is_recorded: bool = False) -> None:
        """Let time pass; `is_recorded`: as it passed in the recording, and not because the agent wants it."""
        with self.mutex:
            due = self.look() + seconds
            if self.is_alone and not self.real_work:
                self.move(due)
                return
        wait = Wait(due)
        wait.is_recorded = is_recorded
        self.block(member, wait, timed=True)

    def block(self, member: Member, wait: Wait, *, timed: bool = False, ends: bool = False) -> None:
        """Wait until it has come. `timed`: at its moment at the latest; `ends`: it is the end of a recorded call."""
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
        except BaseException:  # a signal's handler has raised
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
        """Let whoever waits run the handler of an alarm, and go on waiting; the mutex is held."""
        if wait.interrupted_by:
            return  # it is about to: of two signals of a kind, one is delivered
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
            wait.lock.acquire(blocking=False)  # it may have been released before anybody stood at it
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
        """Add the end of a recorded call; one that never ends is let go when nothing else is left."""
        if wait.due == NEVER:
            self._endless.append(wait)
        else:
            heapq.heappush(self.ends, (wait.due, wait.position or 0, next(self._count), wait))

    def is_idle_until(self, moment: float) -> bool:
        """True when no timer and no recorded end is due before this moment; the mutex is held."""
        return all(not heap or not _is_any_left(heap) or heap[0][0] > moment for heap in (self.timers, self.ends))

    def begin_before(self, position: int) -> float | None:
        """Return when a thread goes on that waits to begin a call which was recorded to begin before this position, if
        that is about now."""
        with self.mutex:
            begins = [(wait.position, wait.due) for *_, wait in self.timers if not wait.done]
            until = self.base + self.tie_s
        earlier = [due for begin, due in begins if begin is not None and begin < position and due < until]
        return min(earlier, default=None)

    def has_end_before(self, position: int) -> bool:
        """True when a recorded call has yet to end that ended before this position; the mutex is held."""
        return any(not wait.done and wait.position is not None and wait.position < position for *_, wait in self.ends)

    def wake(self, wait: Wait) -> None:
        """Let whoever waits go on; the mutex is held."""
        wait.done = True
        wait.cause = wait.cause or self.cause
        self.active += 1
        self.progress += 1
        if wait.loop is not None:
            wait.loop.woken()
        elif wait.lock is not None:
            wait.lock.release()

    def advance(self) -> None:
        """Let the next thing happen: nothing of the run can go on by itself, and the mutex is held."""
        if self.real_work or not self.is_open:
            return
        if self.is_stranger_expected:
            self._is_delayed = True  # the watcher comes back to it
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
        """Return what would happen next if nobody of the run could go on by itself; the mutex is held."""
        if self.real_work or not self.is_open or self.is_stranger_expected:
            return None
        coming = [entry for heap in (self.timers, self.ends) for entry in heap if entry[-1].can_come_meanwhile]
        return min(coming)[-1] if coming else None

    def happen_meanwhile(self, chosen: Wait) -> None:
        """Let something happen while somebody of the run computes, or only seems to; the mutex is held."""
        self.on_tie("the agent computed while a call or a timer of another thread or task was about to end")
        self._happen(chosen, is_timer=any(entry[-1] is chosen for entry in self.timers))

    def _first_end(self) -> Wait | None:
        """Return the next end of a recorded call. Event loops end theirs in the order of the recording; threads may
        have gone on in another one, where calls ended at nearly the same moment."""
        first = _first(self.ends)
        if first is None or type(first) is not Wait or len(self.ends) == 1:
            return first
        coming = [wait for *_, wait in sorted(self.ends[:TOP]) if wait.can_come and type(wait) is Wait]
        near = [wait for wait in coming if wait.due - first.due < self.tie_s]
        return near[self.ties.pick(len(near))] if len(near) > 1 else first

    def _let_go(self) -> None:
        """Give up a call that has no end: somebody waits for it, and nothing else is left to happen."""
        if not any(member.is_parked for member in list(self.members.values())):
            self.give_up_one()

    def give_up_one(self) -> None:
        """Let a call that has no end go; the mutex is held."""
        while self._endless:
            wait = self._endless.pop(0)
            if wait.can_come:
                wait.failed = True
                wait.deliver(self)
                return

    def advance_delayed(self) -> None:
        """Do what had to wait for a stranger; the mutex is held."""
        if self._is_delayed and not self.active:
            self.advance()

    def due_now(self) -> None:
        """Let happen what is due by the real clock; the mutex is held."""
        moment = self.look()
        for heap in (self.timers, self.ends):
            while (wait := _first(heap)) is not None and wait.due <= moment:
                heapq.heappop(heap)
                wait.deliver(self)

    def signal(self, target: Any) -> None:
        """A thread signals something that others wait for, such as a condition or an event loop. Which of two threads
        was first is a matter of chance where they do so at nearly the same moment, and neither is because of the other.
        """
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
            # The recording says which of two calls ended first: only the way from there is a matter of chance.
            is_race = self._timers_gone_off.isdisjoint((before.cause, member.cause))
            if self.base - before.moment < self.tie_s:
                note = self.on_race if is_race else self.on_tie
                note(f"two threads that others wait for went on within {self.tie_s * 1000:.0f} ms of each other")

    def limit_passed(self, target: Any) -> None:
        """A thread has waited in vain for a signal."""
        with self.mutex:
            self._signals[target] = _Signal(_ident(), self.base, self.cause)
            self._limits[target] = self.base
            self._check_completion(target)

    def completed(self, target: Any) -> None:
        """One of several things has happened that a thread waits for with one limit. Nobody is woken by it, but it
        makes a difference whether it came before the limit."""
        with self.mutex:
            self._completions[target] = self.base
            self._check_completion(target)

    def _check_completion(self, target: Any) -> None:
        moments = (self._limits.get(target), self._completions.get(target))
        if None not in moments and abs(moments[0] - moments[1]) < self.tie_s:  # type: ignore[operator]
            self.on_tie(f"something that a thread waits for came within {self.tie_s * 1000:.0f} ms of the limit")

    def check_limit(self, wait: Wait) -> None:
        """Note that somebody is woken shortly before the limit of its wait; the mutex is held."""
        if wait.due - self.base < self.tie_s and not wait.is_recorded:
            self.on_tie(f"a wait ended within {self.tie_s * 1000:.0f} ms of its limit")

    @property
    def has_own(self) -> bool:
        """True while there are threads that the run has started."""
        return any(member.is_own for member in list(self.members.values()))

    @property
    def has_left_threads(self) -> bool:
        """True when threads that the run has started are still at work after it has ended."""
        return any(member.is_own and ident not in self.idle_threads for ident, member in list(self.members.items()))

    def _check_end(self) -> None:
        """Note what would have happened shortly after the run has ended; the mutex is held."""
        for *_, wait in (*self.timers, *self.ends):
            if not wait.done and wait.due - self.base < self.tie_s:
                self.on_tie(f"the run ended within {self.tie_s * 1000:.0f} ms of what one of its threads waits for")
                return

    @contextmanager
    def really(self, member: Member) -> Iterator[None]:
        """Let real time pass for everybody while the block lasts."""
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
        """Begin, with this thread as the only member."""
        self.admit()
        self.active = 1
        self.is_open = True
        self.move(self.base)

    def renew(self) -> None:
        """Go on in a forked child, where this thread is the only one."""
        self.mutex = _thread.RLock()
        self.members.clear()
        self.loops.clear()
        for waiting in (self.timers, self.ends, self._endless):
            waiting.clear()
        self.real_work = 0
        self.open()

    def close(self) -> None:
        """End: time is real again. Threads that the run has started end where they wait; others go on."""
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
        """Wait until threads that the run has started have ended, or stand somewhere, for so long at most."""
        until = perf_counter() + seconds
        while perf_counter() < until:
            with self.mutex:
                known = list(self.members.items())
            own = {ident for ident, member in known if member.is_own and not member.is_parked}
            if own <= self.idle_threads:
                return
            sleep(_MOMENT_S)


def _ends_with_run(member: Member, wait: Wait) -> bool:
    """True for a thread of the run that waits for something of the run. A daemon that waits for somebody without any
    limit may be a worker that others have use for."""
    if not member.is_own:
        return False
    is_sleeping = wait.due < NEVER or wait.position is not None
    return not member.is_daemon or (is_sleeping and wait.loop is None)


def _earlier(timer: Wait, end: Wait) -> Wait:
    return timer if timer.due < end.due else end


def _is_any_left(heap: list[Entry]) -> bool:
    """True when something is still to come; what has been dealt with is taken off the top."""
    while heap and heap[0][-1].done:
        heapq.heappop(heap)
    return bool(heap)


def _first(heap: list[Entry]) -> Wait | None:
    """Return the first that can come now."""
    if not _is_any_left(heap):
        return None
    if heap[0][-1].can_come:
        return heap[0][-1]
    return next((entry[-1] for entry in sorted(heap) if entry[-1].can_come), None)
