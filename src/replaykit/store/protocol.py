"""The protocol of stores. `replaykit.testing` has the conformance suite that each backend passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from replaykit.errors import UsageError, nearest
from replaykit.model.changes import Cleaning
from replaykit.model.events import AnyEvent, StoredEvent
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.values import Json

OnProgress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


def ignore_progress(_done: int, _total: int) -> None:
    """Take no notice of how far a job is."""


class Durability(StrEnum):
    """The failures that an acknowledged event survives."""

    PROCESS = "process"  # kill -9 of the process
    POWER = "power"  # loss of power: one fsync per event


def durability_of(word: str) -> Durability:
    """Return the durability of that name; a `UsageError` for any other."""
    try:
        return Durability(word)
    except ValueError:
        raise UsageError(f"durability={word!r}; {nearest(word, map(str, Durability))}") from None


class Damage(Struct, frozen=True, kw_only=True):
    """One damaged thing in a store, by name."""

    where: str
    """The page, the run or the blob."""
    what: str
    """What is wrong with it."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class RunWriter(Protocol):
    """Appends to one run. Every method is durable when it returns, and safe to call from many threads."""

    @property
    def run_id(self) -> str: ...

    @property
    def cleaning(self) -> Cleaning | None:
        """The redaction of states before they are compared and handed over; None if they are stored as they are."""

    def append(self, event: StoredEvent) -> None:
        """Add one event."""

    def finish(self, header: RunHeader) -> None:
        """Write the run's final header; nothing can be appended after it."""


class News(Struct, frozen=True, kw_only=True):
    """Events that others wrote to a shared run."""

    fresh: bool = False
    """The run is another one than before: what was known of it no longer holds."""
    events: list[StoredEvent] = []


class SharedRun(Protocol):
    """A run that several processes append to. A turn is one transaction; the first one makes the run."""

    run_id: str
    header: RunHeader | None
    """As it was last seen; None when there is no such run."""

    @property
    def next_seq(self) -> int:
        """The sequence number of the next event."""

    def news(self) -> News:
        """Return what was written since the last look or turn."""

    def turn(self) -> AbstractContextManager[News]:
        """The right to write, until the end of the block."""

    def write_header(self, header: RunHeader) -> None:
        """Make the run, or replace its header; inside a turn."""

    def append(self, event: StoredEvent) -> None:
        """Add one event, which bears the next sequence number; inside a turn."""

    def close(self) -> None:
        """Release what it holds, for now: the next look or turn begins where this one ended."""


class Store(Protocol):
    """Runs at rest."""

    def begin(self, header: RunHeader) -> RunWriter:
        """Start a new run; an id that exists is a StoreError."""

    def add(self, run: TraceRun) -> None:
        """Keep a whole run, all or nothing."""

    def cleaned(self, run: TraceRun) -> TraceRun:
        """The run as `add` keeps it: without what the store does not keep."""

    def share(self, run_id: str) -> SharedRun:
        """A run, there already or not, to append to with others. It is kept as it is: an agent goes on with it."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that is read in the block is of one moment; others may write meanwhile."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Nobody else writes during the block; what is written in it is kept as a whole, or not at all."""

    def replace(self, runs: Iterable[TraceRun]) -> None:
        """Put these runs, as they are, in place of those with their ids, all or none. Forks keep what they share."""

    def delete(self, run_ids: Iterable[str]) -> int:
        """Remove runs and what only they hold, all or none; gives how many there were. Forks keep what they share."""

    def tag(self, run_id: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> RunHeader:
        """Give a run tags, and take tags from it; gives its header. A run that is being recorded ends with its own."""

    def header(self, run_id: str) -> RunHeader:
        """A run's header, by its id or an unambiguous beginning of it, or by the name of the newest such run."""

    def headers(
        self,
        *,
        limit: int | None = None,
        status: str | None = None,
        name: str | None = None,
        below: str | None = None,
    ) -> list[RunHeader]:
        """The newest runs first; only those of a status or name, or with ids below this one, where it is given.

        An id is below another when it is the other, a slash and more.
        """

    def events(self, run_id: str) -> Iterator[AnyEvent]:
        """A run's events in the order they were written, a pack at a time."""

    def load(self, run_id: str) -> TraceRun:
        """A whole run, its events in the order they began."""

    def state_at(self, run_id: str, seq: int | None = None) -> Json:
        """The state after the last checkpoint at or before event `seq`; the latest when None.

        Where the log says that this state was not kept, that is a StateNotKept, never the state before it.
        """

    def state_json(self, run_id: str, seq: int | None = None) -> bytes:
        """The same, as the JSON text it is kept in."""

    def verify(self, on_progress: OnProgress = ignore_progress) -> Iterator[Damage]:
        """Read everything; yield whatever is damaged."""

    def close(self) -> None:
        """Release files; further calls are errors."""
