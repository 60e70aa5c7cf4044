"""The states of two runs: find the moments at which they can be compared, and the differences there.

Events that both runs have are the fixed points: single events, or if tasks took turns in another order, as many events
as it takes until both runs have done the same. Between two fixed points the last state of each step counts; one that
was replaced before anything else happened does not. If a run does something of its own between them, the states are
compared once more right before the second one.

States are large and mostly grow. One pass folds both runs. While the two logs write the same changes nothing is
compared at all, and only states whose texts differ are decoded. A state that a run did not keep is unknown and is never
compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.changes import StateFold
from replaykit.model.diff import Difference, differences
from replaykit.model.events import Change, State
from replaykit.model.run import TraceRun
from replaykit.travel.align import Pair, align
from replaykit.travel.compare_events import EventLog, EventPairs, flipped, takes_part, value_of
from replaykit.travel.compare_result import StateEntry


class StatePoint(NamedTuple):
    """A moment in both runs: everything before the positions `a` and `b` has happened."""

    a: int
    b: int
    a_from: int
    b_from: int
    """The fixed point before it; -1 for the start."""
    late: bool
    """True after the events that only one of the runs has since then."""

    @property
    def mirrored(self) -> StatePoint:
        """The same moment with both runs swapped."""
        return StatePoint(self.b, self.a, self.b_from, self.a_from, self.late)


def points_of(a: EventLog, b: EventLog, pairs: EventPairs) -> list[StatePoint]:
    """Return the moments at which states count, in the order of both runs."""
    if pairs.mirrored:
        return [point.mirrored for point in _points(_StateLog(b), _StateLog(a), flipped(pairs.in_order))]
    return list(_points(_StateLog(a), _StateLog(b), pairs.in_order))


class _FixedPoint(NamedTuple):
    """Events that both runs have: the first and the last in each."""

    a_first: int
    b_first: int
    a_last: int
    b_last: int


class _StateGap(NamedTuple):
    """The part of a run between two fixed points, with the states in it."""

    start: int
    end: int
    loose: int
    """The position of its first event that is no fixed point; the end if there is none."""
    states: Sequence[int]


class _StateLog:
    """One run, gap by gap."""

    def __init__(self, log: EventLog) -> None:
        self.size = len(log.events)
        self._steps = log.steps
        self._states = [place for place, event in enumerate(log.events) if isinstance(event, State)]
        self._next = 0
        self._following = _following(log)

    def gap(self, start: int, end: int) -> _StateGap:
        """Return the gap between two positions; call it in ascending order."""
        first = self._next
        while self._next < len(self._states) and self._states[self._next] < end:
            self._next += 1
        return _StateGap(start, end, min(self._following[start + 1], end), self._states[first : self._next])

    def blocks(self, gap: _StateGap) -> list[tuple[str | None, int]]:
        """Return the steps whose states directly follow the fixed point, each with the end of its last state."""
        steps: list[tuple[str | None, int]] = []
        for place in gap.states:
            if place >= gap.loose:
                break
            step = self._steps[place]
            if step is not None and steps and steps[-1][0] == step:
                steps.pop()
            steps.append((step, place + 1))
        return steps


def _following(log: EventLog) -> list[int]:
    """Return for each position the first aligned event at or after it."""
    following = [len(log.events)] * (len(log.events) + 1)
    for place in range(len(log.events) - 1, -1, -1):
        following[place] = place if takes_part(log.events[place]) else following[place + 1]
    return following


def _points(a: _StateLog, b: _StateLog, pairs: list[Pair]) -> Iterator[StatePoint]:
    start, end = _FixedPoint(-1, -1, -1, -1), _FixedPoint(a.size, b.size, a.size, b.size)
    for before, after in pairwise(chain([start], _fixed(pairs), [end])):
        gap_a, gap_b = a.gap(before.a_last, after.a_first), b.gap(before.b_last, after.b_first)
        if not gap_a.states and not gap_b.states:
            continue
        end_a = end_b = -1
        for end_a, end_b in _steps_in_common(a.blocks(gap_a), b.blocks(gap_b)):
            yield StatePoint(
                max(end_a, before.a_last + 1), max(end_b, before.b_last + 1), before.a_last, before.b_last, late=False
            )
        if max(gap_a.states, default=-2) >= end_a or max(gap_b.states, default=-2) >= end_b:
            late = gap_a.loose < gap_a.end or gap_b.loose < gap_b.end
            yield StatePoint(after.a_first, after.b_first, before.a_last, before.b_last, late)


def _fixed(pairs: list[Pair]) -> Iterator[_FixedPoint]:
    """Yield the points at which both runs have done the same: after each pair, or after a group of crossing pairs."""
    in_order = sorted(pairs)
    least = [*accumulate((j for _, j in reversed(in_order)), min)][::-1]  # of this pair and all later ones
    first, most = 0, -1
    for n, (i, j) in enumerate(in_order):
        most = max(most, j)
        if n + 1 == len(in_order) or most < least[n + 1]:
            yield _FixedPoint(in_order[first][0], least[first], i, most)
            first = n + 1


def _steps_in_common(a: list[tuple[str | None, int]], b: list[tuple[str | None, int]]) -> list[Pair]:
    """Return the ends of the steps that both sides have, in order."""
    names: dict[str | None, int] = {}
    keys_a = [names.setdefault(step, len(names)) for step, _ in a]
    keys_b = [names.setdefault(step, len(names)) for step, _ in b]
    return [(a[n][1], b[m][1]) for n, m in align(keys_a, keys_b)]


_MOST = 100  # differing moments in a result
_DETAILED_BYTES = 64 * 1024 * 1024  # states decoded for details
_UNCHANGED = Change()


class StateDivergence(Struct, frozen=True):
    """A moment at which the states differ, and the positions of these states."""

    point: StatePoint
    a: int
    b: int
    differences: tuple[Difference, ...] = ()


class StateComparison(Struct, frozen=True):
    """The result of comparing the states of two runs."""

    beside: list[Pair]
    """Positions of states that were compared."""
    partings: list[StateDivergence]
    unknown: int
    """The number of moments at which a run had a state that it did not keep."""


def compare_states(a: TraceRun, b: TraceRun, points: Iterable[StatePoint]) -> StateComparison:
    """Return where the states differ, in order; nowhere if only one of the runs keeps states."""
    comparison = StateComparison([], [], 0)
    one, other, unknown, left_bytes = _StateReader(a), _StateReader(b), 0, _DETAILED_BYTES
    if not one.waiting or not other.waiting:
        return comparison
    equal = True
    for point in points:
        alike = _written_alike(one.up_to(point.a), other.up_to(point.b))
        if one.last is None or other.last is None:
            equal = False
            continue
        if one.last > point.a_from and other.last > point.b_from:
            comparison.beside.append((one.last, other.last))
        if not one.known or not other.known:
            unknown += 1
            equal = equal and alike
            continue
        if (equal and alike) or left_bytes < 0 or len(comparison.partings) == _MOST:
            continue
        old, new = one.text, other.text
        parts = () if old == new else tuple(differences(value_of(old), value_of(new)))
        equal = old == new
        if parts:
            left_bytes -= len(old) + len(new)
            comparison.partings.append(StateDivergence(point, one.last, other.last, parts))
    return StateComparison(comparison.beside, comparison.partings, unknown)


def entries_of_states(a: EventLog, b: EventLog, partings: Iterable[StateDivergence]) -> Iterator[StateEntry]:
    for parting in partings:
        a_step, b_step = steps_of_divergence(a, b, parting)
        yield StateEntry(
            a_seq=a.events[parting.a].seq,
            b_seq=b.events[parting.b].seq,
            a_step=a_step,
            b_step=b_step,
            differences=parting.differences,
        )


def steps_of_divergence(a: EventLog, b: EventLog, parting: StateDivergence) -> tuple[str | None, str | None]:
    """Return the steps after which the states differ; a kept state holds until the next one."""
    point = parting.point
    return _step(a, max(parting.a, point.a_from)), _step(b, max(parting.b, point.b_from))


def _step(log: EventLog, place: int) -> str | None:
    return log.steps[place] if place >= 0 else None


class _StateReader:
    """Reads the states of one run in order."""

    def __init__(self, run: TraceRun) -> None:
        self._run = run
        self._fold = StateFold()
        self.waiting = deque(place for place, event in enumerate(run.events) if isinstance(event, State))
        """Positions of the states to come."""
        self.last: int | None = None
        """Position of the current state."""
        self.known = False

    @property
    def text(self) -> bytes:
        """The current state as JSON."""
        return self._fold.text

    def up_to(self, place: int) -> list[State]:
        """Advance to the last state before this position; return the states on the way."""
        passed = []
        while self.waiting and self.waiting[0] < place:
            passed.append(self._take(self.waiting.popleft()))
        return passed

    def _take(self, place: int) -> State:
        event = self._run.events[place]
        assert isinstance(event, State)  # `waiting` holds positions of states
        try:
            self._fold.apply(event)
        except (ValueError, KeyError) as error:
            raise UsageError(f"run {self._run.id}: the state at event {event.seq} does not follow: {error}") from None
        self.last, self.known = place, event.is_kept
        return event


def _written_alike(a: list[State], b: list[State]) -> bool:
    """True if both logs write the same, apart from empty changes."""
    return _written(a) == _written(b)


def _written(states: list[State]) -> list[tuple[bytes, Change | None]]:
    return [(bytes(state.state_json), state.change) for state in states if state.change != _UNCHANGED]
