"""LangChain's messages and LangGraph's states, streams and events, as their own functions dump them.

    messages    messages_to_dict, dumpd, model_dump: [message, …], or {messages: [message, …]}, a graph's state
    states      get_state_history: [{values, next, config, metadata, created_at, tasks}, …], newest first
    updates     stream_mode="updates": [{node: {messages: […]}}, …]; stream_mode="values": [{messages: […]}, …]
    events      astream_events(version="v2"): [{event: on_tool_start, run_id, parent_ids, data}, …]

A file holds a list of them, or one on each line; a line may also hold a whole list of messages, which is a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.registry import (
    Found,
    ItemReader,
    collect,
    first_items,
    items_of,
    mostly,
    nothing_of,
    register_format,
)
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import Talk, content_id
from replaykit.formats.langchain.events import Roots, is_event
from replaykit.formats.langchain.states import (
    FORMAT,
    MESSAGES,
    Snapshot,
    are_messages,
    body_of,
    is_snapshot,
    key_of,
    runs_of,
    snapshot_of,
    tell,
)
from replaykit.formats.langchain.states import run_of as run_of_states
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import as_object, value_in, without

_LOOK_AT = 32
_EXPECTED = "expected messages of LangChain, or states, updates or events of LangGraph"


def _read_file(source: Source) -> Iterator[Found]:
    reader = _reader_of(first_items(source))
    if reader is None:
        raise nothing_of(source, _EXPECTED)
    yield from reader(items_of(source))


register_format(
    FORMAT,
    "LangChain messages; LangGraph state history, streams and `astream_events`",
    lambda source: _reader_of(first_items(source)) is not None,
    _read_file,
)


def _reader_of(values: list[Json]) -> _Reader | None:
    """Return the reader that fits most of a file's first items."""
    values = values[:_LOOK_AT]
    if mostly(is_event, values):
        return _read_events
    if mostly(is_snapshot, values):
        return _read_snapshots
    if mostly(body_of, values) and are_messages(list(filter(body_of, values))):
        return _MESSAGES.read
    if mostly(are_messages, values):
        return _CONVERSATIONS.read
    if mostly(_is_state, values):
        return _STATES.read
    updates = list(map(update_of, values))
    if all(updates) and any(map(has_messages, updates)):
        return _UPDATES.read
    return None


def _is_state(value: Json) -> bool:
    return are_messages(value_in(value, MESSAGES))


def _run_of_messages(messages: list[Json]) -> TraceRun:
    talk = Talk()
    for message in messages:
        tell(talk, message)
    return talk.run(id=content_id(FORMAT, encode(messages)), format=FORMAT)


def _goes_on(before: Json, after: Json) -> bool:
    """Return whether a state keeps all messages of the one before, as in a stream of values."""
    known_keys = list(map(key_of, before[MESSAGES]))
    return list(map(key_of, after[MESSAGES][: len(known_keys)])) == known_keys


def _read_snapshots(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    snapshots: list[Snapshot] = []
    yield from collect(items, snapshot_of, snapshots)
    yield from runs_of(snapshots)


def _read_events(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    roots = Roots()
    for item in items:
        try:
            if isinstance(item, InvalidFile):
                raise item
            yield from roots.add(item)
        except InvalidFile as problem:
            yield problem
    yield from roots.close()


_Reader = Callable[[Iterator[TraceItem | InvalidFile]], Iterator[Found]]
_MESSAGES = ItemReader(
    is_item=body_of,
    expected="expected a message of LangChain",
    runs=lambda items: [_run_of_messages([item.value for item in items])],
)
_CONVERSATIONS = ItemReader(
    is_item=are_messages,
    expected="expected a list of messages of LangChain",
    runs=lambda items: [_run_of_messages(items[0].value)],
    is_run=True,
)
_STATES = ItemReader(
    is_item=_is_state,
    expected="expected a graph's state with its messages",
    runs=lambda items: [run_of_states([Snapshot(values=item.value) for item in items])],
    begins=lambda before, after: not _goes_on(before, after),
)
_UPDATES = ItemReader(
    is_item=lambda value: update_of(value),
    expected="expected an update of a graph",
    runs=lambda items: [run_of(items)],
)


INTERRUPT = "__interrupt__"
ADVICE = (
    'Updates leave out what the graph was given: stream with stream_mode="values", or keep '
    "`list(graph.get_state_history(config))`."
)
_PAIR = 2


def update_of(value: Json) -> JsonObject | None:
    """Return the values that nodes wrote, by node; streams of nested graphs put a namespace or mode before them."""
    if isinstance(value, list) and value and len(value) <= _PAIR + 1 and isinstance(value[0], str | list):
        value = value[-1]
    if not isinstance(value, dict) or not value:
        return None
    for written in value.values():
        if written is not None and not isinstance(written, dict | list):
            return None
    return value


def has_messages(update: Json) -> bool:
    """Return whether a node wrote LangChain messages."""
    for written in update.values():
        for part in _parts(written):
            if any(map(body_of, _node_messages(part))):
                return True
    return False


def run_of(items: Sequence[TraceItem]) -> TraceRun:
    """Return the run in a stream of updates."""
    talk, counts, interrupts = Talk(), Counter[str](), list[Json]()
    for item in items:
        for node, written in as_object(update_of(item.value)).items():
            if node == INTERRUPT:
                interrupts.append(written)
                continue
            counts[node] += 1
            _add_update(talk, node, written, f"{node}_{counts[node]}")
    return talk.run(
        id=content_id(FORMAT, encode([item.value for item in items])),
        format=FORMAT,
        status=RunStatus.RUNNING if interrupts else None,
        metadata={"interrupts": interrupts},
        advice=[ADVICE],
    )


def _add_update(talk: Talk, node: str, written: Json, step: str) -> None:
    for part in _parts(written):
        for message in _node_messages(part):
            tell(talk, message, step=step)
        rest = without(part, MESSAGES)
        if rest:
            talk.notes(node, rest, step=step)


def _parts(written: Json) -> Iterator[JsonObject]:
    if isinstance(written, list):
        return map(as_object, written)
    return iter([as_object(written)])


def _node_messages(part: JsonObject) -> list[Json]:
    found = part.get(MESSAGES)
    if isinstance(found, list):
        return found
    if body_of(found):
        return [found]
    return []
