"""Confine: a case names files by paths, and none of them may leave the case's directory."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath


def inside(directory: Path, text: str) -> Path:
    """The file a case means by a relative path; a `ValueError` says why it may not be used.

    Both spellings of paths are looked at, so that a case is refused on every system or on none.
    """
    for path in (PurePosixPath(text), PureWindowsPath(text)):
        if path.anchor:
            raise ValueError(f"{text!r} is an absolute path; expected one inside the case's directory")
        if ".." in path.parts:
            raise ValueError(f"{text!r} leaves the case's directory")
    if not text.strip() or "\0" in text:
        raise ValueError(f"{text!r} is not a path")
    found = directory / text
    if not _is_within(os.path.realpath(found), os.path.realpath(directory)):
        raise ValueError(f"{text!r} is a link that leaves the case's directory")
    return found


def _is_within(path: str, directory: str) -> bool:
    try:
        return os.path.commonpath([path, directory]) == directory
    except ValueError:  # two drives of Windows
        return False
