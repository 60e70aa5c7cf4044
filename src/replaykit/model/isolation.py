"""Isolation of a replay, as its result tells it: who kept the candidate shut in, what was stopped, what was written."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from enum import StrEnum

from msgspec import Struct

CHANNELS = ("tcp", "udp", "unix", "files", "signals")
"""The ways out of a process tree that are graded."""


class IsolationLevel(StrEnum):
    """The mechanism that keeps a candidate from reaching the world."""

    FULL = "full"  # the kernel: namespaces, overlays and a system call filter
    LANDLOCK = "landlock"  # the kernel: Landlock and a system call filter
    PROCESS = "process"  # the guards inside Python and Node
    NONE = "none"  # nobody: it runs elsewhere, or was meant to act for real

    @property
    def strength(self) -> int:
        """The higher, the less gets through."""
        return -list(IsolationLevel).index(self)


def weaker(one: IsolationLevel, other: IsolationLevel) -> IsolationLevel:
    """Return the level that lets more through."""
    if one.strength <= other.strength:
        return one
    return other


class StoppedAccess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a candidate tried to reach, and could not."""

    channel: str
    """`tcp`, `udp`, `unix`, `socket` (a kind of socket that is refused) or `files`."""
    target: str
    """The address, the path, or the kind of socket."""
    program: str = ""
    """The command line of the process that tried."""
    count: int = 1
    reason: str = ""
    """Why a file could not be written, if not because of the level."""


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that a candidate wrote in its own layer; the real one is as it was."""

    path: str
    change: str
    """`created`, `changed` or `removed`."""


class Isolation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The isolation of a candidate during a replay, and the accesses it stopped."""

    level: IsolationLevel = IsolationLevel.NONE
    """That of the weakest channel."""
    channels: dict[str, IsolationLevel] = {}
    children: dict[str, IsolationLevel] = {}
    """The levels of child processes, where they are higher: the agent itself runs in the caller's process."""
    stopped: tuple[StoppedAccess, ...] = ()
    more_stopped: int = 0
    """The number of stopped accesses that are not listed."""
    written: tuple[WrittenFile, ...] = ()
    """The first files that were written."""
    written_count: int = 0
    notes: tuple[str, ...] = ()
    """Why the level is not higher, and what could not be done as usual."""


NOT_ISOLATED = Isolation()
