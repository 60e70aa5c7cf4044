"""Where things are, unless somebody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

HOME = ".replaykit"


def default_store_path() -> Path:
    """The store of this project: `$REPLAYKIT_STORE`, or `.replaykit/store.db` below the working directory."""
    named = os.environ.get("REPLAYKIT_STORE")
    return Path(named) if named else Path(HOME) / "store.db"


def default_evidence_path() -> Path:
    """Where replays leave their evidence: `.replaykit/runs` below the working directory."""
    return Path(HOME) / "runs"
