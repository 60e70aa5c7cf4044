"""The runs that are being written: a lock on one byte for each, which ends with the process that holds it.

The byte is the run's number in a file beside the store. Nothing is ever written to that file. Byte 0 belongs to no run:
the process that locks it may write shared runs.
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
from time import monotonic, sleep  # by name: a replay has virtual ones in `time`

from replaykit.errors import StoreError

if sys.platform == "linux":
    import fcntl

SUFFIX = "-live"
# Locks of open files are the only ones that two stores of one process hold apart; this layout is that of 64-bit Linux.
_HAS_LOCKS = sys.platform == "linux" and struct.calcsize("P") == 8
_LOCK = struct.Struct("@hhqqi4x")  # type, whence, start, length, pid
_TURNS = 0  # the byte of the turns at shared runs
_MOST_WAIT_S = 60
_SHORTEST_SLEEP_S, _LONGEST_SLEEP_S = 0.0001, 0.005


class RunLocks:
    """The locks of one store that is open for writing."""

    has_turns = _HAS_LOCKS
    """True where turns at shared runs can be told apart by a lock."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = _beside(store)
        self._file = -1
        self._in_turn = False
        _LOCKS.add(self)

    def hold(self, number: int) -> None:
        """Say that this run is being written. A system without such locks is told nothing."""
        if not _HAS_LOCKS:
            return
        with suppress(OSError):
            if self._file < 0:
                self._file = self._opened()
            _set(self._file, number, fcntl.F_WRLCK)

    def begin_turn(self) -> None:
        """Wait for the right to write shared runs: one store has it at a time."""
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
                sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_SLEEP_S)
            except OSError as error:
                raise StoreError(f"{self._path} cannot be locked: {error.strerror}") from None
            else:
                return

    def end_turn(self) -> None:
        """Let others write shared runs."""
        self._in_turn = False
        self.let_go(_TURNS)

    def _opened(self) -> int:
        """Open the file, and give it the rights of the store where it is new."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(self._path, os.O_RDWR)
        with suppress(OSError):
            os.fchmod(file, stat.S_IMODE(self._store.stat().st_mode))
        return file

    def let_go(self, number: int) -> None:
        """Say that nothing more is written to this run."""
        if self._file >= 0:
            with suppress(OSError):
                _set(self._file, number, fcntl.F_UNLCK)

    def close(self) -> None:
        """Let go of all."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


_LOCKS: weakref.WeakSet[RunLocks] = weakref.WeakSet()


def _release_in_child() -> None:
    """A lock ends when the last process has closed the file: a forked child must not keep those of its parent."""
    for locks in list(_LOCKS):
        locks.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


def running_numbers(store: Path, numbers: Iterable[int]) -> set[int] | None:
    """Those of the runs that somebody is writing, in this process or another; None where that cannot be told."""
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
