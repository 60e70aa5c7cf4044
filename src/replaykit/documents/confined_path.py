"""Confine: a case names files by paths, and none of them may leave the case's directory."""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path, PureWindowsPath


def confined_path(directory: Path, text: str) -> Path:
    """The file a case means by a relative path; a `ValueError` says why it may not be used."""
    # Windows reads both kinds of slashes and drives too: so a case is refused on every system or on none.
    path = PureWindowsPath(text)
    if path.anchor:
        raise ValueError(f"{text!r} is an absolute path; expected one inside the case's directory")
    if ".." in path.parts:
        raise ValueError(f"{text!r} leaves the case's directory")
    if not text.strip() or "\0" in text:
        raise ValueError(f"{text!r} is not a path")
    file = directory / text
    if _has_link(directory, Path(text)) and not _is_within(os.path.realpath(file), os.path.realpath(directory)):
        raise ValueError(f"{text!r} is a link that leaves the case's directory")
    return file


def _has_link(directory: Path, path: Path) -> bool:
    """Without a link on the way, a path without `..` stays inside; this is the quick answer to most cases."""
    return any(map(os.path.islink, accumulate((os.fspath(directory), *path.parts), os.path.join)))


def _is_within(path: str, directory: str) -> bool:
    try:
        return os.path.commonpath([path, directory]) == directory
    except ValueError:  # two drives of Windows
        return False
