"""A run that several writers append to, in turn: each turn is one transaction, and sees what the others wrote."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import msgspec

from replaykit.errors import StoreError
from replaykit.model.events import StoredEvent, encode_event
from replaykit.model.run import RunHeader
from replaykit.store import blobs
from replaykit.store.protocol import News
from replaykit.store.rows import insert_run, missing_events, read_header, seal, unseal_event, write_header, write_pack
from replaykit.store.schema import translate
from replaykit.store.writer import PACK_BYTES, PACK_EVENTS

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore

_NOWHERE = -1  # no run of this id has been seen
_UNSURE = -2  # what was seen may not be there
_SPAN = 1 << 32
_NEVER = (-1, -1)
_NO_NEWS = News()


class SharedWriter:
    """Appends to a run by its id; the run is made by the first turn, and may be removed or rewritten by others."""

    def __init__(self, store: SQLiteStore, run_id: str) -> None:
        self.run_id = run_id
        self.header: RunHeader | None = None
        """The header as it was last seen; None when there is no such run."""
        self._header_data = b""  # the row that says so
        self._store = store
        self._number = _NOWHERE
        self._seen = 0  # events that were handed out, or written here
        self._folded = 0  # events that are in packs
        self._last_look = _NEVER
        self._db: sqlite3.Connection | None = None  # inside a turn

    def news(self) -> News:
        """Return what was written since the last look."""
        with self._store.lock:
            return self._look()

    def turn(self) -> _WriteTurn:
        """The right to write, until the end of the block: all of it is kept, or nothing."""
        return _WriteTurn(self)

    def write_header(self, header: RunHeader) -> None:
        """Make the run, or replace its header; inside a turn."""
        db = self._in_turn()
        if self.header is None:
            self._number, self._seen, self._folded = insert_run(db, header), 0, 0
        else:
            write_header(db, self._number, header)
        # Read it again after a turn of somebody else: they may put back the very row that was there before this.
        self.header, self._header_data = header, b""

    @property
    def next_seq(self) -> int:
        """The sequence number of the next event; inside a turn."""
        return self._seen

    def append(self, event: StoredEvent) -> None:
        """Add one event, which bears the next sequence number; inside a turn, after the run was made."""
        db = self._in_turn()
        if self.header is None or event.seq != self._seen:
            raise StoreError(f"run {self.run_id}: event {event.seq} where {self._seen} is next")
        if self.header.event_count is not None:  # it had ended; this came late, or it goes on
            self.write_header(msgspec.structs.replace(self.header, event_count=self._seen + 1))
        key = self._number << 32 | self._seen
        body = blobs.externalise(db, self._number, event, encode_event(event))
        db.execute("INSERT INTO events VALUES (?, ?)", (key, seal(key, body)))
        self._seen += 1
        if self._seen - self._folded >= PACK_EVENTS or len(body) > PACK_BYTES:
            self._fold(db)

    def _fold(self, db: sqlite3.Connection) -> None:
        low = self._number << 32
        first, end = low + self._folded, low + self._seen
        rows = db.execute("SELECT key, data FROM events WHERE key >= ? AND key < ? ORDER BY key", (first, end))
        bodies = [unseal_event(key, data, f"run {self.run_id}, event {key - low}") for key, data in rows]
        write_pack(db, first, bodies, self._folded)
        db.execute("DELETE FROM events WHERE key >= ? AND key < ?", (first, end))
        self._folded = self._seen

    def _in_turn(self) -> sqlite3.Connection:
        if self._db is None:
            raise StoreError(f"run {self.run_id}: it is written in turns; write inside `with writer.turn():`")
        return self._db

    def _begin(self) -> News:
        """Begin a turn: its transaction, and what is new."""
        store = self._store
        store.lock.acquire()
        try:
            store.check_owner(self.run_id)
            store.db.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            store.lock.release()
            if isinstance(error, sqlite3.Error):
                raise translate(error, str(store.path)) from None
            raise
        self._db = store.db
        try:
            return self._look()
        except BaseException:
            self._finish(keep=False)
            raise

    def _finish(self, *, keep: bool) -> None:
        """End a turn; what was written is there now, or never was."""
        store, self._db = self._store, None
        try:
            if keep:
                store.db.execute("COMMIT")
                store.turns += 1
                self._last_look = (self._last_look[0], store.turns)
                return
        except sqlite3.Error as error:
            raise translate(error, str(store.path)) from None
        finally:
            if store.db.in_transaction:
                store.db.execute("ROLLBACK")
            if not keep or self._last_look[1] != store.turns:
                self._number, self._last_look = _UNSURE, _NEVER  # look again, from the start
            store.lock.release()

    def _look(self) -> News:
        try:
            (version,) = self._store.db.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise translate(error, str(self._store.path)) from None
        now = (version, self._store.turns)
        if now == self._last_look:  # nobody has written anything, neither elsewhere nor here
            return _NO_NEWS
        try:
            news = self._changes()
        except BaseException:
            self._number, self._last_look = _UNSURE, _NEVER  # what is damaged now is damaged at the next look
            raise
        self._last_look = now
        return news

    def _changes(self) -> News:
        rows = self._store.query("SELECT n, header FROM runs WHERE id = ?", self.run_id)
        if not rows:
            fresh = self._number != _NOWHERE
            self._number, self._seen, self._folded = _NOWHERE, 0, 0
            self.header, self._header_data = None, b""
            return News(fresh=fresh)
        number, data = rows[0]
        if data != self._header_data:
            self.header, self._header_data = read_header(number, self.run_id, data), data
        fresh = number != self._number
        if fresh:
            self._number, self._seen = number, 0
        events = self._unseen()
        if self.header is not None and self.header.event_count not in (None, self._seen):
            raise missing_events(self.run_id, self._seen, self.header.event_count or 0)
        return News(fresh=fresh, events=events)

    def _unseen(self) -> list[StoredEvent]:
        low = self._number << 32
        packs = self._store.query(
            "SELECT key, count FROM packs WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1", low, low + _SPAN
        )
        self._folded = packs[0][0] - low + packs[0][1] if packs else 0
        last = self._store.query("SELECT max(key) FROM events WHERE key >= ? AND key < ?", low, low + _SPAN)[0][0]
        end = max(self._folded, 0 if last is None else last - low + 1)
        if end <= self._seen:
            return []
        found = [
            event
            for first, batch in self._store.batches(self._number, since=self._seen)
            for event in batch[max(0, self._seen - first) :]
        ]
        self._seen += len(found)
        if self._seen != end:
            raise missing_events(self.run_id, self._seen, end)
        return found


class _WriteTurn:
    """The block in which a shared run is written. A class, because it runs for every step of a graph."""

    __slots__ = ("_writer",)

    def __init__(self, writer: SharedWriter) -> None:
        self._writer = writer

    def __enter__(self) -> News:
        return self._writer._begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            self._writer._finish(keep=kind is None)
        except StoreError:
            if kind is None:
                raise
        if isinstance(error, sqlite3.Error):
            raise translate(error, str(self._writer._store.path)) from None
