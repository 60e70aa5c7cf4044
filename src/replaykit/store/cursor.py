"""A cursor: reads the events of a run once, also while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from replaykit.errors import CorruptStore, RunNotFound, StoreError
from replaykit.model.events import AnyEvent, Shared, StoredEvent
from replaykit.model.text_splice import ArgumentsFold
from replaykit.store.rows import missing_events

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore


MAX_ANCESTORS = 100
"""How many forks of forks are followed; each takes a few levels of Python's stack."""


class EventCursor:
    """A position in the events of one run. Events that a fork shares are read from its parent."""

    def __init__(self, store: SQLiteStore, run_id: str, ancestors: AncestorEvents | None = None) -> None:
        self._store = store
        self.number, self.header = store.find(run_id)
        self.count = 0
        """The number of events that were read."""
        self._ancestors = AncestorEvents(store, self.header.id) if ancestors is None else ancestors
        self._arguments = ArgumentsFold()

    def read(self) -> Iterator[AnyEvent]:
        """Yield the events that were written since the last call, in the order they were written."""
        number, self.header = self._store.find(self.header.id)
        if number != self.number:
            raise StoreError(f"run {self.header.id} was replaced while it was read")
        start = self.count
        for first, batch in self._store.batches(self.number, since=start):
            is_partly_read = first < self.count == start  # a pack that holds events of the last call
            if first != self.count and not is_partly_read:
                raise missing_events(self.header.id, self.count, first)
            for event in batch[self.count - first :]:
                restored = self._restored(event)
                self.count += 1
                yield restored
        self._check_count()

    def _check_count(self) -> None:
        """Raise `CorruptStore` if events are missing. Other processes may append to a shared run while it is read."""
        promised = self.header.event_count
        if promised is None or self.count == promised:
            return
        number, self.header = self._store.find(self.header.id)
        is_growing = number == self.number and promised < self.count <= (self.header.event_count or self.count)
        if not is_growing:
            raise missing_events(self.header.id, self.count, promised)

    def _restored(self, event: StoredEvent) -> AnyEvent:
        try:
            if isinstance(event, Shared):
                return self._shared(event)
            return self._arguments.restore(event)
        except (ValueError, KeyError, RunNotFound) as error:
            where = f"run {self.header.id}, event {event.seq}"
            raise CorruptStore(f"it cannot be reconstructed ({error})", where=where) from None

    def _shared(self, event: Shared) -> AnyEvent:
        """Return the parent's event with the fork's position; raise `KeyError` if the parent does not have it."""
        original = self._ancestors.of(event.run)[event.of]
        position = {name: getattr(event, name) for name in ("seq", "at", "step", "parent", "path")}
        return replace(original, **position)


class AncestorEvents:
    """The events of the runs that a fork shares events with, read once however many forks between share them, too."""

    def __init__(self, store: SQLiteStore, run_id: str) -> None:
        self._store = store
        self._unfinished = {run_id}
        """The fork, and those of its ancestors that are being read."""
        self._events: dict[str, dict[int, AnyEvent]] = {}

    def of(self, run_id: str) -> dict[int, AnyEvent]:
        """Return the events of a run by their numbers."""
        if run_id not in self._events:
            self._events[run_id] = self._read(run_id)
        return self._events[run_id]

    def _read(self, run_id: str) -> dict[int, AnyEvent]:
        if run_id in self._unfinished:
            raise ValueError(f"{run_id} is its own ancestor")
        if len(self._unfinished) > MAX_ANCESTORS:
            raise StoreError(f"run {run_id} is shared by forks of forks, more than {MAX_ANCESTORS} of them in a row")
        self._unfinished.add(run_id)
        try:
            return {event.seq: event for event in EventCursor(self._store, run_id, self).read()}
        finally:
            self._unfinished.remove(run_id)
