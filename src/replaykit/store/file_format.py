"""Read the format of a store file without SQLite, which would write beside it."""

from __future__ import annotations

from pathlib import Path

from replaykit.errors import CorruptStore, StoreError
from replaykit.store.image import Image
from replaykit.store.schema import APPLICATION_ID

_MAGIC = b"SQLite format 3\0"
_HEAD = 108
"""Bytes of the file's head and of the head of its first page."""


def store_format(path: Path) -> int:
    """Return the format of the store in a file, 0 for an empty one; StoreError for a file that is something else."""
    if path.is_dir():
        raise StoreError(f"{path} is a directory, and a store is a file", hint=f"Name the file: {path / 'store.db'}")
    with path.open("rb") as file:
        head = file.read(_HEAD)
    found = _format_in(head, path) if head else 0
    # A store that was made just now is in its log alone, until that is written back.
    return found or _format_in_log(path)


def _format_in_log(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    if not log.exists() or not log.stat().st_size:
        return 0
    image = Image(path)
    try:
        page = image.page(1)
    finally:
        image.close()
    if page:
        return _format_in(page[:_HEAD], path)
    return 0


def _format_in(head: bytes, path: Path) -> int:
    if not head.startswith(_MAGIC):
        raise CorruptStore(
            "the file is damaged, or no store", where=str(path), hint="See what is left: replaykit verify"
        )
    version, application = int.from_bytes(head[60:64], "big"), int.from_bytes(head[68:72], "big")
    if application == APPLICATION_ID and version > 0:
        return version
    has_tables = int.from_bytes(head[103:105], "big") > 0
    if has_tables or application:
        raise StoreError(f"{path} is a database, but not a ReplayKit store", hint="Name another file: --store FILE")
    return 0
