"""Event logs: the newest events of a run in progress, in a file of their own beside the store.

An event is one frame and one `write`, which costs a tenth of an SQLite transaction. The kernel has the data when the
call returns, so a kill loses nothing. A full log is folded into packs in one transaction and removed, and the next
event starts a new log. Readers ignore logged events that are also in a pack.

A frame consists of the row's size, a checksum over size and key, the key, and the row as the table `events` would hold
it. A kill can cut the last frame short; its event was never acknowledged.
"""

from __future__ import annotations

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
"""The key and the sealed text of an event."""

_HEAD = struct.Struct("<IIq")  # size of the row, checksum, key
FRAME_HEAD_BYTES = _HEAD.size
_CHECKED = struct.Struct("<Iq")
# fdatasync skips metadata such as times; macOS does not have it.
_sync_file: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class LogName(NamedTuple):
    """The name of a log: run number and a digest of the run id, because a recreated store counts from 1 again."""

    number: int
    digest: str

    @classmethod
    def of(cls, number: int, run_id: str) -> LogName:
        return cls(number, blake2b(run_id.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest())

    @classmethod
    def read(cls, file_name: str) -> LogName | None:
        """Parse a file name; return None if the file is not a log."""
        number, _, digest = file_name.partition("-")
        if number.isdecimal() and digest:
            return cls(int(number), digest)
        return None

    def __str__(self) -> str:
        return f"{self.number}-{self.digest}"


class LogFile:
    """The writer's side of one run's log. The file is created with the first event."""

    def __init__(self, store: Path, number: int, run_id: str, durability: Durability) -> None:
        self._store = store
        self._path = log_directory(store) / str(LogName.of(number, run_id))
        self._run_id = run_id
        self._is_synced = durability is Durability.POWER
        self._file = -1
        self._size = 0  # total size of the frames whose events were acknowledged

    @property
    def is_open(self) -> bool:
        return self._file >= 0

    def append(self, key: int, body: bytes) -> None:
        """Append one event. If that fails, the log stays as it was."""
        try:
            if self._file < 0:
                self._make()
            found = os.fstat(self._file)
            # Without links the file was deleted with its run, and a write would vanish with the last descriptor.
            if not found.st_nlink:
                raise StoreError(f"run {self._run_id} was deleted or rewritten while it was recorded")
            if found.st_size != self._size:  # left by a write that was interrupted before its event was acknowledged
                os.ftruncate(self._file, self._size)
            frame = _frame(key, body)
            self._write(frame)
        except OSError as error:
            raise _cannot_write(self._path, error) from None
        self._size += len(frame)

    def _write(self, frame: bytes) -> None:
        try:
            written = os.write(self._file, frame)
            while written < len(frame):  # a short write: the next attempt raises the reason
                written += os.write(self._file, frame[written:])
            self._sync()
        except OSError:
            os.ftruncate(self._file, self._size)
            raise

    def _sync(self) -> None:
        if self._is_synced:
            _sync_file(self._file)

    def _make(self) -> None:
        """Create the log with the permissions of the store."""
        rights = stat.S_IMODE(self._store.stat().st_mode)
        directory = self._path.parent
        if not directory.is_dir():
            directory.mkdir(exist_ok=True)
            # A directory also needs the x bit wherever the store's r bit is set.
            directory.chmod(rights | (rights & 0o444) >> 2)
            self._sync_directory(directory.parent)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        # The umask must not hide the log from users who may read the store.
        os.fchmod(self._file, rights)
        self._size = 0
        self._sync_directory(directory)

    def _sync_directory(self, directory: Path) -> None:
        # Syncing a file does not make its directory entry durable.
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
        """Delete the log after its events were folded."""
        if self._file >= 0:
            with suppress(OSError):  # already deleted together with the run
                self._path.unlink()
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class MemoryLog:
    """Events of a run that is written one pack at a time. A kill loses those of the last pack."""

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
    """The readers' side of all logs beside a store."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.directory = log_directory(store)
        self._pinned: dict[str, int] | None = None

    def path_of(self, number: int, run_id: str) -> Path:
        return self.directory / str(LogName.of(number, run_id))

    def rows(self, number: int, run_id: str) -> list[EventRow]:
        """Return the events in a run's log, including any that are already in packs."""
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
        """Return the total size of all logs on disk."""
        total = 0
        for name in _files_in(self.directory):
            with suppress(OSError):
                total += (self.directory / name).stat().st_size
        return total

    def remove(self, name: LogName) -> None:
        """Delete a log if it exists. A writer that has it open notices with its next event."""
        with suppress(OSError):
            (self.directory / str(name)).unlink()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep the current logs open for the duration of a snapshot.

        A log that is folded and removed meanwhile is in packs that the snapshot does not see.
        """
        if self._pinned is not None:
            yield
            return
        files: dict[str, int] = {}
        try:
            for name in _files_in(self.directory):
                with suppress(FileNotFoundError):  # folded between listing and opening
                    files[name] = os.open(self.directory / name, os.O_RDONLY)
            self._pinned = files
            yield
        finally:
            self._pinned = None
            for file in files.values():
                os.close(file)

    def pinned_file(self, name: LogName) -> int | None:
        """Return the open file of a log in a snapshot, or -1 if the log did not exist; None outside of snapshots."""
        if self._pinned is None:
            return None
        return self._pinned.get(str(name), -1)

    def bytes_of(self, name: LogName) -> bytes:
        """Return the content of a log; empty if there is no such log."""
        if self._pinned is not None:
            file = self._pinned.get(str(name))
            if file is None:
                return b""
            return os.pread(file, os.fstat(file).st_size, 0)
        path = self.directory / str(name)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from None


def log_directory(store: Path) -> Path:
    """Return the directory of a store's logs."""
    return store.with_name(store.name + SUFFIX)


def log_rows(data: bytes, where: str) -> list[EventRow]:
    """Parse the content of a log. An incomplete last frame is skipped; any other damage raises `CorruptStore`."""
    rows: list[EventRow] = []
    position = 0
    data = data.rstrip(b"\0")  # rows never end in zeros, but files may after a power failure
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
    """Yield the events of a damaged log, skipping everything that is not a valid frame."""
    position = 0
    while position + _HEAD.size <= len(data):
        size, check, key = _HEAD.unpack_from(data, position)
        start = position + _HEAD.size
        # Without a valid head its size means nothing, so try the next byte.
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
    except OSError:  # no run has logged anything yet
        return []


def _cannot_write(path: Path, error: OSError) -> StoreError:
    if is_full(error):
        return StoreFull(f"{path}: the disk is full, or a limit is reached; the last event was not written")
    return StoreError(f"{path} cannot be written: {error.strerror or error}")
