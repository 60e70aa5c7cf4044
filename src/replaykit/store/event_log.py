"""Event logs: the newest events of a run that is being written, in a file of its own beside the store.

An event is one frame and one `write`, which costs a tenth of a transaction in SQLite. The kernel has it when the call
returns, so a kill loses nothing. When a log is full, its events become packs of the store in one transaction, and the
log is removed; the next event begins another one. An event that is in a pack already does not count in a log.

A frame is the size of a row, a checksum over size and key, the key, and the row as the table `events` would hold it. A
frame that stops in the middle was cut by a kill, and its event was never acknowledged.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from replaykit.errors import CorruptStore, StoreError, StoreFull, is_full
from replaykit.store.protocol import Durability
from replaykit.store.rows import seal

SUFFIX = "-log"
EventRow = tuple[int, bytes]
"""Key and sealed text of an event."""

_HEAD = struct.Struct("<IIq")  # size of the row, checksum, key
FRAME_HEAD_BYTES = _HEAD.size
_CHECKED = struct.Struct("<Iq")
_sync_file: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class LogName(NamedTuple):
    """The name of a log: the run's number, and a digest of its id, since a store made anew counts from 1 again."""

    number: int
    digest: str

    @classmethod
    def of(cls, number: int, run_id: str) -> LogName:
        return cls(number, blake2b(run_id.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest())

    @classmethod
    def read(cls, file_name: str) -> LogName | None:
        """Return the parts of a file's name; None for a file that is no log."""
        number, _, digest = file_name.partition("-")
        if number.isdecimal() and digest:
            return cls(int(number), digest)
        return None

    def __str__(self) -> str:
        return f"{self.number}-{self.digest}"


class LogFile:
    """The log of one run, for its writer. Made with the first event."""

    def __init__(self, store: Path, number: int, run_id: str, durability: Durability) -> None:
        self._store = store
        self._path = log_directory(store) / str(LogName.of(number, run_id))
        self._run_id = run_id
        self._is_synced = durability is Durability.POWER
        self._file = -1
        self._size = 0  # of the frames whose events were acknowledged

    @property
    def is_open(self) -> bool:
        return self._file >= 0

    def append(self, key: int, body: bytes) -> None:
        """Add one event; the log is as it was before when that fails."""
        try:
            if self._file < 0:
                self._make()
            found = os.fstat(self._file)
            if not found.st_nlink:
                raise StoreError(f"run {self._run_id} was deleted or rewritten while it was recorded")
            if found.st_size != self._size:  # a write that was interrupted before it was acknowledged
                os.ftruncate(self._file, self._size)
            frame = _frame(key, body)
            self._write(frame)
        except OSError as error:
            raise _cannot_write(self._path, error) from None
        self._size += len(frame)

    def _write(self, frame: bytes) -> None:
        try:
            written = os.write(self._file, frame)
            while written < len(frame):  # the next write says why
                written += os.write(self._file, frame[written:])
            self._sync()
        except OSError:
            os.ftruncate(self._file, self._size)
            raise

    def _sync(self) -> None:
        if self._is_synced:
            _sync_file(self._file)

    def _make(self) -> None:
        """Make the log, for whoever may read the store."""
        rights = stat.S_IMODE(self._store.stat().st_mode)
        directory = self._path.parent
        if not directory.is_dir():
            directory.mkdir(exist_ok=True)
            directory.chmod(rights | (rights & 0o444) >> 2)
            self._sync_directory(directory.parent)
        self._file = open_log(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.fchmod(self._file, rights)
        self._size = 0
        self._sync_directory(directory)

    def _sync_directory(self, directory: Path) -> None:
        if self._is_synced and os.name == "posix":
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def rows(self) -> list[EventRow]:
        """Return the events in the log."""
        if self._file < 0:
            return []
        return log_rows(os.pread(self._file, self._size, 0), str(self._path))

    def remove(self) -> None:
        """Remove the log, whose events are in packs now."""
        if self._file >= 0:
            with suppress(OSError):  # removed with its run
                self._path.unlink()
            self.close()

    def close(self) -> None:
        """Release the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class MemoryLog:
    """The events of a run that are written a pack at a time: a kill loses the last ones."""

    def __init__(self) -> None:
        self._rows: list[EventRow] = []
        self.is_open = True

    def append(self, key: int, body: bytes) -> None:
        self._rows.append((key, seal(key, body)))

    def rows(self) -> list[EventRow]:
        return self._rows

    def remove(self) -> None:
        self._rows = []

    def close(self) -> None:
        self._rows = []


class StoreLogs:
    """The logs beside a store, for those who read it."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.directory = log_directory(store)
        self._pinned: dict[str, int] | None = None

    def path_of(self, number: int, run_id: str) -> Path:
        return self.directory / str(LogName.of(number, run_id))

    def rows(self, number: int, run_id: str) -> list[EventRow]:
        """Return the events in a run's log; some may be in packs already."""
        data = self.bytes_of(LogName.of(number, run_id))
        if not data:
            return []
        return log_rows(data, f"run {run_id}, log")

    def names(self) -> Iterator[LogName]:
        """Yield the name of each log."""
        if self._pinned is not None:
            found = list(self._pinned)
        else:
            found = _files_in(self.directory)
        for file_name in found:
            name = LogName.read(file_name)
            if name is not None:
                yield name

    def size_bytes(self) -> int:
        """Return how much all logs take on the disk."""
        total = 0
        for name in _files_in(self.directory):
            with suppress(OSError):
                total += (self.directory / name).stat().st_size
        return total

    def remove(self, name: LogName) -> None:
        """Remove a log, if it is still there. Who writes to it learns that with the next event."""
        with suppress(OSError):
            (self.directory / str(name)).unlink()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Read the logs that are there now, for the length of a snapshot: one that is removed meanwhile is in packs
        that the snapshot does not see."""
        if self._pinned is not None:
            yield
            return
        files: dict[str, int] = {}
        try:
            for name in _files_in(self.directory):
                if LogName.read(name) is None:
                    continue
                with suppress(FileNotFoundError):  # it was folded just now
                    files[name] = _opened(self.directory / name)
            self._pinned = files
            yield
        finally:
            self._pinned = None
            for file in files.values():
                os.close(file)

    def pinned_file(self, name: LogName) -> int | None:
        """Return the open file of a log in a snapshot, -1 where there is none; None outside of snapshots."""
        if self._pinned is None:
            return None
        return self._pinned.get(str(name), -1)

    def bytes_of(self, name: LogName) -> bytes:
        """Return the bytes of a log; none where there is no such log."""
        if self._pinned is not None:
            file = self._pinned.get(str(name))
            if file is None:
                return b""
            return os.pread(file, os.fstat(file).st_size, 0)
        try:
            file = _opened(self.directory / str(name))
        except FileNotFoundError:
            return b""
        with os.fdopen(file, "rb", buffering=0) as stream:
            return stream.read()


def log_directory(store: Path) -> Path:
    """Return the directory of a store's logs, beside the file that a link leads to."""
    real = Path(os.path.realpath(store))
    return real.with_name(real.name + SUFFIX)


def open_log(path: Path, flags: int) -> int:
    """Open a log; an OSError for a link, a pipe or a directory in its place, which somebody else put there."""
    # A pipe would be waited for, and through a link another file would be written.
    file = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "it is not a regular file")


def _opened(path: Path) -> int:
    """Open a log to read it; FileNotFoundError where there is none."""
    try:
        return open_log(path, os.O_RDONLY)
    except NotADirectoryError:
        raise FileNotFoundError(path) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None


def log_rows(data: bytes, where: str) -> list[EventRow]:
    """Return the events in the bytes of a log, without one that was cut; CorruptStore for anything else."""
    rows: list[EventRow] = []
    position = 0
    data = data.rstrip(b"\0")  # a row never ends so, but a file may after a loss of power
    while position + _HEAD.size <= len(data):
        size, check, key = _HEAD.unpack_from(data, position)
        if check != _check(size, key):
            raise CorruptStore(f"the frame at byte {position} is damaged", where=where)
        start = position + _HEAD.size
        if start + size > len(data):
            break
        rows.append((key, data[start : start + size]))
        position = start + size
    return rows


def salvaged_rows(data: bytes) -> Iterator[EventRow]:
    """Yield the events of a damaged log, past whatever is no frame."""
    position = 0
    while position + _HEAD.size <= len(data):
        size, check, key = _HEAD.unpack_from(data, position)
        start = position + _HEAD.size
        if check == _check(size, key) and start + size <= len(data):
            yield key, data[start : start + size]
            position = start + size
        else:
            position += 1


def _frame(key: int, body: bytes) -> bytes:
    row = seal(key, body)
    return _HEAD.pack(len(row), _check(len(row), key), key) + row


def _check(size: int, key: int) -> int:
    return zlib.crc32(_CHECKED.pack(size, key))


def _files_in(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # nothing was ever written
        return []


def _cannot_write(path: Path, error: OSError) -> StoreError:
    if is_full(error):
        return StoreFull(f"{path}: the disk is full, or a limit is reached; the last event was not written")
    return StoreError(f"{path} cannot be written: {error.strerror or error}")
