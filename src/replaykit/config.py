"""Default paths and limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from replaykit.errors import UsageError
from replaykit.private_files import close_to_others, ignore_all, ignore_files, make_directories

HOME = ".replaykit"
MAX_TIMEOUT_S = 86_400
"""No candidate is waited for longer than a day."""


def make_home(directory: Path, *, files: Sequence[str] = ()) -> None:
    """Make a directory for what is recorded: private, and out of git, since runs hold real data.

    A `.replaykit` is left out of git as a whole. So is any other directory that is made for these `files`; of one that
    was there already, only they are.
    """
    home = next((part for part in (directory, *directory.parents) if part.name == HOME), None)
    if home is not None:
        _refuse_links_of_others(home, directory)
    is_new = make_directories(directory, private_from=home or directory)
    if home is not None:
        close_to_others(home)
        ignore_all(home)
    elif is_new and files:
        ignore_all(directory)
    elif files:
        ignore_files(directory, files)


def _refuse_links_of_others(home: Path, directory: Path) -> None:
    """Stop where a link that is in git leads out of the project.

    Whoever wrote the repository chose where it leads: files would be made there, rights taken from others, and old
    evidence deleted. A link that git does not know is the person's own.
    """
    for place in (home, *(part for part in (directory, *directory.parents) if home in part.parents)):
        if place.is_symlink():
            from replaykit.revisions import is_tracked  # noqa: PLC0415 (few have links)

            if is_tracked(place):
                raise UsageError(
                    f"{place} is a symbolic link that came with the repository: nothing is written through it",
                    hint=f"Remove it, or, if it is your own, take it out of git: git rm --cached {place}",
                )


def default_store_path() -> Path:
    """The store of this project: `$REPLAYKIT_STORE`, or `.replaykit/store.db` below the working directory."""
    named = os.environ.get("REPLAYKIT_STORE")
    if named:
        return Path(named)
    return Path(HOME) / "store.db"


def default_evidence_path() -> Path:
    """Return the directory of evidence that replays leave: `.replaykit/runs` below the working directory."""
    return Path(HOME) / "runs"


def default_results_path() -> Path:
    """Return the directory of the results of `ci`: `.replaykit/ci` below the working directory."""
    return Path(HOME) / "ci"
