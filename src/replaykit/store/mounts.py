"""File systems that a store cannot live on: SQLite and the event logs need locks and writes that one kernel orders."""

from __future__ import annotations

import os
from pathlib import Path

from replaykit.errors import StoreError

_MOUNTS = Path("/proc/self/mountinfo")
_ACROSS_A_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3"})


def refuse_network_file_system(directory: Path, mounts: Path = _MOUNTS) -> None:
    """Raise a StoreError for a directory that several machines may write to; only Linux tells which one is."""
    kind = file_system_of(directory, mounts)
    if kind in _ACROSS_A_NETWORK:
        raise StoreError(
            f"{directory} is on a network file system ({kind}), where a store would lose events",
            hint="Keep the store on a local disk: --store FILE, or REPLAYKIT_STORE=FILE",
        )


def file_system_of(directory: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the file system that a directory is on; None where that cannot be found out."""
    try:
        device = directory.stat().st_dev
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        fields, _, file_system = line.partition(" - ")
        if fields.split()[2:3] == [number]:
            return file_system.split()[0]
    return None
