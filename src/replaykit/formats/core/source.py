"""A trace file, read no further than necessary, whose errors name the line.

A file holds one JSON document, or one on each line (JSONL, of any size: `documents` reads it line by line), or is
binary. `.gz` and `.zst` are recognised by their first bytes and unpacked while reading.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import cached_property
from typing import Any, BinaryIO, Protocol

import msgspec
import orjson
import zstandard

from replaykit.errors import InvalidFile
from replaykit.formats.core.json_text import decode_lenient
from replaykit.model.json_positions import DocumentPath, line_of
from replaykit.model.nesting import NestedTooDeeply, line_nested_too_deeply
from replaykit.model.value_count import TooManyValues, check_value_count
from replaykit.model.values import Json, Raw, canonical_read, encode_read

MAX_BYTES = 512 * 1024 * 1024
"""The largest document, and the longest line."""
STDIN = "-"

_BOM = b"\xef\xbb\xbf"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_TOO_DEEP = b'{"$opaque":"nested too deeply"}'  # what `model.values` writes at its limit
_LOOK_AT = 8
_LOOK_AT_BYTES = 4 * 1024 * 1024
_OPENINGS = (b"[", b"{")
_HEAD_BYTES = 64 * 1024
_BUFFER_BYTES = 4 * 1024 * 1024  # so that long lines are joined from few pieces
_WITH_LINES = 10
_SCANNED_BYTES = 16 * 1024 * 1024
_SUSPECT_BYTES = 8 * 1024 * 1024  # of a line, or of a document without lines
_MAX_RATIO = 200  # repetitive traces reach a ratio of 100
_TOO_LARGE = "A file with a document on each line may be of any size."


class Source:
    """A trace file, or one of its lines. `value` is its JSON; `documents` are its lines if each is a document."""

    def __init__(self, text: bytes, file: str, *, value: Json = msgspec.UNSET, line: int = 1, at: int = 0) -> None:
        self.file = file
        self._text: bytes | None = text.removeprefix(_BOM)
        self._value: Json = value  # if it is known already
        self._line = line
        self._scans = 0
        self.at = at + len(text) - len(self._text)
        """The offset of the text in the unpacked file."""

    @property
    def line(self) -> int:
        """The line of the file on which the text starts."""
        return self._line

    @property
    def text(self) -> bytes:
        if self._text is None:
            self._text = self._load()
        return self._text

    @property
    def value(self) -> Json:
        """The JSON value; `InvalidFile` with the line if the text is not JSON."""
        if self._value is msgspec.UNSET:
            self._value = self._parse()
        return self._value

    @cached_property
    def is_text(self) -> bool:
        """False for a binary format."""
        head = self.head
        try:
            return b"\0" not in head and bool(head.decode("utf-8", "ignore" if len(head) >= _HEAD_BYTES else "strict"))
        except UnicodeDecodeError:
            return False

    @property
    def head(self) -> bytes:
        return self.text[:_HEAD_BYTES]

    @cached_property
    def is_lines(self) -> bool:
        """True if the file holds a document on each line. The first line alone may be damaged."""
        if not self.is_text:
            return False
        lines = self._first_lines
        if len(lines) == 1:
            return False
        if lines and isinstance(lines[0].peek(), dict | list):  # no need to read the others
            return True
        objects = [isinstance(line.peek(), dict | list) for line in lines]
        return sum(objects) > 1 and lines[0].text.strip() not in _OPENINGS

    @cached_property
    def first(self) -> tuple[Json, ...]:
        """The document or the first lines, to recognise a format by; empty if nothing is JSON."""
        if self.is_lines:
            return tuple(value for line in self._first_lines if (value := line.peek()) is not None)
        value = None
        # Do not read a large file that is plainly something else to find that out.
        if self.is_text and self.head.lstrip()[:1] in (b"", b"{", b"["):
            value = self.peek()
        if value is None:
            return ()
        return (value,)

    def documents(self) -> Iterator[Source]:
        """Yield each line that is not blank, or else the file itself. A bad one raises when its value is read."""
        if self.is_lines:
            yield from self._lines()
        else:
            yield self

    def original(self) -> BinaryIO | None:
        """Open the file itself, if any part of it can be read again by offset; else return None."""
        return None

    def peek(self) -> Json:
        """Return the JSON value, or None if the text is not JSON."""
        try:
            return self.value
        except InvalidFile:
            return None

    def error(self, message: str, path: DocumentPath = (), *, hint: str | None = None) -> InvalidFile:
        """Return an error about the value at `path`, with its line; after many errors, with the path itself."""
        self._scans += bool(path)  # finding a line scans the text: a thousand errors must not do so a thousand times
        if self._scans > max(1, min(_WITH_LINES, _SCANNED_BYTES // max(1, len(self.text)))):
            return InvalidFile(f"{message} (at {spelled(path)})", file=self.file, hint=hint)
        return InvalidFile(message, file=self.file, line=line_of(self.text, path) + self._line - 1, hint=hint)

    def raw(self, value: Json, path: DocumentPath) -> Raw:
        """Return the value at `path` as JSON text, keys in their original order."""
        return self._whole(encode_read(value), path)

    def canonical(self, value: Json, path: DocumentPath) -> Raw:
        """Return the value at `path` as canonical JSON text, for the arguments of calls."""
        return self._whole(canonical_read(value), path)

    def _load(self) -> bytes:
        raise NotImplementedError  # only subclasses come without their text

    def _open(self) -> BinaryIO:
        return io.BytesIO(self.text)

    @cached_property
    def _first_lines(self) -> list[Source]:
        """The first lines that are not blank: enough to recognise the file."""
        first_lines: list[Source] = []
        size = 0
        with closing(self._lines()) as lines:
            for line in lines:
                first_lines.append(line)
                size += len(line.text)
                if len(first_lines) > _LOOK_AT or (size > _LOOK_AT_BYTES and len(first_lines) > 1):
                    break
        return first_lines

    def _lines(self) -> Generator[Source, None, None]:
        with self._open() as stream:
            number = at = 0
            while line := _read(stream.readline, self.file):
                number += 1
                if len(line) > MAX_BYTES:
                    raise InvalidFile(f"longer than {MAX_BYTES:,} bytes", file=self.file, line=number)
                if not line.isspace():
                    yield Source(line, self.file, line=number, at=at)
                at += len(line)

    def _whole(self, text: bytes, path: DocumentPath) -> Raw:
        if b"$" in text and _TOO_DEEP in text:  # a single byte is found much faster, and most texts have none
            raise self.error("nested too deeply to be kept whole", path)
        return Raw(text)

    def _parse(self) -> Json:
        if not self.text.strip():
            empty = {STDIN: "the pipe was empty"}.get(self.file, "the file is empty")
            raise InvalidFile(empty, file=self.file)
        try:
            check_value_count(self.text)
        except TooManyValues as error:
            raise InvalidFile(str(error), file=self.file, line=self._line) from None
        try:
            # Not orjson: it turns integers beyond 64 bits into floats.
            return decode_lenient(self.text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            # A text that is broken as well may fail for either reason first, depending on the interpreter.
            line = line_nested_too_deeply(self.text)
            if line is None:
                raise self._not_json(str(error)) from None
            raise InvalidFile(f"not JSON: {NestedTooDeeply()}", file=self.file, line=line + self._line - 1) from None

    def _not_json(self, reason: str) -> InvalidFile:
        line: int | None = None
        try:
            orjson.loads(self.text.rstrip())  # rstrip: else an error at the end would be on the line after it
        except orjson.JSONDecodeError as error:
            reason, line = error.msg, error.lineno + self._line - 1
        return InvalidFile(f"not JSON: {reason}", file=self.file, line=line)


class _Packed(Source):
    """A stream of bytes, unpacked while reading if it is packed."""

    def __init__(self, file: str) -> None:
        super().__init__(b"", file)
        self._text = None

    @cached_property
    def head(self) -> bytes:
        with self._open() as stream:
            return _read(stream.read, self.file, _HEAD_BYTES).removeprefix(_BOM)

    @cached_property
    def is_packed(self) -> bool:
        with self._opened() as stream:
            return _read(lambda _size: stream.peek(len(_ZSTD)), self.file).startswith((_GZIP, _ZSTD))

    def _load(self) -> bytes:
        with self._open() as stream:
            text = _read(stream.read, self.file)
        if len(text) > MAX_BYTES:
            raise InvalidFile(f"larger than {MAX_BYTES:,} bytes", file=self.file, hint=_TOO_LARGE)
        return text.removeprefix(_BOM)

    def _open(self) -> BinaryIO:
        stream = self._opened()
        start = _read(lambda _size: stream.peek(len(_ZSTD))[: len(_ZSTD)], self.file)
        if start.startswith(_GZIP):
            return io.BufferedReader(_Unpacked(_Gzip(stream), stream.raw, self.file), _HEAD_BYTES)
        if start == _ZSTD:
            return io.BufferedReader(_Unpacked(ZstdReader(stream), stream.raw, self.file), _HEAD_BYTES)
        return stream

    def _opened(self) -> io.BufferedReader:
        raise NotImplementedError


class FileSource(_Packed):
    """A regular file."""

    def original(self) -> BinaryIO | None:
        if self.is_packed:
            return None
        return self._opened()

    def _opened(self) -> io.BufferedReader:
        try:
            return io.BufferedReader(io.FileIO(self.file), _BUFFER_BYTES)
        except (OSError, ValueError) as error:
            raise _unreadable(error, self.file) from None


class PipeSource(_Packed):
    """A pipe; the bytes that detection read are buffered and read again."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(STDIN)
        self._pipe = _Pipe(stream)

    def documents(self) -> Iterator[Source]:
        yield_lines = self.is_lines
        self._pipe.is_buffering = False
        yield from self._lines() if yield_lines else [self]

    def _opened(self) -> io.BufferedReader:
        return io.BufferedReader(_FromStart(self._pipe), _HEAD_BYTES)


class _Pipe:
    """A stream that remembers what was read until `is_buffering` is cleared."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.buffer = bytearray()
        self.is_buffering = True

    def read(self, at: int, size: int) -> bytes:
        """Return the bytes from `at` on: buffered ones, or the next of the stream."""
        if at < len(self.buffer):
            return bytes(self.buffer[at : at + size])
        chunk = self._stream.read(size)
        if self.is_buffering:
            self.buffer += chunk
        return chunk


class _FromStart(io.RawIOBase):
    """A pipe, from its first byte on."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        chunk = self._pipe.read(self._at, len(view))
        view[: len(chunk)] = chunk
        self._at += len(chunk)
        return len(chunk)

    def tell(self) -> int:
        return self._at


class _HasPlace(Protocol):
    def tell(self) -> int: ...


class _Unpacked(io.RawIOBase):
    """A decompressed stream that refuses decompression bombs. Closes the decompressor, too."""

    def __init__(self, unpacker: io.RawIOBase | gzip.GzipFile, packed: _HasPlace, file: str) -> None:
        self._unpacker = unpacker
        self._packed = packed
        self._file = file
        self._line_bytes = 0
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        size = self._unpacker.readinto(buffer) or 0
        self._bytes += size
        last = bytes(memoryview(buffer)[:size]).rfind(b"\n")
        if last < 0:
            self._line_bytes += size
        else:
            self._line_bytes = size - last - 1
        # Lines are read one by one, and earlier ones are not held in memory.
        if self._line_bytes > _SUSPECT_BYTES and self._bytes > _MAX_RATIO * self._packed.tell():
            raise InvalidFile(
                f"unpacks to more than {_MAX_RATIO} times its size",
                file=self._file,
                hint="If you trust it, unpack it first (zstd -d FILE, gunzip FILE), and name what you get.",
            )
        return size

    def close(self) -> None:
        self._unpacker.close()
        super().close()


class _Gzip(gzip.GzipFile):
    """Also closes the underlying file, which `GzipFile` leaves open."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__(fileobj=packed)
        self._packed = packed

    def close(self) -> None:
        super().close()
        self._packed.close()


def spelled(path: DocumentPath) -> str:
    """Return a path as text: `$[2].name`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def read_source(path: str | os.PathLike[str]) -> Source:
    """Open a regular file, or standard input for `-`; raise `InvalidFile` for anything else."""
    name = os.fspath(path)
    if name == STDIN:
        return PipeSource(sys.stdin.buffer)
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError) as error:
        raise _unreadable(error, name) from None
    if stat.S_ISDIR(mode):
        raise InvalidFile("is a directory; name a trace file in it", file=name)
    if not stat.S_ISREG(mode):  # a pipe or a device would block, or never end
        raise InvalidFile("not a regular file", file=name)
    return FileSource(name)


def _read(read: Callable[[int], bytes], file: str, size: int | None = None) -> bytes:
    try:
        return read(MAX_BYTES + 1 if size is None else size)
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise InvalidFile(f"cannot be unpacked: {error}", file=file) from None
    except OSError as error:
        raise _unreadable(error, file) from None


def _unreadable(error: OSError | ValueError, file: str) -> InvalidFile:
    if isinstance(error, FileNotFoundError):
        return InvalidFile("no such file or directory", file=file)
    return InvalidFile(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=file)


_PACKED_BYTES = 1024  # a block of a few bytes can unpack to 128 KiB, so this is 32 MiB at worst
_MAX_WINDOW = 128 * 1024 * 1024


class ZstdReader(io.RawIOBase):
    """The decompressed bytes of zstd frames; also closes the packed stream."""

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
        """Unpack the next block; return False at the end."""
        packed = self._packed.read(_PACKED_BYTES)
        if not packed:
            if self._frame is not None:
                raise EOFError("it ends in the middle")
            return False
        blocks = []
        while packed:
            frame = self._frame = self._frame or self._unpacker.decompressobj()
            blocks.append(frame.decompress(packed))
            packed = b""
            if frame.eof:
                packed, self._frame = frame.unused_data, None
        self._left = memoryview(b"".join(blocks))
        return True
