"""The files that an isolated process tree wrote, read from its layers."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from replaykit.isolation.mounts import SPECIAL, How, attributes
from replaykit.isolation.policy import Written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replaykit.isolation.mounts import Base

MAX_LISTED = 1000
"""The most written files that are listed; all are counted."""
_OVERLAY = "user.overlay."
_OPAQUE = f"{_OVERLAY}opaque"
_CHUNK_BYTES = 1 << 20
_LONGEST_PATH = 4096 - 256 - 2  # of a directory: a name in it may take 255 bytes


class Layers(NamedTuple):
    """The layers of a sandbox as open directories, since they have no path outside of it."""

    layers: int
    bases: list[tuple[Base, int]]
    """Rebuilt directories, and descriptors of their file systems."""
    overlays: list[tuple[str, str]]
    """Paths with the names of the layers that hold the writes below them."""
    missing: frozenset[str] = frozenset()
    """Entries of the bases that were gone when they were built."""
    copied: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """Files copied into the bases, with the attributes of the copies."""
    ours: tuple[str, ...] = ()
    """Files that the isolation itself wrote."""

    def listed(self) -> tuple[tuple[Written, ...], int]:
        """Return the first written files, and the number of all."""
        listed: list[Written] = []
        count = 0
        for written, _ in self._changes():
            count += 1
            if len(listed) < MAX_LISTED:
                listed.append(written)
        return tuple(listed), count

    def copy_to(self, directory: Path) -> int:
        """Copy created and changed files below a directory, and return their number."""
        import shutil  # noqa: PLC0415 (slow to import, and most writes are discarded)

        count = 0
        for written, place in self._changes():
            if written.how == "removed":
                continue
            target = directory / written.path.lstrip("/")
            mode = os.lstat(place).st_mode
            if stat.S_ISDIR(mode):
                target.mkdir(parents=True, exist_ok=True)
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(place, target, follow_symlinks=False)
                if stat.S_ISREG(mode):
                    target.chmod(stat.S_IMODE(mode) & 0o777)  # no setuid: nobody may become this user by running it
                count += 1
        return count

    def _changes(self) -> Iterator[tuple[Written, str]]:
        for path, name in self.overlays:
            yield from self._in_layer(path, f"/proc/self/fd/{self.layers}/{name}/upper")
        for base, descriptor in self.bases:
            yield from self._in_base(base, f"/proc/self/fd/{descriptor}")

    def _in_layer(self, path: str, place: str) -> Iterator[tuple[Written, str]]:
        """Yield the changes in a directory of a layer and below.

        A program may nest directories as deep as it likes. So there is no recursion, and a path that is too long for
        the kernel is left out.
        """
        waiting = [(path, place)]
        while waiting:
            real, inside = waiting.pop()
            if len(os.fsencode(inside)) > _LONGEST_PATH:
                continue
            below: list[tuple[str, str]] = []
            yield from self._in_directory(real, inside, below)
            waiting += reversed(below)

    def _in_directory(self, path: str, place: str, below: list[tuple[str, str]]) -> Iterator[tuple[Written, str]]:
        """Yield the changes directly in a directory of a layer, and add its directories to `below`. A device 0/0 marks
        a removed file."""
        names = sorted(os.listdir(place))
        if _is_opaque(place):
            with contextlib.suppress(OSError):
                for name in sorted(set(os.listdir(path)) - set(names)):
                    yield Written(f"{path}/{name}", "removed"), place
        for name in names:
            inside, real = f"{place}/{name}", f"{path}/{name}"
            if real in self.ours:
                continue
            state = os.lstat(inside)
            before = _state_of(real)
            is_there = before is not None
            if stat.S_ISCHR(state.st_mode) and state.st_rdev == 0:
                if is_there:
                    yield Written(real, "removed"), inside
            elif stat.S_ISDIR(state.st_mode):
                if not is_there:
                    yield Written(real, "created"), inside
                below.append((real, inside))
            elif before is None:
                yield Written(real, "created"), inside
            elif not _is_same(real, before, inside, state):
                yield Written(real, "changed"), inside

    def _in_base(self, base: Base, start: str) -> Iterator[tuple[Written, str]]:
        known: dict[str, dict[str, How]] = {base.path: {}}
        if base.path == "/":
            known["/"] = {os.path.basename(path): How.CLOSED for path in SPECIAL}
        for how, path, _ in base.entries:
            if path in self.missing:
                continue
            known[os.path.dirname(path)][os.path.basename(path)] = how
            if how is How.DIRECTORY:
                known[path] = {}
        for path, entries in known.items():
            yield from self._in_rebuilt(path, start + path.removeprefix(base.path.rstrip("/")), entries)

    def _in_rebuilt(self, path: str, place: str, entries: dict[str, How]) -> Iterator[tuple[Written, str]]:
        """Yield the changes in a rebuilt directory; `entries` are its original ones."""
        prefix = path.rstrip("/")
        names = set(os.listdir(place)) if os.path.isdir(place) else set()
        for name in sorted(names):
            real, inside = f"{prefix}/{name}", f"{place}/{name}"
            if entries.get(name) is How.COPIED_FILE:
                if self._is_copy_changed(real, inside):
                    yield Written(real, "changed"), inside
            elif name not in entries:
                yield Written(real, "created"), inside
                if stat.S_ISDIR(os.lstat(inside).st_mode):
                    yield from self._in_layer(real, inside)
        for name in sorted(entries.keys() - names):
            yield Written(f"{prefix}/{name}", "removed"), place

    def _is_copy_changed(self, real: str, inside: str) -> bool:
        """Return True if the tree has written to a copy. The real file may have changed too, so it is no reference."""
        state = os.lstat(inside)
        *before, changed_ns = self.copied[real]
        if attributes(state) != tuple(before):
            return True
        if state.st_ctime_ns == changed_ns:
            return False
        try:
            return not _has_same_content(real, inside)
        except OSError:  # the real file is gone
            return True


def _state_of(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _is_same(real: str, before: os.stat_result, inside: str, state: os.stat_result) -> bool:
    """Return True for an unchanged file in a layer: opened for writing, or moved and moved back."""
    if attributes(before) != attributes(state):
        return False
    if stat.S_ISLNK(state.st_mode):
        return os.readlink(real) == os.readlink(inside)
    if not stat.S_ISREG(state.st_mode):
        return True
    try:
        return _extended(real) == _extended(inside) and _has_same_content(real, inside)
    except OSError:  # the real file is unreadable
        return False


def _extended(path: str) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if not name.startswith(_OVERLAY)}


def _has_same_content(real: str, inside: str) -> bool:
    with open(real, "rb") as before, open(inside, "rb") as after:
        while data := before.read(_CHUNK_BYTES):
            if data != after.read(_CHUNK_BYTES):
                return False
        return not after.read(1)


def _is_opaque(place: str) -> bool:
    try:
        return os.getxattr(place, _OPAQUE) in (b"y", b"x")
    except OSError:
        return False
