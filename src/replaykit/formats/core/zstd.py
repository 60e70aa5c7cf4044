"""A zstd file, unpacked as it is read: frame after frame, and an error where it ends in the middle of one.

The library's own reader takes a file that was cut for one that ends there.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import zstandard

_PACKED_BYTES = 1024  # a block of a few bytes can hold 128 KiB: so much at once is 32 MiB at worst
_MAX_WINDOW = 128 * 1024 * 1024


class ZstdReader(io.RawIOBase):
    """The decompressed bytes of a stream of zstd frames; closes that stream as well."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        self._frame: Any = None
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._left and self._fill():
            pass
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _fill(self) -> bool:
        """Unpack some more; False at the end."""
        packed = self._packed.read(_PACKED_BYTES)
        if not packed:
            if self._frame is not None:
                raise EOFError("it ends in the middle")
            return False
        found = []
        while packed:
            frame = self._frame = self._frame or self._unpacker.decompressobj()
            found.append(frame.decompress(packed))
            packed = b""
            if frame.eof:
                packed, self._frame = frame.unused_data, None
        self._left = memoryview(b"".join(found))
        return True
