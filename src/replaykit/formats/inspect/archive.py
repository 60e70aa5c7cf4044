"""An `.eval` file: a zip of JSON documents, read by name, in memory, and never more of it than is sane.

Entries are stored, deflated, or packed with zstd (method 93), which `zipfile` finds but cannot unpack.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import zstandard

from replaykit.errors import InvalidFile
from replaykit.formats.core.source import Source

MAX_ENTRY_BYTES = 256 * 1024 * 1024
"""The most that one document may hold, unpacked."""
MAX_TOTAL_BYTES = 8 * 1024 * 1024 * 1024
"""The most that all of them may."""
MAGIC = b"PK\x03\x04"
_ZSTD_METHOD = 93
_MAX_WINDOW = 128 * 1024 * 1024
_LOCAL = struct.Struct("<4s22xHH")
"""What stands before an entry: its signature, and the sizes of its name and of more."""
_BAD = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # encrypted
    NotImplementedError,
)


class Archive:
    """The documents of a zip, by name."""

    def __init__(self, source: Source) -> None:
        self.file = source.file
        self._data = source.text
        self._left = MAX_TOTAL_BYTES
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(self._data))
        except _BAD as error:
            raise InvalidFile(f"not a zip that can be read: {error}", file=source.file) from None

    @property
    def names(self) -> list[str]:
        """Each name once, in the order of the file."""
        return list(dict.fromkeys(self._zip.namelist()))

    def document(self, name: str) -> Source:
        """One of the documents; `InvalidFile` when it cannot be unpacked, or is too large."""
        file = f"{self.file}!{name}"
        limit = min(MAX_ENTRY_BYTES, self._left)
        try:
            entry = self._zip.getinfo(name)
            text = self._unpack(entry, limit + 1)
        except _BAD as error:
            raise InvalidFile(f"cannot be unpacked: {error}", file=file) from None
        if len(text) > limit:
            raise InvalidFile(f"larger than {limit:,} bytes", file=file)
        self._left -= len(text)
        return Source(text, file)

    def _unpack(self, entry: zipfile.ZipInfo, size: int) -> bytes:
        if entry.compress_type != _ZSTD_METHOD:
            with self._zip.open(entry) as stream:
                return stream.read(size)
        if entry.flag_bits & 1:
            raise RuntimeError("it is encrypted")
        signature, name_size, more_size = _LOCAL.unpack_from(self._data, entry.header_offset)
        if signature != MAGIC:
            raise zipfile.BadZipFile("no entry where the directory says there is one")
        start = entry.header_offset + _LOCAL.size + name_size + more_size
        packed = self._data[start : start + entry.compress_size]
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        with decompressor.stream_reader(packed, read_across_frames=True) as reader:
            text = reader.read(size)
        if len(text) < size and zlib.crc32(text) != entry.CRC:
            raise zipfile.BadZipFile("its checksum is wrong")
        return text
