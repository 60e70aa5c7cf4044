"""The interface of stores. `replaykit.testing` contains the conformance suite that every backend passes."""

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
"""A callback that takes the amount done and the total."""


def ignore_progress(_done: int, _total: int) -> None:
    """Report no progress."""


class Durability(StrEnum):
    """The failures that an acknowledged event survives."""

    PROCESS = "process"  # survives a kill of the process
    POWER = "power"  # survives a power failure, with one fsync per event


def durability_of(word: str) -> Durability:
    """Return the durability with this name, or raise `UsageError`."""
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
    """Appends to one run. Each method is durable when it returns and may be called from any thread."""

    @property
    def run_id(self) -> str: ...

    @property
    def cleaning(self) -> Cleaning | None:
        """The redaction applied to states before they are compared; None if states are stored unchanged."""

    def append(self, event: StoredEvent) -> None:
        """Append one event."""

    def finish(self, header: RunHeader) -> None:
        """Write the run's final header. The run cannot be extended afterwards."""


class News(Struct, frozen=True, kw_only=True):
    """Events that other writers added to a shared run."""

    fresh: bool = False
    """True if the run was replaced: earlier knowledge about it is void."""
    events: list[StoredEvent] = []


class SharedRun(Protocol):
    """A run that several processes append to, one turn at a time.

    A turn is a transaction; the first one creates the run.
    """

    run_id: str
    header: RunHeader | None
    """The header as last read; None if the run does not exist."""

    @property
    def next_seq(self) -> int:
        """The sequence number for the next event."""

    def news(self) -> News:
        """Return the events written since the last call or turn."""

    def turn(self) -> AbstractContextManager[News]:
        """Hold the exclusive right to write for the length of the block."""

    def write_header(self, header: RunHeader) -> None:
        """Create the run or replace its header. Call inside a turn."""

    def append(self, event: StoredEvent) -> None:
        """Append one event, which must have the next sequence number. Call inside a turn."""

    def close(self) -> None:
        """Release resources. The next call or turn continues where this one ended."""


class Store(Protocol):
    """Persistent storage of runs."""

    def begin(self, header: RunHeader) -> RunWriter:
        """Start a new run. An existing id raises `StoreError`."""

    def add(self, run: TraceRun) -> None:
        """Store a complete run, all or nothing."""

    def cleaned(self, run: TraceRun) -> TraceRun:
        """Return the run as `add` would store it, with secrets redacted."""

    def share(self, run_id: str) -> SharedRun:
        """Open a run, existing or not, for appending together with others.

        It is not redacted, because the agent continues from it.
        """

    def snapshot(self) -> AbstractContextManager[None]:
        """Give all reads in the block the same view of the store; others may write meanwhile."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Lock out all other writers for the block, and commit its writes together or not at all."""

    def replace(self, runs: Iterable[TraceRun]) -> None:
        """Replace the runs with these ids, all or none, without redacting. Forks keep the events they share."""

    def delete(self, run_ids: Iterable[str]) -> int:
        """Delete runs and the data only they use, all or none; return how many existed.

        Forks keep the events they share.
        """

    def tag(self, run_id: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> RunHeader:
        """Add and remove tags of a run and return its header. A run in progress ends with its own tags."""

    def header(self, run_id: str) -> RunHeader:
        """Return a run's header by id, unambiguous prefix of an id, or name (the newest run with that name)."""

    def headers(
        self,
        *,
        limit: int | None = None,
        status: str | None = None,
        name: str | None = None,
        below: str | None = None,
        before: str | None = None,
    ) -> list[RunHeader]:
        """Return the newest headers first, optionally only those with a status, a name, or ids below another.

        An id is below another if it starts with it and a slash. `before` is a run: only those that follow it in the
        list are returned, and none if it is not there.
        """

    def events(self, run_id: str) -> Iterator[AnyEvent]:
        """Yield a run's events in the order they were written, loading one pack at a time."""

    def load(self, run_id: str) -> TraceRun:
        """Return a complete run with its events in the order they began."""

    def state_at(self, run_id: str, seq: int | None = None) -> Json:
        """Return the state after the last checkpoint at or before event `seq`; the latest if None.

        If the log says that this state was not stored, raise `StateNotKept` rather than return an earlier state.
        """

    def state_json(self, run_id: str, seq: int | None = None) -> bytes:
        """Return the same state as its stored JSON text."""

    def verify(self, on_progress: OnProgress = ignore_progress) -> Iterator[Damage]:
        """Read everything and yield all damage."""

    def close(self) -> None:
        """Release files. Later calls raise errors."""
