"""The runs that are shown: from the store, perhaps still being recorded, or read from a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from replaykit.errors import RunNotFound, StateNotKept, StoreError
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, State
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.store.cursor import EventCursor
from replaykit.store.run_locks import running_numbers
from replaykit.store.sqlite import SQLiteStore


class RunSource(Protocol):
    """A run that is read once, in pieces."""

    @property
    def header(self) -> RunHeader:
        """The header as last read."""

    def is_running(self) -> bool:
        """Return whether the run may still grow."""

    def has_changed(self) -> bool:
        """Return whether the run is another one than the one that was read."""

    def read(self) -> Iterator[AnyEvent]:
        """Yield the events since the last call."""

    def state_json(self, seq: int) -> bytes:
        """Return the state at an event; raise `StateNotKept` or `StoreError` if it cannot be shown."""


class StoredRun:
    """A run in the store."""

    def __init__(self, store: SQLiteStore, run_id: str) -> None:
        self._store = store
        self._cursor = EventCursor(store, run_id)

    @property
    def header(self) -> RunHeader:
        return self._cursor.header

    def is_running(self) -> bool:
        """Return False for a run that has ended, and for one whose process has died."""
        self._cursor.header = self._store.header(self.header.id)
        if self.header.status is not RunStatus.RUNNING:
            return False
        written = running_numbers(self._store.real_path, [self._cursor.number])
        return written is None or self._cursor.number in written

    def has_changed(self) -> bool:
        """Return True for a run that was written anew, as by a late span, and for one that was deleted."""
        try:
            return self._store.header(self.header.id) != self.header
        except RunNotFound:
            return True

    def read(self) -> Iterator[AnyEvent]:
        return self._cursor.read()

    def state_json(self, seq: int) -> bytes:
        return self._store.state_json(self.header.id, seq)


class LoadedRun:
    """A complete run in memory."""

    def __init__(self, run: TraceRun) -> None:
        self.header = run.header
        self._unread = iter(run.events)
        self._states = [event for event in run.events if isinstance(event, State)]

    def is_running(self) -> bool:
        return False

    def has_changed(self) -> bool:
        return False

    def read(self) -> Iterator[AnyEvent]:
        return self._unread

    def state_json(self, seq: int) -> bytes:
        fold = StateFold()
        last = None
        for state in self._states:
            if state.seq <= seq:
                last = state
                fold.apply(state)
        if last is None:
            raise StoreError(f"the run has no checkpoint at or before event {seq}")
        if not last.is_kept:
            raise StateNotKept(f"the state at event {last.seq} was not stored")
        return fold.text
