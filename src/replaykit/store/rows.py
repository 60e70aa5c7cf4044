"""Rows: read and write headers, events and packs as bytes with checksums.

A *seal* is a CRC-32 over the row's key and its bytes. It detects flipped bits, torn writes and rows under a wrong key.
A *frame* is a zstd frame whose size is known and bounded before any memory is allocated.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol, TypeVar

import msgspec
import zstandard

from replaykit.errors import CorruptStore, RunExists
from replaykit.model.nesting import check_nesting
from replaykit.model.run import RunHeader

_SEAL = struct.Struct("<I")
_KEY = struct.Struct("<q")
MAX_EXPANSION = 10  # frames above FREE_EXPANSION may expand by at most this factor
FREE_EXPANSION = 8 * 1024 * 1024


def seal(key: int, body: bytes) -> bytes:
    """Return the body with its checksum prepended."""
    return _SEAL.pack(zlib.crc32(body, zlib.crc32(_KEY.pack(key)))) + body


def unseal(key: int, data: object, where: str) -> bytes:
    """Return the body of a sealed row, or raise `CorruptStore`."""
    if not isinstance(data, bytes) or len(data) < _SEAL.size:
        raise CorruptStore("the row is not a sealed value", where=where)
    body = data[_SEAL.size :]
    if _SEAL.unpack_from(data)[0] != zlib.crc32(body, zlib.crc32(_KEY.pack(key))):
        raise CorruptStore("the checksum does not match", where=where)
    return body


def unseal_event(key: int, data: object, where: str) -> bytes:
    """Return the JSON text of an event's row, or raise `CorruptStore`. In format 1, long texts are frames."""
    body = unseal(key, data, where)
    if body[:1] in (b"z", b"r"):
        return decompress(body, where)
    return body


def checksum(*numbers: int) -> int:
    """Return a CRC-32 of a row's numbers."""
    return zlib.crc32(b"".join(map(_KEY.pack, numbers)))


def compress(body: bytes, compressor: zstandard.ZstdCompressor) -> bytes:
    """Return the body as a frame, uncompressed if reading a compressed one would exceed the bound."""
    frame = compressor.compress(body)
    if len(body) <= _allowed(len(frame)):
        return b"z" + frame
    return b"r" + body


def decompress(frame: bytes, where: str) -> bytes:
    """Return the body of a frame, or raise `CorruptStore`. Never allocates more than the bound."""
    if frame[:1] == b"r":
        return frame[1:]
    if frame[:1] != b"z":
        raise CorruptStore("not a frame", where=where)
    data = frame[1:]
    try:
        size = zstandard.frame_content_size(data)
        # An unknown size is -1, and refused as well: it would leave the allocation unbounded.
        if not 0 <= size <= _allowed(len(data)):
            raise CorruptStore(f"the frame claims {size} bytes, which is not plausible", where=where)
        return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptStore(f"the frame does not decompress ({error})", where=where) from None


def _allowed(frame_bytes: int) -> int:
    return max(FREE_EXPANSION, MAX_EXPANSION * frame_bytes)


def digest(body: bytes) -> bytes:
    """Return the content address of a large value."""
    return blake2b(body, digest_size=20).digest()


_encode_header = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(RunHeader).decode


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


H = TypeVar("H", bound=_WithId)


def insert_run(db: sqlite3.Connection, header: RunHeader) -> int:
    """Insert a run and return its number. Call inside a transaction."""
    try:
        cursor = db.execute(
            "INSERT INTO runs (id, name, status, started_at, header) VALUES (?, '', '', 0, x'')", (header.id,)
        )
    except sqlite3.IntegrityError:
        raise RunExists(f"a run with the id {header.id!r} is in the store already") from None
    number = cursor.lastrowid or 0
    write_header(db, number, header)
    return number


def write_pack(
    db: sqlite3.Connection, key: int, bodies: list[bytes], first_seq: int, compressor: zstandard.ZstdCompressor
) -> None:
    """Write events as one pack. Call inside a transaction."""
    frame = compress(b"[" + b",".join(bodies) + b"]", compressor)
    crc = checksum(key, len(bodies), first_seq)  # protects these numbers for readers that skip the pack's data
    db.execute("INSERT INTO packs VALUES (?, ?, ?, ?, ?)", (key, len(bodies), first_seq, crc, seal(key, frame)))


def write_header(db: sqlite3.Connection, number: int, header: RunHeader) -> None:
    """Replace a run's header. Call inside a transaction."""
    db.execute(
        "UPDATE runs SET name = ?, status = ?, started_at = ?, header = ? WHERE n = ?",
        (header.name, header.status.value, header.started_at, seal(number, _encode_header(header)), number),
    )


def read_header(number: int, run_id: str, data: bytes) -> RunHeader:
    """Return the verified header of a run's row."""
    return read_header_as(_decode_header, number, run_id, data)


def read_header_as(decode: Callable[[bytes], H], number: int, run_id: str, data: bytes) -> H:
    """Return the verified header of a run's row, decoded by `decode`."""
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
    """Return the error for missing events of a run."""
    return CorruptStore(f"events {min(first, end)} to {max(first, end) - 1} are missing", where=f"run {run}")
