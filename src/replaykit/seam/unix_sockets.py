"""Sockets in the file system that somebody listens at, as `/proc` tells it; without that nobody knows."""

from __future__ import annotations

from pathlib import Path

_TABLE = Path("/proc/net/unix")
_LISTENS = 0x10000  # the flag of a socket that takes connections
_FIELDS = 7  # before the path: number, references, protocol, flags, type, state, inode


def listening_at(path: str) -> list[str]:
    """The sockets that listen at a path, by their numbers; `@name` is one of no file system."""
    try:
        rows = _TABLE.read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:  # another system
        return []
    found = [row.split(None, _FIELDS) for row in rows if row.endswith(f" {path}")]
    return [row[6] for row in found if len(row) > _FIELDS and int(row[3], 16) & _LISTENS]
