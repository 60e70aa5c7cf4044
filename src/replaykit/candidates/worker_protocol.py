"""The messages between a process and its workers: length-prefixed JSON over pipes. Nothing in them is executed.

Frames are limited in size. Calls of a long conversation repeat its messages, and tools may return megabytes, so both
are extracted (`packed_events`): shared parts accompany the calls, and large values follow the frame unencoded. A reply
refers to values that came with the task by number instead of sending them back.
"""

from collections.abc import Sequence
from typing import IO, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.handlers.replay.world import World
from replaykit.model.events import AnyEvent, Call
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, Raw

# No `from __future__ import annotations`: msgspec would compile the text of each annotation once per class.


T = TypeVar("T")

MAX_FRAME_BYTES = 256 * 1024 * 1024
_LENGTH_BYTES = 4


class WorkerJob(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent that a worker runs: the first message it gets."""

    spec: str
    sort: str
    reset: str | None = None
    """A `module:function` that is called before each task."""
    directories: tuple[str, ...] = ()
    is_confined: bool = False
    """True if the worker is in a sandbox, and each task in a nested one.

    After each reply but the last, the worker sends an `Isolation` with what the task wrote.
    """
    has_one_task: bool = False
    """True if the worker ends after its first task, which then uses the worker's own sandbox."""
    reuses: bool = False
    """True if the worker runs all tasks itself, in one sandbox, where state could leak between them.

    Only on explicit request.
    """
    logs: tuple[int, ...] = ()
    """File descriptors for the agent's stdout and stderr."""


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One case for a worker."""

    world: World
    timeout_s: float
    logs: tuple[str, str] | None = None
    """Log files for stdout and stderr, for a worker without inherited pipes."""


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a task, or, without run and reason, the message that the agent is loaded."""

    run: TraceRun | None = None
    deviations: tuple[Deviation, ...] = ()
    reason: str = ""
    last: bool = False
    """True if the worker ends after this reply."""
    died: str = ""
    """How the process of the case ended, if it did not reply."""


def send(stream: IO[bytes], message: Struct) -> None:
    """Write one message."""
    data = msgspec.json.encode(message)
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    stream.flush()


def receive(stream: IO[bytes], kind: type[T]) -> T | None:
    """Read the next message; None at the end of the stream. Anything else raises `ValueError`."""
    head = stream.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {size:,} bytes; at most {MAX_FRAME_BYTES:,} are read")
    data = stream.read(size)
    if len(data) == size:
        return msgspec.json.decode(data, type=kind)
    return None


# No `from __future__ import annotations`: msgspec would compile the text of each annotation once per class.


TALK = "REPLAYKIT_TALK"
"""The variable that tells a fresh process where its task is: two file descriptors, or a directory."""
TASK_FILE, REPLY_FILE = "task", "reply"
MAX_TASK_BYTES = 4 << 30
"""The limit for all large values of a task, which are in memory already."""
MAX_REPLY_BYTES = 256 << 20
"""The limit for all new large values of a reply. A candidate may send anything."""
PACKED_FROM_BYTES = 64 * 1024
"""The size of values or arguments from which calls are packed."""


class PackedTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task in transit."""

    task: Task
    packing: Raw = ABSENT
    """Absent if the calls are unpacked."""
    sizes: tuple[int, ...] = ()
    """The sizes in bytes of the values that follow the message."""


class PackedReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply in transit."""

    reply: Reply
    packing: Raw = ABSENT
    sizes: tuple[int, ...] = ()


def send_task(stream: IO[bytes], task: Task) -> None:
    """Write a task."""
    calls = task.world.calls
    if not _is_large(calls):
        send(stream, PackedTask(task=task))
        return
    from replaykit.candidates.packed_events import pack  # noqa: PLC0415 (most tasks are small)

    events, packing, values = pack(calls, ())
    task = replace(task, world=replace(task.world, calls=events))
    send(stream, PackedTask(task=task, packing=packing, sizes=tuple(map(len, values))))
    _send_values(stream, values)


def receive_task(stream: IO[bytes]) -> Task | None:
    """Read the next task; None at the end of the stream. Anything else raises `ValueError`."""
    message = receive(stream, PackedTask)
    if message is None:
        return None
    if not message.packing:
        return message.task
    from replaykit.candidates.packed_events import unpack  # noqa: PLC0415 (most tasks are small)

    values = _receive_values(stream, message.sizes, MAX_TASK_BYTES)
    world = message.task.world
    calls = unpack(world.calls, message.packing, (), values)
    return replace(message.task, world=replace(world, calls=calls))


def send_reply(stream: IO[bytes], reply: Reply, calls: Sequence[AnyEvent] = ()) -> None:
    """Write the reply to a job, or to a task with these calls."""
    run = reply.run
    if run is None or not _is_large(run.events):
        send(stream, PackedReply(reply=reply))
        return
    from replaykit.candidates.packed_events import pack  # noqa: PLC0415 (most replies are small)

    events, packing, values = pack(run.events, calls)
    reply = replace(reply, run=replace(run, events=events))
    send(stream, PackedReply(reply=reply, packing=packing, sizes=tuple(map(len, values))))
    _send_values(stream, values)


def receive_reply(stream: IO[bytes], calls: Sequence[AnyEvent] = ()) -> Reply | None:
    """Read the reply to a job, or to a task with these calls; None at the end of the stream.

    Anything else raises `ValueError`.
    """
    message = receive(stream, PackedReply)
    if message is None:
        return None
    run = message.reply.run
    if run is None or not message.packing:
        return message.reply
    from replaykit.candidates.packed_events import unpack  # noqa: PLC0415 (most replies are small)

    values = _receive_values(stream, message.sizes, MAX_REPLY_BYTES)
    events = unpack(run.events, message.packing, calls, values)
    return replace(message.reply, run=replace(run, events=events))


def _is_large(events: Sequence[AnyEvent]) -> bool:
    arguments_bytes = 0
    for event in events:
        if not isinstance(event, Call):
            continue
        arguments_bytes += len(event.arguments_json)
        if arguments_bytes >= PACKED_FROM_BYTES or len(event.result_json) >= PACKED_FROM_BYTES:
            return True
        if event.items_json and sum(map(len, event.items_json)) >= PACKED_FROM_BYTES:
            return True
    return False


def _send_values(stream: IO[bytes], values: Sequence[Raw]) -> None:
    for value in values:
        stream.write(value)
    stream.flush()


def _receive_values(stream: IO[bytes], sizes: Sequence[int], limit_bytes: int) -> list[Raw]:
    """Read the values that follow a message."""
    if min(sizes, default=0) < 0 or sum(sizes) > limit_bytes:
        raise ValueError(f"values of {sum(sizes):,} bytes; at most {limit_bytes:,} are read")
    values = []
    for size in sizes:
        data = stream.read(size)
        if len(data) < size:
            raise ValueError("a message was cut off")
        values.append(msgspec.json.decode(data, type=Raw))  # raises if it is not JSON
    return values
