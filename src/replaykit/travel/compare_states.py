"""Where the states of two runs differ, step by step.

States are large and mostly grow. Both runs are folded in one pass; while the two logs write the same changes,
nothing is compared at all, and only states whose texts differ are ever decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.changes import StateFold
from replaykit.model.diff import Difference, differences
from replaykit.model.events import State
from replaykit.model.run import TraceRun
from replaykit.travel.align import Pair
from replaykit.travel.compare_values import value_of

_MOST = 100  # steps whose states differ, before the rest is left out
_DETAILED_BYTES = 64 * 1024 * 1024  # of states that were decoded


class StateParting(Struct, frozen=True):
    """Positions in the two runs where the states differ; None on the side that kept no state there."""

    a: int | None
    b: int | None
    differences: tuple[Difference, ...] = ()


def part_states(a: TraceRun, b: TraceRun, pairs: Sequence[Pair]) -> list[StateParting]:
    """Where the states differ, in the order of the runs; none where only one of them keeps states at all."""
    if not all(any(isinstance(event, State) for event in run.events) for run in (a, b)):
        return []
    found: list[StateParting] = []
    left_bytes = _DETAILED_BYTES
    for parting, size_bytes in _partings(a, b, pairs):
        found.append(parting)
        left_bytes -= size_bytes
        if len(found) == _MOST or left_bytes < 0:
            break
    return found


def _partings(a: TraceRun, b: TraceRun, pairs: Sequence[Pair]) -> Iterator[tuple[StateParting, int]]:
    """Each step whose states differ, and how many bytes were read to tell."""
    states_a, states_b = _States(a), _States(b)
    equal = True
    for i, j in [pair for pair in pairs if isinstance(a.events[pair[0]], State)]:
        alone = [*_alone(states_a.up_to(i), states_b.up_to(j))]
        yield from ((parting, 0) for parting in alone)
        alike = _written_alike(states_a.take(), states_b.take())
        if equal and alike and not alone:
            continue
        old, new = states_a.text, states_b.text
        equal = old == new
        found = () if equal else tuple(differences(value_of(old), value_of(new)))
        if found:
            yield StateParting(i, j, found), len(old) + len(new)
    yield from ((parting, 0) for parting in _alone(states_a.up_to(len(a.events)), states_b.up_to(len(b.events))))


class _States:
    """The states of one run, one after the other."""

    def __init__(self, run: TraceRun) -> None:
        self._run = run
        self._fold = StateFold()
        self._waiting = deque(place for place, event in enumerate(run.events) if isinstance(event, State))

    @property
    def text(self) -> bytes:
        """The state as it is now, as JSON text."""
        return self._fold.text

    def up_to(self, place: int) -> list[int]:
        """Go to the last state before this place; gives the places of those on the way."""
        passed = []
        while self._waiting and self._waiting[0] < place:
            passed.append(self._waiting[0])
            self.take()
        return passed

    def take(self) -> State:
        """Go to the next state."""
        event = self._run.events[self._waiting.popleft()]
        assert isinstance(event, State)  # only those wait
        try:
            self._fold.apply(event)
        except (ValueError, KeyError) as error:
            raise UsageError(f"run {self._run.id}: the state at event {event.seq} does not follow: {error}") from None
        return event


def _written_alike(a: State, b: State) -> bool:
    return bytes(a.state_json) == bytes(b.state_json) and a.change == b.change


def _alone(only_a: list[int], only_b: list[int]) -> Iterator[StateParting]:
    """States that only one run kept."""
    yield from (StateParting(place, None) for place in only_a)
    yield from (StateParting(None, place) for place in only_b)
