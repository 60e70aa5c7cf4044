"""Where the states of two runs can be laid beside each other.

Events that both runs have are the fixed points: one at a time, or where tasks took turns in another order, as many as
it takes until both runs have done the same. Between two fixed points the last state of each step counts: one that was
replaced before anything else happened says nothing. Where a run does something of its own between two of them, the
states are laid beside each other once more before the second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby, pairwise
from typing import NamedTuple

from replaykit.model.events import Note, State
from replaykit.travel.align import Pair, align
from replaykit.travel.compare_pairs import Pairs
from replaykit.travel.compare_rows import Log


class Point(NamedTuple):
    """A moment in both runs: everything before the positions `a` and `b` has happened."""

    a: int
    b: int
    a_from: int
    b_from: int
    """The fixed point before it; -1 for the start."""
    late: bool
    """True after whatever one of the runs did on its own since then."""

    @property
    def mirrored(self) -> Point:
        """The same moment, seen from the other run."""
        return Point(self.b, self.a, self.b_from, self.a_from, self.late)


def points_of(a: Log, b: Log, pairs: Pairs) -> list[Point]:
    """The moments at which the states count, in the order of both runs."""
    if pairs.mirrored:
        flipped = [(j, i) for i, j in pairs.in_order]
        return [point.mirrored for point in _points(_Side(b), _Side(a), flipped)]
    return [*_points(_Side(a), _Side(b), pairs.in_order)]


class _Fixed(NamedTuple):
    """Events that both runs have, from the first to the last of them in each."""

    a_first: int
    b_first: int
    a_last: int
    b_last: int


class _Gap(NamedTuple):
    """What one run has between two fixed points; the states between the events of the first one are counted in."""

    start: int
    end: int
    loose: int
    """Its first event that is no fixed point; the end when there is none."""
    states: Sequence[int]


class _Side:
    """One run, fixed point by fixed point."""

    def __init__(self, log: Log) -> None:
        self.size = len(log.events)
        self._steps = log.steps
        self._states = [place for place, event in enumerate(log.events) if isinstance(event, State)]
        self._next = 0
        self._following = _following(log)

    def gap(self, start: int, end: int) -> _Gap:
        """The stretch between two positions; to be asked in order."""
        first = self._next
        while self._next < len(self._states) and self._states[self._next] < end:
            self._next += 1
        return _Gap(start, end, min(self._following[start + 1], end), self._states[first : self._next])

    def blocks(self, gap: _Gap) -> list[tuple[str | None, int]]:
        """The steps whose states directly follow the fixed point, each with the position after its last state."""
        head = [place for place in gap.states if place < gap.loose]
        found: list[tuple[str | None, int]] = []
        for step, places in groupby(head, key=self._steps.__getitem__):
            ends = [place + 1 for place in places]
            found += [(step, end) for end in (ends if step is None else ends[-1:])]
        return found


def _following(log: Log) -> list[int]:
    """For each position the first event at or after it that is neither a state nor a note."""
    following = [len(log.events)] * (len(log.events) + 1)
    for place in range(len(log.events) - 1, -1, -1):
        passed = isinstance(log.events[place], State | Note)
        following[place] = following[place + 1] if passed else place
    return following


def _points(a: _Side, b: _Side, pairs: list[Pair]) -> Iterator[Point]:
    start, end = _Fixed(-1, -1, -1, -1), _Fixed(a.size, b.size, a.size, b.size)
    for before, after in pairwise(chain([start], _fixed(pairs), [end])):
        gap_a, gap_b = a.gap(before.a_last, after.a_first), b.gap(before.b_last, after.b_first)
        if not gap_a.states and not gap_b.states:
            continue
        end_a = end_b = -1
        for end_a, end_b in _steps_in_common(a.blocks(gap_a), b.blocks(gap_b)):
            yield Point(
                max(end_a, before.a_last + 1), max(end_b, before.b_last + 1), before.a_last, before.b_last, late=False
            )
        rest = any(gap.states and gap.states[-1] >= end for gap, end in ((gap_a, end_a), (gap_b, end_b)))
        if rest:
            late = gap_a.loose < gap_a.end or gap_b.loose < gap_b.end
            yield Point(after.a_first, after.b_first, before.a_last, before.b_last, late)


def _fixed(pairs: list[Pair]) -> Iterator[_Fixed]:
    """Where both runs have done the same: after each pair, or after as many as cross each other."""
    in_order = sorted(pairs)
    least = [*accumulate((j for _, j in reversed(in_order)), min)][::-1]  # of the pairs from here on
    first, most = 0, -1
    for n, (i, j) in enumerate(in_order):
        most = max(most, j)
        if n + 1 == len(in_order) or most < least[n + 1]:
            yield _Fixed(in_order[first][0], least[first], i, most)
            first = n + 1


def _steps_in_common(a: list[tuple[str | None, int]], b: list[tuple[str | None, int]]) -> list[Pair]:
    """The ends of the steps that both have, in order."""
    names: dict[str | None, int] = {}
    keys_a, keys_b = ([names.setdefault(step, len(names)) for step, _ in blocks] for blocks in (a, b))
    return [(a[n][1], b[m][1]) for n, m in align(keys_a, keys_b)]
