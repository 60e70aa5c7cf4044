"""The schema of the database, its version, and the way to open a database file.

runs    n, id, name, status, started_at, header      header: sealed JSON of RunHeader
events  key = run << 32 | n, data                    the tail of a shared run: sealed JSON of one event.
                                                     In format 1, the tail of every run, with long events as
                                                     frames; now other runs have their tail in a log (event_log)
packs   key = run << 32 | first n, count,            folded events: sealed frame of a JSON list;
        first_seq, crc, data                         first_seq: the lowest sequence number in it
blobs   hash, size, data                             large values: frame, addressed by content
uses    blob, run                                    which runs hold which blobs, by their numbers
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from replaykit.config import make_home
from replaykit.errors import CorruptStore, FormatTooNew, StoreError, StoreFull, is_full
from replaykit.private_files import close_to_others, make_file
from replaykit.store.protocol import Durability
from replaykit.store.untrusted_files import check_definitions, distrust

STORE_FORMAT = 2
APPLICATION_ID = 0x52504B54  # "RPKT"
BUSY_TIMEOUT_S = 60
_UNWRITABLE = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
    }
)
_MOUNTS = Path("/proc/self/mountinfo")
# Network file systems cannot hold a store: its locks and writes need a single kernel to order them.
_ACROSS_A_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3"})
_BESIDE = ("-wal", "-shm", "-live")
_SYNCHRONOUS = {Durability.POWER: "FULL", Durability.PROCESS: "NORMAL"}

_TABLES = """
CREATE TABLE runs (
    n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, status TEXT NOT NULL,
    started_at REAL NOT NULL, header BLOB NOT NULL);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_name ON runs (name, started_at);
CREATE TABLE events (key INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE packs (
    key INTEGER PRIMARY KEY, count INTEGER NOT NULL, first_seq INTEGER NOT NULL, crc INTEGER NOT NULL,
    data BLOB NOT NULL);
CREATE TABLE blobs (n INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE uses (run INTEGER NOT NULL, blob INTEGER NOT NULL, PRIMARY KEY (run, blob)) WITHOUT ROWID;
CREATE INDEX uses_by_blob ON uses (blob);
"""


def connect(path: Path, durability: Durability, *, read_only: bool) -> sqlite3.Connection:
    """Open a connection to a store of this format, creating the file unless `read_only`."""
    if path.is_dir():
        raise StoreError(f"{path} is a directory, and a store is a file", hint=f"Name the file: {path / 'store.db'}")
    if not read_only:
        _make_file(path)
    elif not path.exists():
        raise StoreError(
            f"there is no store at {path}",
            hint="Record a run first (see `replaykit demo`), or name the store with --store.",
        )
    # Recovering from a killed writer needs write access even for a reader (mode=rw); where the file system denies it,
    # open read-only.
    modes = ["rw", "ro"] if read_only else ["rwc"]
    for mode in modes:
        try:
            return _open_in_place(path, mode, durability, read_only=read_only)
        except sqlite3.Error as error:
            if mode == modes[-1] or _primary(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise translate(error, str(path)) from None
    raise AssertionError("unreachable: the last mode opens or raises")


def _open_in_place(path: Path, mode: str, durability: Durability, *, read_only: bool) -> sqlite3.Connection:
    """Connect to the file that is at the path now: a restore may have replaced it while this connection waited."""
    while True:
        before = _identity(path)
        db = _open(path, mode, durability, read_only=read_only)
        if before in (None, _identity(path)):
            return db
        db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open(path: Path, mode: str, durability: Durability, *, read_only: bool) -> sqlite3.Connection:
    # Autocommit, so that transactions are explicit; `SQLiteStore.lock` serializes threads.
    db = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_S,
    )
    try:
        _prepare(db, durability, read_only=read_only)
    except BaseException:
        db.close()
        raise
    return db


def _make_file(path: Path) -> None:
    """Create the file with private permissions, which SQLite copies to its WAL.

    SQLite's default would let others read it.
    """
    try:
        make_home(path.parent, files=(f"{path.name}*", f"{path.stem}-otlp.db*", f".{path.name}.*"))
    except OSError as error:
        kind: type[StoreError] = StoreError
        if is_full(error):
            kind = StoreFull
        raise kind(f"{path.parent} cannot be made: {error.strerror}") from None
    refuse_network_file_system(path.parent)
    with suppress(OSError):  # SQLite reports the problem better when it opens the file
        make_file(path)
    for suffix in _BESIDE:
        close_to_others(path.with_name(path.name + suffix))


def refuse_network_file_system(directory: Path, mounts: Path = _MOUNTS) -> None:
    """Raise `StoreError` for a directory on a network file system. Only Linux reveals the type."""
    kind = file_system_of(directory, mounts)
    if kind in _ACROSS_A_NETWORK:
        raise StoreError(
            f"{directory} is on a network file system ({kind}), where a store would lose events",
            hint="Keep the store on a local disk: --store FILE, or REPLAYKIT_STORE=FILE",
        )


def file_system_of(directory: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the file system that holds a directory; None if unknown."""
    try:
        device = directory.stat().st_dev
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        fields, _, file_system = line.partition(" - ")
        if fields.split()[2:3] == [number]:
            return file_system.split()[0]
    return None


def _prepare(db: sqlite3.Connection, durability: Durability, *, read_only: bool) -> None:
    db.text_factory = _text
    # Before anything is read, because a query may run what a hostile schema defines.
    distrust(db)
    if read_only:
        db.execute("PRAGMA query_only = ON")
    version = _version(db)
    if version == 0 and not read_only:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # allows freed pages to be returned step by step
        _switch_to_wal(db)
        _create(db)
        version = _version(db)
    if version == 0:
        raise StoreError(f"{_file(db)} holds no ReplayKit store")
    if version > STORE_FORMAT:
        raise FormatTooNew(
            f"{_file(db)} was written by a newer ReplayKit (store format {version}, this one reads {STORE_FORMAT})"
        )
    check_definitions(db, _TABLES, what="store", where=_file(db))
    if not read_only:
        if version < STORE_FORMAT:  # format 2 differs only in where the newest events are
            db.execute(f"PRAGMA user_version = {STORE_FORMAT}")
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":  # a backup used as a store
            _switch_to_wal(db)
        db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")


def _text(data: bytes) -> str:
    """Decode any bytes: checksums detect damaged text, so decoding must not fail first."""
    return data.decode("utf-8", "surrogateescape")


def _version(db: sqlite3.Connection) -> int:
    """Return the store's format, 0 for an empty file. Any other database raises `StoreError`."""
    # Count the tables first: they are created in the same transaction that sets the numbers.
    tables, application, version = (
        db.execute(sql).fetchone()[0]
        for sql in ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
    )
    if application == APPLICATION_ID and version > 0:
        return int(version)
    if tables:
        raise StoreError(f"{_file(db)} is a database, but not a ReplayKit store")
    return 0


def _create(db: sqlite3.Connection) -> None:
    # Lock before looking, so that only one process creates the tables.
    db.execute("BEGIN IMMEDIATE")
    try:
        if _version(db) == 0:  # another process may have been first
            for statement in _TABLES.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {STORE_FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL mode, retrying while others have the file: SQLite's busy timeout does not cover this statement."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.005)
        else:
            return


def _file(db: sqlite3.Connection) -> str:
    return str(db.execute("PRAGMA database_list").fetchone()[2])


def _primary(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code & 0xFF
    return None


def is_locked(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the database or one of its tables."""
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(error: sqlite3.Error, where: str) -> StoreError:
    """Convert an SQLite error to a `StoreError`."""
    primary = _primary(error)
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CorruptStore(
            f"the database file is damaged ({error})", where=where, hint="See what is left: replaykit store verify"
        )
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(f"{where}: the disk is full; the last event was not written")
    if getattr(error, "sqlite_errorcode", None) in _UNWRITABLE:
        return StoreFull(f"{where}: the disk is full, or a limit is reached; the last event was not written ({error})")
    if is_locked(error):
        return StoreError(f"{where}: another process held the store for {BUSY_TIMEOUT_S} s")
    return StoreError(f"{where}: {error}")
