"""The permissions of an isolated process tree, and the report on it, as values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from replaykit.errors import UsageError

MAX_STOPPED = 500
"""The most stopped attempts that are listed; further ones are only counted."""


class Level(StrEnum):
    """The mechanism that confines a process tree."""

    FULL = "full"  # namespaces, overlays and a system call filter: nothing gets through
    LANDLOCK = "landlock"  # Landlock and a system call filter, in the machine's own namespaces
    PROCESS = "process"  # nothing from the kernel: only what runs inside the process


CHANNELS = ("tcp", "udp", "unix", "files", "signals")
"""The ways out of a process tree that are graded separately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The files and addresses that a process tree may reach. All directories are absolute."""

    project: Path
    """The directory whose files the tree may change as it likes; the real ones stay unchanged."""
    home: Path | None = None
    """The user's home directory, treated in the same way; default: `$HOME`."""
    scratch: tuple[Path, ...] = ()
    """Directories that are written for real: the workspace and the evidence."""
    allow_write: tuple[Path, ...] = ()
    """Directories that the user allows to be written for real."""
    ports: tuple[int, ...] = ()
    """Ports of 127.0.0.1 on which the caller serves the tree, such as the proxy's."""
    allow_connect: tuple[str, ...] = ()
    """Addresses that the user allows: `HOST:PORT` for TCP, or the path of a unix socket."""
    temporary: Path | None = None
    """A directory for this tree alone, removed if the caller is killed (level `landlock`)."""
    max_written_bytes: int | None = None
    """The memory for the tree's writes; default: half of the machine's."""

    def __post_init__(self) -> None:
        for place in (self.project, *self.scratch, *self.allow_write, *filter(None, (self.home,))):
            if not place.is_absolute():
                raise UsageError(f"{str(place)!r} is not absolute", hint=f"Use {str(place.absolute())!r}.")
        for address in self.allow_connect:
            Address.parse(address)


class Address(NamedTuple):
    """A host and a port, or the path of a unix socket with port 0."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> Address:
        """Parse an address; raise `UsageError` for anything else."""
        if text.startswith("/"):
            return Address(text, 0)
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(
                f"{text!r} is not an address", hint="Use HOST:PORT, such as db.internal:5432, or a unix socket's path."
            )
        return Address(host, int(port))


@dataclass(frozen=True, slots=True)
class Stopped:
    """Something that an isolated process tried and the isolation stopped."""

    channel: str
    """`tcp`, `udp`, `unix`, `socket` (a refused kind of socket) or `files`."""
    target: str
    """The address, the path, or the kind of socket."""
    program: str
    """The command line of the process."""
    count: int = 1
    sandbox: int = 0
    """The sandbox of the process: `Sandbox.id` of the outer or a nested one."""
    reason: str = ""
    """Why a file could not be written, if the place itself is writable."""


class Written(NamedTuple):
    """A file that an isolated process created, changed or removed in its layer; the real one is unchanged."""

    path: str
    how: str
    """`created`, `changed` or `removed`."""


class Report(NamedTuple):
    """The report on an isolated process tree: what was stopped, and what it wrote."""

    levels: dict[str, Level]
    """What confined each channel."""
    stopped: tuple[Stopped, ...] = ()
    more_stopped: int = 0
    """The number of stopped attempts that are not listed."""
    written: tuple[Written, ...] = ()
    written_count: int = 0
    """The number of written files; `written` lists the first ones."""
    notes: tuple[str, ...] = ()
    """Remarks on things that could not be done as usual."""

    @property
    def level(self) -> Level:
        """The level of the weakest channel."""
        order = (Level.PROCESS, Level.LANDLOCK, Level.FULL)
        return min(self.levels.values(), key=order.index, default=Level.PROCESS)


class Findings:
    """The findings of a guardian so far: limited in number, and written as JSON for the reader of the report."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str, str, int, str], int] = {}
        self.more = 0
        self.notes: list[str] = []
        self.changes = 0
        """The number of changes so far."""

    def add(self, channel: str, target: str, program: str, sandbox: int = 0, reason: str = "") -> None:
        """Count one more attempt."""
        self.changes += 1
        key = (channel, target[:300], program[:300], sandbox, reason)
        if key not in self.entries and len(self.entries) >= MAX_STOPPED:
            self.more += 1
        else:
            self.entries[key] = self.entries.get(key, 0) + 1

    def remove(self, channel: str, target: str, sandbox: int) -> None:
        """Remove a target that turned out to be inside of the tree."""
        self._remove_where(lambda key: (key[0], key[1], key[3]) == (channel, target, sandbox))

    def remove_port(self, port: int, sandbox: int) -> None:
        """Remove connections to a TCP port of the loopback interface, on any of its addresses."""
        local = ("127.", "[::1]", "0.0.0.0:", "[::]")
        self._remove_where(
            lambda key: (
                (key[0], key[3]) == ("tcp", sandbox) and key[1].endswith(f":{port}") and key[1].startswith(local)
            )
        )

    def _remove_where(self, is_removed: Callable[[tuple[str, str, str, int, str]], bool]) -> None:
        for key in list(filter(is_removed, self.entries)):
            del self.entries[key]
            self.changes += 1

    def to_json(self) -> bytes:
        stopped = [asdict(Stopped(*key[:3], count, *key[3:])) for key, count in self.entries.items()]
        return json.dumps({"stopped": stopped, "more": self.more, "notes": self.notes}).encode()
