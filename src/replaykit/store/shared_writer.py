"""Runs that several writers append to in turns. Each turn sees what the others wrote, and commits as a whole.

A turn that appends one event writes it to the run's log, which takes a tenth of the time of a transaction. Any other
turn is a transaction that also moves the log's events into the database.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from replaykit.errors import StoreError
from replaykit.model.events import StoredEvent, encode_event
from replaykit.model.run import RunHeader
from replaykit.store.event_log import EventRow
from replaykit.store.protocol import News
from replaykit.store.rows import insert_run, missing_events, read_header, seal, write_header
from replaykit.store.schema import translate
from replaykit.store.shared_log import SharedLog
from replaykit.store.writer import LOG_PACKS, PACK_BYTES, PACK_EVENTS, fold_rows

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore

_NOWHERE = -1  # no run with this id exists
_UNSURE = -2  # what was read may have been rolled back
_SPAN = 1 << 32
_NEVER = (-1, -1)
_NO_NEWS = News()


class SharedWriter:
    """Appends to a run by id. The first turn creates the run, and others may delete or replace it."""

    def __init__(self, store: SQLiteStore, run_id: str) -> None:
        self.run_id = run_id
        self.header: RunHeader | None = None
        """The header as last read; None if the run does not exist."""
        self._header_data = b""  # the row that contains it
        self._store = store
        self._number = _NOWHERE
        self._log: SharedLog | None = None
        self._others_log = False  # whether others have also written to the log
        self._seen = 0  # number of events returned to the caller or written here
        self._stored = 0  # number of events in the database
        self._folded = 0  # number of those that are in packs
        self._last_look = _NEVER
        self._in_turn = False
        self._db: sqlite3.Connection | None = None  # the turn's transaction, if it needs one
        self._rows: list[EventRow] = []  # key and text of each event appended in this turn

    def news(self) -> News:
        """Return the events written since the last call."""
        with self._store.snapshot():
            return self._look()

    def turn(self) -> _WriteTurn:
        """Hold the exclusive right to write. The block's writes are committed together or not at all."""
        return _WriteTurn(self)

    def close(self) -> None:
        """Move the log's events into the database if possible now, and release the log."""
        if self._log is not None and self._log.size and not self._store.db.in_transaction:
            with suppress(StoreError):  # readers still see the log, and the next process folds it
                self._empty_log()
        self._release_log()

    def _empty_log(self) -> None:
        with self.turn():
            if self._number >= 0:
                self._transaction()

    def _release_log(self) -> None:
        if self._log is not None:
            self._log.close()

    def write_header(self, header: RunHeader) -> None:
        """Create the run or replace its header. Call inside a turn."""
        db = self._transaction()
        if self.header is None:
            self._enter(insert_run(db, header))
        else:
            write_header(db, self._number, header)
        # Forget the row, so that the next look reads it again: another writer may restore exactly the previous one.
        self.header, self._header_data = header, b""

    def _enter(self, number: int) -> None:
        """Switch to the run with this number, from its beginning."""
        self._release_log()
        store = self._store
        self._number, self._seen, self._stored, self._folded = number, 0, 0, 0
        self._log = SharedLog(store.logs, number, self.run_id, store.durability)
        self._others_log = False

    @property
    def next_seq(self) -> int:
        """The sequence number for the next event. Use inside a turn."""
        return self._seen

    def append(self, event: StoredEvent) -> None:
        """Append one event with the next sequence number. Call inside a turn, after the run was created."""
        self._check_turn()
        if self.header is None or event.seq != self._seen:
            raise StoreError(f"run {self.run_id}: event {event.seq} where {self._seen} is next")
        if self.header.event_count is not None:  # the run had ended; it continues, or this event is late
            self.write_header(msgspec.structs.replace(self.header, event_count=self._seen + 1))
        self._rows.append((self._number << 32 | self._seen, encode_event(event)))
        self._seen += 1

    def _save(self) -> None:
        """Commit what the turn wrote."""
        if self._db is None and (not self._rows or self._append_to_log()):
            return
        db = self._transaction()
        if self._number >= 0:
            self._move_log(db)
        db.execute("COMMIT")
        self._store.committed()
        self._store.turns += 1
        self._last_look = (self._last_look[0], self._store.turns)

    def _append_to_log(self) -> bool:
        """Append to the log; return False if it is full, or if a kill could leave only some of several events in it."""
        if len(self._rows) > 1 or self._log is None or self._is_full(self._log):
            return False
        self._log.append(*self._rows[0])
        return True

    def _is_full(self, log: SharedLog) -> bool:
        return self._seen - self._stored > LOG_PACKS * PACK_EVENTS or log.size > LOG_PACKS * PACK_BYTES

    def _move_log(self, db: sqlite3.Connection) -> None:
        """Move the events of the log and of this turn into the database. The log is deleted after the commit."""
        log = self._log
        assert log is not None, "the run is there"
        low = self._number << 32
        rows = [row for row in log.rows() if row[0] >= low + self._stored]
        rows += [(key, seal(key, body)) for key, body in self._rows]
        if len(rows) != self._seen - self._stored:
            raise missing_events(self.run_id, self._stored, self._seen)
        if self._seen - self._folded >= PACK_EVENTS or sum(len(data) for _, data in rows) > PACK_BYTES:
            first, end = low + self._folded, low + self._stored
            stored = db.execute("SELECT key, data FROM events WHERE key >= ? AND key < ? ORDER BY key", (first, end))
            fold_rows(db, [*stored, *rows], f"run {self.run_id}, tail")
            db.execute("DELETE FROM events WHERE key >= ? AND key < ?", (first, end))
            self._folded = self._seen
        else:
            db.executemany("INSERT INTO events VALUES (?, ?)", rows)
        self._stored = self._seen
        if self._others_log:  # other writers may have promised more durability
            self._store.after_commit(self._store.sync_commits)
            self._others_log = False
        self._store.after_commit(log.remove)

    def _check_turn(self) -> None:
        if not self._in_turn:
            raise StoreError(f"run {self.run_id}: it is written in turns; write inside `with writer.turn():`")

    def _transaction(self) -> sqlite3.Connection:
        """Return the transaction of this turn, beginning it if necessary."""
        self._check_turn()
        if self._db is None:
            self._store.db.execute("BEGIN IMMEDIATE")
            self._db = self._store.db
        return self._db

    def _begin(self) -> News:
        """Begin a turn and return the news."""
        store = self._store
        store.check_owner(self.run_id)
        store.recover_logs()
        # The file lock of the turn excludes other stores, but not the threads of this one.
        store.lock.acquire()
        try:
            store.live.begin_turn()
        except BaseException:
            store.lock.release()
            raise
        self._in_turn = True
        try:
            if store.read_only or not store.live.has_turns:
                self._transaction()
            return self._look()
        except BaseException as error:
            self._finish(keep=False)
            if isinstance(error, sqlite3.Error):
                raise translate(error, str(store.path)) from None
            raise

    def _finish(self, *, keep: bool) -> None:
        """End a turn by committing or rolling back what was written."""
        store = self._store
        is_saved = False
        try:
            if keep:
                self._save()
                is_saved = True
        except sqlite3.Error as error:
            raise translate(error, str(store.path)) from None
        finally:
            if store.db.in_transaction:
                store.db.execute("ROLLBACK")
                store.rolled_back()
            if not is_saved:
                self._number, self._last_look = _UNSURE, _NEVER  # read everything again
            self._rows, self._db, self._in_turn = [], None, False
            store.live.end_turn()
            store.lock.release()

    def _look(self) -> News:
        try:
            (version,) = self._store.db.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise translate(error, str(self._store.path)) from None
        # `data_version` changes with the commits of other connections, but not with this connection's own.
        now = (version, self._store.turns)
        try:
            if now == self._last_look:  # no connection has changed the database
                return self._logged_news()
            news = self._changes()
        except BaseException:
            self._number, self._last_look = _UNSURE, _NEVER  # damage must be reported again by the next look
            raise
        self._last_look = now
        return news

    def _logged_news(self) -> News:
        rows = self._logged_rows()
        if not rows:
            return _NO_NEWS
        return News(events=self._read(rows))

    def _logged_rows(self) -> list[EventRow]:
        """Return the rows that others appended to the log."""
        if self._log is None:
            return []
        rows = self._log.news()
        if rows:
            self._others_log = True
        return rows

    def _changes(self) -> News:
        rows = self._store.query("SELECT n, header FROM runs WHERE id = ?", self.run_id)
        if not rows:
            fresh = self._number != _NOWHERE
            self._release_log()
            self._number, self._seen, self._log = _NOWHERE, 0, None
            self.header, self._header_data = None, b""
            return News(fresh=fresh)
        number, data = rows[0]
        if data != self._header_data:
            self.header, self._header_data = read_header(number, self.run_id, data), data
        fresh = number != self._number
        if fresh:
            self._enter(number)
        events = self._unseen()
        if self.header is not None and self.header.event_count not in (None, self._seen):
            raise missing_events(self.run_id, self._seen, self.header.event_count or 0)
        return News(fresh=fresh, events=events)

    def _unseen(self) -> list[StoredEvent]:
        low = self._number << 32
        logged = self._logged_rows()
        packs = self._store.query(
            "SELECT key, count FROM packs WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1", low, low + _SPAN
        )
        self._folded = packs[0][0] - low + packs[0][1] if packs else 0
        last = self._store.query("SELECT max(key) FROM events WHERE key >= ? AND key < ?", low, low + _SPAN)[0][0]
        self._stored = max(self._folded, 0 if last is None else last - low + 1)
        found: list[StoredEvent] = []
        if self._seen < self._stored:
            for first, batch in self._store.batches(self._number, since=self._seen):
                found += batch[max(0, self._seen - first) :]
            self._seen += len(found)
            if self._seen < self._stored:
                raise missing_events(self.run_id, self._seen, self._stored)
        return found + self._read(logged)

    def _read(self, rows: list[EventRow]) -> list[StoredEvent]:
        """Return the events of logged rows that are still unread."""
        low = self._number << 32
        rows = [row for row in rows if row[0] >= low + self._seen]
        if not rows:
            return []
        if rows[0][0] != low + self._seen:
            raise missing_events(self.run_id, self._seen, rows[0][0] - low)
        events = self._store.read_tail(rows)
        self._seen += len(events)
        return events


class _WriteTurn:
    """The context manager of a turn. A class, because generators are slower and this runs at every step of a graph."""

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
