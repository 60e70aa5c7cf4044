"""The event log of a run that several processes write in turns."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from replaykit.errors import StoreError
from replaykit.store.event_log import FRAME_HEAD_BYTES, EventRow, LogFile, LogName, StoreLogs, log_rows
from replaykit.store.protocol import Durability


class SharedLog(LogFile):
    """The log of one shared run, written in turns and read at any time."""

    def __init__(self, logs: StoreLogs, number: int, run_id: str, durability: Durability) -> None:
        super().__init__(logs.store, number, run_id, durability)
        self._logs = logs
        self._name = LogName.of(number, run_id)

    def __del__(self) -> None:
        self.close()

    @property
    def size(self) -> int:
        """The total size of the events read or written so far."""
        if self.is_open:
            return self._size
        return 0

    def news(self) -> list[EventRow]:
        """Return the events appended since the last call; in a snapshot, only those of its logs."""
        file = self._logs.pinned_file(self._name)
        if file is None:
            if self._is_read():
                return []
            file = self._open_newest()
        elif file >= 0:
            self._open_newest()
        if file < 0:
            return []
        # A snapshot may hold an older log than the current one; then read it from its start.
        is_own = self.is_open and os.path.sameopenfile(file, self._file)
        start = self._size if is_own else 0
        rows = log_rows(os.pread(file, max(0, os.fstat(file).st_size - start), start), str(self._path))
        if is_own:
            self._size += sum(FRAME_HEAD_BYTES + len(row) for _, row in rows)
        return rows

    def _is_read(self) -> bool:
        """Return whether nothing was appended since the last call, the usual case."""
        if not self.is_open:
            return False
        found = os.fstat(self._file)
        return found.st_size == self._size and found.st_nlink > 0

    def _open_newest(self) -> int:
        """Open the current log, if any. Folding a log replaces it with a new file."""
        if self.is_open and os.fstat(self._file).st_nlink:
            return self._file
        self.close()
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._file = _opened(self._path)
                self._size = 0
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}") from None
        return self._file

    def _write(self, frame: bytes) -> None:
        """Write a frame. A complete one stays even if syncing fails, because others may have read it."""
        try:
            written = os.write(self._file, frame)
            while written < len(frame):
                written += os.write(self._file, frame[written:])
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._sync()


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND)
    except PermissionError:  # a read-only file can still be read
        return os.open(path, os.O_RDONLY)
