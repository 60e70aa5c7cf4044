"""Packed events: the calls of a task or reply, with repeated parts and large values stored separately.

Imported only by processes with such calls. Most replays are small and start faster without.
"""

# No `from __future__ import annotations`: msgspec would compile the text of each annotation once per class.

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from replaykit.model.compact_run import NO_REFERENCES, References, large_values, put_together, take_apart
from replaykit.model.events import AnyEvent, Call
from replaykit.model.shared_parts import BadReference, ExpansionBudget, PartReader, PartWriter
from replaykit.model.values import Raw

_RECORDED, _ATTACHED = "recorded", "attached"


class Packing(Struct, frozen=True, omit_defaults=True):
    """Values of a message's calls that are stored outside of them."""

    parts: dict[str, tuple[Raw, ...]] = {}
    references: tuple[tuple[int, References], ...] = ()
    """By position of the event."""


def pack(events: Sequence[AnyEvent], recorded: Sequence[AnyEvent]) -> tuple[tuple[AnyEvent, ...], Raw, list[Raw]]:
    """Return the packed events, their packing, and the values that follow.

    `recorded` are calls that the receiver has. Their large values are sent as references.
    """
    # By identity, because comparing megabytes would take long.
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
    """Restore the events; raise `ValueError` for a dangling reference."""
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
