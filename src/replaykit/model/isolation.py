"""Isolation of a replay, as its result reports it, and consent: the live actions that a replay may take."""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from enum import StrEnum

from msgspec import Struct

CHANNELS = ("tcp", "udp", "unix", "files", "signals")
"""The ways out of a process tree that are graded."""


class IsolationLevel(StrEnum):
    """The mechanism that isolates a candidate from the outside world."""

    FULL = "full"  # by the kernel: namespaces, overlays and a system call filter
    LANDLOCK = "landlock"  # by the kernel: Landlock and a system call filter
    PROCESS = "process"  # by guards inside Python and Node
    NONE = "none"  # not at all: the candidate runs elsewhere, or is meant to act for real

    @property
    def strength(self) -> int:
        """Higher is stricter."""
        return -list(IsolationLevel).index(self)


def weaker(one: IsolationLevel, other: IsolationLevel) -> IsolationLevel:
    """Return the less strict of two levels."""
    if one.strength <= other.strength:
        return one
    return other


class StoppedAccess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An access that the isolation stopped."""

    channel: str
    """`tcp`, `udp`, `unix`, `socket` (a refused kind of socket) or `files`."""
    target: str
    """The address, the path, or the kind of socket."""
    program: str = ""
    """The command line of the process."""
    count: int = 1
    """The number of attempts."""
    reason: str = ""
    """Why a file could not be written, if not because of the level."""


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that a candidate wrote in its own layer; the real file is untouched."""

    path: str
    """The path, as the candidate sees it."""
    change: str
    """`created`, `changed` or `removed`."""


class Isolation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The isolation of a candidate during a replay, and the accesses it stopped."""

    level: IsolationLevel = IsolationLevel.NONE
    """The level of the weakest channel."""
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
"""Names in `Consent.live` that stand for many: anything that is called, and every model."""


class Consent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Live actions a replay may take. Only command-line flags and arguments of the Python API set this."""

    live: tuple[str, ...] = ()
    """Names of tools, models and requests that may be called for real; `*` is any."""
    connect: tuple[str, ...] = ()
    """Addresses that may be reached: `HOST:PORT`, or the path of a Unix socket."""
    write: tuple[str, ...] = ()
    """Absolute directories in which files may really be written."""
    everything: bool = False
    """True if the agent is run live on purpose, outside of any recorded world."""
    isolation: IsolationLevel = IsolationLevel.FULL
    """The highest level of isolation to use, if the machine supports it."""
    keep_writes: str = ""
    """An absolute directory to copy files written in a sandbox to; empty to discard them."""

    def covers(self, name: str) -> bool:
        """Return whether the user allowed this tool, model or request by name, or everything."""
        return self.everything or name in self.live or ANYTHING in self.live

    @property
    def highest_level(self) -> IsolationLevel:
        """The level of isolation to ask for. A live call must be able to reach its destination."""
        if self.everything:
            return IsolationLevel.NONE
        if self.live:
            return weaker(self.isolation, IsolationLevel.PROCESS)
        return self.isolation

    def __or__(self, other: "Consent") -> "Consent":
        """Combine two consents: what either allows is allowed."""
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
