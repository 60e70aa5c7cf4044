"""The messages between a process and its workers: frames of a length and JSON, over pipes. Nothing in them executes.

A frame has a limit on its size. Calls of a long conversation repeat its messages, and tools may answer with megabytes,
so both are taken out (`packed_events`): shared parts stand beside the calls, and large values follow the frame as they
are. A reply names those that came with the task by their number, and does not send them back.
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

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.


T = TypeVar("T")

MAX_FRAME_BYTES = 256 * 1024 * 1024
_LENGTH_BYTES = 4


class WorkerJob(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent that a worker runs. The first thing it is told."""

    spec: str
    sort: str
    reset: str | None = None
    """module:function, called before each task."""
    directories: tuple[str, ...] = ()
    is_confined: bool = False
    """True when the worker is in a sandbox. Each task then gets a nested one, and after the task's reply, unless it is
    the last, the worker says in an `Isolation` what was written there."""
    has_one_task: bool = False
    """True when the worker ends with its first task, whose sandbox is then the worker's own."""
    reuses: bool = False
    """True when the worker runs one task after the other itself, in its one sandbox, where state could pass between
    them: somebody asked for that."""
    logs: tuple[int, ...] = ()
    """File descriptors for what the agent prints, and for what it says on stderr."""


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One case for a worker."""

    world: World
    timeout_s: float
    logs: tuple[str, str] | None = None
    """Files for what the agent prints, and for what it says on stderr, where the worker was not handed pipes."""


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a task, or (with neither run nor reason) the word that the agent is loaded."""

    run: TraceRun | None = None
    deviations: tuple[Deviation, ...] = ()
    reason: str = ""
    last: bool = False
    """True when the worker ends with it."""
    died: str = ""
    """The end of the case's own process, where it gave no answer."""


def send(stream: IO[bytes], message: Struct) -> None:
    """Write one message."""
    data = msgspec.json.encode(message)
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    stream.flush()


def receive(stream: IO[bytes], kind: type[T]) -> T | None:
    """The next message; None when there is none any more. A `ValueError` for anything else."""
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


# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.


TALK = "REPLAYKIT_TALK"
"""The variable that tells a fresh process where its task is: two file descriptors, or a directory."""
TASK_FILE, REPLY_FILE = "task", "reply"
MAX_TASK_BYTES = 4 << 30
"""The limit for all large values of a task, which are in memory already."""
MAX_REPLY_BYTES = 256 << 20
"""The limit for all large values of a reply that did not come with the task: a candidate may send anything."""
PACKED_FROM_BYTES = 64 * 1024
"""Calls with values or arguments of this size are packed."""


class PackedTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as it is sent."""

    task: Task
    packing: Raw = ABSENT
    """Absent where the calls are as they are."""
    sizes: tuple[int, ...] = ()
    """The number of bytes of each of the values that follow the message."""


class PackedReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply as it is sent."""

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
    """Return the next task; None when there is none any more. A `ValueError` for anything else."""
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
    """Return the reply to a job, or to a task with these calls; None when there is none.

    A `ValueError` for anything else.
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
    """The values that follow a message."""
    if min(sizes, default=0) < 0 or sum(sizes) > limit_bytes:
        raise ValueError(f"values of {sum(sizes):,} bytes; at most {limit_bytes:,} are read")
    values = []
    for size in sizes:
        data = stream.read(size)
        if len(data) < size:
            raise ValueError("a message was cut off")
        values.append(msgspec.json.decode(data, type=Raw))  # says whether it is JSON
    return values
