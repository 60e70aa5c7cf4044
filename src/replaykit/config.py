"""Where things are, unless somebody says otherwise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

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
    is_new = make_directories(directory, private_from=home or directory)
    if home is not None:
        close_to_others(home)
        ignore_all(home)
    elif is_new and files:
        ignore_all(directory)
    elif files:
        ignore_files(directory, files)


def default_store_path() -> Path:
    """The store of this project: `$REPLAYKIT_STORE`, or `.replaykit/store.db` below the working directory."""
    named = os.environ.get("REPLAYKIT_STORE")
    return Path(named) if named else Path(HOME) / "store.db"


def default_evidence_path() -> Path:
    """Where replays leave their evidence: `.replaykit/runs` below the working directory."""
    return Path(HOME) / "runs"
