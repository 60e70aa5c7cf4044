"""System calls on files that would fail in layers although they work on the real files.

The guardian checks these calls before they happen. It prepares the files so that the kernel succeeds, performs the call
itself, or reports the failure. The tree gains no permissions by it: it sees the same files, and the guardian changes
none that the tree may not change.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from replaykit.isolation import filters, kernel, renames
from replaykit.isolation.process_tree import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SPECIAL = ("/proc", "/sys", "/dev")
_NO_REPLACE, _EXCHANGE = 1, 2
_NO_DESCRIPTOR = 0x80000000
_MOST_REMEMBERED = 10_000
_LEAVE_THE_FILE = ("unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat")
_OPENING = ("open", "openat", "openat2", "truncate", "creat")
_BY_DEFAULT = ("fchmodat", "fchmodat2", "fchownat", "utimensat", "futimesat", "setxattrat")
_FOLLOW_LINKS = (*_OPENING, *_BY_DEFAULT, "chmod", "chown", "utime", "utimes", "setxattr", "removexattr")
_OTHER_OWNER = "it, or a directory above it, belongs to another user or group, which a layer of this user cannot hold"
_IN_USE = "a process works in it, or has it open"
_TWO_LAYERS = "the other one is in another layer"
_LINK = "it is a hard link to a file in another layer"
_BUILT_ANEW = "it stands in a directory that the sandbox had to build anew"


class _Path(NamedTuple):
    """A path argument of a system call, as links below /proc."""

    text: str
    root: str
    base: str
    """The directory that it is relative to."""

    @staticmethod
    def read(pid: int, arguments: list[int], directory_at: int | None, path_at: int) -> _Path:
        directory = _NO_DESCRIPTOR if directory_at is None else arguments[directory_at] & 0xFFFFFFFF
        base = f"{pid}/cwd" if directory >= _NO_DESCRIPTOR else f"{pid}/fd/{directory}"
        return _Path(kernel.read_text(pid, arguments[path_at]).rstrip("/"), f"{pid}/root", base)

    @property
    def way(self) -> str:
        """The path below /proc that leads to the same place, except through absolute links in a nested sandbox."""
        return self.root + self.text if self.text.startswith("/") else f"{self.base}/{self.text}"


class _Place(NamedTuple):
    """A name in an open directory."""

    parent: int
    name: str
    path: str
    device: int
    """The device of the directory."""

    def state(self) -> os.stat_result | None:
        """Return the state of the file; None if it does not exist."""
        try:
            return os.lstat(self.name, dir_fd=self.parent)
        except FileNotFoundError:
            return None

    def may_be_changed(self) -> bool:
        """Return True if the user may create and remove files in the directory."""
        return os.access(".", os.W_OK | os.X_OK, dir_fd=self.parent)


class LayerCalls:
    """The calls of one process tree. `stopped` reports a path that cannot be changed, with process and reason."""

    def __init__(self, processes: int, stopped: Callable[[str, int, str], None]) -> None:
        self._processes = processes  # the /proc of the outside
        self._stopped = stopped
        self._held_by_layers: set[tuple[int, int]] = set()
        self.real: tuple[str, ...] = ()
        """Directories outside of the layers, which are written for real."""
        self.hold_all_owners = True
        """False for an ordinary user, the only user who exists in the sandbox."""
        self.mounts: tuple[str, ...] = ()
        """The mount points outside of the sandbox."""

    def rename(self, pid: int, name: str, arguments: list[int]) -> int | None:
        """Prepare a rename and return None, so that it proceeds. Or return an error number, 0 if the rename is done."""
        old_path, new_path = (_Path.read(pid, arguments, *where) for where in filters.WRITING_CALLS[name])
        flags = arguments[4] if name == "renameat2" else 0
        state = os.lstat(old_path.way, dir_fd=self._processes)
        is_plain = not stat.S_ISDIR(state.st_mode) and not flags & _EXCHANGE
        if is_plain and os.path.dirname(old_path.way) == os.path.dirname(new_path.way):
            return None  # the common case: a new version replaces a file
        with contextlib.ExitStack() as stack:
            old = self._place(stack, old_path)
            new = self._place(stack, new_path)
            if self._real_place(old.path) != self._real_place(new.path) or old.device != new.device:
                return self._move(pid, old, new, flags)
            return None if is_plain else self._prepare(pid, old, new, flags)

    def check_link(self, pid: int, name: str, arguments: list[int]) -> None:
        """Report a hard link between two places of one file system that are two in the sandbox (EXDEV)."""
        file_path = _Path.read(pid, arguments, *filters.LINKED_FILES[name])
        new_path = _Path.read(pid, arguments, *filters.WRITING_CALLS[name][0])
        with contextlib.ExitStack() as stack:
            file = self._place(stack, file_path)
            new = self._place(stack, new_path)
            would_work = file.state() is not None and new.state() is None and new.may_be_changed()
            if would_work and self._are_apart(file, new):
                self._stopped(new.path, pid, _LINK)

    def check_owner(self, pid: int, name: str, arguments: list[int]) -> None:
        """Report a file that an ordinary user's layer cannot hold: its owner or group does not exist in the sandbox."""
        for where in filters.WRITING_CALLS[name]:
            way = _Path.read(pid, arguments, *where).way
            parent = os.path.dirname(way)
            is_foreign = not self._is_held_by_layers(parent)
            if not is_foreign and name not in _LEAVE_THE_FILE:
                is_foreign = self._is_foreign_file(way, follows=name in _FOLLOW_LINKS)
            if is_foreign and self._may_change(name, way):
                path = self._real_path(way, follows=name in _FOLLOW_LINKS)
                if not self._real_place(path) and not _is_special(path):
                    self._stopped(path, pid, _OTHER_OWNER)

    def _prepare(self, pid: int, old: _Place, new: _Place, flags: int) -> int | None:
        """Prepare the rename of a directory within one overlay."""
        if not kernel.is_overlay(old.parent) or self._real_place(old.path):
            return None
        old_state, target = old.state(), new.state()
        is_same = old_state is not None and target is not None and os.path.samestat(old_state, target)
        if old_state is None or is_same or new.path.startswith(f"{old.path}/"):
            return None
        if not (old.may_be_changed() and new.may_be_changed()):
            return None
        if old_state.st_dev != old.device and stat.S_ISDIR(old_state.st_mode):
            if old.path not in self.mounts:
                self._stopped(old.path, pid, _BUILT_ANEW)
            return None
        is_exchange = bool(flags & _EXCHANGE)
        if target is not None and not is_exchange:
            if flags & _NO_REPLACE or not stat.S_ISDIR(target.st_mode):
                return None
            if _has_entries(new):  # the kernel would say EXDEV for one in a lower layer
                return errno.ENOTEMPTY
        self._make_movable(pid, old)
        if is_exchange and target is not None:
            self._make_movable(pid, new)
        return None

    def _make_movable(self, pid: int, place: _Place) -> None:
        state = place.state()
        if state is None or not stat.S_ISDIR(state.st_mode):
            return
        try:
            if renames.is_movable(place.parent, place.name):
                return
            self._check_use(place.path, as_file=False)
            renames.make_movable(place.parent, place.name)
        except renames.CannotMove as error:
            self._stopped(place.path, pid, error.reason)

    def _move(self, pid: int, old: _Place, new: _Place, flags: int) -> int | None:
        """Move a file or directory between two places of one file system that are two in the sandbox."""
        if not self._are_apart(old, new):
            return None
        if not (old.may_be_changed() and new.may_be_changed()):
            return errno.EACCES
        if flags & _NO_REPLACE and new.state() is not None:
            return errno.EEXIST
        if flags & ~_NO_REPLACE:
            self._stopped(old.path, pid, _TWO_LAYERS)
            return None
        try:
            self._check_use(old.path, as_file=True)
            renames.move(old.parent, old.name, new.parent, new.name)
        except renames.CannotMove as error:
            self._stopped(old.path, pid, error.reason)
            return None
        except OSError as error:
            return error.errno or errno.EXDEV
        return 0

    def _are_apart(self, old: _Place, new: _Place) -> bool:
        """Return True for two places of one file system outside that are two inside."""
        if old.device == new.device and self._real_place(old.path) == self._real_place(new.path):
            return False
        if _is_special(old.path) or _is_special(new.path):
            return False
        return self._mount(old.path) == self._mount(new.path)

    def _place(self, stack: contextlib.ExitStack, path_of_call: _Path) -> _Place:
        """Return the name that a path leads to, following links as the process sees them."""
        text = path_of_call.text
        if not text.startswith("/"):
            base = os.readlink(path_of_call.base, dir_fd=self._processes)
            root_path = os.readlink(path_of_call.root, dir_fd=self._processes)
            text = f"{base.removeprefix(root_path.rstrip('/'))}/{text}"
        directory, _, name = text.rpartition("/")
        if name in ("", ".", ".."):
            raise FileNotFoundError(errno.ENOENT, "the kernel renames no such name")
        root = stack.enter_context(kernel.opened(path_of_call.root, below=self._processes))
        parent = kernel.open_below(root, directory or "/")
        stack.callback(os.close, parent)
        path = os.readlink(f"self/fd/{parent}", dir_fd=self._processes)
        return _Place(parent, name, os.path.join(path, name), os.fstat(parent).st_dev)

    def _is_held_by_layers(self, directory: str) -> bool:
        """Return False if a directory, or one above it, cannot be copied into a layer."""
        state = os.stat(directory, dir_fd=self._processes)
        key = (state.st_dev, state.st_ino)
        if key in self._held_by_layers:
            return True
        device, above = state.st_dev, directory
        while state.st_dev == device:
            if _is_foreign(state):
                return False
            above = f"{above}/.."
            parent = os.stat(above, dir_fd=self._processes)
            if os.path.samestat(parent, state):
                break
            state = parent
        if len(self._held_by_layers) >= _MOST_REMEMBERED:
            self._held_by_layers.clear()
        self._held_by_layers.add(key)
        return True

    def _is_foreign_file(self, way: str, *, follows: bool) -> bool:
        try:
            return _is_foreign(os.stat(way, dir_fd=self._processes, follow_symlinks=follows))
        except FileNotFoundError:
            return False

    def _may_change(self, name: str, way: str) -> bool:
        """Return True if the user could do this to a file: only then has a layer stopped anything."""
        is_there = os.access(way, os.F_OK, dir_fd=self._processes)
        if is_there and name in _OPENING:
            return os.access(way, os.W_OK, dir_fd=self._processes)
        if is_there and name not in _LEAVE_THE_FILE and name not in filters.RENAMES:
            return os.stat(way, dir_fd=self._processes).st_uid == os.geteuid()
        return os.access(os.path.dirname(way), os.W_OK, dir_fd=self._processes)

    def _real_path(self, way: str, *, follows: bool) -> str:
        """Return a path without links, for the report."""
        directory, name = os.path.split(way)
        for path, rest in ((way, "") if follows else ("", ""), (directory, name)):
            with contextlib.suppress(FileNotFoundError), kernel.opened(path, below=self._processes) as descriptor:
                real = os.readlink(f"self/fd/{descriptor}", dir_fd=self._processes)
                return os.path.join(real, rest).rstrip("/")
        return name

    def _real_place(self, path: str) -> str:
        """Return the directory written for real that contains a path; empty if there is none."""
        return max((place for place in self.real if _is_at_or_below(path, place)), key=len, default="")

    def _mount(self, path: str) -> str:
        return max((place for place in self.mounts if _is_at_or_below(path, place)), key=len, default="/")

    def _check_use(self, path: str, *, as_file: bool) -> None:
        """Raise `CannotMove` if a process works below a path or has a directory (`as_file`: or a written file) open."""
        if any(_is_at_or_below(link, path) for link in self._links_in_use(files=as_file)):
            raise renames.CannotMove(_IN_USE)

    def _links_in_use(self, *, files: bool) -> Iterator[str]:
        for pid in descendants(self._processes):
            with contextlib.suppress(OSError):  # it has ended
                yield os.readlink(f"{pid}/cwd", dir_fd=self._processes)
                for name in self._list(f"{pid}/fd"):
                    with contextlib.suppress(OSError):  # it was closed
                        if self._is_directory(pid, name) or (files and self._is_written(pid, name)):
                            yield os.readlink(f"{pid}/fd/{name}", dir_fd=self._processes)

    def _list(self, path: str) -> list[str]:
        with kernel.opened(path, os.O_RDONLY | os.O_DIRECTORY, below=self._processes) as descriptor:
            return os.listdir(descriptor)

    def _is_directory(self, pid: int, descriptor: str) -> bool:
        return stat.S_ISDIR(os.stat(f"{pid}/fd/{descriptor}", dir_fd=self._processes).st_mode)

    def _is_written(self, pid: int, descriptor: str) -> bool:
        """Return True for a descriptor opened for writing, by the mode of its link."""
        return bool(os.lstat(f"{pid}/fd/{descriptor}", dir_fd=self._processes).st_mode & stat.S_IWUSR)


def _has_entries(place: _Place) -> bool:
    flags = os.O_RDONLY | os.O_DIRECTORY
    with kernel.opened(place.name, flags, below=place.parent) as descriptor, os.scandir(descriptor) as entries:
        return next(entries, None) is not None


def _is_foreign(state: os.stat_result) -> bool:
    """Return True for a file of somebody who does not exist in an ordinary user's sandbox."""
    return state.st_uid != os.geteuid() or state.st_gid != os.getegid()


def _is_special(path: str) -> bool:
    return any(_is_at_or_below(path, place) for place in _SPECIAL)


def _is_at_or_below(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place.rstrip('/')}/")
