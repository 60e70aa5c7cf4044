"""LangChain's messages and LangGraph's states, streams and events, as their own functions dump them.

    messages    messages_to_dict, dumpd, model_dump: [message, …], or {messages: [message, …]}, a graph's state
    states      get_state_history: [{values, next, config, metadata, created_at, tasks}, …], the newest first
    updates     stream_mode="updates": [{node: {messages: […]}}, …]; stream_mode="values": [{messages: […]}, …]
    events      astream_events(version="v2"): [{event: on_tool_start, run_id, parent_ids, data}, …]

A file holds a list of them, or one on each line; a line may also hold a whole list of messages, which is a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum

from replaykit.errors import InvalidFile
from replaykit.formats.core.items import TraceItem, first_items, items_of, mostly, nothing_of
from replaykit.formats.core.members import value_in
from replaykit.formats.core.registry import IMPORTERS, Found
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
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_object, without

_LOOK_AT = 32
_EXPECTED = "expected messages of LangChain, or states, updates or events of LangGraph"


class _LangChainShape(Enum):
    MESSAGE = "a message"
    CONVERSATION = "a list of messages"
    STATE = "a graph's state with its messages"
    SNAPSHOT = "a state of a thread"
    UPDATE = "an update of a graph"
    EVENT = "an event"


class LangChainImporter:
    """Reads what LangChain and LangGraph dump."""

    name = FORMAT
    title = "LangChain messages; LangGraph state history, streams and `astream_events`"

    def recognises(self, source: Source) -> bool:
        return _shape_of(first_items(source)) is not None

    def read(self, source: Source) -> Iterator[Found]:
        shape = _shape_of(first_items(source))
        if shape is None:
            raise nothing_of(source, _EXPECTED)
        yield from _READERS[shape](items_of(source))


IMPORTERS.register(FORMAT)(LangChainImporter())


def _shape_of(values: list[Json]) -> _LangChainShape | None:
    """What the members of a file are, as most of the first ones are."""
    values = values[:_LOOK_AT]
    if mostly(is_event, values):
        return _LangChainShape.EVENT
    if mostly(is_snapshot, values):
        return _LangChainShape.SNAPSHOT
    if mostly(body_of, values) and are_messages([value for value in values if body_of(value)]):
        return _LangChainShape.MESSAGE
    if mostly(are_messages, values):
        return _LangChainShape.CONVERSATION
    if mostly(_is_state, values):
        return _LangChainShape.STATE
    updates = [update for value in values if (update := update_of(value))]
    if len(updates) == len(values) and any(map(has_messages, updates)):
        return _LangChainShape.UPDATE
    return None


def _is_state(value: Json) -> bool:
    return are_messages(value_in(value, MESSAGES))


def _read_messages(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    found: list[TraceItem] = []
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif body_of(item.value) is None:
            yield item.error(f"expected {_LangChainShape.MESSAGE.value} of LangChain")
        else:
            found.append(item)
    if found:
        yield _run_of_messages([item.value for item in found])


def _read_conversations(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    for item in items:
        if isinstance(item, TraceItem) and not are_messages(item.value):
            yield item.error(f"expected {_LangChainShape.CONVERSATION.value} of LangChain")
        else:
            yield item if isinstance(item, InvalidFile) else _run_of_messages(item.value)


def _run_of_messages(messages: list[Json]) -> TraceRun:
    talk = Talk()
    for message in messages:
        tell(talk, message)
    return talk.run(id=content_id(FORMAT, encode(messages)), format=FORMAT)


def _read_states(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    """Each state that goes on from the one before is of the same run: a stream of values."""
    chain: list[Snapshot] = []
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif not _is_state(item.value):
            yield item.error(f"expected {_LangChainShape.STATE.value}")
        else:
            state = Snapshot(values=item.value, step=None)
            if chain and not _goes_on(chain[-1], state):
                yield run_of_states(chain)
                chain = []
            chain.append(state)
    if chain:
        yield run_of_states(chain)


def _goes_on(before: Snapshot, after: Snapshot) -> bool:
    """True when the one has all messages of the other, and more or none."""
    known = [key_of(message) for message in before.messages]
    return [key_of(message) for message in after.messages[: len(known)]] == known


def _read_snapshots(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    snapshots: list[Snapshot] = []
    for item in items:
        try:
            if isinstance(item, InvalidFile):
                raise item
            snapshots.append(snapshot_of(item))
        except InvalidFile as problem:
            yield problem
    yield from runs_of(snapshots)


def _read_updates(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    found: list[TraceItem] = []
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif update_of(item.value) is None:
            yield item.error(f"expected {_LangChainShape.UPDATE.value}")
        else:
            found.append(item)
    if found:
        yield run_of(found)


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


_READERS = {
    _LangChainShape.MESSAGE: _read_messages,
    _LangChainShape.CONVERSATION: _read_conversations,
    _LangChainShape.STATE: _read_states,
    _LangChainShape.SNAPSHOT: _read_snapshots,
    _LangChainShape.UPDATE: _read_updates,
    _LangChainShape.EVENT: _read_events,
}


INTERRUPT = "__interrupt__"
ADVICE = (
    'Updates leave out what the graph was given: stream with stream_mode="values", or keep '
    "`list(graph.get_state_history(config))`."
)
_PAIR = 2


def update_of(value: Json) -> dict[str, Json] | None:
    """What nodes wrote, by their names; streams of graphs inside of graphs put a namespace or the mode before it."""
    if isinstance(value, list) and value and len(value) <= _PAIR + 1 and isinstance(value[0], str | list):
        value = value[-1]
    if not isinstance(value, dict) or not value:
        return None
    fine = all(written is None or isinstance(written, dict | list) for written in value.values())
    if fine:
        return value
    return None


def has_messages(update: dict[str, Json]) -> bool:
    """True when a node wrote messages of LangChain."""
    return any(
        body_of(message) for written in update.values() for part in _parts(written) for message in _node_messages(part)
    )


def run_of(items: Sequence[TraceItem]) -> TraceRun:
    """The run that updates tell."""
    talk, counts, interrupts = Talk(), Counter[str](), list[Json]()
    for item in items:
        update = update_of(item.value)
        if update is None:
            raise item.error("expected an update of a graph: an object with what each node wrote")
        for node, written in update.items():
            if node == INTERRUPT:
                interrupts.append(written)
                continue
            counts[node] += 1
            _tell(talk, node, written, f"{node}_{counts[node]}")
    return talk.run(
        id=content_id(FORMAT, encode([item.value for item in items])),
        format=FORMAT,
        status=RunStatus.RUNNING if interrupts else None,
        metadata={"interrupts": interrupts},
        advice=[ADVICE],
    )


def _tell(talk: Talk, node: str, written: Json, step: str) -> None:
    for part in _parts(written):
        for message in _node_messages(part):
            tell(talk, message, step=step)
        rest = without(part, MESSAGES)
        if rest:
            talk.notes(node, rest, step=step)


def _parts(written: Json) -> Iterator[dict[str, Json]]:
    yield from map(as_object, written if isinstance(written, list) else [written])


def _node_messages(part: dict[str, Json]) -> list[Json]:
    found = part.get(MESSAGES)
    if isinstance(found, list):
        return found
    if body_of(found):
        return [found]
    return []
