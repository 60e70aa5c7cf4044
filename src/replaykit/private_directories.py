"""Private directories for raw data that must not be in the project, deleted with their owner.

They are in memory if the machine has a place for that, otherwise in the temporary directory. The process that creates
one locks it, and the kernel releases the lock however the process ends. A directory without a lock is therefore
abandoned, and the next process that creates one deletes it. Process ids would not do: containers that share the place
have separate ones.
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
"""Room for the largest runner output and a draft of it. Many containers have only 64 MB of shared memory."""
_IN_MEMORY = ("tmpfs", "ramfs")
_ATTEMPTS = 10
_TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_USUAL_TEMPORARY = "/tmp"
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextlib.contextmanager
def private_directory() -> Iterator[Path]:
    """Yield a new directory that only this user can enter, and delete it at the end."""
    remove_abandoned()
    directory, lock = _make_directory(_place())
    try:
        yield directory
    finally:
        remove_tree(directory)
        os.close(lock)


def remove_abandoned() -> None:
    """Delete the directories that killed processes of this user left behind."""
    if os.name != "posix":  # without locks, abandoned directories cannot be told apart
        return
    named = (os.environ.get(variable) for variable in _TEMPORARY_VARIABLES)
    for place in {SHARED_MEMORY, _USUAL_TEMPORARY, *filter(None, named)}:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
            for path in found:
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    with contextlib.suppress(OSError):  # already deleted, or another user's
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(lock).st_uid == os.geteuid() and locked(lock):
                remove_tree(path)
        finally:
            os.close(lock)


def _make_directory(place: str) -> tuple[Path, int]:
    """Create a directory and return it with the descriptor that holds its lock."""
    error = None
    for _ in range(_ATTEMPTS):
        # Unpredictable, because other users can create names in the same place.
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
    reason = "another program removes what is created there" if error is None else error.strerror
    raise StoreError(f"{place}: no private directory can be made: {reason}", hint="Name another one: TMPDIR=DIR")


def _lock_of(path: Path) -> int | None:
    """Lock a new directory; return None if another process has deleted it as abandoned."""
    if os.name != "posix":
        return os.open(os.devnull, os.O_RDONLY)
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with contextlib.suppress(FileNotFoundError):
        # Between mkdir and the lock, another process may have deleted the directory as abandoned, and a new one may be
        # in its place.
        if locked(lock, without_locks=True) and os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    os.close(lock)
    return None


def _place() -> str:
    if has_memory(SHARED_MEMORY):
        return SHARED_MEMORY
    return _temporary()


def has_memory(place: str) -> bool:
    """Return whether a directory is in memory, writable, has room, and protects its entries from other users."""
    try:
        found = os.stat(place)
        room = os.statvfs(place)
    except (OSError, AttributeError):  # the place or the system call does not exist
        return False
    # The sticky bit keeps other users from renaming or deleting entries.
    is_safe = bool(found.st_mode & stat.S_ISVTX) or found.st_uid == os.geteuid()
    has_room = room.f_bavail * room.f_frsize >= MIN_FREE_BYTES
    return is_safe and has_room and os.access(place, os.W_OK | os.X_OK) and _is_in_memory(place)


def _is_in_memory(place: str) -> bool:
    """Return whether a directory's file system is in memory. The last mount on a path hides earlier ones."""
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
    import tempfile  # noqa: PLC0415 (slow to import, and most machines have shared memory)

    return tempfile.gettempdir()


def remove_tree(path: Path | str) -> None:
    """Delete a directory with everything below it, as far as permissions allow. Candidates may have written there.

    `shutil.rmtree` recurses and fails on directories nested a thousand deep. This function moves nested directories up,
    one level at a time.
    """
    if os.name != "posix":  # Windows has no directory descriptors
        import shutil  # noqa: PLC0415 (slow to import, and only needed on Windows)

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
        with contextlib.suppress(OSError):  # skip what belongs to another user
            if not _is_directory(name, top):
                os.unlink(name, dir_fd=top)
                continue
            # A candidate may have taken its own permissions away.
            os.chmod(name, 0o700, dir_fd=top)
            inner = os.open(name, _DIRECTORY, dir_fd=top)
            try:
                for child in os.listdir(inner):
                    if not _is_directory(child, inner):
                        os.unlink(child, dir_fd=inner)
                        continue
                    count += 1
                    os.chmod(child, 0o700, dir_fd=inner)  # moving a directory requires write permission on it
                    os.rename(child, f"{unique}-{count}", src_dir_fd=inner, dst_dir_fd=top)
                    waiting.append(f"{unique}-{count}")
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _is_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)
