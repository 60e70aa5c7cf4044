"""Where things are, unless somebody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

HOME = ".replaykit"


def make_home(directory: Path) -> None:
    """Make a directory; a new `.replaykit` on the way stays out of git: runs hold real data, cases are for git."""
    for part in (*reversed(directory.parents), directory):
        if part.name == HOME and not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)
            (part / ".gitignore").write_text("*\n")
        elif not part.exists():
            part.mkdir(exist_ok=True)


def default_store_path() -> Path:
    """The store of this project: `$REPLAYKIT_STORE`, or `.replaykit/store.db` below the working directory."""
    named = os.environ.get("REPLAYKIT_STORE")
    return Path(named) if named else Path(HOME) / "store.db"


def default_evidence_path() -> Path:
    """Where replays leave their evidence: `.replaykit/runs` below the working directory."""
    return Path(HOME) / "runs"
