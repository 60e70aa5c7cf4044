"""Frames: what a process and its workers say to each other over pipes. Lengths and JSON; nothing in it executes."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from typing import IO, TypeVar

import msgspec
from msgspec import Struct

from replaykit.handlers.replay.world import World
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun

T = TypeVar("T")

MAX_FRAME_BYTES = 256 * 1024 * 1024
_LENGTH_BYTES = 4


class WorkerJob(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which agent a worker runs. The first thing it is told."""

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
    logs: tuple[int, ...] = ()
    """File descriptors for what the agent prints, and for what it says on stderr."""


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One case for a worker."""

    world: World
    timeout_s: float
    logs: tuple[str, str] | None = None
    """Files for what the agent prints, and for what it says on stderr, where the worker was not handed pipes."""


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a task ended, or (with neither run nor reason) that the agent is loaded."""

    run: TraceRun | None = None
    deviations: tuple[Deviation, ...] = ()
    reason: str = ""
    last: bool = False
    """True when the worker ends with it."""
    died: str = ""
    """How the case's own process ended, where it gave no answer."""


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
