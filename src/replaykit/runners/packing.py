"""Packing: the calls of a task or a reply without what they repeat, and with large values behind the message.

A frame is one JSON text with a limit on its size. Calls of a long conversation repeat its messages, and tools may
answer with megabytes, so both are taken out: shared parts stand beside the calls, and large values follow the frame as
they are. A reply names those that came with the task by their number, and does not send them back.
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from collections.abc import Sequence
from typing import IO

import msgspec
from msgspec import Struct

from replaykit.model.compact_calls import NO_REFERENCES, References, large_values, put_together, take_apart
from replaykit.model.events import AnyEvent, Call
from replaykit.model.shared_parts import LARGE_BYTES, BadReference, Budget, PartReader, PartWriter
from replaykit.model.values import Raw
from replaykit.runners.frames import Reply, Task, receive, send

MAX_TASK_BYTES = 4 << 30
"""All large values of a task: what is in memory already."""
MAX_REPLY_BYTES = 256 << 20
"""All large values of a reply that did not come with the task: a candidate may send anything."""
_RECORDED, _ATTACHED = "recorded", "attached"


class Packing(Struct, frozen=True, omit_defaults=True):
    """What belongs to the calls of a message, and does not stand in them."""

    parts: dict[str, tuple[Raw, ...]] = {}
    references: tuple[tuple[int, References], ...] = ()
    """By the position of the event."""
    sizes: tuple[int, ...] = ()
    """How many bytes each of the values has that follow the message."""


class PackedTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as it is sent."""

    task: Task
    packing: Packing = Packing()


class PackedReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply as it is sent."""

    reply: Reply
    packing: Packing = Packing()


def send_task(stream: IO[bytes], task: Task) -> None:
    """Write a task."""
    events, packing, values = _packed(task.world.calls, ())
    if values or packing.references:
        world = msgspec.structs.replace(task.world, calls=events)
        task = msgspec.structs.replace(task, world=world)
    _send(stream, PackedTask(task=task, packing=packing), values)


def receive_task(stream: IO[bytes]) -> Task | None:
    """Return the next task; None when there is none any more. A `ValueError` for anything else."""
    message = receive(stream, PackedTask)
    if message is None:
        return None
    values = _values(stream, message.packing.sizes, MAX_TASK_BYTES)
    if not message.packing.references:
        return message.task
    calls = _unpacked(message.task.world.calls, message.packing, (), values)
    return msgspec.structs.replace(message.task, world=msgspec.structs.replace(message.task.world, calls=calls))


def send_reply(stream: IO[bytes], reply: Reply, calls: Sequence[AnyEvent] = ()) -> None:
    """Write the reply to a job, or to a task with these calls."""
    run = reply.run
    if run is None:
        _send(stream, PackedReply(reply=reply), [])
        return
    events, packing, values = _packed(run.events, calls)
    if values or packing.references:
        reply = msgspec.structs.replace(reply, run=msgspec.structs.replace(run, events=events))
    _send(stream, PackedReply(reply=reply, packing=packing), values)


def receive_reply(stream: IO[bytes], calls: Sequence[AnyEvent] = ()) -> Reply | None:
    """Return the reply to a job, or to a task with these calls; None when there is none.

    A `ValueError` for anything else.
    """
    message = receive(stream, PackedReply)
    if message is None:
        return None
    values = _values(stream, message.packing.sizes, MAX_REPLY_BYTES)
    run = message.reply.run
    if run is None or not message.packing.references:
        return message.reply
    events = _unpacked(run.events, message.packing, calls, values)
    return msgspec.structs.replace(message.reply, run=msgspec.structs.replace(run, events=events))


def _send(stream: IO[bytes], message: PackedTask | PackedReply, values: Sequence[Raw]) -> None:
    send(stream, message)
    for value in values:
        stream.write(value)
    if values:
        stream.flush()


def _values(stream: IO[bytes], sizes: Sequence[int], limit_bytes: int) -> list[Raw]:
    """The values that follow a message."""
    if min(sizes, default=0) < 0 or sum(sizes) > limit_bytes:
        raise ValueError(f"values of {sum(sizes):,} bytes; at most {limit_bytes:,} are read")
    values = []
    for size in sizes:
        data = stream.read(size)
        if len(data) < size:
            raise ValueError("a message was cut off")
        values.append(Raw(data))
    return values


def _packed(
    events: Sequence[AnyEvent], recorded: Sequence[AnyEvent]
) -> tuple[tuple[AnyEvent, ...], Packing, list[Raw]]:
    """The events as they are sent, what stands beside them, and the values that follow."""
    calls = [event for event in events if isinstance(event, Call)]
    if not _is_worth_packing(calls):  # most messages: nothing is taken apart
        return tuple(events), Packing(), []
    numbers = {id(value): number for number, value in enumerate(large_values(recorded))}
    attached: list[Raw] = []

    def write_value(value: Raw) -> str:
        number = numbers.get(id(value))
        if number is not None:
            return f"{_RECORDED}/{number}"
        attached.append(value)
        return f"{_ATTACHED}/{len(attached) - 1}"

    parts = PartWriter(call.arguments_json for call in calls)
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
    return tuple(packed), Packing(tables, tuple(found), tuple(map(len, attached))), attached


def _is_worth_packing(calls: Sequence[Call]) -> bool:
    return sum(len(call.arguments_json) for call in calls) >= LARGE_BYTES or any(large_values(calls))


def _unpacked(
    events: Sequence[AnyEvent], packing: Packing, recorded: Sequence[AnyEvent], attached: Sequence[Raw]
) -> tuple[AnyEvent, ...]:
    """The events as they were; a `ValueError` where a reference leads nowhere."""
    sources = {_RECORDED: list(large_values(recorded)), _ATTACHED: attached}
    parts = PartReader(packing.parts, Budget())

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
