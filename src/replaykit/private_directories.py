"""Directories for raw data that no file of the project may hold: private, elsewhere, and gone with their owner.

They are in memory where the machine has a place for that, otherwise in the temporary directory. The process that makes
one locks it. The kernel takes the lock away when that process ends, however it ends, so a directory without a lock was
left behind and is removed by whoever makes the next one. Process numbers would not tell: containers that share the
place do not share them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from replaykit.errors import StoreError
from replaykit.locking import locked

PREFIX = "replaykit-private-"
SHARED_MEMORY = "/dev/shm"
MIN_FREE_BYTES = 1 << 28
"""Room for the largest runner output and a draft of it. Many a container has 64 MB of shared memory, which is less."""
_IN_MEMORY = ("tmpfs", "ramfs")
_ATTEMPTS = 10
_TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_USUAL_TEMPORARY = "/tmp"
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextlib.contextmanager
def private_directory() -> Iterator[Path]:
    """A new directory that only this user can enter; it is removed when the block ends."""
    remove_abandoned()
    directory, lock = _make_directory(_place())
    try:
        yield directory
    finally:
        remove_tree(directory)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove what killed processes of this user have left behind."""
    if os.name != "posix":  # no locks, so nothing tells who is alive
        return
    named = (os.environ.get(variable) for variable in _TEMPORARY_VARIABLES)
    for place in {SHARED_MEMORY, _USUAL_TEMPORARY, *filter(None, named)}:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
            for path in found:
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(lock).st_uid == os.geteuid() and locked(lock):
                remove_tree(path)
        finally:
            os.close(lock)


def _make_directory(place: str) -> tuple[Path, int]:
    """A new directory and the descriptor that holds its lock."""
    error = None
    for _ in range(_ATTEMPTS):
        path = Path(place, f"{PREFIX}{os.urandom(8).hex()}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as why:
            error = why
            break
        lock = _lock_of(path)
        if lock is not None:
            return path, lock
    reason = "somebody removes what is made there" if error is None else error.strerror
    raise StoreError(f"{place}: no private directory can be made: {reason}", hint="Name another one: TMPDIR=DIR")


def _lock_of(path: Path) -> int | None:
    """The lock of a directory that was just made; None where another process took it for an abandoned one."""
    if os.name != "posix":
        return os.open(os.devnull, os.O_RDONLY)
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with contextlib.suppress(FileNotFoundError):
        if locked(lock, without_locks=True) and os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    os.close(lock)
    return None


def _place() -> str:
    if has_memory(SHARED_MEMORY):
        return SHARED_MEMORY
    return _temporary()


def has_memory(place: str) -> bool:
    """True for a directory in memory that can be written, has room, and lets nobody rename what others make there."""
    try:
        found = os.stat(place)
        room = os.statvfs(place)
    except (OSError, AttributeError):  # there is no such place, or no such call on this system
        return False
    is_safe = bool(found.st_mode & stat.S_ISVTX) or found.st_uid == os.geteuid()
    has_room = room.f_bavail * room.f_frsize >= MIN_FREE_BYTES
    return is_safe and has_room and os.access(place, os.W_OK | os.X_OK) and _is_in_memory(place)


def _is_in_memory(place: str) -> bool:
    """True when the file system of a directory is one that has no disk; what is mounted last covers the others."""
    real, kind = os.path.realpath(place), ""
    longest = -1
    with contextlib.suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            _, point, sort, *_ = line.split(" ")
            is_above = real == point or real.startswith(f"{point.rstrip('/')}/")
            if is_above and len(point) >= longest:
                longest, kind = len(point), sort
    return kind in _IN_MEMORY


def _temporary() -> str:
    import tempfile  # noqa: PLC0415 (slow to import, and most machines have memory for this)

    return tempfile.gettempdir()


def remove_tree(path: Path | str) -> None:
    """Remove a directory with what is below it, as far as this user may: candidates have written there.

    `shutil.rmtree` goes down by recursion, and fails where a candidate has nested directories a thousand deep. This
    moves directories up, one level after the other.
    """
    if os.name != "posix":  # no descriptors of directories
        import shutil  # noqa: PLC0415 (slow to import, and not needed elsewhere)

        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        top = os.open(path, _DIRECTORY)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(path)


def _empty(top: int) -> None:
    unique = os.urandom(8).hex()
    waiting = os.listdir(top)
    count = 0
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):  # somebody else's: what can be removed is
            if not _is_directory(name, top):
                os.unlink(name, dir_fd=top)
                continue
            os.chmod(name, 0o700, dir_fd=top)
            inner = os.open(name, _DIRECTORY, dir_fd=top)
            try:
                for child in os.listdir(inner):
                    if not _is_directory(child, inner):
                        os.unlink(child, dir_fd=inner)
                        continue
                    count += 1
                    os.chmod(child, 0o700, dir_fd=inner)  # without the right to write to it, it is not moved
                    os.rename(child, f"{unique}-{count}", src_dir_fd=inner, dst_dir_fd=top)
                    waiting.append(f"{unique}-{count}")
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _is_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)
