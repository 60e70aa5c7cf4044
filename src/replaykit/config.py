"""Where things are, unless somebody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

HOME = ".replaykit"
MAX_TIMEOUT_S = 86_400
"""No candidate is waited for longer than a day."""


def make_home(directory: Path) -> None:
    """Make a directory; a new `.replaykit` on the way stays out of git: runs hold real data, cases are for git."""
    home = next((part for part in (directory, *directory.parents) if part.name == HOME), None)
    is_new = home is not None and not home.exists()
    directory.mkdir(parents=True, exist_ok=True)
    if home is not None and is_new:
        (home / ".gitignore").write_text("*\n")


def default_store_path() -> Path:
    """The store of this project: `$REPLAYKIT_STORE`, or `.replaykit/store.db` below the working directory."""
    named = os.environ.get("REPLAYKIT_STORE")
    return Path(named) if named else Path(HOME) / "store.db"


def default_evidence_path() -> Path:
    """Where replays leave their evidence: `.replaykit/runs` below the working directory."""
    return Path(HOME) / "runs"
