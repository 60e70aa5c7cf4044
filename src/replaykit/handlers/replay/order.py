"""Recorded order: served calls end in recorded order and at recorded times, on a virtual clock."""

from __future__ import annotations

import itertools
import sys
from _thread import get_ident
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, perf_counter  # bound here, before the virtual clock replaces them
from typing import Any, TypeVar

from replaykit.errors import Unreplayable
from replaykit.handlers.replay.schedule import Schedule
from replaykit.model.events import Call, CallSpan
from replaykit.model.result import Deviation
from replaykit.seam.foreign_threads import RunOver, run_over
from replaykit.seam.scope import CallAnswer, Order, PendingCall, RunSession
from replaykit.seam.through import answered, running_trio
from replaykit.seam.virtual_clock import NEVER, SLACK_S, TIE_S, Member, Ties, VirtualClock, Wait
from replaykit.seam.virtual_loops import (
    LoopEnd,
    VirtualSelector,
    is_idle_until,
    is_loop_idle_until,
    is_loop_quiet,
    is_loop_running,
    state_of,
)
from replaykit.seam.virtual_time import VirtualTime

T = TypeVar("T")

UNDECIDED, UNORDERED = "undecided", "unordered"
"""The kinds of deviations that report an undecided order."""
# How long a busy machine may delay an idle program.
_HICCUP_S = 0.25
_LATEST_S = -SLACK_S
# The time after a look at the clock in which a thread's actions are attributed to what it saw.
_JUST_S = 0.005
# If the recorded run reached a call this much later, although the replay did not work for long, it was delayed.
_LATE_S = 0.02
# A timer due this shortly before an end was a timeout that was met, because a replay spends less time between the two.
_NEAR_S = 0.002


class _Hold(Wait):
    """A call that waits for the end of the run, as opposed to a timer of the agent."""

    __slots__ = ()


class RecordedOrder(Order):
    """The order and time of a tape's calls."""

    pace = 1.0

    def __init__(
        self,
        calls: Iterable[Call],
        tie_picks: Iterable[int] = (),
        held_up_s: float = 0.0,
        after_calls_s: float = 0.0,
    ) -> None:
        """For `tie_picks`, see `World.tie_picks`; for the others, see `Chance`."""
        known = list(calls)
        self._ties: list[str] = []
        self._races: list[str] = []
        self._strays: Counter[tuple[str, str]] = Counter()
        self._due_at_end: set[int] = set()
        self._late_s = 0.0  # upper limit of the recorded time between two calls that is unaccounted for
        self._after_look: set[int] = set()
        self._after_calls_s = after_calls_s
        self._last_look = (-1, -NEVER)  # the agent's own last look: number of calls before it, and the time it saw
        self._places = {(call.path, call.name) for call in known}
        self._schedule = Schedule(known)
        self._begun, self._lags = self._schedule.begun, self._schedule.lags
        self._names = {call.span.end: call.name for call in known if call.span is not None}
        self._clock = VirtualClock(monotonic(), self._chosen)
        self._clock.next_begin_s = lambda: self._schedule.next_begin_s
        self._clock.on_look = self._looked
        self._clock.on_tie = self._note
        self._clock.on_race = self._races.append
        self._clock.ties = Ties(tie_picks)
        self._clock.tie_s = self._tie_s = TIE_S + held_up_s
        self._time = VirtualTime(self._clock)
        self._latest = -1  # the number of the call served last
        self.numbers: Iterator[int] = itertools.count()
        """The numbers of the session's events."""

    @property
    def _tie_ms(self) -> float:
        return round(self._tie_s * 1000)

    @property
    def is_known(self) -> bool:
        """Whether the tape contains the times of its calls."""
        return bool(self._schedule.spans)

    @property
    def undecided(self) -> list[str]:
        """Descriptions of the ends whose order is undecided."""
        once_more = [name for place, count in self._strays.items() if count == 1 for name in place[1:]]
        return [*self._ties, *(f"`{name}` was called once more, right after a look at the clock" for name in once_more)]

    def undecided_of(self, unused: Iterable[Call]) -> list[str]:
        """Describe unused calls that are missing possibly only because the run ended slightly earlier."""
        left = list(unused)
        names = dict.fromkeys(call.name for call in left if call.seq in self._due_at_end)
        at_end = [f"`{name}` was called within {self._tie_ms:g} ms of the end of the recorded run" for name in names]
        others = {(call.path, call.name) for call in left if call.seq not in self._after_look}
        fewer = dict.fromkeys(call.name for call in left if (call.path, call.name) not in others)
        return [*at_end, *(f"`{name}` was called less often, right after a look at the clock" for name in fewer)]

    def doubts(self, unmade: Iterable[Call] = ()) -> list[Deviation]:
        """Return deviations for everything that depends on chance.

        `unmade` are recorded calls that the candidate did not make.
        """
        undecided = [*self.undecided, *self.undecided_of(unmade)]
        choices = tuple(self._clock.ties.choices)
        races = [Deviation(kind=UNORDERED, text=text, choices=choices) for text in self._races[:1]]
        return [*(Deviation(kind=UNDECIDED, text=text) for text in undecided), *races]

    def strayed(self, call: PendingCall) -> None:
        """Note an unrecorded call if chance may explain it, such as one more iteration of a loop with a deadline."""
        member = self._clock.members.get(get_ident())
        if (
            member is not None
            and self._clock.base - member.looked_s < _JUST_S
            and (call.path, call.name) in self._places
        ):
            self._strays[call.path, call.name] += 1

    def _looked(self, moment: float, *, is_own: bool) -> None:
        """Note a look at the clock.

        If the recorded run was delayed, a deadline set afterwards is now earlier by that delay, so a loop may end here
        that continued in the recording.
        """
        if is_own:
            self._last_look = (len(self._begun), moment)
        if self._late_s:
            lag_s = self._schedule.lag("")
            begin_s, end_s = moment - lag_s - _JUST_S, moment - lag_s + self._late_s + _JUST_S
            self._after_look.update(self._schedule.due_between(begin_s, end_s))

    def _check_gap(self, span: CallSpan, early_s: float) -> None:
        """Check what the agent saw on the clock since the last call.

        Its own computation takes no virtual time before the look. When recorded, it may have seen a later time, because
        it reached this call later.
        """
        if early_s <= self._tie_s or self._last_look[0] != len(self._begun) or not self._begun:
            return
        if not self._schedule.is_awaited_before(span.begin) and not self._clock.has_end_before(span.begin):
            self._note_gap(early_s)

    def _check_tail(self) -> None:
        """Check in the same way what the agent saw after its last call."""
        schedule = self._schedule
        calls, seen_s = self._last_look
        lag_s = schedule.lag("")
        if calls == len(self._begun) and seen_s - lag_s >= schedule.end_s:
            missing_s = schedule.end_s + self._after_calls_s - (self._clock.base - lag_s)
            if missing_s > self._tie_s:
                self._note_gap(missing_s)

    def _note_gap(self, missing_s: float) -> None:
        self._note(
            f"the agent looked at the clock after a call, where the recorded run computed for up to {missing_s:.2f} s"
        )

    def _note_late(self, member: Member, early_s: float) -> None:
        """Note by how much the recorded run was delayed before a call, after subtracting the replay's own work."""
        late_s = early_s - (perf_counter() - member.since)
        if late_s > max(_LATE_S, self._late_s):
            self._late_s = late_s

    @contextmanager
    def at_work(self, started_at: float = 0.0) -> Iterator[None]:
        """Run the block on the time of the recording."""
        with self._time.installed(started_at):
            yield

    def is_late(self, call: PendingCall) -> bool:
        """Return whether a thread of the run makes a call around the recorded end of the run.

        The recorded run may have ended just before making the same call.
        """
        member = self._clock.members.get(get_ident())
        if member is None or not member.is_own or not self._clock.is_open or is_loop_running():
            return False
        schedule = self._schedule
        lag_s = schedule.lag(call.path) if schedule.begun else -schedule.next_begin_s  # the first call sets the clock
        return self._clock.base - lag_s > schedule.end_s - self._tie_s

    def hold(self, call: PendingCall) -> None:
        """Wait briefly for the end of the run."""
        member = self._member()
        if member is None:
            return
        try:
            self._clock.block(member, _Hold(self._clock.now() + self._tie_s), timed=True)
        except RunOver:
            self._note(f"`{call.name}` was called within {self._tie_ms:g} ms of the end of the recorded run")
            raise

    def is_before_its_turn(self, call: PendingCall, span: CallSpan) -> bool:
        """Return whether another thread's call, recorded shortly before this one, has yet to begin."""
        schedule, clock = self._schedule, self._clock
        if not schedule.is_awaited_before(span.begin) or is_loop_running():
            return False
        if span.begin_s - schedule.next_begin_s >= self._tie_s:
            return False
        if clock.active > 1 or clock.begin_before(span.begin) is not None:
            return True
        with clock.mutex:
            return not clock.is_idle_until(self._turn_of(call, span))  # an event until then may lead to that call

    def take_turn(self, call: PendingCall, span: CallSpan) -> None:
        """Let other threads make their calls first, as recorded."""
        member = self._member()
        if member is not None:
            # Continue when nothing else can happen; of several waiting calls, the first recorded one goes first.
            moment: float | None = self._turn_of(call, span)
            while moment is not None:
                self._clock.block(member, Wait(moment, span.begin), timed=True)
                moment = self._clock.begin_before(span.begin)
            call.seq = next(self.numbers)

    def number(self, call: PendingCall) -> None:
        """Renumber a call if another one has overtaken it since it got its number."""
        if call.seq < self._latest:
            call.seq = next(self.numbers)
        self._latest = call.seq

    def _turn_of(self, call: PendingCall, span: CallSpan) -> float:
        """Return when a call begins: at its recorded time, or at once if that is too far away to be chance."""
        schedule, now = self._schedule, self._clock.base
        # The first call sets the clock.
        lag_s = schedule.lag(call.path) if schedule.begun else now - schedule.next_begin_s
        moment = span.begin_s + lag_s
        if moment - now < self._tie_s:
            return moment
        return 0.0

    def end(self) -> set[int]:
        """End the run and the threads it left. Return the idle ones, which only wait for work."""
        clock = self._clock
        if clock.is_open and self._after_calls_s:
            self._check_tail()
        if clock.is_open and clock.has_own:
            self._due_at_end = set(self._schedule.jobs_due(clock.base - self._tie_s, clock.base + self._tie_s))
        self._time.end()
        return self._clock.idle_threads

    def begin(self, call: PendingCall, answer: CallAnswer) -> None:
        """Move to the time at which a streamed call began."""
        span = answer.span
        member = None if span is None else self._member()
        if span is not None and member is not None:
            self._arrive(member, call, answer, span)

    # A fast path for nearly all calls: a single thread, nothing beside it, and the call where it is expected.
    # Everything is inlined, because this may take at most half a microsecond; `wait` takes three.
    def has_ended(self, call: PendingCall, answer: CallAnswer) -> bool:
        """Return whether nothing can happen before the call ends. If so, the clock has moved there."""
        return self.ends_at_once(call.path, answer)

    def ends_at_once(self, path: str, answer: CallAnswer) -> bool:
        """Do the same as `has_ended` for a call at this path. Changes nothing if the result is False."""
        span, clock = answer.span, self._clock
        if span is None:
            return True
        member = clock.members.get(get_ident())
        if member is None or clock.active != 1 or clock.timers or clock.ends or clock.real_work or member.is_parked:
            return False
        end_s, seq, begun = span.end_s, answer.seq, self._begun  # type: ignore[union-attr]
        if end_s is None or not answer.complete or not begun or seq in begun:
            return False
        lag_s = self._lags.get(path) if self._lags else 0.0
        if lag_s is None or (span.loop is not None and not is_loop_quiet()):
            return False
        early_s = span.begin_s + lag_s - clock.base
        if early_s >= SLACK_S or early_s <= _LATEST_S:
            return False
        if early_s > _LATE_S:
            self._note_late(member, early_s)
        begun.add(seq)
        end_s += lag_s
        if end_s > clock.base:
            clock.base = end_s
        clock.anchor = clock.base
        clock.cpu = None
        member.since = perf_counter()
        return True

    def wait(self, call: PendingCall, answer: CallAnswer) -> None:
        """Return at the recorded end of the call."""
        span = answer.span
        member = None if span is None else self._member()
        if span is None or member is None:
            return
        clock = self._clock
        lag_s = self._arrive(member, call, answer, span)
        due = _end_of(answer, span) + lag_s
        with clock.mutex:
            if due < NEVER and clock.is_alone:
                clock.move(due)
                member.since = perf_counter()
                return
        wait = Wait(due, span.end)
        clock.block(member, wait, ends=True)
        if wait.failed:
            raise self._given_up(call)

    async def wait_awhile(self, call: PendingCall, answer: CallAnswer) -> None:
        """Do the same as `wait` for an awaited call."""
        span = answer.span
        member = None if span is None else self._member()
        if span is None or member is None:
            return
        if span.loop is None and answered(answer):  # the recorded call never yielded to the event loop
            self.wait(call, answer)
            return
        if (trio := running_trio()) is not None:
            lag_s = self._arrive(member, call, answer, span)
            due = _end_of(answer, span) + lag_s
            await trio.sleep(max(0.0, due - self._clock.now()))
            return
        loop = sys.modules["asyncio"].get_running_loop()
        if type(getattr(loop, "_selector", None)) is not VirtualSelector:
            self._without_order(loop)
            return
        clock = self._clock
        lag_s = self._arrive(member, call, answer, span)
        due = _end_of(answer, span) + lag_s
        with clock.mutex:
            if is_idle_until(clock, loop, due):
                clock.move(due)
                member.since = perf_counter()
                return
            if not clock.is_open:
                return
            end = LoopEnd(due, span.end, state_of(clock, loop), span.loop)
            clock.add_end(end)
        try:
            await end.future
        finally:
            with clock.mutex:
                end.done = True
                end.state.ends.discard(end)
            member.since = perf_counter()
            if due == NEVER and span.end_s is not None and clock.base > span.end_s + lag_s + SLACK_S:
                self._note(f"`{call.name}` was abandoned when it was recorded, and is waited for longer now")
        if end.failed:
            raise self._given_up(call)

    def outlast(self, call: PendingCall) -> None:
        """Wait for an answer that never came in the recording. Return when nothing else can happen."""
        member = self._member()
        if member is None:
            return
        wait = Wait(NEVER)
        self._clock.block(member, wait, ends=True)
        if wait.failed:
            self._given_up(call)

    async def outlast_awaited(self, call: PendingCall) -> None:
        """Do the same as `outlast` for an awaited call."""
        if self._member() is None:
            return
        if (trio := running_trio()) is not None:
            await trio.sleep_forever()
        loop = sys.modules["asyncio"].get_running_loop()
        if type(getattr(loop, "_selector", None)) is not VirtualSelector:
            return
        with self._clock.mutex:
            end = LoopEnd(NEVER, None, state_of(self._clock, loop), None)
            self._clock.add_end(end)
        try:
            await end.future
        finally:
            with self._clock.mutex:
                end.done = True
                end.state.ends.discard(end)
        if end.failed:
            self._given_up(call)

    def really(self, live: Callable[[], T]) -> Callable[[], T]:
        """Return `live`, wrapped to run in real time."""
        member = self._member()
        if member is None:
            return live

        def real() -> T:
            with self._clock.really(member):
                return live()

        return real

    def really_awaited(self, live: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """Do the same as `really` for an awaited call. Its event loop runs in real time meanwhile."""
        if self._member() is None:
            return live

        async def real() -> T:
            self._clock.begin_real_work()
            try:
                return await live()
            finally:
                self._clock.end_real_work()

        return real

    def _member(self) -> Member | None:
        """Return this thread's membership. A thread that existed before the run joins it with its first call."""
        clock = self._clock
        if not clock.is_open:
            self._stop_left_behind()
            return None
        return clock.member() or clock.adopt()

    def _stop_left_behind(self) -> None:
        """End this thread if the run, which is over, started it."""
        member = self._clock.members.get(get_ident())
        if member is not None and member.is_own:
            raise run_over()

    def _arrive(self, member: Member, call: PendingCall, answer: CallAnswer, span: CallSpan) -> float:
        """Move to the begin of the call, and return the candidate's lag there."""
        schedule, clock = self._schedule, self._clock
        seq: int = answer.seq  # type: ignore[union-attr]
        with clock.mutex:
            if not schedule.begun and (clock.base or not clock.is_alone):
                # The time before the first call is arbitrary. The clock has been read meanwhile, so it cannot be
                # adjusted; shift the whole run instead.
                schedule.set_lag("", clock.base - span.begin_s)
            lag_s = schedule.lag(call.path)
            early_s = span.begin_s + lag_s - clock.base
            is_edited = self._is_edited(member, span, early_s)
            self._check_gap(span, early_s)
            was_held_up = TIE_S < early_s < self._tie_s
            if is_edited and (was_held_up or (not is_loop_running() and schedule.has_overlaps)):
                self._note(f"`{call.name}` was called {early_s:.2f} s earlier than when it was recorded")
            if early_s < -SLACK_S or seq in schedule.begun or is_edited:
                lag_s -= early_s  # the call comes at another time than recorded; keep its duration
                early_s = 0.0
                schedule.set_lag(call.path, lag_s)
            else:
                if schedule.lags:
                    schedule.set_lag(call.path, lag_s)  # avoids the search in parent paths from now on
                if early_s > _LATE_S and schedule.begun:
                    self._note_late(member, early_s)
            schedule.begun.add(seq)
            begin_s = span.begin_s + lag_s
            if (
                early_s > 0.0
                and clock.active == 1
                and clock.is_idle_until(begin_s)
                and is_loop_idle_until(clock, begin_s)
            ):
                clock.move(begin_s)
                return lag_s
        if early_s > SLACK_S and not is_loop_running():
            clock.block(member, Wait(begin_s, span.begin), timed=True)
        return lag_s

    def _is_edited(self, member: Member, span: CallSpan, early_s: float) -> bool:
        """Return whether a candidate that is early was edited.

        That is so if it skipped a call or did not wait for one to end, or if neither a busy machine nor its own work
        explains the missing time.
        """
        if early_s <= SLACK_S:
            return False
        if self._schedule.is_awaited_before(span.begin):
            return self._clock.active <= 1 or is_loop_running()  # otherwise another thread may be about to call
        if self._clock.has_end_before(span.begin):
            return True
        has_begun = bool(self._schedule.begun)
        return has_begun and early_s > max(_HICCUP_S, self._tie_s, 2 * (perf_counter() - member.since))

    def _chosen(self, timer: Wait, end: Wait) -> Wait:
        """Return which comes first, a timer or a recorded end."""
        if timer.position is not None and end.position is not None:  # both are recorded positions, not timers
            if timer.position < end.position:
                return timer
            return end
        gap_s = timer.due - end.due
        is_close = abs(gap_s) < self._tie_s and end.position is not None
        first = self._first_of(timer, end, gap_s)
        if is_close and type(timer) is _Hold:
            self._races.append(f"`{self._name(end)}` ended within {self._tie_ms:g} ms of a call of another thread")
            return (first, end if first is timer else timer)[self._clock.ties.pick(2)]
        if is_close:
            self._note(f"`{self._name(end)}` ended within {self._tie_ms:g} ms of a timer")
        return first

    def _name(self, end: Wait) -> str | None:
        return self._names.get(end.position)

    def _first_of(self, timer: Wait, end: Wait, gap_s: float) -> Wait:
        if abs(gap_s) >= SLACK_S or end.position is None:
            if gap_s < 0:
                return timer
            return end
        if self._schedule.is_awaited_before(end.position):
            return timer  # a call recorded to begin before that end is missing, and this timer may start it
        if gap_s < -_NEAR_S:
            return timer
        return end

    def _given_up(self, call: PendingCall) -> Unreplayable:
        """Note that an abandoned call is awaited and nothing else can happen; return the error."""
        self._note(f"`{call.name}` was abandoned when it was recorded, and is waited for now")
        return Unreplayable(f"`{call.name}` was interrupted when it was recorded; there is no answer to give")

    def _without_order(self, loop: Any) -> None:
        if self._schedule.has_overlaps:
            kind = type(loop)
            self._note(f"the event loop {kind.__module__}.{kind.__qualname__} keeps its own time")

    def _note(self, text: str) -> None:
        if text not in self._ties:
            self._ties.append(text)


def end_run(session: RunSession, order: RecordedOrder | None) -> None:
    """End a replayed run and what it left running, while its threads can still be told apart from others."""
    session.stops_when_over = True
    session.end_exchanges()
    if order is not None:
        session.idle_threads = order.end()


def _end_of(answer: CallAnswer, span: CallSpan) -> float:
    """Return when a call ended; never for an abandoned one."""
    if span.end_s is None or not (answer.complete or answered(answer)):
        return NEVER
    return span.end_s
