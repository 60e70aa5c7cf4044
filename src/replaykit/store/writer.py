"""Write one run: each event is a frame in the run's log, and a full log is folded into packs."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from os import getpid  # by name: recording patches `os.getpid`, which makes it four times slower
from typing import TYPE_CHECKING

import msgspec
import zstandard

from replaykit.errors import CorruptStore, StoreError
from replaykit.model.events import Call, StoredEvent, decode_event, encode_event
from replaykit.model.run import RunHeader
from replaykit.model.text_splice import ArgumentsFold
from replaykit.store import blobs
from replaykit.store.event_log import EventRow, LogFile, MemoryLog
from replaykit.store.rows import insert_run, unseal_event, write_header, write_pack

if TYPE_CHECKING:
    from replaykit.model.changes import Cleaning
    from replaykit.model.run import TraceRun
    from replaykit.store.sqlite import SQLiteStore
    from replaykit.telemetry.live_spans import LiveRun

PACK_EVENTS = 64
PACK_BYTES = 256 * 1024  # a pack is closed at this size even with fewer events
LOG_PACKS = 4
"""The number of packs in a full log. Folding several at once pays off, as a transaction costs as much as ten events."""


def add_run(db: sqlite3.Connection, run: TraceRun) -> None:
    """Write a complete run as packs, with its header unchanged. Call inside a transaction."""
    add_stored(db, run.header, run.events)


def add_stored(db: sqlite3.Connection, header: RunHeader, events: Sequence[StoredEvent]) -> None:
    """Write stored events as packs, some of which may be references to another run. Call inside a transaction."""
    arguments = ArgumentsFold()
    packs = _PackWriter(db, insert_run(db, header) << 32)
    for event in events:
        short = arguments.shorten(event)
        packs.add(short, encode_event(short))
        arguments.remember(event)
    packs.write()


def fold_rows(db: sqlite3.Connection, rows: Sequence[EventRow], where: str) -> None:
    """Write the rows of a log as packs. Call inside a transaction."""
    if not rows:
        return
    packs = _PackWriter(db, rows[0][0])
    for key, data in rows:
        body = unseal_event(key, data, where)
        if len(body) > blobs.LARGE and not blobs.marked(body):
            packs.add(decode_event(body), body)
        else:
            packs.add(_number_of(body), body)
    packs.write()


class _EventNumber(msgspec.Struct):
    """The only field of an event that a pack needs. Decoding the whole event takes five times as long."""

    seq: int


_decode_event_number = msgspec.json.Decoder(_EventNumber).decode
_BEGIN = re.compile(rb'\{"type":"[a-z_]+","seq":(\d+)[,}]')


def _number_of(body: bytes) -> _EventNumber:
    """Read an event's number from the start of its text, which is faster than decoding."""
    begin = _BEGIN.match(body)
    if begin is None:
        return _decode_event_number(body)
    return _EventNumber(int(begin[1]))


class _PackWriter:
    """Writes events as packs, starting at a key. Use inside a transaction."""

    def __init__(self, db: sqlite3.Connection, key: int) -> None:
        self._db = db
        self._key = key
        self._bodies: list[bytes] = []
        self._bytes = 0
        self._lowest = 0
        self._compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)

    def add(self, event: StoredEvent | _EventNumber, body: bytes) -> None:
        """Add an event and its text."""
        if not isinstance(event, _EventNumber):
            body = blobs.externalise(self._db, self._key >> 32, event, body, self._compressor)
        if not self._bodies or event.seq < self._lowest:
            self._lowest = event.seq
        self._bodies.append(body)
        self._bytes += len(body)
        if len(self._bodies) >= PACK_EVENTS or self._bytes > PACK_BYTES:
            self.write()

    def write(self) -> None:
        """Write the pending events as a pack."""
        if self._bodies:
            write_pack(self._db, self._key, self._bodies, self._lowest, self._compressor)
            self._key += len(self._bodies)
            self._bodies, self._bytes = [], 0


class SQLiteWriter:
    """Appends to one run through its log, or, with `lazily`, from memory once a pack is full."""

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
        self._watched = watched  # receives what was written, as live spans
        self._number = number
        self._header = header
        self._base = number << 32
        self._next = 0
        self._log: LogFile | MemoryLog
        if lazily:
            self._log = MemoryLog()
            self._most_packs = 1
        else:
            self._log = LogFile(store.absolute_path, number, header.id, store.durability)
            self._most_packs = LOG_PACKS
        self._logged = 0  # number of events in the log
        self._logged_bytes = 0
        self._finished = False
        self._door = store.door
        self._arguments = ArgumentsFold()
        store.open_logs[number] = self._log

    @property
    def run_id(self) -> str:
        return self._header.id

    @property
    def cleaning(self) -> Cleaning | None:
        return self._door

    def append(self, event: StoredEvent, served: Call | None = None) -> None:
        """Append one event, which is on disk on return. `served` is the recorded call that answered it."""
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
            if self._is_full() and not store.db.in_transaction:
                with store.transaction() as db:
                    self._fold(db)
            if not self._log.is_open:
                self._check_there()
            self._log.append(self._base | self._next, body)
            self._next += 1
            self._logged += 1
            self._logged_bytes += len(body)
            self._arguments.remember(event)
        finally:
            store.lock.release()

    def finish(self, header: RunHeader) -> None:
        """Write the final header and fold the rest of the log."""
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
                self._fold(db)
                write_header(db, self._number, msgspec.structs.replace(header, event_count=self._next))
            self._finished = True
            self._store.open_logs.pop(self._number, None)
            self._store.live.let_go(self._number)

    def _fold(self, db: sqlite3.Connection) -> None:
        """Fold the log's events into packs inside a transaction. The log is deleted after the commit."""
        self._check_there()
        rows = self._log.rows()
        if len(rows) != self._logged:
            raise CorruptStore(f"{len(rows)} events where {self._logged} were written", where=f"run {self.run_id}, log")
        fold_rows(db, rows, f"run {self.run_id}, log")
        self._store.after_commit(self._forget_log)

    def _forget_log(self) -> None:
        self._log.remove()
        self._logged = self._logged_bytes = 0

    def _is_full(self) -> bool:
        packs = self._most_packs
        return self._logged >= packs * PACK_EVENTS or self._logged_bytes > packs * PACK_BYTES

    def _check_there(self) -> None:
        if not self._store.query("SELECT 1 FROM runs WHERE n = ?", self._number):
            message = f"run {self.run_id} was deleted or rewritten while it was recorded; nothing can be added"
            raise StoreError(message)

    def _check_writable(self) -> None:
        if self._finished:
            raise StoreError(f"run {self.run_id} has ended; nothing can be added to it")
        if self._store.owner_pid != getpid():
            self._store.check_owner(self.run_id)
