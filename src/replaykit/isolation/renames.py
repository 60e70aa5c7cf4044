"""Renames that a plain file system would do and its layers refuse: of directories, and between two layers.

The kernel does not rename a directory of an overlay that is in a lower layer (EXDEV), but one that is in the upper
layer alone. So the guardian replaces the first kind by the second, and then lets the call proceed. The contents are
moved by renames, which keep owner, mode, times and open descriptors.

Directories are passed as open descriptors, so that nobody can slip a link into their place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from replaykit.isolation import kernel
from replaykit.isolation.copies import MAX_BYTES, MAX_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_MAX_DEPTH = 100
_CHUNK_BYTES = 1 << 20
_REASONS = {errno.EOVERFLOW: "a part of it belongs to another user or group, which a layer of this user cannot hold"}


class CannotMove(Exception):
    """A file or directory cannot be moved, for a reason in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_movable(parent: int, name: str) -> bool:
    """Return True if the kernel can rename a directory of an overlay.

    It tries to rename it over a directory that is not empty, a case that the kernel checks last.
    """
    with _temporary_directory(parent) as temporary:
        os.mkdir(f"{temporary}/in-the-way", dir_fd=parent)
        try:
            os.rename(name, temporary, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST):
                raise
            return error.errno != errno.EXDEV
        finally:
            os.rmdir(f"{temporary}/in-the-way", dir_fd=parent)
    raise CannotMove("the file system does not behave like an overlay")


def make_movable(parent: int, name: str) -> None:
    """Make a directory of an overlay movable; raise `CannotMove` if that is impossible."""
    with _temporary_directory(parent) as temporary:
        _replace(parent, name, temporary)


def move(parent: int, name: str, target: int, new_name: str) -> None:
    """Move a file or directory to another file system, like a rename within one.

    Raise OSError for what a rename refuses, such as a directory in the way, and `CannotMove` if a copy is impossible.
    """
    temporary = _temporary_name()
    try:
        _check_size(parent, name, target)
        _copy(parent, name, target, temporary)
    except OSError as error:
        _remove(target, temporary)
        raise CannotMove(_reason(error)) from error
    try:
        os.rename(temporary, new_name, src_dir_fd=target, dst_dir_fd=target)
    except OSError:
        _remove(target, temporary)
        raise
    _remove(parent, name)


def _temporary_name() -> str:
    return f".replaykit-rename-{os.getpid()}"


@contextlib.contextmanager
def _temporary_directory(parent: int) -> Iterator[str]:
    """Give the name of a new directory, and remove all traces of it; an OSError becomes `CannotMove`."""
    before = os.stat(".", dir_fd=parent)
    name = _temporary_name()
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        try:
            yield name
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=parent)
            os.utime(".", ns=(before.st_atime_ns, before.st_mtime_ns), dir_fd=parent)
    except OSError as error:
        raise CannotMove(_reason(error)) from error


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def _opened(parent: int, name: str) -> contextlib.AbstractContextManager[int]:
    return kernel.opened(name, _DIRECTORY, below=parent)


def _replace(parent: int, name: str, temporary: str) -> None:
    """Replace a directory by one in the upper layer alone, with the same content."""
    _check_size(parent, name, parent)
    with _opened(parent, name) as old, _opened(parent, temporary) as new:
        state = os.fstat(old)
        try:
            _move_entries(old, new, _Links(new))
            _copy_attributes(old, state, new)
            _remove_empty(parent, name)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, stat.S_IMODE(state.st_mode), dir_fd=parent)
            with _opened(parent, name) as place:
                _move_back(new, place)
            raise


def _check_size(parent: int, name: str, target: int) -> None:
    """Raise `CannotMove` if something is too large to copy."""
    space = os.fstatvfs(target)
    max_bytes = min(MAX_BYTES, space.f_bavail * space.f_frsize)
    state = os.lstat(name, dir_fd=parent)
    count, size = 1, state.st_size
    is_directory = stat.S_ISDIR(state.st_mode)
    for way, _, names, place in os.fwalk(name, dir_fd=parent) if is_directory else ():
        count += len(names) + 1
        size += sum(os.lstat(file, dir_fd=place).st_size for file in names)
        if way.count("/") > _MAX_DEPTH:
            raise CannotMove(f"it is more than {_MAX_DEPTH} directories deep")
        if count > MAX_FILES:
            raise CannotMove(f"it has more than {MAX_FILES:,} files")
    if size > max_bytes:
        raise CannotMove(f"it is larger than {max_bytes // 1_000_000:,} MB")


class _Links:
    """Files with several names: further names are linked to the first one's new place, so that they stay one file."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._moved: dict[tuple[int, int], str] = {}

    def move(self, path: str, state: os.stat_result, source: int, target: int) -> None:
        """Move one name of a file; `path` is relative to the top of the target."""
        name = os.path.basename(path)
        key = (state.st_dev, state.st_ino)
        if state.st_nlink > 1 and key in self._moved:
            os.link(self._moved[key], name, src_dir_fd=self._top, dst_dir_fd=target, follow_symlinks=False)
            os.unlink(name, dir_fd=source)
        else:
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
            self._moved[key] = path


def _move_entries(source: int, target: int, links: _Links, way: str = "") -> None:
    """Move the contents of a directory. Those directories of the lower layer are left empty and created anew."""
    for name in os.listdir(source):
        state = os.lstat(name, dir_fd=source)
        if not stat.S_ISDIR(state.st_mode):
            links.move(way + name, state, source, target)
            continue
        try:
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            os.mkdir(name, 0o700, dir_fd=target)
            with _opened(source, name) as old, _opened(target, name) as new:
                _move_entries(old, new, links, f"{way}{name}/")
                _copy_attributes(old, state, new)


def _move_back(source: int, target: int) -> None:
    """Undo what `_move_entries` has done."""
    for name in os.listdir(source):
        try:
            left_empty = os.open(name, _DIRECTORY | os.O_CLOEXEC, dir_fd=target)
        except OSError:  # a file, or a directory that was moved as a whole
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
            continue
        try:
            with _opened(source, name) as made_anew:
                _move_back(made_anew, left_empty)
        finally:
            os.close(left_empty)
        os.rmdir(name, dir_fd=source)


def _remove_empty(parent: int, name: str) -> None:
    """Remove a directory tree without files."""
    with _opened(parent, name) as directory:
        for entry in os.listdir(directory):
            _remove_empty(directory, entry)
    os.rmdir(name, dir_fd=parent)


def _copy_attributes(source: int, state: os.stat_result, target: int) -> None:
    """Copy owner, mode, extended attributes and times to an open file or directory."""
    own = os.fstat(target)
    if (own.st_uid, own.st_gid) != (state.st_uid, state.st_gid):
        os.chown(target, state.st_uid, state.st_gid)
    os.chmod(target, stat.S_IMODE(state.st_mode))
    for name in os.listxattr(source):
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError as error:
            if error.errno != errno.ENOTSUP or name.startswith("system."):
                raise  # the kernel, too, drops only those that a layer cannot hold
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def _copy(parent: int, name: str, target: int, new_name: str) -> None:
    """Copy a file or directory to an unused name."""
    state = os.lstat(name, dir_fd=parent)
    if stat.S_ISLNK(state.st_mode):
        os.symlink(os.readlink(name, dir_fd=parent), new_name, dir_fd=target)
        os.chown(new_name, state.st_uid, state.st_gid, dir_fd=target, follow_symlinks=False)
        os.utime(new_name, ns=(state.st_atime_ns, state.st_mtime_ns), dir_fd=target, follow_symlinks=False)
    elif stat.S_ISDIR(state.st_mode):
        os.mkdir(new_name, 0o700, dir_fd=target)
        with _opened(parent, name) as old, _opened(target, new_name) as new:
            for entry in os.listdir(old):
                _copy(old, entry, new, entry)
            _copy_attributes(old, state, new)
    elif stat.S_ISREG(state.st_mode):
        _copy_file(parent, name, target, new_name)
    else:
        raise CannotMove("a pipe, a socket or a device is not copied")


def _copy_file(parent: int, name: str, target: int, new_name: str) -> None:
    with kernel.opened(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, below=parent) as old:
        new = os.open(new_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
        try:
            while data := os.read(old, _CHUNK_BYTES):
                view = memoryview(data)
                while view:
                    view = view[os.write(new, view) :]
            _copy_attributes(old, os.fstat(old), new)
        finally:
            os.close(new)


def remove(path: str) -> None:
    """Remove a directory tree, if it exists."""
    with kernel.opened(os.path.dirname(path)) as parent:
        _remove(parent, os.path.basename(path))


def _remove(parent: int, name: str) -> None:
    """Remove a file or a directory tree, if it exists."""
    try:
        state = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(state.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    with _opened(parent, name) as directory:
        for entry in os.listdir(directory):
            _remove(directory, entry)
    os.rmdir(name, dir_fd=parent)
