"""Drafts: a directory is written beside its place and moved there when it is whole.

A kill at any moment leaves the old directory or the new one in place. Where the file system cannot swap two names in
one step, there is a moment between two renames: then the old one has a name that `name_set_aside` knows.
"""

from __future__ import annotations

import re
from pathlib import Path

_SET_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]+\.old")


def move_into_place(draft: Path, target: Path) -> None:
    """Move a draft to its place; what was there before is removed then."""
    if not target.exists():
        draft.rename(target)
    elif not _swap(draft, target):
        _replace(draft, target)
    remove(draft)


def _swap(draft: Path, target: Path) -> bool:
    """Swap two directories in one step; return False where the system or the file system cannot."""
    from replaykit.isolation.kernel import exchange  # noqa: PLC0415 (brings in ctypes, and few directories are replaced)

    try:
        exchange(str(draft), str(target))
    except OSError:  # an old kernel, a network file system; what is wrong otherwise, the renames find out
        return False
    return True


def _replace(draft: Path, target: Path) -> None:
    old = draft.with_name(f"{draft.name}.old")
    target.rename(old)
    try:
        draft.rename(target)
    except OSError:
        old.rename(target)
        raise
    old.rename(draft)  # so that nobody takes it for one that was set aside and has no successor


def name_set_aside(directory: str) -> str:
    """Return the name of what a killed process has set aside in a directory of this name; nothing for any other."""
    found = _SET_ASIDE.fullmatch(directory)
    if found is None:
        return ""
    return found[1]


def remove(draft: Path) -> None:
    """Remove a directory with all that is in it, if it is there."""
    from shutil import rmtree  # noqa: PLC0415 (slow to import, and cases are mostly read)

    rmtree(draft, ignore_errors=True)
