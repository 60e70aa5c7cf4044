"""Packed events: the calls of a task or a reply without what they repeat and what is large.

Imported only by processes that have such calls: most replays are small, and start faster without.
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from replaykit.model.compact_run import NO_REFERENCES, References, large_values, put_together, take_apart
from replaykit.model.events import AnyEvent, Call
from replaykit.model.shared_parts import BadReference, ExpansionBudget, PartReader, PartWriter
from replaykit.model.values import Raw

_RECORDED, _ATTACHED = "recorded", "attached"


class Packing(Struct, frozen=True, omit_defaults=True):
    """The values that belong to the calls of a message, and do not stand in them."""

    parts: dict[str, tuple[Raw, ...]] = {}
    references: tuple[tuple[int, References], ...] = ()
    """By the position of the event."""


def pack(events: Sequence[AnyEvent], recorded: Sequence[AnyEvent]) -> tuple[tuple[AnyEvent, ...], Raw, list[Raw]]:
    """Return the events as they are sent, what stands beside them, and the values that follow.

    `recorded` are the calls that the other side has: their large values are named and not sent.
    """
    numbers = {id(value): number for number, value in enumerate(large_values(recorded))}
    attached: list[Raw] = []

    def write_value(value: Raw) -> str:
        number = numbers.get(id(value))
        if number is not None:
            return f"{_RECORDED}/{number}"
        attached.append(value)
        return f"{_ATTACHED}/{len(attached) - 1}"

    parts = PartWriter(event.arguments_json for event in events if isinstance(event, Call))
    packed: list[AnyEvent] = []
    found: list[tuple[int, References]] = []
    for position, event in enumerate(events):
        rest, references = event, NO_REFERENCES
        if isinstance(event, Call):
            rest, references = take_apart(event, parts, write_value)  # type: ignore[assignment]
        packed.append(rest)
        if references is not NO_REFERENCES:
            found.append((position, references))
    tables = {path: tuple(items) for path, items in parts.tables.items()}
    return tuple(packed), Raw(msgspec.json.encode(Packing(tables, tuple(found)))), attached


def unpack(
    events: Sequence[AnyEvent], packing_json: Raw, recorded: Sequence[AnyEvent], attached: Sequence[Raw]
) -> tuple[AnyEvent, ...]:
    """Return the events as they were; a `ValueError` where a reference leads nowhere."""
    packing = msgspec.json.decode(packing_json, type=Packing)
    sources = {_RECORDED: list(large_values(recorded)), _ATTACHED: attached}
    parts = PartReader(packing.parts, ExpansionBudget())

    def read_value(member: str, name: str) -> Raw:
        source, _, number = name.partition("/")
        values = sources.get(source, ())
        if not number.isdecimal() or int(number) >= len(values):
            raise BadReference((member,), f"there is no value {name[:40]!r}")
        return values[int(number)]

    whole = list(events)
    calls = {position: event for position, event in enumerate(events) if isinstance(event, Call)}
    for position, references in packing.references:
        if position not in calls:
            raise ValueError(f"the event {position} is no call, and has references")
        whole[position] = put_together(calls[position], references, parts, read_value)  # type: ignore[call-overload]
    return tuple(whole)
