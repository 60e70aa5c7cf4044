"""Automatic pruning: at the end of a recording, at most once a day, in a separate process.

The rules are in `replaykit.yaml`, and parsing it needs modules that a recording must not load. A recording therefore
only checks whether the file mentions automatic retention; the new process reads it and decides.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_DAY_S = 86_400
_CONFIG = Path("replaykit.yaml")
_MOST_BYTES = 1 << 20


def prune_sometimes(store: Path) -> None:
    """Start pruning this store if it is due. A failure never reaches the agent, and is retried the next day."""
    try:
        if _is_due(store) and _is_wanted():
            _mark(store).touch()
            _start(store)
    except OSError:
        pass


def _mark(store: Path) -> Path:
    return store.with_name(f"{store.name}-pruned")


def _is_due(store: Path) -> bool:
    try:
        return time.time() - _mark(store).stat().st_mtime > _DAY_S
    except FileNotFoundError:
        return True


def _is_wanted() -> bool:
    try:
        with _CONFIG.open("rb") as file:
            text = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return False
    return b"retention" in text and b"auto" in text


def _start(store: Path) -> None:
    """Start the pruning process, unless `sys.executable` is not Python because it is embedded in another program."""
    if not Path(sys.executable or "").name.startswith(("python", "pypy")) or getattr(sys, "frozen", False):
        return
    import subprocess  # noqa: PLC0415 (slow to import; once a day)
    import threading  # noqa: PLC0415

    # -P keeps modules of the working directory out. Without REPLAYKIT_ variables, the child does not join the
    # recording.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "replaykit", "store", "prune", "--auto", "--store", str(store.absolute())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("REPLAYKIT_")},
        start_new_session=True,  # a Ctrl-C is meant for the agent only
    )
    # Reap the child without making the agent wait for it.
    threading.Thread(target=process.wait, name="replaykit-prune", daemon=True).start()
