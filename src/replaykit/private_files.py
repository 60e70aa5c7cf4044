"""Files and directories that are private to their owner, because recordings and the redaction key are sensitive.

New files and directories are closed to everyone else, whatever the umask. Existing ones that are open to everyone are
closed when they are written. Permissions that exclude others but include a group are deliberate and stay, as does the
group access in a directory that passes its group on to its files (setgid).

Raw data that must not be in the project goes to temporary directories, which are deleted with their owner. They are in
memory if the machine has a place for that. The process that creates one locks it, and the kernel releases the lock
however the process ends. A directory without a lock is therefore abandoned, and the next process that creates one
deletes it. Process ids would not do: containers that share the place have separate ones.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from replaykit.errors import StoreError

IGNORE = ".gitignore"
EVERYTHING = "*\n"
_NOBODY_ELSE = 0o700
_OTHERS, _GROUP_AND_OTHERS = 0o007, 0o077
_COMMENT = "# ReplayKit: recordings, and the key of their placeholders"
PREFIX = "replaykit-private-"
SHARED_MEMORY = "/dev/shm"
MIN_FREE_BYTES = 1 << 28
"""Room for the largest runner output and a draft of it. Many containers have only 64 MB of shared memory."""
_IN_MEMORY = ("tmpfs", "ramfs")
_ATTEMPTS = 10
_TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_USUAL_TEMPORARY = "/tmp"
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def make_directories(directory: Path, *, private_from: Path) -> bool:
    """Create a directory and its missing parents, private from `private_from` down; return whether it was missing."""
    missing = [part for part in (directory, *directory.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        if part == private_from or private_from in part.parents:
            part.chmod(_NOBODY_ELSE)
    directory.mkdir(exist_ok=True)  # raises if a file has that name
    return directory in missing


def make_file(path: Path) -> None:
    """Create an empty private file, or close an existing one to others."""
    shares = _shares_with_group(path.parent)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        close_to_others(path)
        return
    try:
        if os.name == "posix":
            # os.open() applies the umask, which could take the group's access away.
            os.fchmod(handle, 0o660 if shares else 0o600)
    finally:
        os.close(handle)


def close_to_others(path: Path) -> None:
    """Remove the permissions of others, and those of the group unless it was granted access deliberately."""
    if os.name != "posix":
        return
    with suppress(OSError):  # missing, or not owned by this user
        found = path.stat()
        rights = stat.S_IMODE(found.st_mode)
        if rights & _OTHERS and found.st_uid == os.geteuid():
            if path.is_dir():
                is_shared = rights & stat.S_ISGID
            else:
                is_shared = _shares_with_group(path.parent)
            path.chmod(rights & ~(_OTHERS if is_shared else _GROUP_AND_OTHERS))


def close_all(directory: Path) -> None:
    """Close the files of a directory to everyone but their owner, without following links."""
    if os.name != "posix":
        return
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                os.chmod(entry.path, 0o600)


def ignore_all(directory: Path) -> None:
    """Make git ignore a directory, unless it already has ignore rules."""
    with suppress(FileExistsError), (directory / IGNORE).open("x", encoding="utf-8") as rules:
        rules.write(EVERYTHING)


def ignore_files(directory: Path, names: Iterable[str]) -> None:
    """Make git ignore these files of a directory if it is in a repository. `*` matches anything."""
    if not any((part / ".git").exists() for part in (directory.absolute(), *directory.absolute().parents)):
        return
    file = directory / IGNORE
    if file.exists():
        before = file.read_text(encoding="utf-8", errors="surrogateescape")
    else:
        before = ""
    present = {line.strip() for line in before.splitlines()}
    if "*" in present:
        lacking = []
    else:
        lacking = [line for line in map(_rule, names) if line not in present]
    if lacking:
        end = "" if not before or before.endswith("\n") else "\n"
        with file.open("a", encoding="utf-8") as rules:
            rules.write("\n".join([end + _COMMENT, *lacking, ""]))


def _rule(name: str) -> str:
    return "/" + re.sub(r"[\\?\[\]]", r"\\\g<0>", name)


def _shares_with_group(directory: Path) -> bool:
    with suppress(OSError):
        return bool(directory.stat().st_mode & stat.S_ISGID)
    return False


@contextmanager
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
        with suppress(OSError), os.scandir(place) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
            for path in found:
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    with suppress(OSError):  # already deleted, or another user's
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
    with suppress(FileNotFoundError):
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
    with suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
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
    with suppress(OSError):
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
        with suppress(OSError):  # skip what belongs to another user
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


def locked(file: int, *, without_locks: bool = False) -> bool:
    """Take the lock of a file; False when somebody has it. `without_locks` is the answer where the file system has
    none."""
    if os.name != "posix":
        return True
    import fcntl  # noqa: PLC0415 (not on every system)

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks
    return True
