"""Isolation of a replay, as its result tells it, and consent: what it may do outside of the recorded world."""

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
    """How often it was tried."""
    reason: str = ""
    """Why a file could not be written, if not because of the level."""


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that a candidate wrote in its own layer; the real one is as it was."""

    path: str
    """The path, as the candidate sees it."""
    change: str
    """`created`, `changed` or `removed`."""


class Isolation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The isolation of a candidate during a replay, and the accesses it stopped."""

    level: IsolationLevel = IsolationLevel.NONE
    """That of the weakest channel."""
    channels: dict[str, IsolationLevel] = {}
    """The level of each way out: `tcp`, `udp`, `unix`, `files`, `signals`."""
    children: dict[str, IsolationLevel] = {}
    """The levels of child processes, where they are higher: the agent itself runs in the caller's process."""
    stopped: tuple[StoppedAccess, ...] = ()
    more_stopped: int = 0
    """The number of stopped accesses that are not listed."""
    written: tuple[WrittenFile, ...] = ()
    """The first files that were written."""
    written_count: int = 0
    """The number of files that were written."""
    notes: tuple[str, ...] = ()
    """Why the level is not higher, and what could not be done as usual."""


NOT_ISOLATED = Isolation()


ANYTHING, MODELS = "*", "models"
"""Names in `Consent.live` that stand for many: whatever is called, and every model."""


class Consent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Live actions a replay may take. Only command-line flags and arguments of the Python API set this."""

    live: tuple[str, ...] = ()
    """Names of tools, models and requests that may be called for real; `*` is any."""
    connect: tuple[str, ...] = ()
    """Addresses that may be reached: `HOST:PORT`, or the path of a unix socket."""
    write: tuple[str, ...] = ()
    """Absolute directories in which files may really be written."""
    everything: bool = False
    """True where the agent is run live on purpose, in a world that no file describes."""
    isolation: IsolationLevel = IsolationLevel.FULL
    """The highest level of isolation that is used, where the machine offers it."""
    keep_writes: str = ""
    """An absolute directory that the files written in a sandbox are copied to; nothing where they are discarded."""

    def covers(self, name: str) -> bool:
        """True when the person has named this tool, model or request, or anything at all."""
        return self.everything or name in self.live or ANYTHING in self.live

    @property
    def highest_level(self) -> IsolationLevel:
        """The level of isolation to ask for. What is called for real has to reach what it is for."""
        if self.everything:
            return IsolationLevel.NONE
        if self.live:
            return weaker(self.isolation, IsolationLevel.PROCESS)
        return self.isolation

    def __or__(self, other: "Consent") -> "Consent":
        """Return what either of the two allows."""
        return Consent(
            live=_either(self.live, other.live),
            connect=_either(self.connect, other.connect),
            write=_either(self.write, other.write),
            everything=self.everything or other.everything,
            isolation=weaker(self.isolation, other.isolation),
            keep_writes=other.keep_writes or self.keep_writes,
        )


def _either(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


NO_CONSENT = Consent()
EVERYTHING = Consent(everything=True)
