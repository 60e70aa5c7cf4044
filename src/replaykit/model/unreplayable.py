"""Recorded values that a replay cannot rebuild, found in a log's notes and in the values themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import orjson

from replaykit.model.events import AnyEvent, Call, Note
from replaykit.model.unrecorded import all_unrecorded, unrecorded_in, unrecorded_lines
from replaykit.model.values import Json, Raw, is_tagged, opaque_in_words

if TYPE_CHECKING:
    from replaykit.model.jsonpath import JsonPath

UNBUILT = "replaykit.unbuilt"
"""The name of the notes about values of a tool that cannot be rebuilt or compared."""
MUTATED = "replaykit.mutated"
"""The name of the notes about arguments that a tool changed."""
LATER = " (later)"
"""The end of a name in `Call.mutated` if a job that the tool left running may change it."""


def opaque_types(frozen: Json) -> list[str]:
    """Return the types of all values in a frozen value that have no JSON form."""
    return list(dict.fromkeys(_types(frozen, ("$opaque",))))


def types_returned(call: Call) -> list[str]:
    """Return the types of values that the call returned or yielded and that cannot be rebuilt."""
    texts = [call.result_json, *(call.items_json or ())]
    return list(dict.fromkeys(name for text in texts for name in _types_in(text)))


def types_compared(call: Call, ignored: Iterable[JsonPath]) -> list[str]:
    """Return the types of arguments that cannot be compared, except those excluded from the comparison."""
    if not is_tagged(bytes(call.request_json)):
        return []
    from replaykit.model.jsonpath import remove_paths  # noqa: PLC0415 (a recording compares nothing)

    compared = remove_paths(orjson.loads(bytes(call.request_json)), tuple(ignored), tool=call.name)
    return [name for name in opaque_types(compared) if name]


def concerns(events: Iterable[AnyEvent]) -> list[str]:
    """Return sentences about what a replay cannot rebuild: one per tool for values, one per place for unrecorded
    actions."""
    sentences: dict[tuple[str, str], str] = {}
    all_events = list(events)
    for event in all_events:
        if isinstance(event, Note) and (text := _value_text(event)):
            sentences[event.name, str(event.content.get("tool"))] = text
        elif isinstance(event, Call) and (types := types_returned(event)):
            sentences.setdefault((UNBUILT, event.name), unbuilt_text(event.name, types, "returned"))
    return [*sentences.values(), *unrecorded_lines(all_unrecorded(all_events))]


def note_text(note: Note) -> str:
    """Return the sentence of a note that a recording wrote about itself; empty for any other note."""
    unrecorded = unrecorded_in(note)
    if unrecorded is None:
        return _value_text(note)
    return unrecorded.text


def _value_text(note: Note) -> str:
    if note.name not in (UNBUILT, MUTATED) or not isinstance(note.content, dict):
        return ""
    text = note.content.get("text")
    if isinstance(text, str):
        return text
    return ""


def unbuilt_text(tool: str, types: list[str], verb: str) -> str:
    """Return the sentence about a result or an exception that cannot be rebuilt."""
    advice = "Return plain data, a dataclass or a pydantic model instead."
    return f"`{tool}` {verb} {_named(types)}, which a replay cannot rebuild: it will be inconclusive. {advice}"


def uncompared_text(tool: str, types: list[str]) -> str:
    """Return the sentence about an argument that cannot be compared."""
    advice = "Leave the argument out of the comparison with `match.ignore` in the case, or pass plain data."
    return f"`{tool}` was called with {_named(types)}, which a replay cannot compare: it will be inconclusive. {advice}"


def mutated_text(tool: str, names: Sequence[str]) -> str:
    """Return the sentence about arguments and other objects that a tool changed, with advice."""
    return f"{unrepeated_text(tool, names)}. Return the change instead."


def unrepeated_text(tool: str, names: Sequence[str]) -> str:
    """Return the same without advice. A name with a dot or a bracket, such as `self.errors`, is not an argument."""
    later = [name.removesuffix(LATER) for name in names if name.endswith(LATER)]
    now = [name for name in names if not name.endswith(LATER)]
    clauses = [f"changed {_things(now)}"] if now else []
    if later:
        clauses.append(f"left a job running that may change {_things(later)} later")
    return f"`{tool}` {' and '.join(clauses)}; a replay cannot repeat that"


def _things(names: Sequence[str]) -> str:
    arguments = ", ".join(f"`{name}`" for name in names if name.isidentifier())
    things = [f"what it was given as {arguments}"] if arguments else []
    return " and ".join([*things, *(f"`{name}`" for name in names if not name.isidentifier())])


def _named(types: list[str]) -> str:
    if len(types) == 1:
        return opaque_in_words(types[0])
    return f"values of {', '.join(types[:5])}"


def _types_in(text: Raw) -> Iterator[str]:
    data = bytes(text)
    if is_tagged(data):
        yield from _types(orjson.loads(data), ("$opaque", "$ref"))


def _types(frozen: Json, tags: tuple[str, ...]) -> Iterator[str]:
    if type(frozen) is list:
        for item in frozen:
            yield from _types(item, tags)
    if type(frozen) is not dict:
        return
    if len(frozen) == 1:
        ((tag, content),) = frozen.items()
        if tag in tags and type(content) is str:
            yield content
            return
        if tag == "$error":
            return  # the contents of an exception count only when somebody looks at them
    for item in frozen.values():
        yield from _types(item, tags)
