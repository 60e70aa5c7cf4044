"""The events of two runs, paired and side by side.

Two events are the same if kind, name and arguments agree. `align` finds the longest common sequence of these. Among the
rest, equal events were moved, and events of the same name in the same gap were changed.

Runs are aligned as they were logged or by cause, whichever finds more pairs or more equal answers. By cause means each
task and thread on its own: the order in which a scheduler let them take turns says nothing about the agent.

Values are compared as logged JSON. Tagged forms are not decoded, so every difference can be written as JSON again and
looks the same in every process.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias, TypeGuard

import msgspec
import orjson
from msgspec import Struct

from replaykit.checks.conversation import answer_line, asks_something
from replaykit.model.diff import Difference, brief, call_text, differences
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, ErrorInfo, LlmCall, Message, Note, State
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.text_lines import cut
from replaykit.model.values import Json, JsonObject, Raw
from replaykit.travel.align import Gap, Pair, align, gaps
from replaykit.travel.compare_result import EntryKind, EventEntry

Key: TypeAlias = tuple[Any, ...]

_TASK = re.compile(r".*/~[^/]*")
_ALONE_A, _ALONE_B = -1, -2  # keys of events that must not be paired


class EventPairs(Struct, frozen=True):
    """Positions of corresponding events in two runs."""

    in_order: list[Pair]
    moved: list[Pair]
    mirrored: bool = False
    """True if found from the second run's side, so that ties come out the same in both directions."""


class AlignedEvents(Struct, frozen=True):
    """The events of one run to align, as keys: equal numbers on both sides mean equal keys."""

    places: list[int]
    """The position of each event in the run."""
    requests: list[int]
    """Keys of kind, name and arguments."""
    answers: list[int]
    """Keys of request and outcome."""
    sorts: list[int]
    """Keys of kind and name, the same for every model."""
    names: list[int]
    """Kind and name."""

    def ordered(self, order: list[int]) -> AlignedEvents:
        """Return the same events in another order."""
        return AlignedEvents(*([values[n] for n in order] for values in msgspec.structs.astuple(self)))


def pair_events(a: TraceRun, b: TraceRun) -> EventPairs:
    """Return the corresponding events of two runs; the same pairs whichever run comes first."""
    ids: dict[Key, int] = {}
    keys_a, keys_b = list(map(answer_key, a.events)), list(map(answer_key, b.events))
    side_a, side_b = _side(a.events, keys_a, ids), _side(b.events, keys_b, ids)
    if keys_a > keys_b:  # always align in one direction, so that ties come out the same
        pairs = _pair(side_b, _causal(b), side_a, _causal(a))
        return EventPairs(flipped(pairs.in_order), flipped(pairs.moved), mirrored=True)
    return _pair(side_a, _causal(a), side_b, _causal(b))


def flipped(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs with both sides swapped."""
    return [(i, j) for j, i in pairs]


def takes_part(event: AnyEvent) -> bool:
    """True for events that are aligned; states are compared separately, and notes not at all."""
    return not isinstance(event, State | Note)


def request_key(event: AnyEvent) -> Key:
    """Return the key that two events share if they are the same."""
    if isinstance(event, Call):
        return (event.kind, event.name, bytes(event.arguments_json))
    if isinstance(event, Message):
        return ("message", event.role, bytes(event.content_json))
    if isinstance(event, Decision):
        return ("decision", "", bytes(event.content_json))
    if isinstance(event, State):
        return ("state", event.step or "", b"")
    return ("error" if isinstance(event, ErrorEvent) else "", "", b"")


def answer_key(event: AnyEvent) -> Key:
    """Return the event as a key, without numbers, times and tracebacks, which differ in every run."""
    if isinstance(event, Call):
        items = tuple(map(bytes, event.items_json or ()))
        outcome = (bytes(event.result_json), _error_key(event.error), items, event.complete, _reason(event) or "")
        return (*request_key(event), outcome)
    if isinstance(event, ErrorEvent):
        return ("error", "", b"", (_error_key(event.error),))
    return (*request_key(event), ())


def _error_key(error: ErrorInfo | None) -> tuple[str | bytes, ...]:
    if error is None:
        return ()
    return (error.type, error.message, bytes(error.args_json), bytes(error.attributes_json))


def _side(events: Sequence[AnyEvent], keys: list[Key], ids: dict[Key, int]) -> AlignedEvents:
    """Collect the events to align."""
    side = AlignedEvents([], [], [], [], [])
    for place, (event, key) in enumerate(zip(events, keys, strict=True)):
        if not takes_part(event):
            continue
        side.places.append(place)
        side.requests.append(ids.setdefault(key[:3], len(ids)))
        side.answers.append(ids.setdefault(key, len(ids)))
        side.sorts.append(ids.setdefault(key[:1] if isinstance(event, LlmCall) else key[:2], len(ids)))
        side.names.append(ids.setdefault(key[:2], len(ids)))
    return side


def _causal(run: TraceRun) -> list[int]:
    """Return the order of the aligned events by cause: the agent's own first, then task by task."""
    lanes = [_lane(event) for event in run.events if takes_part(event)]
    return sorted(range(len(lanes)), key=lanes.__getitem__)


def _lane(event: AnyEvent) -> tuple[tuple[str, int], ...]:
    """Return the task or thread of an event: names and numbers, outermost first."""
    task = _TASK.match(event.path)
    if task is None:
        return ()
    parts = (part.rpartition("#") for part in task[0].split("/")[1:])
    return tuple((name or number, int(number) if number.isdecimal() else 0) for name, _, number in parts)


def _pair(a: AlignedEvents, causal_a: list[int], b: AlignedEvents, causal_b: list[int]) -> EventPairs:
    a, b, pairs = _aligned(a, causal_a, b, causal_b)
    moved = _moved_pairs(a, b, pairs)
    in_order = sorted(pairs + _changed_pairs(a, b, pairs, moved))
    return EventPairs(_places(a, b, in_order), _places(a, b, moved))


def _places(a: AlignedEvents, b: AlignedEvents, pairs: list[Pair]) -> list[Pair]:
    return [(a.places[i], b.places[j]) for i, j in pairs]


def _aligned(
    a: AlignedEvents, causal_a: list[int], b: AlignedEvents, causal_b: list[int]
) -> tuple[AlignedEvents, AlignedEvents, list[Pair]]:
    """Return the sides in the order in which they have most in common, and the pairs."""
    pairs = align(a.requests, b.requests, a.answers, b.answers)
    as_logged = sorted(causal_a) == causal_a and sorted(causal_b) == causal_b
    most = min(len(a.requests), len(b.requests))
    common = _common(a, b, pairs)
    if as_logged or common == (most, most):
        return a, b, pairs
    by_cause_a, by_cause_b = a.ordered(causal_a), b.ordered(causal_b)
    causal_pairs = align(by_cause_a.requests, by_cause_b.requests, by_cause_a.answers, by_cause_b.answers)
    if _common(by_cause_a, by_cause_b, causal_pairs) > common:
        return by_cause_a, by_cause_b, causal_pairs
    return a, b, pairs


def _common(a: AlignedEvents, b: AlignedEvents, pairs: list[Pair]) -> tuple[int, int]:
    """Return the number of pairs, and the number of those with the same answer."""
    return len(pairs), sum(a.answers[i] == b.answers[j] for i, j in pairs)


def _moved_pairs(a: AlignedEvents, b: AlignedEvents, pairs: list[Pair]) -> list[Pair]:
    """Pair equal events that have no partner in order, first those with equal outcomes."""
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    moved: list[Pair] = []
    for keys_a, keys_b in ((a.answers, b.answers), (a.requests, b.requests)):
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for i, key in enumerate(keys_a):
            if i not in taken_a:
                waiting[key].append(i)
        for j, key in enumerate(keys_b):
            if j not in taken_b and waiting.get(key):
                moved.append((waiting[key].popleft(), j))
        taken_a.update(i for i, _ in moved)
        taken_b.update(j for _, j in moved)
    return sorted(moved)


def _changed_pairs(a: AlignedEvents, b: AlignedEvents, pairs: list[Pair], moved: list[Pair]) -> list[Pair]:
    """Pair the remaining events between the other pairs: events of the same kind, in order."""
    sorts_a, sorts_b, names_a, names_b = list(a.sorts), list(b.sorts), list(a.names), list(b.names)
    for i, j in moved:
        sorts_a[i] = names_a[i] = _ALONE_A
        sorts_b[j] = names_b[j] = _ALONE_B
    between = gaps(pairs, Gap(0, len(sorts_a), 0, len(sorts_b)))
    return align(sorts_a, sorts_b, names_a, names_b, within=between)


_DETAILED_BYTES = 64 * 1024 * 1024  # requests read for details; later ones are only reported as different
_SMALL_BYTES = 2048  # the largest arguments that are decoded for a line of text
_LINE = 160


class Differ:
    """Finds the differences of one comparison, up to `_DETAILED_BYTES`: conversations grow quadratically."""

    def __init__(self) -> None:
        self._left_bytes = _DETAILED_BYTES

    def of_requests(self, a: AnyEvent, b: AnyEvent) -> tuple[Difference, ...]:
        """Return how the requests differ: `name` for another model, `$…` inside the arguments."""
        renamed = []
        if isinstance(a, Call) and isinstance(b, Call) and a.name != b.name:
            renamed.append(Difference("changed", "name", a.name, b.name))
        old, new = bytes(request_json(a)), bytes(request_json(b))
        if old == new:
            return tuple(renamed)
        self._left_bytes -= len(old) + len(new)
        if self._left_bytes < 0:
            return (*renamed, Difference("changed", "$", f"{len(old):,} bytes", f"{len(new):,} bytes"))
        return (*renamed, *differences(value_of(old), value_of(new)))

    def of_outcomes(self, a: AnyEvent, b: AnyEvent) -> tuple[Difference, ...]:
        """Return how the outcomes differ: `$.result…`, `$.error…`, `$.items…`."""
        if isinstance(a, ErrorEvent) and isinstance(b, ErrorEvent):
            return tuple(differences(*_error_values(a.error, b.error)))
        if not isinstance(a, Call) or not isinstance(b, Call) or _ended_alike(a, b):
            return ()
        return tuple(differences(*_outcome_values(a, b)))


def of_texts(a: Raw, b: Raw) -> tuple[Difference, ...]:
    """Return the differences of two logged values."""
    if bytes(a) == bytes(b):
        return ()
    return tuple(differences(value_of(a), value_of(b)))


def of_endings(a: RunHeader, b: RunHeader) -> tuple[Difference, ...]:
    """Return the differences in status, output and error of two runs."""
    old, new = ({"status": run.status.value, "output": value_of(run.output_json)} for run in (a, b))
    old_error, new_error = _error_values(a.error, b.error)
    return tuple(differences(old | old_error, new | new_error))


def value_of(text: Raw | bytes) -> Json:
    """Decode a JSON value; None if there is none."""
    return orjson.loads(bytes(text)) if text else None


def request_json(event: AnyEvent) -> Raw:
    """Return the request or content of an event as JSON."""
    if isinstance(event, Call):
        return event.arguments_json
    if isinstance(event, Message | Decision):
        return event.content_json
    return Raw(b"null")


def line_of(event: AnyEvent) -> str:
    """Return an event on one line, without decoding a long conversation."""
    if _is_answered_talk(event):
        return _cut(f"{event.name or 'model'} → {answer_line(event)}")
    if isinstance(event, Call):
        text = bytes(event.arguments_json)
        if len(text) <= _SMALL_BYTES:
            return _cut(call_text(event.name, value_of(text)))
        return _cut(f"{event.name}({text[: 2 * _LINE].decode(errors='ignore')}")
    if isinstance(event, Message):
        return _cut(f"{event.role}: {brief(value_of(event.content_json), _LINE)}")
    if isinstance(event, Decision):
        return _cut(f"decided {brief(value_of(event.content_json), _LINE)}")
    if isinstance(event, ErrorEvent):
        return _cut(str(event.error))
    return ""


def _is_answered_talk(event: AnyEvent) -> TypeGuard[LlmCall]:
    """True for an answered model call with messages; the answer says more on one line than they do."""
    return isinstance(event, LlmCall) and bool(event.result_json) and event.error is None and asks_something(event)


def whole_line_of(event: AnyEvent) -> str:
    """Return an event and its answer on one line."""
    if _is_answered_talk(event):
        return line_of(event)
    if isinstance(event, Call):
        return f"{line_of(event)} → {_cut(_answer(event))}"
    return line_of(event)


def _answer(call: Call) -> str:
    if call.error is not None:
        return str(call.error)
    if call.items_json is not None:
        end = "" if call.complete else ", left early"
        return f"{len(call.items_json)} items{end}"
    if call.result_json:
        return brief(value_of(call.result_json), _LINE)
    return "no answer"


def _ended_alike(a: Call, b: Call) -> bool:
    """True if both logged outcomes are the same, byte for byte."""
    return (
        bytes(a.result_json) == bytes(b.result_json)
        and a.error is b.error is None
        and a.items_json == b.items_json
        and a.complete == b.complete
        and _reason(a) == _reason(b)
    )


def _outcome_values(a: Call, b: Call) -> tuple[Json, Json]:
    """Return two outcomes as JSON, with finish reasons only if both have one."""
    old_error, new_error = _error_values(a.error, b.error)
    old, new = _answer_value(a) | old_error, _answer_value(b) | new_error
    if _reason(a) and _reason(b):
        old["finish_reason"], new["finish_reason"] = _reason(a), _reason(b)
    return old, new


def _answer_value(call: Call) -> JsonObject:
    value: JsonObject = {}
    if call.result_json:
        value["result"] = value_of(call.result_json)
    if call.items_json is not None:
        value["items"] = list(map(value_of, call.items_json))
    if not call.complete:
        value["complete"] = False
    return value


def _error_values(a: ErrorInfo | None, b: ErrorInfo | None) -> tuple[JsonObject, JsonObject]:
    """Return two errors as JSON under `error`: everything that both logs hold, except for tracebacks."""
    old, new = _error_value(a), _error_value(b)
    if a is not None and b is not None:
        if a.args_json and b.args_json:
            old["error"]["args"], new["error"]["args"] = value_of(a.args_json), value_of(b.args_json)
        if a.attributes_json and b.attributes_json:
            old["error"]["attributes"] = value_of(a.attributes_json)
            new["error"]["attributes"] = value_of(b.attributes_json)
    return old, new


def _error_value(error: ErrorInfo | None) -> JsonObject:
    if error is None:
        return {}
    return {"error": {"type": error.type, "message": error.message}}


def _reason(call: Call) -> str | None:
    return call.finish_reason if isinstance(call, LlmCall) else None


def _cut(text: str) -> str:
    return cut(" ".join(text.split()), _LINE)


class EventRow(Struct, frozen=True):
    """One event of either run, or two corresponding ones, by position."""

    kind: EntryKind
    a: int | None
    b: int | None
    arguments: tuple[Difference, ...] = ()
    outcome: tuple[Difference, ...] = ()


class EventLog:
    """A run's events, with their steps and nesting."""

    def __init__(self, run: TraceRun) -> None:
        self.events = run.events
        self.steps = _steps(run)
        own = {call.seq for call in run.tool_calls}
        self.own_tools = {place for place, event in enumerate(run.events) if event.seq in own}
        self.depths, self.ends = _nesting(run)

    def where(self, place: int | None) -> tuple[int | None, str | None]:
        """Return number and step of the event at this position."""
        if place is None:
            return None, None
        return self.events[place].seq, self.steps[place]


def rows_of(a: EventLog, b: EventLog, pairs: EventPairs, lacking: list[int]) -> list[EventRow]:
    """Return a row for every aligned event; events that the second run lacks are placed where they are missing."""
    differ = Differ()
    rows = [_row(a, b, pair, differ, EntryKind.SAME) for pair in pairs.in_order]
    rows += [_row(a, b, pair, differ, EntryKind.MOVED) for pair in pairs.moved]
    paired = [*pairs.in_order, *pairs.moved]
    rows += [EventRow(EntryKind.DELETED, i, None) for i in _rest(a, {i for i, _ in paired})]
    rows += [EventRow(EntryKind.INSERTED, None, j) for j in _rest(b, {j for _, j in paired})]

    def place(row: EventRow) -> tuple[int, int, int]:
        if row.b is not None:
            return (row.b, 0, 0)
        assert row.a is not None  # a row has at least one side
        return (lacking[row.a], 1, row.a)

    return sorted(rows, key=place)


def places_lacking(a: EventLog, pairs: EventPairs, states: Iterable[Pair]) -> list[int]:
    """Return for each event of the first run the position in the second after which it would come; -1 for the start."""
    partners = dict(chain(pairs.in_order, states))
    places, last = [], -1
    for place in range(len(a.events)):
        last = partners.get(place, last)
        places.append(last)
    return places


def entries_of(a: EventLog, b: EventLog, rows: list[EventRow]) -> Iterator[EventEntry]:
    for row in rows:
        event = event_of(a, b, row)
        yield EventEntry(
            kind=row.kind,
            event=str(event.__struct_config__.tag),
            name=name_of(event),
            a_seq=a.where(row.a)[0],
            b_seq=b.where(row.b)[0],
            text=line_of(event),
            a_text=_text_before(a, b, row),
            arguments=row.arguments,
            outcome=row.outcome,
        )


def _text_before(a: EventLog, b: EventLog, row: EventRow) -> str:
    """Return the first run's line of a changed event, if it differs."""
    if row.kind is not EntryKind.CHANGED or row.a is None or row.b is None:
        return ""
    text = line_of(a.events[row.a])
    if text == line_of(b.events[row.b]):
        return ""
    return text


def event_of(a: EventLog, b: EventLog, row: EventRow) -> AnyEvent:
    """Return the event of a row, from the second run if it has it."""
    if row.b is not None:
        return b.events[row.b]
    assert row.a is not None
    return a.events[row.a]


def name_of(event: AnyEvent) -> str:
    """Return the name of an event: a tool, model, role or type of error."""
    if isinstance(event, Call):
        return event.name
    if isinstance(event, ErrorEvent):
        return event.error.type
    if isinstance(event, Message):
        return event.role
    return ""


def _row(a: EventLog, b: EventLog, pair: Pair, differ: Differ, kind: EntryKind) -> EventRow:
    i, j = pair
    old, new = a.events[i], b.events[j]
    arguments, outcome = differ.of_requests(old, new), differ.of_outcomes(old, new)
    if kind is EntryKind.SAME and (arguments or outcome):
        kind = EntryKind.CHANGED
    return EventRow(kind, i, j, arguments, outcome)


def _rest(log: EventLog, paired: set[int]) -> list[int]:
    """Return the positions of events without a partner."""
    return [place for place, event in enumerate(log.events) if place not in paired and takes_part(event)]


def _steps(run: TraceRun) -> list[str | None]:
    """Return the step of each event; a state belongs to the step before it. Without marks, each call is a step."""
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
    """Return the nesting depth of each event, and the position of the last event inside it."""
    places: dict[int | None, int] = {event.seq: place for place, event in enumerate(run.events)}
    parents = [places.get(event.parent, -1) for event in run.events]
    depths, ends = [0] * len(parents), list(range(len(parents)))
    for place, parent in enumerate(parents):
        if 0 <= parent < place:
            depths[place] = depths[parent] + 1
    for place, parent in reversed([*enumerate(parents)]):
        if 0 <= parent < place:
            ends[parent] = max(ends[parent], ends[place])
    return depths, ends
