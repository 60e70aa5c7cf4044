"""System calls that change files in layers, where the layers would fail and the real files would not.

The guardian hears of these calls before they happen. It prepares what the kernel then does, does it itself, or names
what will fail. The tree gains nothing by it: both have the same files, and the guardian changes none that the tree may
not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class _Path:
    """A path that a process gave to a system call. Links below /proc lead to where it begins."""

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
        """A path below /proc that leads to the same place, but for absolute links in a nested sandbox."""
        return self.root + self.text if self.text.startswith("/") else f"{self.base}/{self.text}"


@dataclass(frozen=True, slots=True)
class _Place:
    """A name in an open directory."""

    parent: int
    name: str
    path: str
    device: int
    """That of the directory."""

    def found(self) -> os.stat_result | None:
        """Return what is there; None for nothing."""
        try:
            return os.lstat(self.name, dir_fd=self.parent)
        except FileNotFoundError:
            return None

    def may_be_changed(self) -> bool:
        """Return True when the person may create and remove files in the directory."""
        return os.access(".", os.W_OK | os.X_OK, dir_fd=self.parent)


class LayerCalls:
    """The calls of one process tree. `stopped` names a path that cannot be changed here, with the process and why."""

    def __init__(self, processes: int, stopped: Callable[[str, int, str], None]) -> None:
        self._processes = processes  # /proc, as it is outside
        self._stopped = stopped
        self._held_by_layers: set[tuple[int, int]] = set()
        self.real: tuple[str, ...] = ()
        """Directories that are really written."""
        self.hold_all_owners = True
        """False for an ordinary user, who exists alone in the sandbox."""
        self.mounts: tuple[str, ...] = ()
        """The paths at which something is mounted outside of the sandbox."""

    def rename(self, pid: int, name: str, arguments: list[int]) -> int | None:
        """Prepare a rename and return None: it goes on. Or return an error number, or 0 for a rename that is done."""
        old_path, new_path = (_Path.read(pid, arguments, *where) for where in filters.WRITING_CALLS[name])
        flags = arguments[4] if name == "renameat2" else 0
        found = os.lstat(old_path.way, dir_fd=self._processes)
        is_plain = not stat.S_ISDIR(found.st_mode) and not flags & _EXCHANGE
        if is_plain and os.path.dirname(old_path.way) == os.path.dirname(new_path.way):
            return None  # most renames: of a file that is written anew
        with contextlib.ExitStack() as stack:
            old = self._place(stack, old_path)
            new = self._place(stack, new_path)
            if self._real_place(old.path) != self._real_place(new.path) or old.device != new.device:
                return self._move(pid, old, new, flags)
            return None if is_plain else self._prepare(pid, old, new, flags)

    def check_link(self, pid: int, name: str, arguments: list[int]) -> None:
        """Name a hard link between two places that are one file system outside, and two in the sandbox (EXDEV)."""
        file_path = _Path.read(pid, arguments, *filters.LINKED_FILES[name])
        new_path = _Path.read(pid, arguments, *filters.WRITING_CALLS[name][0])
        with contextlib.ExitStack() as stack:
            file = self._place(stack, file_path)
            new = self._place(stack, new_path)
            would_work = file.found() is not None and new.found() is None and new.may_be_changed()
            if would_work and self._are_apart(file, new):
                self._stopped(new.path, pid, _LINK)

    def check_owner(self, pid: int, name: str, arguments: list[int]) -> None:
        """Name a file that a layer of an ordinary user cannot hold: its owner or group is unknown in the sandbox."""
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
        """Let the kernel rename a directory within one overlay."""
        if not kernel.is_overlay(old.parent) or self._real_place(old.path):
            return None
        found, target = old.found(), new.found()
        is_same = found is not None and target is not None and os.path.samestat(found, target)
        if found is None or is_same or new.path.startswith(f"{old.path}/"):
            return None
        if not (old.may_be_changed() and new.may_be_changed()):
            return None
        if found.st_dev != old.device and stat.S_ISDIR(found.st_mode):
            if old.path not in self.mounts:
                self._stopped(old.path, pid, _BUILT_ANEW)
            return None
        is_exchange = bool(flags & _EXCHANGE)
        if target is not None and not is_exchange:
            if flags & _NO_REPLACE or not stat.S_ISDIR(target.st_mode):
                return None
            if _has_entries(new):  # of a directory in a lower layer, the kernel would say EXDEV
                return errno.ENOTEMPTY
        self._make_movable(pid, old)
        if is_exchange and target is not None:
            self._make_movable(pid, new)
        return None

    def _make_movable(self, pid: int, place: _Place) -> None:
        found = place.found()
        if found is None or not stat.S_ISDIR(found.st_mode):
            return
        try:
            if renames.is_movable(place.parent, place.name):
                return
            self._check_use(place.path, as_file=False)
            renames.make_movable(place.parent, place.name)
        except renames.CannotMove as error:
            self._stopped(place.path, pid, error.reason)

    def _move(self, pid: int, old: _Place, new: _Place, flags: int) -> int | None:
        """Move a file or directory between two places that are one file system outside, and two in the sandbox."""
        if not self._are_apart(old, new):
            return None
        if not (old.may_be_changed() and new.may_be_changed()):
            return errno.EACCES
        if flags & _NO_REPLACE and new.found() is not None:
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
        """Return True for two places in one file system outside, and in two inside."""
        if old.device == new.device and self._real_place(old.path) == self._real_place(new.path):
            return False
        if _is_special(old.path) or _is_special(new.path):
            return False
        return self._mount(old.path) == self._mount(new.path)

    def _place(self, stack: contextlib.ExitStack, path_of_call: _Path) -> _Place:
        """Return the name that a path of a process leads to. Links in it lead where the process sees them lead."""
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
        """Return False for a directory that cannot be copied into a layer, with all directories above it."""
        found = os.stat(directory, dir_fd=self._processes)
        key = (found.st_dev, found.st_ino)
        if key in self._held_by_layers:
            return True
        device, above = found.st_dev, directory
        while found.st_dev == device:
            if _is_foreign(found):
                return False
            above = f"{above}/.."
            parent = os.stat(above, dir_fd=self._processes)
            if os.path.samestat(parent, found):
                break
            found = parent
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
        """Return True when the person could do this to a file: what fails anyway is not stopped by a layer."""
        is_there = os.access(way, os.F_OK, dir_fd=self._processes)
        if is_there and name in _OPENING:
            return os.access(way, os.W_OK, dir_fd=self._processes)
        if is_there and name not in _LEAVE_THE_FILE and name not in filters.RENAMES:
            return os.stat(way, dir_fd=self._processes).st_uid == os.geteuid()
        return os.access(os.path.dirname(way), os.W_OK, dir_fd=self._processes)

    def _real_path(self, way: str, *, follows: bool) -> str:
        """Return a path without links, as the report names it."""
        directory, name = os.path.split(way)
        for path, rest in ((way, "") if follows else ("", ""), (directory, name)):
            with contextlib.suppress(FileNotFoundError), kernel.opened(path, below=self._processes) as descriptor:
                found = os.readlink(f"self/fd/{descriptor}", dir_fd=self._processes)
                return os.path.join(found, rest).rstrip("/")
        return name

    def _real_place(self, path: str) -> str:
        """Return the directory that is really written and holds a path; an empty text for none."""
        return max((place for place in self.real if _is_at_or_below(path, place)), key=len, default="")

    def _mount(self, path: str) -> str:
        return max((place for place in self.mounts if _is_at_or_below(path, place)), key=len, default="/")

    def _check_use(self, path: str, *, as_file: bool) -> None:
        """Raise `CannotMove` when a process works below a path or has a directory open there; `as_file`: or writes."""
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
        """Return True for a descriptor to write: the mode of its link tells."""
        return bool(os.lstat(f"{pid}/fd/{descriptor}", dir_fd=self._processes).st_mode & stat.S_IWUSR)


def _has_entries(place: _Place) -> bool:
    flags = os.O_RDONLY | os.O_DIRECTORY
    with kernel.opened(place.name, flags, below=place.parent) as descriptor, os.scandir(descriptor) as entries:
        return next(entries, None) is not None


def _is_foreign(found: os.stat_result) -> bool:
    """Return True for a file of somebody who does not exist in an ordinary user's sandbox."""
    return found.st_uid != os.geteuid() or found.st_gid != os.getegid()


def _is_special(path: str) -> bool:
    return any(_is_at_or_below(path, place) for place in _SPECIAL)


def _is_at_or_below(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place.rstrip('/')}/")
