"""Default paths and limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from replaykit.errors import UsageError
from replaykit.private_files import close_to_others, ignore_all, ignore_files, make_directories

HOME = ".replaykit"
MAX_TIMEOUT_S = 86_400
"""The maximum time to wait for a candidate: a day."""


def make_home(directory: Path, *, files: Sequence[str] = ()) -> None:
    """Create a directory for recordings, private and ignored by git, because runs hold real data.

    A `.replaykit` directory is ignored by git as a whole, as is any other directory created for `files`. In an existing
    directory, only `files` are ignored.
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
    """Raise if a link that is tracked by git leads out of the project.

    The author of the repository chose its target: files would be created there, permissions changed, and old evidence
    deleted. An untracked link is the user's own.
    """
    for place in (home, *(part for part in (directory, *directory.parents) if home in part.parents)):
        if place.is_symlink():
            from replaykit.revisions import is_tracked  # noqa: PLC0415 (few projects have links)

            if is_tracked(place):
                raise UsageError(
                    f"{place} is a symbolic link that came with the repository: nothing is written through it",
                    hint=f"Remove it, or, if it is your own, take it out of git: git rm --cached {place}",
                )


def default_store_path() -> Path:
    """Return the store of this project: `$REPLAYKIT_STORE`, or `.replaykit/store.db` in the working directory."""
    named = os.environ.get("REPLAYKIT_STORE")
    if named:
        return Path(named)
    return Path(HOME) / "store.db"


def default_evidence_path() -> Path:
    """Return the directory for evidence of replays: `.replaykit/runs` in the working directory."""
    return Path(HOME) / "runs"


def default_history_path() -> Path:
    """Return the directory for the history of `ci`: `.replaykit/history` in the working directory."""
    return Path(HOME) / "history"


def default_results_path() -> Path:
    """Return the directory for results of `ci`: `.replaykit/ci` in the working directory."""
    return Path(HOME) / "ci"
