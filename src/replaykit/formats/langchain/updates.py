"""Updates of a LangGraph stream, `stream_mode="updates"`: `{node: {messages: […], …}}`, one for each node that ran.

What the graph was given is not among them, so no model's call has all that it was asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from replaykit.formats.core.items import TraceItem
from replaykit.formats.core.talk import Talk, content_id
from replaykit.formats.langchain.messages import body_of, tell
from replaykit.formats.langchain.states import FORMAT, MESSAGES
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_object, without

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
