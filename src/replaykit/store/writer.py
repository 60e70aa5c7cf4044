"""Writing one run: an event is a row and a transaction; a full tail becomes a pack."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from replaykit.errors import StoreError
from replaykit.model.events import Call, StoredEvent, encode_event
from replaykit.model.run import RunHeader
from replaykit.model.text_splice import ArgumentsFold
from replaykit.store import blobs
from replaykit.store.rows import insert_run, seal_event, write_header, write_pack
from replaykit.store.schema import translate

if TYPE_CHECKING:
    from replaykit.model.changes import Cleaning
    from replaykit.model.run import TraceRun
    from replaykit.store.sqlite import SQLiteStore
    from replaykit.telemetry.live_spans import LiveRun

_NONE = 1 << 62
PACK_EVENTS = 64
PACK_BYTES = 256 * 1024  # a pack is folded at this size even when it holds fewer events


def add_run(db: sqlite3.Connection, run: TraceRun) -> None:
    """Write a whole run as packs, its header as it is, inside a transaction."""
    add_stored(db, run.header, run.events)


def add_stored(db: sqlite3.Connection, header: RunHeader, events: Sequence[StoredEvent]) -> None:
    """The same for events as they are at rest: some may be references to those of another run."""
    arguments = ArgumentsFold()
    number = insert_run(db, header)
    for start in range(0, len(events), PACK_EVENTS):
        chunk = events[start : start + PACK_EVENTS]
        bodies = []
        for event in chunk:
            short = arguments.shorten(event)
            bodies.append(blobs.externalise(db, number, short, encode_event(short)))
            arguments.remember(event)
        write_pack(db, number << 32 | start, bodies, min(event.seq for event in chunk))


class SQLiteWriter:
    """Appends to one run, one transaction per event; `lazily`, one per pack."""

    def __init__(
        self,
        store: SQLiteStore,
        number: int,
        header: RunHeader,
        watched: LiveRun | None = None,
        *,
        lazily: bool = False,
    ) -> None:
        self._store = store
        self._lazily = lazily
        self._watched = watched  # who is told what was written
        self._number = number
        self._header = header
        self._base = number << 32
        self._next = 0
        self._tail: list[bytes] = []  # bodies of the events that are rows, not yet in a pack
        self._tail_bytes = 0
        self._lowest = _NONE  # the lowest sequence number in the tail
        self._finished = False
        self._door = store.door
        self._arguments = ArgumentsFold()

    @property
    def run_id(self) -> str:
        return self._header.id

    @property
    def cleaning(self) -> Cleaning | None:
        return self._door

    def append(self, event: StoredEvent, served: Call | None = None) -> None:
        """Add one event; it is on disk when this returns. `served`: the call on a tape that it was answered with."""
        if self._door is not None:
            event = self._door.event(event, served)
        try:
            self._write(event)
        except StoreError:
            if self._watched is not None:
                self._watched.lost()
            raise
        if self._watched is not None:
            self._watched.event(event)

    def _write(self, event: StoredEvent) -> None:
        store = self._store
        store.lock.acquire()  # `with` takes twice as long
        try:
            self._check_writable()
            short = self._arguments.shorten(event)
            body = encode_event(short)
            size = self._tail_bytes + len(body)
            if size > PACK_BYTES or len(self._tail) + 1 >= PACK_EVENTS or len(body) > blobs.LARGE:
                self._append_folding(short, body)
                self._arguments.remember(event)
                return
            key = self._base | self._next
            try:  # the common case: one statement is one transaction
                self._insert(store.db, key, body)
            except sqlite3.Error as error:
                raise translate(error, str(store.path)) from None
            self._next += 1
            self._tail.append(body)
            self._tail_bytes = size
            if event.seq < self._lowest:
                self._lowest = event.seq
            self._arguments.remember(event)
        finally:
            store.lock.release()

    def finish(self, header: RunHeader) -> None:
        """Write the final header, and fold what is left of the tail."""
        header = header if self._door is None else self._door.header(header)
        if self._watched is None:
            self._finish(header)
            return
        header = self._watched.marked(header)
        try:
            self._finish(header)
        except StoreError:
            self._watched.lost()
            raise
        finally:
            self._watched.end(header)

    def _finish(self, header: RunHeader) -> None:
        with self._store.lock:
            self._check_writable()
            with self._store.transaction() as db:
                self._check_there(db)
                if self._tail:
                    self._fold(db, self._tail, self._lowest)
                write_header(db, self._number, msgspec.structs.replace(header, event_count=self._next))
            self._finished = True
            self._store.live.let_go(self._number)

    def _append_folding(self, event: StoredEvent, body: bytes) -> None:
        """Append an event that completes a pack or is large; what is remembered changes only after the commit."""
        with self._store.transaction() as db:
            self._check_there(db)
            bodies = [*self._tail, blobs.externalise(db, self._number, event, body)]
            size = sum(map(len, bodies))
            lowest = min(self._lowest, event.seq)
            full = len(bodies) >= PACK_EVENTS or size > PACK_BYTES
            if full:
                self._fold(db, bodies, lowest)
            else:
                self._insert(db, self._base | self._next, bodies[-1])
        self._next += 1
        self._tail, self._tail_bytes, self._lowest = ([], 0, _NONE) if full else (bodies, size, lowest)

    def _insert(self, db: sqlite3.Connection, key: int, body: bytes) -> None:
        if self._lazily:
            return
        sql = "INSERT INTO events SELECT ?, ? WHERE EXISTS (SELECT 1 FROM runs WHERE n = ?)"
        if not db.execute(sql, (key, seal_event(key, body), self._number)).rowcount:
            raise self._gone()

    def _check_there(self, db: sqlite3.Connection) -> None:
        if not db.execute("SELECT 1 FROM runs WHERE n = ?", (self._number,)).fetchone():
            raise self._gone()

    def _gone(self) -> StoreError:
        return StoreError(f"run {self.run_id} was deleted or rewritten while it was recorded; nothing can be added")

    def _fold(self, db: sqlite3.Connection, bodies: list[bytes], lowest: int) -> None:
        """Put the tail, and what may follow it, into one pack."""
        first = self._base | (self._next - len(self._tail))
        write_pack(db, first, bodies, lowest)
        db.execute("DELETE FROM events WHERE key >= ? AND key < ?", (first, first + len(self._tail)))

    def _check_writable(self) -> None:
        if self._finished:
            raise StoreError(f"run {self.run_id} has ended; nothing can be added to it")
        if self._store.owner_pid != os.getpid():
            self._store.check_owner(self.run_id)
