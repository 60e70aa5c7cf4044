"""Frames: bytes that prove themselves when they are read back.

A *seal* is a CRC-32 over the row's key and its bytes, so a flipped bit, a torn write or a row under a wrong
key is noticed. A *frame* is a zstd frame whose size is known and bounded before anything is allocated.
"""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b

import zstandard

from replaykit.errors import CorruptStore

_SEAL = struct.Struct("<I")
_KEY = struct.Struct("<q")
MAX_EXPANSION = 10  # a frame above FREE_EXPANSION may not grow by more than this
FREE_EXPANSION = 8 * 1024 * 1024
_LONG_ROW = 1500  # of a shorter one several fit on a page


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


def seal_event(key: int, body: bytes, compressor: zstandard.ZstdCompressor) -> bytes:
    """The row of one event. A long one is a frame, which takes less time than the pages that it would fill."""
    return seal(key, compress(body, compressor) if len(body) > _LONG_ROW else body)


def unseal_event(key: int, data: object, where: str) -> bytes:
    """The JSON text of an event's row, or CorruptStore."""
    body = unseal(key, data, where)
    if body[:1] in (b"z", b"r"):
        return decompress(body, where)
    return body


def checksum(*numbers: int) -> int:
    """A CRC-32 over a row's own numbers."""
    return zlib.crc32(b"".join(map(_KEY.pack, numbers)))


def compress(body: bytes, compressor: zstandard.ZstdCompressor) -> bytes:
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
