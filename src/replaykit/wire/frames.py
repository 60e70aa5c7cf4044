"""Split streams into events from chunks of any size.

A splitter is fed chunk by chunk and returns completed frames; `close` returns the rest. Chunks may end anywhere, inside
a UTF-8 sequence or between `\\r` and `\\n`: the frames depend on the bytes alone. Each byte is copied a fixed number of
times, and unfinished data is bounded.
"""

from __future__ import annotations

import re
from typing import Protocol

from msgspec import Struct

MAX_FRAME = 64 * 1024 * 1024
"""No event of a model API comes near this; splitting stops at a larger one."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_LF = re.compile(rb"\n")
_JSON_TOKEN = re.compile(rb'\\.|["{}\[\],]', re.DOTALL)
_BOM = b"\xef\xbb\xbf"
_CR, _NEWLINE = b"\r\n"  # as numbers: `in` for bytes would first try to convert them


class Frame(Struct, frozen=True):
    """One event of a stream, with its name if the stream has names."""

    data: bytes
    name: str = ""
    whole: bool = True
    """False for an unterminated rest at the end of the stream."""


class Splitter(Protocol):
    """Splits a stream into frames."""

    problem: str | None
    """The first framing error."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that the chunk completes."""

    def close(self) -> list[Frame]:
        """Return the frames that were incomplete when the stream ended."""


class _PendingBytes:
    """Unfinished bytes up to a limit; beyond it, everything is dropped."""

    __slots__ = ("_full", "_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._full = False

    def __bool__(self) -> bool:
        return self._size > 0

    def is_full(self) -> bool:
        """Return whether the limit was exceeded."""
        return self._full

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        self._full = self._full or self._size > MAX_FRAME
        if self._full:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def take(self, last: bytes = b"") -> bytes:
        """Return all pending bytes followed by these."""
        self.add(last)
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return data


class _LineSplitter:
    """Splits chunks into lines, without line ends."""

    def __init__(self, end: re.Pattern[bytes]) -> None:
        self.problem: str | None = None
        self._end = end
        self._waiting = _PendingBytes()
        self._after_cr = False

    def _lines(self, chunk: bytes) -> list[bytes]:
        if not chunk or self._waiting.is_full():
            return []
        # The last chunk ended between the two characters of one line end.
        start = int(self._after_cr and chunk[0] == _NEWLINE)
        lines = []
        for match in self._end.finditer(chunk, start):
            lines.append(self._waiting.take(chunk[start : match.start()]))
            start = match.end()
        self._after_cr = self._end is _LINE_END and chunk[-1] == _CR
        self._waiting.add(chunk[start:])
        if self._waiting.is_full():
            self._tell(f"a line of more than {MAX_FRAME} bytes")
        return lines

    def _tell(self, problem: str) -> None:
        self.problem = self.problem or problem


class SseSplitter(_LineSplitter):
    """Splits server-sent events. Lines that are not fields are skipped, and reported in `problem`."""

    def __init__(self) -> None:
        super().__init__(_LINE_END)
        self._data = _PendingBytes()
        self._has_data = False
        self._name = b""
        self._begun = False

    def feed(self, chunk: bytes) -> list[Frame]:
        # Only the first bytes of a stream can be a byte order mark, which the slow path removes.
        self._begun = self._begun or (chunk != b"" and chunk[:1] != _BOM[:1] and not self._waiting)
        frames, start = self._whole_events(chunk) if self._is_between() and _CR not in chunk else ([], 0)
        if start == len(chunk):
            return frames
        return frames + [frame for line in self._lines(chunk[start:]) for frame in self._line(line)]

    def _is_between(self) -> bool:
        """Return whether no event has begun, and none was too long."""
        is_inside = self._waiting or self._waiting.is_full() or self._has_data or self._name or self._after_cr
        return self._begun and not is_inside

    def _whole_events(self, chunk: bytes) -> tuple[list[Frame], int]:
        """Return the events that lie within the chunk, as most do, and where they end; one-line events take a fast
        path."""
        end = chunk.rfind(b"\n\n", 0, MAX_FRAME)
        frames: list[Frame] = []
        for event in chunk[:end].split(b"\n\n") if end >= 0 else ():
            if event.startswith(b"data: ") and _NEWLINE not in event:
                frames.append(Frame(event[6:]))
            else:
                frames += [frame for line in (*event.split(b"\n"), b"") for frame in self._line(line)]
        return frames, end + 2 if end >= 0 else 0

    def close(self) -> list[Frame]:
        if rest := self._waiting.take():
            self._line(rest)
        return self._dispatch(whole=False)

    def _line(self, line: bytes) -> list[Frame]:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")  # one blank belongs to the format, more to the value
        if field == b"data":
            self._data.add(b"\n" + value if self._has_data else value)
            self._has_data = True
        elif field == b"event":
            self._name = value
        elif field not in (b"", b"id", b"retry"):
            self._tell(f"a line that is not a field of an event: {line[:60]!r}")
        return []

    def _dispatch(self, *, whole: bool = True) -> list[Frame]:
        if self._data.is_full():
            self._tell(f"an event of more than {MAX_FRAME} bytes")
        data, name, has_data = self._data.take(), self._name, self._has_data and not self._data.is_full()
        self._data, self._name, self._has_data = _PendingBytes(), b"", False
        if has_data:
            return [Frame(data, name.decode("utf-8", "replace"), whole)]
        return []


class LineSplitter(_LineSplitter):
    """Splits JSON values, one on each line."""

    def __init__(self) -> None:
        super().__init__(_LF)

    def feed(self, chunk: bytes) -> list[Frame]:
        return [Frame(line) for line in self._lines(chunk) if line.strip()]

    def close(self) -> list[Frame]:
        rest = self._waiting.take()
        if rest.strip():
            return [Frame(rest, whole=False)]
        return []


class ArraySplitter:
    """Splits the items of a JSON array that arrives in pieces."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self._waiting = _PendingBytes()
        self._held = b""  # a backslash whose other half is in the next chunk
        self._depth = 0
        self._quoted = False
        self._ended = False

    def feed(self, chunk: bytes) -> list[Frame]:
        text = self._held + chunk
        frames: list[Frame] = []
        start = scanned = 0
        for match in _JSON_TOKEN.finditer(text):
            scanned = match.end()
            if self._is_boundary(match[0]):
                frames += self._item(text[start : match.start()])
                start = scanned
        if text.endswith(b"\\") and scanned < len(text):
            self._held = b"\\"
        else:
            self._held = b""
        self._waiting.add(text[start : len(text) - len(self._held)])
        if self._waiting.is_full():
            self.problem = self.problem or f"an item of more than {MAX_FRAME} bytes"
        return frames

    def close(self) -> list[Frame]:
        rest = self._waiting.take().strip()
        end = [] if self._ended else [b""]  # an item may be complete while the array is not
        return [Frame(item, whole=False) for item in ([rest] if rest else []) + end]

    def _is_boundary(self, token: bytes) -> bool:
        """Return whether an item or the array begins or ends at the token."""
        if token == b'"':
            self._quoted = not self._quoted
        elif self._quoted or token[:1] == b"\\":
            return False
        elif token in b"{[":
            self._depth += 1
            return self._depth == 1
        elif token in b"}]":
            self._depth -= 1
            self._ended = self._depth == 0
            return self._ended
        else:
            return self._depth == 1
        return False

    def _item(self, last: bytes) -> list[Frame]:
        item = self._waiting.take(last).strip()
        if item and not self._waiting.is_full():
            return [Frame(item)]
        return []
