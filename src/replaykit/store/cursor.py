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


class EventCursor:
    """A position in the events of one run. Events that a fork shares are read from its parent."""

    def __init__(self, store: SQLiteStore, run_id: str, descendants: frozenset[str] = frozenset()) -> None:
        self._store = store
        self.number, self.header = store.find(run_id)
        self.count = 0
        """The number of events that were read."""
        self._family = descendants | {self.header.id}
        self._arguments = ArgumentsFold()
        self._parents: dict[str, dict[int, AnyEvent]] = {}

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
        if event.run in self._family:
            raise ValueError(f"{event.run} is its own ancestor")
        if event.run not in self._parents:
            parent = EventCursor(self._store, event.run, self._family)
            self._parents[event.run] = {original.seq: original for original in parent.read()}
        original = self._parents[event.run][event.of]
        position = {name: getattr(event, name) for name in ("seq", "at", "step", "parent", "path")}
        return replace(original, **position)
