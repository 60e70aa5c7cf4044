"""The image of a store file: its pages and those of its WAL, read without SQLite, which would write to them.

SQLite trusts a WAL only up to its first bad frame. This reader also uses later frames: each is verified against the
checksum stored in the frame before it, so one bad frame does not invalidate the rest.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from replaykit.errors import CorruptStore, StoreError
from replaykit.store.schema import APPLICATION_ID

BASE = -1
"""The version of a page in the file itself. Versions in the WAL have the number of their frame."""
_WAL_HEAD, _FRAME_HEAD = 32, 24
_MAGIC = (0x377F0682, 0x377F0683)  # little-endian and big-endian checksums
_USUAL_SIZE = 4096
_SIZES = [1 << power for power in range(9, 17)]
_Sums = tuple[int, int]


class Image:
    """Pages by number and version. The files are only read."""

    def __init__(self, path: Path, page_size: int | None = None) -> None:
        self._file = _opened(path)
        self.page_size = page_size or self.likely_sizes(path)[0]
        self.pages = -(-os.fstat(self._file.fileno()).st_size // self.page_size)
        self.frames: dict[int, list[int]] = {}
        """The committed frames of each page, oldest first."""
        self._wal = _wal_of(path)
        self._places = dict(self._read_log())

    @staticmethod
    def likely_sizes(path: Path) -> list[int]:
        """Return possible page sizes: from the file, from the WAL, and SQLite's default."""
        with _opened(path) as file:
            sizes = [int.from_bytes(file.read(18)[16:], "big")]
        if log := _wal_of(path):
            sizes.append(int.from_bytes(log[8:12], "big"))
        # The header has two bytes for the page size, so 65536 is stored as 1.
        sizes = [65536 if size == 1 else size for size in sizes]
        return list(dict.fromkeys([*(size for size in sizes if size in _SIZES), _USUAL_SIZE]))

    def close(self) -> None:
        self._file.close()

    def page(self, number: int, until: int | None = None) -> bytes:
        """Return the newest committed version of a page, optionally only up to a frame; empty if there is none."""
        for frame in reversed(self.frames.get(number, [])):
            if until is None or frame <= until:
                return self.frame(frame)
        return self._in_file(number)

    def versions(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the pages of the file and the frames of the WAL as number, version and bytes."""
        for number in range(1, self.pages + 1):
            yield number, BASE, self._in_file(number)
        for frame, (number, _) in self._places.items():
            yield number, frame, self.frame(frame)

    def frame(self, frame: int) -> bytes:
        start = self._places[frame][1]
        return self._wal[start : start + self.page_size]

    def _in_file(self, number: int) -> bytes:
        if not 1 <= number <= self.pages:
            return b""
        self._file.seek((number - 1) * self.page_size)
        return self._file.read(self.page_size)

    def _read_log(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the frames of the WAL's current generation: frame, page number and offset."""
        if len(self._wal) < _WAL_HEAD:
            return
        checked = list(_checked(self._wal, self.page_size))
        last_commit = max((frame for frame, _, commits, whole in checked if whole and commits), default=BASE)
        for frame, number, _, whole in checked:
            if whole and frame <= last_commit:
                self.frames.setdefault(number, []).append(frame)
            yield frame, (number, _start(frame, self.page_size) + _FRAME_HEAD)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None


def _wal_of(path: Path) -> bytes:
    try:
        return path.with_name(path.name + "-wal").read_bytes()
    except OSError:
        return b""


def _start(frame: int, page_size: int) -> int:
    return _WAL_HEAD + frame * (_FRAME_HEAD + page_size)


def _checked(log: bytes, page_size: int) -> Iterator[tuple[int, int, bool, bool]]:
    """Yield the frames of the current generation: number, page, whether it ends a transaction, whether it is intact."""
    magic, salts = int.from_bytes(log[:4], "big"), log[16:24]
    order = ">" if magic == _MAGIC[1] else "<"
    head_is_whole = magic in _MAGIC and _sums(log[:24], (0, 0), order) == struct.unpack_from(">II", log, 24)
    seeds: list[_Sums] = [struct.unpack_from(">II", log, 24)]
    follows = True
    for frame in range((len(log) - _WAL_HEAD) // (_FRAME_HEAD + page_size)):
        start = _start(frame, page_size)
        number, commits = struct.unpack_from(">II", log, start)
        stored: _Sums = struct.unpack_from(">II", log, start + 16)
        if not head_is_whole and frame == 0:
            salts = log[start + 8 : start + 16]
        is_ours = log[start + 8 : start + 16] == salts
        body = log[start : start + 8] + log[start + _FRAME_HEAD : start + _FRAME_HEAD + page_size]
        if is_ours or follows:
            computed = [_sums(body, seed, order) for seed in seeds]
        else:
            computed = []
        follows = stored in computed
        # The next checksum builds on this one. A mismatch leaves open whether the stored checksum or the page is
        # damaged, so try both.
        seeds = [stored] if follows else [stored, *computed[:1]]
        if is_ours or follows:
            yield frame, number, bool(commits), follows


def _sums(data: bytes, seed: _Sums, order: str) -> _Sums:
    """Return SQLite's checksum of WAL data."""
    first, second = seed
    for left, right in struct.iter_unpack(f"{order}II", data):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second


_FILE_MAGIC = b"SQLite format 3\0"
# Size of the file header plus the header of its first page.
_HEAD = 108


def store_format(path: Path) -> int:
    """Return the format of a store file, 0 if it is empty. Any other kind of file raises `StoreError`."""
    if path.is_dir():
        raise StoreError(f"{path} is a directory, and a store is a file", hint=f"Name the file: {path / 'store.db'}")
    with path.open("rb") as file:
        head = file.read(_HEAD)
    found = _format_in(head, path) if head else 0
    # The tables of a new store are only in its WAL until the first checkpoint.
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
    if not head.startswith(_FILE_MAGIC):
        raise CorruptStore(
            "the file is damaged, or no store", where=str(path), hint="See what is left: replaykit store verify"
        )
    version, application = int.from_bytes(head[60:64], "big"), int.from_bytes(head[68:72], "big")
    if application == APPLICATION_ID and version > 0:
        return version
    has_tables = int.from_bytes(head[103:105], "big") > 0
    if has_tables or application:
        raise StoreError(f"{path} is a database, but not a ReplayKit store", hint="Name another file: --store FILE")
    return 0
