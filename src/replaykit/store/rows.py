"""Rows: how headers, events and packs are written to and read from their tables, as bytes that prove themselves.

A *seal* is a CRC-32 over the row's key and its bytes, so a flipped bit, a torn write or a row under a wrong
key is noticed. A *frame* is a zstd frame whose size is known and bounded before anything is allocated.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Protocol, TypeVar

import msgspec
import zstandard

from replaykit.errors import CorruptStore, RunExists
from replaykit.model.nesting import check_nesting
from replaykit.model.run import RunHeader

_SEAL = struct.Struct("<I")
_KEY = struct.Struct("<q")
MAX_EXPANSION = 10  # a frame above FREE_EXPANSION may not grow by more than this
FREE_EXPANSION = 8 * 1024 * 1024
_IDLE_COMPRESSORS = 2
_LONG_ROW = 1500  # of a shorter one several fit on a page


class Compressor:
    """Makes frames at a level, for any thread.

    What zstd needs for it, up to 1 MB, is used again: a thousand runs that are recorded at once need it no more often
    than threads are in here.
    """

    def __init__(self, level: int, *, write_checksum: bool = False) -> None:
        self._make = partial(zstandard.ZstdCompressor, level=level, write_checksum=write_checksum)
        self._idle: list[zstandard.ZstdCompressor] = []

    def compress(self, body: bytes) -> bytes:
        """Return a frame of the body."""
        try:
            one = self._idle.pop()
        except IndexError:
            one = self._make()
        frame = one.compress(body)
        if len(self._idle) < _IDLE_COMPRESSORS:
            self._idle.append(one)
        return frame


PACKS = Compressor(3, write_checksum=True)
ROWS = Compressor(-1)
"""For rows, which a pack replaces."""


def seal(key: int, body: bytes) -> bytes:
    """The body with its checksum in front."""
    return _SEAL.pack(zlib.crc32(body, zlib.crc32(_KEY.pack(key)))) + body


def unseal(key: int, data: object, where: str) -> bytes:
    """The body of a sealed row, or CorruptStore."""
    if not isinstance(data, bytes) or len(data) < _SEAL.size:
        raise CorruptStore("the row is not a sealed value", where=where)
    body = data[_SEAL.size :]
    if _SEAL.unpack_from(data)[0] != zlib.crc32(body, zlib.crc32(_KEY.pack(key))):
        raise CorruptStore("the checksum does not match", where=where)
    return body


def seal_event(key: int, body: bytes) -> bytes:
    """The row of one event. A long one is a frame, which takes less time than the pages that it would fill."""
    return seal(key, compress(body, ROWS) if len(body) > _LONG_ROW else body)


def unseal_event(key: int, data: object, where: str) -> bytes:
    """The JSON text of an event's row, or CorruptStore."""
    body = unseal(key, data, where)
    if body[:1] in (b"z", b"r"):
        return decompress(body, where)
    return body


def checksum(*numbers: int) -> int:
    """A CRC-32 over a row's own numbers."""
    return zlib.crc32(b"".join(map(_KEY.pack, numbers)))


def compress(body: bytes, compressor: Compressor = PACKS) -> bytes:
    """A frame of the body; left as it is where reading it back would break the bound."""
    frame = compressor.compress(body)
    if len(body) <= _allowed(len(frame)):
        return b"z" + frame
    return b"r" + body


def decompress(frame: bytes, where: str) -> bytes:
    """The body of a frame, or CorruptStore; never allocates more than the bound."""
    if frame[:1] == b"r":
        return frame[1:]
    if frame[:1] != b"z":
        raise CorruptStore("not a frame", where=where)
    data = frame[1:]
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= _allowed(len(data)):
            raise CorruptStore(f"the frame claims {size} bytes, which is not plausible", where=where)
        return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptStore(f"the frame does not decompress ({error})", where=where) from None


def _allowed(frame_bytes: int) -> int:
    return max(FREE_EXPANSION, MAX_EXPANSION * frame_bytes)


def digest(body: bytes) -> bytes:
    """The content address of a large value."""
    return blake2b(body, digest_size=20).digest()


_encode_header = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(RunHeader).decode


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


H = TypeVar("H", bound=_WithId)


def insert_run(db: sqlite3.Connection, header: RunHeader) -> int:
    """Enter a run, inside a transaction; gives its number."""
    try:
        cursor = db.execute(
            "INSERT INTO runs (id, name, status, started_at, header) VALUES (?, '', '', 0, x'')", (header.id,)
        )
    except sqlite3.IntegrityError:
        raise RunExists(f"a run with the id {header.id!r} is in the store already") from None
    number = cursor.lastrowid or 0
    write_header(db, number, header)
    return number


def write_pack(db: sqlite3.Connection, key: int, bodies: list[bytes], first_seq: int) -> None:
    """Write events as one pack, inside a transaction."""
    frame = compress(b"[" + b",".join(bodies) + b"]")
    crc = checksum(key, len(bodies), first_seq)  # a pack may be passed over without its data being read
    db.execute("INSERT INTO packs VALUES (?, ?, ?, ?, ?)", (key, len(bodies), first_seq, crc, seal(key, frame)))


def write_header(db: sqlite3.Connection, number: int, header: RunHeader) -> None:
    """Replace a run's header, inside a transaction."""
    db.execute(
        "UPDATE runs SET name = ?, status = ?, started_at = ?, header = ? WHERE n = ?",
        (header.name, header.status.value, header.started_at, seal(number, _encode_header(header)), number),
    )


def read_header(number: int, run_id: str, data: bytes) -> RunHeader:
    """Return a run's header from its row, checked."""
    return read_header_as(_decode_header, number, run_id, data)


def read_header_as(decode: Callable[[bytes], H], number: int, run_id: str, data: bytes) -> H:
    """Return a run's header from its row, checked, as whatever `decode` reads."""
    where = f"run {run_id}, header"
    try:
        text = unseal(number, data, where)
        check_nesting(text)
        header = decode(text)
    except msgspec.MsgspecError as error:
        raise CorruptStore(f"not a run header ({error})", where=where) from None
    if header.id != run_id:
        raise CorruptStore(f"the row says {run_id!r}, the header {header.id!r}", where=where)
    return header


def missing_events(run: str, first: int, end: int) -> CorruptStore:
    """The error for a hole in a run."""
    return CorruptStore(f"events {min(first, end)} to {max(first, end) - 1} are missing", where=f"run {run}")
