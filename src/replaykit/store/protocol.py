"""What every store offers. `replaykit.testing` has the conformance suite that each backend passes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from replaykit.model.events import AnyEvent, StoredEvent
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.values import Json


class Durability(StrEnum):
    """What an acknowledged event survives."""

    PROCESS = "process"  # kill -9 of the process
    POWER = "power"  # loss of power: one fsync per event


class Damage(Struct, frozen=True, kw_only=True):
    """One damaged thing in a store, by name."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class RunWriter(Protocol):
    """Appends to one run. Every method is durable when it returns, and safe to call from many threads."""

    @property
    def run_id(self) -> str: ...

    def append(self, event: StoredEvent) -> None:
        """Add one event."""

    def finish(self, header: RunHeader) -> None:
        """Write the run's final header; nothing can be appended after it."""


class Store(Protocol):
    """Runs at rest."""

    def begin(self, header: RunHeader) -> RunWriter:
        """Start a new run; an id that exists is a StoreError."""

    def add(self, run: TraceRun) -> None:
        """Keep a whole run, all or nothing."""

    def header(self, run_id: str) -> RunHeader:
        """A run's header, by its id or an unambiguous beginning of it, or by the name of the newest such run."""

    def headers(
        self, *, limit: int | None = None, status: str | None = None, name: str | None = None
    ) -> list[RunHeader]:
        """The newest runs first; only those of a status or name where one is given."""

    def events(self, run_id: str) -> Iterator[AnyEvent]:
        """A run's events in the order they were written, a pack at a time."""

    def load(self, run_id: str) -> TraceRun:
        """A whole run, its events in the order they began."""

    def state_at(self, run_id: str, seq: int | None = None) -> Json:
        """The state after the last checkpoint at or before event `seq`; the latest when None."""

    def verify(self) -> Iterator[Damage]:
        """Read everything; yield whatever is damaged."""

    def close(self) -> None:
        """Release files; further calls are errors."""
