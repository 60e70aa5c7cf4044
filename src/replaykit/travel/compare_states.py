"""Where the states of two runs differ.

States are large and mostly grow. Both runs are folded in one pass; while the two logs write the same changes,
nothing is compared at all, and only states whose texts differ are ever decoded. A state that a run had and did not keep
is not known: it is compared with nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.changes import StateFold
from replaykit.model.diff import Difference, differences
from replaykit.model.events import Change, State
from replaykit.model.run import TraceRun
from replaykit.travel.align import Pair
from replaykit.travel.compare_points import Point
from replaykit.travel.compare_result import StateEntry
from replaykit.travel.compare_rows import Log
from replaykit.travel.compare_values import value_of

_MOST = 100  # moments at which the states differ, before the rest is left out
_DETAILED_BYTES = 64 * 1024 * 1024  # of states that were decoded
_UNCHANGED = Change()


class StateParting(Struct, frozen=True):
    """A moment at which the states differ, and the positions of the states that held then."""

    point: Point
    a: int
    b: int
    differences: tuple[Difference, ...] = ()


class States(Struct, frozen=True):
    """What came of comparing the states of two runs."""

    beside: list[Pair]
    """Positions of states that belong together."""
    partings: list[StateParting]
    unknown: int
    """Moments at which a run had a state and did not keep it."""


def part_states(a: TraceRun, b: TraceRun, points: Iterable[Point]) -> States:
    """Where the states differ, in the order of the runs; nowhere where only one of them keeps states at all."""
    found = States([], [], 0)
    if not all(any(isinstance(event, State) for event in run.events) for run in (a, b)):
        return found
    one, other, unknown, left_bytes = _States(a), _States(b), 0, _DETAILED_BYTES
    equal = True
    for point in points:
        alike = _written_alike(one.up_to(point.a), other.up_to(point.b))
        if one.last is None or other.last is None:
            equal = False
            continue
        if one.last > point.a_from and other.last > point.b_from:
            found.beside.append((one.last, other.last))
        if not one.known or not other.known:
            unknown += 1
            equal = equal and alike
            continue
        if (equal and alike) or left_bytes < 0 or len(found.partings) == _MOST:
            continue
        old, new = one.text, other.text
        parts = () if old == new else tuple(differences(value_of(old), value_of(new)))
        equal = old == new
        if parts:
            left_bytes -= len(old) + len(new)
            found.partings.append(StateParting(point, one.last, other.last, parts))
    return States(found.beside, found.partings, unknown)


def entries_of_states(a: Log, b: Log, partings: Iterable[StateParting]) -> Iterator[StateEntry]:
    """Where the states differ, as values."""
    for parting in partings:
        a_step, b_step = steps_of_parting(a, b, parting)
        yield StateEntry(
            a_seq=a.events[parting.a].seq,
            b_seq=b.events[parting.b].seq,
            a_step=a_step,
            b_step=b_step,
            differences=parting.differences,
        )


def steps_of_parting(a: Log, b: Log, parting: StateParting) -> tuple[str | None, str | None]:
    """The steps after which the states differ: a state that was kept before holds until there is another."""
    point = parting.point
    return _step(a, max(parting.a, point.a_from)), _step(b, max(parting.b, point.b_from))


def _step(log: Log, place: int) -> str | None:
    return log.steps[place] if place >= 0 else None


class _States:
    """The states of one run, one after the other."""

    def __init__(self, run: TraceRun) -> None:
        self._run = run
        self._fold = StateFold()
        self._waiting = deque(place for place, event in enumerate(run.events) if isinstance(event, State))
        self.last: int | None = None
        """Position of the state that holds."""
        self.known = False

    @property
    def text(self) -> bytes:
        """The state that holds, as JSON text."""
        return self._fold.text

    def up_to(self, place: int) -> list[State]:
        """Go to the last state before this position; gives the states on the way."""
        passed = []
        while self._waiting and self._waiting[0] < place:
            passed.append(self._take(self._waiting.popleft()))
        return passed

    def _take(self, place: int) -> State:
        event = self._run.events[place]
        assert isinstance(event, State)  # only those wait
        try:
            self._fold.apply(event)
        except (ValueError, KeyError) as error:
            raise UsageError(f"run {self._run.id}: the state at event {event.seq} does not follow: {error}") from None
        self.last, self.known = place, event.kept
        return event


def _written_alike(a: list[State], b: list[State]) -> bool:
    """True when both logs say the same, apart from saying that nothing changed."""
    one, other = ([(bytes(s.state_json), s.change) for s in states if s.change != _UNCHANGED] for states in (a, b))
    return one == other
