"""The aligned events of two runs, row by row, in the order of the second run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct

from replaykit.model.diff import Difference
from replaykit.model.events import AnyEvent, Call, ErrorEvent, Message, State
from replaykit.model.run import TraceRun
from replaykit.travel.align import Pair
from replaykit.travel.compare_pairs import Pairs, takes_part
from replaykit.travel.compare_result import Entry, EntryKind
from replaykit.travel.compare_values import Differ, line_of


class Row(Struct, frozen=True):
    """One event of either run, or one of each that belong together, by their positions."""

    kind: EntryKind
    a: int | None
    b: int | None
    arguments: tuple[Difference, ...] = ()
    outcome: tuple[Difference, ...] = ()


class Log:
    """A run's events, and where each of them belongs."""

    def __init__(self, run: TraceRun) -> None:
        self.events = run.events
        self.steps = _steps(run)
        own = {call.seq for call in run.tool_calls}
        self.own_tools = {place for place, event in enumerate(run.events) if event.seq in own}
        self.depths, self.ends = _nesting(run)

    def where(self, place: int | None) -> tuple[int | None, str | None]:
        """Number and step of the event at this position; None for none."""
        return (None, None) if place is None else (self.events[place].seq, self.steps[place])


def rows_of(a: Log, b: Log, pairs: Pairs, lacking: list[int]) -> list[Row]:
    """Every event but states and notes, once; what the second run lacks stands where it is missing."""
    differ = Differ()
    rows = [_row(a, b, pair, differ, EntryKind.SAME) for pair in pairs.in_order]
    rows += [_row(a, b, pair, differ, EntryKind.MOVED) for pair in pairs.moved]
    paired = [*pairs.in_order, *pairs.moved]
    rows += [Row(EntryKind.DELETED, i, None) for i in _rest(a, {i for i, _ in paired})]
    rows += [Row(EntryKind.INSERTED, None, j) for j in _rest(b, {j for _, j in paired})]

    def place(row: Row) -> tuple[int, int, int]:
        if row.b is not None:
            return (row.b, 0, 0)
        assert row.a is not None  # a row has one side at least
        return (lacking[row.a], 1, row.a)

    return sorted(rows, key=place)


def places_lacking(a: Log, pairs: Pairs, states: Iterable[Pair]) -> list[int]:
    """For each event of the first run the position in the second after which it would come; -1 for the start."""
    partners = dict(chain(pairs.in_order, states))
    found, last = [], -1
    for place in range(len(a.events)):
        last = partners.get(place, last)
        found.append(last)
    return found


def entries_of(a: Log, b: Log, rows: list[Row]) -> Iterator[Entry]:
    """The rows as values."""
    for row in rows:
        event = event_of(a, b, row)
        yield Entry(
            kind=row.kind,
            event=str(event.__struct_config__.tag),
            name=name_of(event),
            a_seq=a.where(row.a)[0],
            b_seq=b.where(row.b)[0],
            text=line_of(event),
            arguments=row.arguments,
            outcome=row.outcome,
        )


def event_of(a: Log, b: Log, row: Row) -> AnyEvent:
    """The event of a row, as the second run has it if it does."""
    if row.b is not None:
        return b.events[row.b]
    assert row.a is not None
    return a.events[row.a]


def name_of(event: AnyEvent) -> str:
    """What an event is called: tool, model, role, or type of error."""
    if isinstance(event, Call):
        return event.name
    if isinstance(event, ErrorEvent):
        return event.error.type
    return event.role if isinstance(event, Message) else ""


def _row(a: Log, b: Log, pair: Pair, differ: Differ, kind: EntryKind) -> Row:
    i, j = pair
    arguments = differ.of_requests(a.events[i], b.events[j])
    outcome = differ.of_outcomes(a.events[i], b.events[j])
    if kind is EntryKind.SAME and (arguments or outcome):
        kind = EntryKind.CHANGED
    return Row(kind, i, j, arguments, outcome)


def _rest(log: Log, paired: set[int]) -> list[int]:
    """The events without a partner."""
    return [place for place, event in enumerate(log.events) if place not in paired and takes_part(event)]


def _steps(run: TraceRun) -> list[str | None]:
    """The step of each event; where the agent marks none, each call is one. A state belongs to the step before it."""
    marked = any(event.step for event in run.events)
    names: list[str | None] = []
    last, calls = None, 0
    for event in run.events:
        if marked:
            last = event.step or last
        elif isinstance(event, Call):
            calls += 1
            last = f"step_{calls}"
        names.append(last if not marked or isinstance(event, State) else event.step)
    return names


def _nesting(run: TraceRun) -> tuple[list[int], list[int]]:
    """How deep inside other calls each event is, and the position of the last event inside it."""
    places = {event.seq: place for place, event in enumerate(run.events)}
    parents = [places.get(event.parent, -1) if event.parent is not None else -1 for event in run.events]
    depths, ends = [0] * len(parents), list(range(len(parents)))
    for place, parent in enumerate(parents):
        if 0 <= parent < place:
            depths[place] = depths[parent] + 1
    for place, parent in reversed([*enumerate(parents)]):
        if 0 <= parent < place:
            ends[parent] = max(ends[parent], ends[place])
    return depths, ends
