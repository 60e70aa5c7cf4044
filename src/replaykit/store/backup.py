"""Back up and restore a store as a single file, which is verified before it counts."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from replaykit.config import make_home
from replaykit.errors import CorruptStore, FormatTooNew, StoreError, UsageError
from replaykit.private_files import make_file
from replaykit.store.event_log import StoreLogs
from replaykit.store.protocol import OnProgress, ignore_progress
from replaykit.store.schema import is_locked, translate
from replaykit.store.sqlite import SQLiteStore

_BESIDE = ("-wal", "-shm")
_WAIT_S = 5


class Copied(Struct, frozen=True, kw_only=True):
    """A finished, verified copy."""

    file: Path
    runs: int
    size_bytes: int


def backup(store: SQLiteStore, file: Path, *, force: bool = False, on_progress: OnProgress = ignore_progress) -> Copied:
    """Copy a consistent snapshot of the store to a file while others may write.

    The file appears whole or not at all.
    """
    if not file.parent.is_dir():
        raise UsageError(f"there is no directory {file.parent}")
    if file.exists() and not force:
        raise UsageError(f"{file} already exists", hint="Name another file, or replace it: --force")
    if file.exists() and file.samefile(store.path):
        raise UsageError(f"{file} is the store itself")
    with new_file_beside(file) as partial:
        make_file(partial)
        try:
            with store.lock, store.logs.pinned(), closing(sqlite3.connect(partial)) as copy:
                # The logs are pinned before the copy: an event that is folded meanwhile is in both, and counts once.
                store.db.backup(copy)
                _copy_logs(store.logs, copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # a backup is one file, with no WAL beside it
        except sqlite3.Error as error:
            raise translate(error, str(store.path)) from None
        copied = _checked(
            partial,
            store.path,
            "the store is damaged, and so is its copy",
            "See what is left: replaykit store verify",
            on_progress,
        )
        os.replace(partial, file)
        sync(file.parent)
    return Copied(file=file, runs=copied, size_bytes=file.stat().st_size)


def restore(file: Path, target: Path, *, force: bool = False, on_progress: OnProgress = ignore_progress) -> Copied:
    """Replace a store with a backup. The old store stays until the backup has been copied and verified."""
    if not file.is_file():
        raise StoreError(f"there is no backup at {file}")
    file, target = _behind_link(file), _behind_link(target)
    if target.exists() and file.samefile(target):
        raise UsageError(f"{file} is the store itself")
    if target.exists() and not force:
        raise UsageError(
            f"there is a store at {target}",
            hint=f"Copy it (replaykit store backup FILE), then replace it: replaykit store restore {file} --force",
        )
    with new_file_beside(target) as partial:
        make_home(target.parent, files=(f"{target.name}*",))
        make_file(partial)
        shutil.copyfile(file, partial)
        if (wal := _named(file, "-wal")).exists():  # the backup may be a store that was copied by hand
            make_file(_named(partial, "-wal"))
            shutil.copyfile(wal, _named(partial, "-wal"))
        with closing(sqlite3.connect(partial)) as copy:
            _copy_logs(StoreLogs(file), copy)
        what = "the backup is damaged, and the store is as it was"
        runs = _checked(partial, file, what, "Use another backup", on_progress)
        _in_wal_mode(partial)
        with _nobody_else(target):
            # Readers of the old file must be gone by now: they would go on in a file without a name.
            os.replace(partial, target)
        sync(target.parent)
    return Copied(file=target, runs=runs, size_bytes=target.stat().st_size)


def _copy_logs(logs: StoreLogs, copy: sqlite3.Connection) -> None:
    """Add the logged events to the copy, which has no logs. Readers ignore those that its packs already hold."""
    numbers = {name.number for name in logs.names()}
    with copy:
        for number in numbers:
            runs = copy.execute("SELECT id FROM runs WHERE n = ?", (number,)).fetchall()
            rows = logs.rows(number, runs[0][0]) if runs else []
            copy.executemany("INSERT OR REPLACE INTO events VALUES (?, ?)", rows)


@contextmanager
def new_file_beside(file: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file, and delete what is left there at the end."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        yield partial
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}") from None
    finally:
        for suffix in ("", *_BESIDE, "-journal"):
            with suppress(OSError):
                _named(partial, suffix).unlink()


def _checked(file: Path, original: Path, what: str, hint: str, on_progress: OnProgress) -> int:
    """Read everything in a copy and return its number of runs. Errors name the original."""
    sync(file)
    try:
        with SQLiteStore.open(file, read_only=True) as copy:
            damage = next(copy.verify(on_progress), None)
            runs = copy.query("SELECT count(*) FROM runs")[0][0]
    except CorruptStore as error:
        raise CorruptStore(f"{what} ({error.reason})", where=str(original), hint=hint) from None
    except (StoreError, FormatTooNew) as error:
        error.message = error.message.replace(str(file.resolve()), str(original)).replace(str(file), str(original))
        raise
    if damage is not None:
        raise CorruptStore(f"{what} ({damage})", where=str(original), hint=hint)
    return int(runs)


def _in_wal_mode(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    sync(file)


@contextmanager
def _nobody_else(target: Path) -> Iterator[None]:
    """Lock other processes out of the old store, and remove its WAL, which SQLite would apply to the new file."""
    if not target.exists():
        yield
        return
    with closing(sqlite3.connect(target, timeout=_WAIT_S, isolation_level=None)) as old:
        try:
            old.execute("PRAGMA journal_mode = DELETE").fetchone()  # fails while others have the store open
            old.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if is_locked(error):
                raise StoreError(
                    f"{target}: other processes have the store open", hint="Stop them, then restore the store."
                ) from None
            if not isinstance(translate(error, str(target)), CorruptStore):
                raise translate(error, str(target)) from None
            # A damaged store has no readers to wait for.
        _put_aside(target)
        yield


def _put_aside(target: Path) -> None:
    for suffix in _BESIDE:
        _named(target, suffix).unlink(missing_ok=True)
    logs = StoreLogs(target)
    for name in logs.names():
        logs.remove(name)


def _behind_link(path: Path) -> Path:
    """Return the file that a link leads to: what belongs to a store is beside it, and the link stays."""
    return path.resolve() if path.is_symlink() else path


def _named(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def sync(path: Path) -> None:
    """Flush a file or a directory to the disk."""
    if os.name != "posix" and path.is_dir():
        return  # Windows cannot open directories
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
