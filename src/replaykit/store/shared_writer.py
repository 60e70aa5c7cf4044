"""A run that several writers append to, in turn: each turn sees what the others wrote, and is kept as a whole.

A turn that appends one event adds it to the run's log, which takes a tenth of the time of a transaction. A turn that
does anything else is one transaction, which moves the events of the log into the database as well.
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
        self._log: SharedLog | None = None
        self._others_log = False  # others have written to the log as well
        self._seen = 0  # events that were handed out, or written here
        self._stored = 0  # events that are in the database
        self._folded = 0  # of these, those in packs
        self._last_look = _NEVER
        self._in_turn = False
        self._db: sqlite3.Connection | None = None  # the transaction of a turn, if it needs one
        self._rows: list[EventRow] = []  # what a turn has appended so far: keys and texts

    def news(self) -> News:
        """Return what was written since the last look."""
        with self._store.snapshot():
            return self._look()

    def turn(self) -> _WriteTurn:
        """The right to write, until the end of the block: all of it is kept, or nothing."""
        return _WriteTurn(self)

    def close(self) -> None:
        """Move what is in the log into the database where that is possible now, and release the log."""
        if self._log is not None and self._log.size and not self._store.db.in_transaction:
            with suppress(StoreError):  # it is read where it is, and the next process folds it
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
        """Make the run, or replace its header; inside a turn."""
        db = self._transaction()
        if self.header is None:
            self._enter(insert_run(db, header))
        else:
            write_header(db, self._number, header)
        # Read it again after a turn of somebody else: they may put back the very row that was there before this.
        self.header, self._header_data = header, b""

    def _enter(self, number: int) -> None:
        """Turn to the run of this number, of which nothing was seen yet."""
        self._release_log()
        store = self._store
        self._number, self._seen, self._stored, self._folded = number, 0, 0, 0
        self._log = SharedLog(store.logs, number, self.run_id, store.durability)
        self._others_log = False

    @property
    def next_seq(self) -> int:
        """The sequence number of the next event; inside a turn."""
        return self._seen

    def append(self, event: StoredEvent) -> None:
        """Add one event, which bears the next sequence number; inside a turn, after the run was made."""
        self._check_turn()
        if self.header is None or event.seq != self._seen:
            raise StoreError(f"run {self.run_id}: event {event.seq} where {self._seen} is next")
        if self.header.event_count is not None:  # it had ended; this came late, or it goes on
            self.write_header(msgspec.structs.replace(self.header, event_count=self._seen + 1))
        self._rows.append((self._number << 32 | self._seen, encode_event(event)))
        self._seen += 1

    def _save(self) -> None:
        """Keep what the turn has written."""
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
        """Append to the log; False for more than one event, of which a kill could leave half, and for a full log."""
        if len(self._rows) > 1 or self._log is None or self._is_full(self._log):
            return False
        self._log.append(*self._rows[0])
        return True

    def _is_full(self, log: SharedLog) -> bool:
        return self._seen - self._stored > LOG_PACKS * PACK_EVENTS or log.size > LOG_PACKS * PACK_BYTES

    def _move_log(self, db: sqlite3.Connection) -> None:
        """Move the events of the log and of this turn into the database; the log goes when that is committed."""
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
        if self._others_log:  # they may have been promised more than we promise
            self._store.after_commit(self._store.sync_commits)
            self._others_log = False
        self._store.after_commit(log.remove)

    def _check_turn(self) -> None:
        if not self._in_turn:
            raise StoreError(f"run {self.run_id}: it is written in turns; write inside `with writer.turn():`")

    def _transaction(self) -> sqlite3.Connection:
        """The transaction of this turn."""
        self._check_turn()
        if self._db is None:
            self._store.db.execute("BEGIN IMMEDIATE")
            self._db = self._store.db
        return self._db

    def _begin(self) -> News:
        """Begin a turn; gives what is new."""
        store = self._store
        store.check_owner(self.run_id)
        store.recover_logs()
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
        """End a turn; what was written is there now, or never was."""
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
            if not is_saved:
                store.rolled_back()  # even after a COMMIT that was interrupted: others may write to the log again
                self._number, self._last_look = _UNSURE, _NEVER  # look again, from the start
            self._rows, self._db, self._in_turn = [], None, False
            store.live.end_turn()
            store.lock.release()

    def _look(self) -> News:
        try:
            (version,) = self._store.db.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise translate(error, str(self._store.path)) from None
        now = (version, self._store.turns)
        try:
            if now == self._last_look:  # nobody has changed the database, neither elsewhere nor here
                return self._logged_news()
            news = self._changes()
        except BaseException:
            self._number, self._last_look = _UNSURE, _NEVER  # what is damaged now is damaged at the next look
            raise
        self._last_look = now
        return news

    def _logged_news(self) -> News:
        rows = self._logged_rows()
        if not rows:
            return _NO_NEWS
        return News(events=self._read(rows))

    def _logged_rows(self) -> list[EventRow]:
        """What others have appended to the log."""
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
        """The events of the log's rows that were not seen yet."""
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
