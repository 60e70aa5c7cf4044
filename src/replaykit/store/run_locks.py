"""Run locks: a lock on one byte per run in progress, which the kernel releases when the process ends.

The byte's offset in a file beside the store is the run's number. Nothing is ever written to that file. Byte 0 belongs
to no run: the process that locks it may write shared runs.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep  # by name: a replay replaces those in `time` with virtual ones

from replaykit.errors import StoreError

if sys.platform == "linux":
    import fcntl

SUFFIX = "-live"
# Classic POSIX locks belong to the process, so two stores of one process would not exclude each other; open file
# description locks do. The struct layout is that of 64-bit Linux.
_HAS_LOCKS = sys.platform == "linux" and struct.calcsize("P") == 8
_LOCK = struct.Struct("@hhqqi4x")  # type, whence, start, length, pid
_TURNS = 0  # the byte that grants a turn at shared runs
_MOST_WAIT_S = 60
_SHORTEST_SLEEP_S, _LONGEST_SLEEP_S = 0.0001, 0.005


class RunLocks:
    """The locks of one store that is open for writing."""

    has_turns = _HAS_LOCKS
    """True if the system can serialize turns at shared runs by a lock."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = _beside(store)
        self._file = -1
        self._in_turn = False
        _LOCKS.add(self)

    def hold(self, number: int) -> None:
        """Mark a run as being written. Does nothing on systems without such locks."""
        if not _HAS_LOCKS:
            return
        with suppress(OSError):
            if self._file < 0:
                self._file = self._opened()
            _set(self._file, number, fcntl.F_WRLCK)

    def begin_turn(self) -> None:
        """Wait for the exclusive right to write shared runs."""
        if self._in_turn:
            raise StoreError(f"{self._store}: a turn at a shared run inside of another one")
        if self.has_turns:
            self._lock_turns()
        self._in_turn = True

    def _lock_turns(self) -> None:
        give_up, pause_s = 0.0, _SHORTEST_SLEEP_S
        while True:
            try:
                if self._file < 0:
                    self._file = self._opened()
                _set(self._file, _TURNS, fcntl.F_WRLCK)
            except BlockingIOError:
                give_up = give_up or monotonic() + _MOST_WAIT_S
                if monotonic() > give_up:
                    raise StoreError(f"{self._store}: another process held the store for {_MOST_WAIT_S} s") from None
                # Polling, because a blocking lock could not be given up after a time limit.
                sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_SLEEP_S)
            except OSError as error:
                raise StoreError(f"{self._path} cannot be locked: {error.strerror}") from None
            else:
                return

    def end_turn(self) -> None:
        """Let other stores write shared runs."""
        self._in_turn = False
        self.let_go(_TURNS)

    def _opened(self) -> int:
        """Open the lock file, created with the permissions of the store."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(self._path, os.O_RDWR)
        with suppress(OSError):
            os.fchmod(file, stat.S_IMODE(self._store.stat().st_mode))
        return file

    def let_go(self, number: int) -> None:
        """Mark a run as no longer being written."""
        if self._file >= 0:
            with suppress(OSError):
                _set(self._file, number, fcntl.F_UNLCK)

    def close(self) -> None:
        """Release all locks."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


_LOCKS: weakref.WeakSet[RunLocks] = weakref.WeakSet()


def _release_in_child() -> None:
    """Close inherited lock files: a lock lasts until every process has closed the file, so a child prolongs it."""
    for locks in list(_LOCKS):
        locks.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


def running_numbers(store: Path, numbers: Iterable[int]) -> set[int] | None:
    """Return the runs that any process is writing; None if the system cannot tell."""
    if not _HAS_LOCKS:
        return None
    try:
        file = os.open(_beside(store), os.O_RDWR)
    except FileNotFoundError:
        return set()
    except OSError:
        return None
    try:
        return {number for number in numbers if _is_held(file, number)}
    except OSError:
        return None
    finally:
        os.close(file)


def _beside(store: Path) -> Path:
    return store.with_name(store.name + SUFFIX)


def _set(file: int, number: int, kind: int) -> None:
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, _LOCK.pack(kind, os.SEEK_SET, number, 1, 0))


def _is_held(file: int, number: int) -> bool:
    request = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    return bool(_LOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, request))[0] != fcntl.F_UNLCK)
