"""What an isolated process tree wrote: read from the layers in which it ended up."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from replaykit.isolation.policy import Written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LISTED = 1000
"""So many written files are listed; all are counted."""
_OPAQUE = "user.overlay.opaque"


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of a sandbox, by open directories: they have no path outside of it."""

    layers: int
    bases: list[tuple[str, int]]
    overlays: list[tuple[str, str]]
    rebuilt: list[tuple[str, int]]
    entries: set[str]
    ours: tuple[str, ...] = ()
    """Files that the isolation itself put there."""

    def listed(self) -> tuple[tuple[Written, ...], int]:
        """Return the first files that were written, and how many there are."""
        found: list[Written] = []
        count = 0
        for one, _ in self._changes():
            count += 1
            if len(found) < MAX_LISTED:
                found.append(one)
        return tuple(found), count

    def copy_to(self, directory: Path) -> int:
        """Copy the files that were created or changed below a directory, and return how many."""
        import shutil  # noqa: PLC0415 (slow to import, and most writes are discarded)

        count = 0
        for one, place in self._changes():
            if one.how == "removed":
                continue
            target = directory / one.path.lstrip("/")
            mode = os.lstat(place).st_mode
            if stat.S_ISDIR(mode):
                target.mkdir(parents=True, exist_ok=True)
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(place, target, follow_symlinks=False)
                if stat.S_ISREG(mode):
                    target.chmod(stat.S_IMODE(mode) & 0o777)  # nobody may become this user by running it
                count += 1
        return count

    def _changes(self) -> Iterator[tuple[Written, str]]:
        for path, name in self.overlays:
            yield from self._in_layer(path, f"/proc/self/fd/{self.layers}/{name}/upper")
        for path, base in self.rebuilt:
            yield from self._in_rebuilt(path, *self.bases[base])

    def _in_layer(self, path: str, place: str) -> Iterator[tuple[Written, str]]:
        """Yield what is in a directory of a layer. A device 0/0 stands for a file that was removed."""
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
            is_there = os.path.lexists(real)
            if stat.S_ISCHR(state.st_mode) and state.st_rdev == 0:
                if is_there:
                    yield Written(real, "removed"), inside
            elif stat.S_ISDIR(state.st_mode):
                if not is_there:
                    yield Written(real, "created"), inside
                yield from self._in_layer(real, inside)
            else:
                yield Written(real, "changed" if is_there else "created"), inside

    def _in_rebuilt(self, path: str, base: str, descriptor: int) -> Iterator[tuple[Written, str]]:
        start = f"/proc/self/fd/{descriptor}"
        place = start + path.removeprefix(base.rstrip("/"))
        prefix = path.rstrip("/")
        names = set(os.listdir(place))
        for name in sorted(names):
            real, inside = f"{prefix}/{name}", f"{place}/{name}"
            if real in self.entries:
                continue
            yield Written(real, "created"), inside
            if stat.S_ISDIR(os.lstat(inside).st_mode):
                yield from self._in_layer(real, inside)
        for real in sorted(self.entries):
            if os.path.dirname(real) == path and os.path.basename(real) not in names:
                yield Written(real, "removed"), place


def _is_opaque(place: str) -> bool:
    try:
        return os.getxattr(place, _OPAQUE) in (b"y", b"x")
    except OSError:
        return False
