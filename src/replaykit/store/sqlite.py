"""The SQLite store: one file, many readers and writers, no server."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.errors import CorruptStore, RunNotFound, StoreError, nearest, wrong_argument
from replaykit.model.events import AnyEvent, StoredEvent, decode_event, decode_events
from replaykit.model.nesting import check_nesting
from replaykit.model.run import PROCESS_LOGS, RunHeader, RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.store import blobs
from replaykit.store.cursor import EventCursor
from replaykit.store.event_log import EventRow, LogFile, MemoryLog, StoreLogs
from replaykit.store.log_recovery import fold_abandoned_logs
from replaykit.store.protocol import Damage, Durability, OnProgress, durability_of, ignore_progress
from replaykit.store.rows import (
    checksum,
    decompress,
    insert_run,
    missing_events,
    read_header,
    unseal,
    unseal_event,
    write_header,
)
from replaykit.store.run_locks import RunLocks
from replaykit.store.schema import connect, translate
from replaykit.store.states import Remembered, StateReader
from replaykit.store.writer import SQLiteWriter, add_run
from replaykit.telemetry.switch import watch

if TYPE_CHECKING:
    from replaykit.redaction.events import Door
    from replaykit.store.shared_writer import SharedWriter

_INDEX = 0xFFFFFFFF
_MOST_SUGGESTED = 500
# Names for the newest run, with the statuses it may have.
_NEWEST = {"last": " ".join(RunStatus), "last-failed": " ".join((RunStatus.ERROR, RunStatus.TIMEOUT))}
Batch = tuple[int, list[StoredEvent]]
PackRow = tuple[int, int, int]
"""The key, count and lowest sequence number of a pack."""


class SQLiteStore:
    """Runs in one SQLite file. Threads share an open store, and other processes may write to the same file."""

    @checked('rk.Store.open(".replaykit/store.db")')
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: str | Durability = Durability.PROCESS,
        read_only: bool = False,
        redact: bool | None = None,
        redact_as: Path | None = None,
    ) -> None:
        self.path = Path(path)
        self.absolute_path = self.path.absolute()  # a recorded program may change its working directory
        self._redact = redact
        self._redact_as = redact_as  # path of the store whose project's redaction applies; None for this store
        self.durability = durability_of(durability)
        self.read_only = read_only
        self.lock = threading.RLock()
        self.db = connect(self.path, self.durability, read_only=read_only)
        # SQLite connections must not cross a fork; see `check_owner`.
        self.owner_pid = os.getpid()
        self.real_path = Path(os.path.realpath(self.path))
        """The path without links: SQLite's own files are beside it, and so are ours."""
        self.live = RunLocks(self.real_path)
        self.logs = StoreLogs(self.real_path)
        self.open_logs: dict[int, LogFile | MemoryLog] = {}
        """The logs of the runs that this store is writing, by run number."""
        self._after_commit: list[Callable[[], None]] = []
        self._has_folded = False  # whether the logs of killed processes were folded
        self.turns = 0  # transactions of this connection that may have changed shared runs
        self._remembered = Remembered()

    @classmethod
    @checked('rk.Store.open(".replaykit/store.db")')
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: str | Durability = Durability.PROCESS,
        read_only: bool = False,
        redact: bool | None = None,
        redact_as: Path | None = None,
    ) -> SQLiteStore:
        """Open the store at a path. It is created if missing, unless `read_only`."""
        return cls(path, durability=durability, read_only=read_only, redact=redact, redact_as=redact_as)

    def __enter__(self) -> SQLiteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def current_path(self) -> Path:
        """The path as passed in, or the absolute one once the program has changed its working directory."""
        return self.path if self.path.absolute() == self.absolute_path else self.absolute_path

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self.db.close()
            for log in self.open_logs.values():
                log.close()
            self.open_logs = {}
            self.live.close()
            self._remembered = Remembered()

    @cached_property
    def door(self) -> Door | None:
        """The redaction of everything that is written; None if it is off."""
        from replaykit.redaction.events import Door  # noqa: PLC0415 (reading does not need it)
        from replaykit.redaction.project import is_on, project_redactor  # noqa: PLC0415

        is_redacting = is_on() if self._redact is None else self._redact
        if is_redacting:
            return Door(project_redactor(self._redact_as or self.current_path))
        return None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run one write transaction, all or nothing. Waits for other writers."""
        with self._between("BEGIN IMMEDIATE") as db:
            yield db

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock out all other writers for the block, and commit its writes together or not at all."""
        with self.between_turns():
            yield

    @contextmanager
    def between_turns(self) -> Iterator[sqlite3.Connection]:
        """Run a write transaction outside of all turns at shared runs, so that logs may be moved or removed."""
        with self.lock:
            if self._is_in_transaction():
                yield self.db
                return
            self.live.begin_turn()
            try:
                with self.transaction() as db:
                    yield db
            finally:
                self.turns += 1
                self.live.end_turn()

    def _is_in_transaction(self) -> bool:
        try:
            return self.db.in_transaction
        except sqlite3.Error as error:  # the store is closed
            raise translate(error, str(self.path)) from None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Give all reads in the block the same view of the store; others may write meanwhile."""
        with self.lock, self.logs.pinned(), self._between("BEGIN"):
            yield

    @contextmanager
    def _between(self, begin: str) -> Iterator[sqlite3.Connection]:
        """Run a transaction, or join the one in progress."""
        with self.lock:
            try:
                inside = self.db.in_transaction
                if inside:
                    yield self.db
                    return
                self.db.execute(begin)
                is_ending = False
                try:
                    yield self.db
                    is_ending = True
                    self.db.execute("COMMIT")
                except BaseException as error:
                    if self.db.in_transaction:
                        self.db.execute("ROLLBACK")
                    elif is_ending and not isinstance(error, sqlite3.Error):  # Ctrl-C while it was committed
                        self.committed()
                        raise
                    self.rolled_back()
                    raise
                self.committed()
            except sqlite3.Error as error:
                raise translate(error, str(self.path)) from None

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` after the current transaction commits; never if it rolls back."""
        self._after_commit.append(action)

    def committed(self) -> None:
        """Run the actions that were waiting for the commit."""
        actions, self._after_commit = self._after_commit, []
        for action in actions:
            action()

    def rolled_back(self) -> None:
        """Discard the actions that were waiting for the commit."""
        self._after_commit = []

    def sync_commits(self) -> None:
        """Make all commits so far survive a power failure."""
        with suppress(FileNotFoundError):  # without a WAL, everything is in the database and synced
            file = os.open(self.real_path.with_name(f"{self.real_path.name}-wal"), os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def check_owner(self, run_id: str) -> None:
        """Raise `StoreError` in a forked child: two processes must not use the same connection."""
        if self.owner_pid != os.getpid():
            raise StoreError(
                f"run {run_id} belongs to process {self.owner_pid}, not to this forked child",
                hint="Open a store and start a run of its own in the child process.",
            )

    def query(self, sql: str, *parameters: object) -> list[Any]:
        """Return all rows of a SELECT."""
        with self.lock:
            try:
                return self.db.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise translate(error, str(self.path)) from None

    def begin(self, header: RunHeader, *, lazily: bool = False) -> SQLiteWriter:
        """Start a new run. With `lazily`, events are written one pack at a time, and a kill may lose the last ones."""
        header = header if self.door is None else self.door.header(header)
        watched = watch(header, self.path)
        if watched is not None:
            header = watched.marked(header)
        self.recover_logs()
        with self.transaction() as db:
            number = insert_run(db, header)
            self.live.hold(number)  # before the commit makes it visible to others
        return SQLiteWriter(self, number, header, watched, lazily=lazily)

    def recover_logs(self) -> None:
        """Fold the logs of killed processes, once per store."""
        if not self._has_folded:
            self._has_folded = True
            fold_abandoned_logs(self)

    @checked("store.add(run)")
    def add(self, run: TraceRun) -> None:
        """Store a complete run, all or nothing."""
        run = self.cleaned(run)
        with self.transaction() as db:
            add_run(db, replace(run, event_count=len(run.events)))

    def cleaned(self, run: TraceRun) -> TraceRun:
        """Return the run as `add` would store it."""
        if self.door is None:
            return run
        return self.door.run(run)

    def share(self, run_id: str) -> SharedWriter:
        """Open a run, existing or not, for appending together with others."""
        from replaykit.store.shared_writer import SharedWriter  # noqa: PLC0415 (only framework integrations share runs)

        return SharedWriter(self, run_id)

    def replace(self, runs: Iterable[TraceRun]) -> None:
        """Replace the runs with the same ids, all or none."""
        from replaykit.store.removal import replace_runs  # noqa: PLC0415 (as in `delete`)

        replace_runs(self, list(runs))

    @checked("store.delete([run_id])")
    def delete(self, run_ids: Iterable[str]) -> int:
        """Delete runs and the data only they use, all or none; return how many existed."""
        from replaykit.store.removal import delete_runs  # noqa: PLC0415 (a recording deletes nothing)

        return delete_runs(self, list(run_ids))

    @checked('store.tag(run_id, add=["keep"])')
    def tag(self, run_id: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> RunHeader:
        """Add and remove tags of a run and return its header."""
        with self.between_turns() as db:
            number, header = self.find(run_id)
            remaining = [tag for tag in header.tags if tag not in set(remove)]
            tagged = replace(header, tags=tuple(dict.fromkeys([*remaining, *add])))
            if tagged.tags != header.tags:
                write_header(db, number, tagged)
        return tagged

    def number_of(self, run_id: str) -> int:
        """Return a run's number, which is part of the keys of its rows."""
        return self.find(run_id)[0]

    def header(self, run_id: str) -> RunHeader:
        """Return a run's header by id, prefix of an id, name, `last` or `last-failed`."""
        return self.find(run_id)[1]

    @checked('store.headers(limit=20, status="error")')
    def headers(
        self,
        *,
        limit: int | None = None,
        status: str | None = None,
        name: str | None = None,
        below: str | None = None,
        before: str | None = None,
    ) -> list[RunHeader]:
        """Return the newest headers first, optionally only those with a status, a name, ids below another, or those
        that follow the run `before`."""
        first, end = (None, None) if below is None else (f"{below}/", f"{below}0")  # "0" comes right after "/"
        conditions = {
            "status = ?": status,
            "name = ?": name,
            "id >= ?": first,
            "id < ?": end,
            "(started_at, n) < (SELECT started_at, n FROM runs WHERE id = ?)": before,
        }
        where = " AND ".join(clause for clause, value in conditions.items() if value is not None)
        rows = self.query(
            f"SELECT n, id, header FROM runs {where and f'WHERE {where}'} ORDER BY started_at DESC, n DESC LIMIT ?",
            *(value for value in conditions.values() if value is not None),
            -1 if limit is None else limit,
        )
        return [read_header(number, run_id, data) for number, run_id, data in rows]

    def find(self, run_id: str) -> tuple[int, RunHeader]:
        """Return the number and header of a run; accepts the same names as `header`."""
        if not isinstance(run_id, str):
            raise wrong_argument("A run's id", run_id, 'the id, its beginning, or a name: "20260215-143200"')
        # An exact id wins over the reserved names, a prefix, and a run's name.
        rows = self.query("SELECT n, id, header FROM runs WHERE id = ?", run_id)
        if not rows and run_id in _NEWEST:
            rows = self.query(
                "SELECT n, id, header FROM runs WHERE NOT (id >= ? AND id < ?) AND instr(?, status) > 0 "
                "ORDER BY started_at DESC, n DESC LIMIT 1",
                f"{PROCESS_LOGS}/",
                f"{PROCESS_LOGS}0",
                _NEWEST[run_id],
            )
        if not rows and run_id:
            # A range instead of LIKE, so that the index on id is used.
            high = run_id + "\U0010ffff"
            rows = self.query("SELECT n, id, header FROM runs WHERE id >= ? AND id < ? LIMIT 4", run_id, high)
        if not rows:
            rows = self.query(
                "SELECT n, id, header FROM runs WHERE name = ? ORDER BY started_at DESC, n DESC LIMIT 1",
                run_id,
            )
        if len(rows) == 1:
            number, full_id, data = rows[0]
            return number, read_header(number, full_id, data)
        if rows:
            starts = ", ".join(row[1] for row in rows[:3])
            raise RunNotFound(f"several runs begin with {run_id!r}: {starts} …", hint="Give more of the id.")
        raise self._not_found(run_id)

    def _not_found(self, run_id: str) -> RunNotFound:
        """Return the error for a missing run, which suggests the nearest name among the newest runs."""
        words: dict[str, None] = {}
        for row in self.query("SELECT id, name FROM runs ORDER BY started_at DESC LIMIT ?", _MOST_SUGGESTED):
            words |= dict.fromkeys(filter(None, row))
        message = f"no run {run_id!r} in {self.path}"
        suggestion = nearest(run_id[:80], words)
        if suggestion.startswith("did you mean"):
            message = f"{message}; {suggestion}"
        return RunNotFound(message, hint="See what is there: replaykit runs")

    def events(self, run_id: str) -> Iterator[AnyEvent]:
        """Yield a run's events in the order they were written. Events that a fork shares are read from its parent."""
        return EventCursor(self, run_id).read()

    def load(self, run_id: str) -> TraceRun:
        """Return a complete run with its events in the order they began."""
        _, header = self.find(run_id)
        return TraceRun.of(header, tuple(sorted(self.events(header.id), key=attrgetter("seq"))))

    @checked("store.state_at(run_id, 7)")
    def state_at(self, run_id: str, seq: int | None = None) -> Json:
        """Return the state after the last checkpoint at or before event `seq`; the latest if None."""
        return StateReader(self, self._remembered).value(run_id, seq)

    def state_json(self, run_id: str, seq: int | None = None) -> bytes:
        """Return the same state as its stored JSON text."""
        return StateReader(self, self._remembered).text(run_id, seq)

    def batches(
        self, number: int, *, newest_first: bool = False, since: int = 0, until: int | None = None
    ) -> Iterator[Batch]:
        """Yield the events of a run pack by pack, then its tail, each with the index of its first event."""
        for read in self.readers(number, newest_first=newest_first, since=since, until=until):
            yield read()

    def readers(
        self, number: int, *, newest_first: bool = False, since: int = 0, until: int | None = None
    ) -> Iterator[Callable[[], Batch]]:
        """Yield a reader for each pack of a run and for its tail. It returns its first event's index and its events.

        Packs that end before index `since`, or hold nothing at or before sequence number `until`, are skipped, and so
        are events of the tail before `since`.
        """
        packs, tail = self.rows_of(number)
        tail = [row for row in tail if row[0] & _INDEX >= since]
        selected = (
            pack for pack in packs if (pack[0] & _INDEX) + pack[1] > since and (until is None or pack[2] <= until)
        )
        found = [partial(self._pack_at, *pack) for pack in selected]
        if tail:
            found.append(partial(self._tail_at, tail))
        if newest_first:
            return reversed(found)
        return iter(found)

    def rows_of(self, number: int) -> tuple[list[PackRow], list[EventRow]]:
        """Return the packs of a run, without their data, and its unfolded rows."""
        low, high = number << 32, (number + 1) << 32
        # Writers move events from the log into the table or a pack, never back. Reading in this order misses none.
        logged = self._logged_rows(number)
        tail = self.query("SELECT key, data FROM events WHERE key >= ? AND key < ? ORDER BY key", low, high)
        if tail and logged:
            last = tail[-1][0]
            tail += [row for row in logged if row[0] > last]
        packs = self._packs(low, high)
        folded = max((key + count for key, count, _ in packs), default=low)
        return packs, [row for row in tail or logged if row[0] >= folded]

    def _logged_rows(self, number: int) -> list[EventRow]:
        rows = self.query("SELECT id FROM runs WHERE n = ?", number)
        if not rows:
            return []
        return self.logs.rows(number, rows[0][0])

    def _packs(self, low: int, high: int) -> list[PackRow]:
        rows = self.query(
            "SELECT key, count, first_seq, crc FROM packs WHERE key >= ? AND key < ? ORDER BY key", low, high
        )
        for key, count, first_seq, crc in rows:
            if not isinstance(count, int) or not isinstance(first_seq, int) or checksum(key, count, first_seq) != crc:
                raise CorruptStore("the row's checksum does not match", where=_pack_name(key))
        return [row[:3] for row in rows]

    def _pack_at(self, key: int, count: int, first_seq: int) -> Batch:
        return key & _INDEX, self.events_of(self.read_pack(key), key, count, first_seq)

    def _tail_at(self, rows: list[EventRow]) -> Batch:
        return rows[0][0] & _INDEX, self.read_tail(rows)

    def read_pack(self, key: int) -> bytes:
        """Return the text of a pack's events."""
        rows = self.query("SELECT data FROM packs WHERE key = ?", key)
        if not rows:
            raise CorruptStore("the pack is gone", where=_pack_name(key))
        return decompress(unseal(key, rows[0][0], _pack_name(key)), _pack_name(key))

    def events_of(self, body: bytes, key: int, count: int, first_seq: int) -> list[StoredEvent]:
        """Return the events in a pack's text; raise `CorruptStore` if count or numbers do not match."""
        found = self._decode(body, _pack_name(key))
        if len(found) != count:
            raise CorruptStore(f"{len(found)} events where {count} were folded", where=_pack_name(key))
        if min(event.seq for event in found) != first_seq:
            raise CorruptStore(f"the lowest sequence number is not {first_seq}", where=_pack_name(key))
        return found

    def read_tail(self, rows: list[EventRow]) -> list[StoredEvent]:
        """Return the events of unfolded rows."""
        found: list[StoredEvent] = []
        expected = rows[0][0]
        for key, data in rows:
            where = f"run {key >> 32}, event {key & _INDEX}"
            if key != expected:
                raise missing_events(str(key >> 32), expected & _INDEX, key & _INDEX)
            body = unseal_event(key, data, where)
            found += self._decode(body, where)
            expected += 1
        return found

    def _decode(self, body: bytes, where: str) -> list[StoredEvent]:
        try:
            check_nesting(body)
            if body[:1] == b"[":
                found = decode_events(body)
            else:
                found = [decode_event(body)]
            if blobs.marked(body):
                return blobs.internalise(self, found, body)
            return found
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptStore(f"not an event ({error})", where=where) from None

    def verify(self, on_progress: OnProgress = ignore_progress) -> Iterator[Damage]:
        """Read everything and yield all damage."""
        from replaykit.store.repair.verify import verify_sqlite  # noqa: PLC0415 (a recording does not verify)

        return verify_sqlite(self, on_progress)


def _pack_name(key: int) -> str:
    return f"run {key >> 32}, pack at event {key & _INDEX}"
