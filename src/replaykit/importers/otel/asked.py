"""The calls of tools that models asked for: joined with the spans that made them, or told by the conversation alone.

Many tracers give a tool's span no id of the call, no arguments or no result, and some make no span of it at all. What
the model asked, and what it was told next, says the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from replaykit.importers.otel.meaning import UNSET, Kind, Meaning, goes_on, loaded
from replaykit.importers.otel.tree import Node
from replaykit.model.values import Json, canonical
from replaykit.wire.call import ToolUse


class Told(Struct, frozen=True):
    """What a model was told that a tool gave."""

    content: Json
    failed: bool


class Asked(Struct):
    """One call that a model asked for."""

    use: ToolUse
    node: Node
    """The model's."""
    order_ns: int
    told: Told | None = None
    is_made: bool = False
    """A span made it."""


def asked_in(nodes: list[Node]) -> list[Asked]:
    """All of them, in order, with what the models were told that came of them."""
    found: list[Asked] = []
    waiting: dict[str, list[Asked]] = {}
    results = _Results()
    for node in nodes:
        if node.meaning is None or node.kind is not Kind.MODEL:
            continue
        for call_id, message in results.among(node.meaning.messages or []) if waiting else ():
            for asked in waiting.pop(call_id, ()):
                asked.told = Told(loaded(message.get("content")), message.get("status") == "error")
        for use in node.meaning.answer.tool_calls if node.meaning.answer else ():
            found.append(Asked(use=use, node=node, order_ns=max(node.order_ns, node.span.ended_ns)))
            if use.id:
                waiting.setdefault(use.id, []).append(found[-1])
    return found


def join(nodes: Iterable[Node], asked: list[Asked]) -> dict[str, Asked]:
    """For the spans of tools, by their ids, the call that each one is: by its id, else by what was asked."""
    found: dict[str, Asked] = {}
    tools = [(node, node.meaning) for node in nodes if node.kind is Kind.TOOL and node.meaning is not None]
    for asked_as, called_as in ((_asked_id, _called_ids), (_asked_all, _called_all), (_asked_name, _called_name)):
        if len(found) == len(tools):
            break
        known: dict[bytes | str, deque[Asked]] = {}
        for item in asked:
            if not item.is_made and (key := asked_as(item)):
                known.setdefault(key, deque()).append(item)
        for node, meaning in tools:
            keys = called_as(meaning) if node.span.id not in found else ()
            match = next((taken for key in keys if (taken := _taken(known.get(key), node)) is not None), None)
            if match is not None:
                match.is_made = True
                found[node.span.id] = match
    return found


def _taken(waiting: deque[Asked] | None, node: Node) -> Asked | None:
    """The first that was asked before the tool began; a stream may call it while the model still speaks."""
    return waiting.popleft() if waiting and waiting[0].node.order_ns <= node.order_ns else None


class _Results:
    """The results of tools that models were told, by the ids of the calls, one conversation after another."""

    def __init__(self) -> None:
        self._said: list[Json] = []
        self._found: list[tuple[str, dict[str, Json]]] = []

    def among(self, messages: list[Json]) -> list[tuple[str, dict[str, Json]]]:
        if not goes_on(self._said, messages):
            self._said, self._found = [], []
        for message in messages[len(self._said) :]:
            call_id = message.get("tool_call_id") if isinstance(message, dict) else None
            if isinstance(call_id, str) and call_id:
                self._found.append((call_id, message))
        self._said = messages
        return self._found


def _asked_id(asked: Asked) -> str:
    return asked.use.id


def _called_ids(meaning: Meaning) -> Iterable[str]:
    """The call's id; a function that does all calls may have it among its arguments."""
    if meaning.call_id:
        return (meaning.call_id,)
    given = meaning.input
    values = given if isinstance(given, list) else given.values() if isinstance(given, dict) else ()
    return [value for value in values if isinstance(value, str)]


def _asked_all(asked: Asked) -> bytes:
    return canonical([asked.use.name, asked.use.arguments])


def _called_all(meaning: Meaning) -> Iterable[bytes]:
    return () if meaning.call_id or meaning.input is UNSET else (canonical([meaning.name, meaning.input]),)


def _asked_name(asked: Asked) -> str:
    return asked.use.name


def _called_name(meaning: Meaning) -> Iterable[str]:
    """By its name alone only where the span does not say with which arguments."""
    return () if meaning.call_id or isinstance(meaning.input, dict) else (meaning.name,)
