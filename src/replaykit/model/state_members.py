"""State members: the JSON text of a state's top-level keys, and fingerprints that show whether a list only grew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import orjson

from replaykit.model.incremental_redaction import IncrementalRedaction
from replaykit.model.values import Json, decode, encode, is_plain, is_tagged

_msgpack_into = msgspec.msgpack.Encoder().encode_into
_MANY_PIECES = 64
_SMALL = 1024  # below this size, parsing is about as fast as copying the value
Clean = Callable[[bytes], bytes]


class MemberEncoder(Protocol):
    """Encodes the values of a state."""

    def text(self, value: Json) -> bytes:
        """Return the JSON text of a value."""

    def followed(self, value: list[Json]) -> bool:
        """Return whether a list of these items can be compared by fingerprint."""

    def print_into(self, buffer: bytearray, items: list[Json]) -> bool:
        """Write the items into the buffer as msgpack; return False if they cannot be compared that way."""


class _Plain:
    """Values as in the run log. Lists of plain JSON are compared as msgpack, which is the cheapest to write."""

    text = staticmethod(encode)
    followed = staticmethod(is_plain)

    def print_into(self, buffer: bytearray, items: list[Json]) -> bool:
        _msgpack_into(items, buffer)
        return True


PLAIN: MemberEncoder = _Plain()


class StateMember:
    """The JSON text of one key; a list that grows is kept in pieces until its text is needed."""

    __slots__ = ("grown_by", "items", "live", "parsed", "pieces", "print", "rows", "size")

    def __init__(self, text: bytes, live: bytes = b"", rows: IncrementalRedaction | None = None) -> None:
        self.pieces = [text]
        self.live = live  # the text before redaction, if there is any
        self.rows = rows  # of the last text that was redacted as a whole
        self.size = len(text)
        self.items = 0  # length of the list; 0 if it is not a plain list
        self.print = _NO_PRINT
        self.grown_by = b""  # the JSON list of the items that were appended in the last step
        self.parsed: Json = None  # the parsed first piece, if it is read for several copies

    @classmethod
    def of_list(
        cls, value: list[Json], spelling: MemberEncoder, clean: Clean, rows: IncrementalRedaction | None
    ) -> StateMember:
        """Return a list's member, ready to detect whether the list has only grown."""
        printed = _printed(value, spelling)  # before the text: a concurrent change is noticed at the next step
        part = cls(clean(spelling.text(value)), rows=rows)
        if part.pieces[0][:1] == b"[":  # unless redaction replaced the whole list
            part.items, part.print = len(value), _Fingerprint(printed, len(printed))
        return part

    @property
    def text(self) -> bytes:
        if len(self.pieces) > 1:
            first, *more = self.pieces
            stem = first[:-1] + b"," if first != b"[]" else b"["
            self.pieces, self.parsed = [stem + b",".join(more) + b"]"], None
        return self.pieces[0]

    @property
    def is_in_braces(self) -> bool:
        """Return whether the text is that of an object or of a tagged value."""
        return self.pieces[0].startswith(b"{")

    @property
    def value(self) -> Json:
        """Decode the text into a new value."""
        if self.parsed is None:
            return decode(self.text)
        value = msgspec.to_builtins(self.parsed)  # for plain JSON, a copy in a third of the time that parsing takes
        if len(self.pieces) > 1:
            return value + decode(b"[" + b",".join(self.pieces[1:]) + b"]")
        return value

    def parse(self) -> None:
        """Parse the text once for all copies made from now on."""
        if self.parsed is None and self.size > _SMALL and not is_tagged(self.text):
            self.parsed = orjson.loads(self.text)

    def copy(self) -> StateMember:
        """Return a member with the same text, for reading."""
        part = StateMember(self.text)
        part.parsed = self.parsed
        return part

    def extend(self, items: bytes) -> None:
        """Append the items of a JSON list to this JSON list."""
        self.pieces.append(items[1:-1])
        self.size += len(items)

    def grown(self, value: list[Json], spelling: MemberEncoder, buffer: bytearray, clean: Clean) -> StateMember | None:
        """Return the member for this list with items appended; None if it has changed in another way."""
        if not 0 < self.items <= len(value) or not spelling.print_into(buffer, value[: self.items]):
            return None
        if not self.print.matches(buffer, _head_size(self.items)):
            return None
        more = value[self.items :]
        if not more:
            return self
        if not spelling.followed(more):
            return None
        printed = _printed(more, spelling)  # before the text, as in `of_list`
        part = StateMember(b"", rows=self.rows)
        part.grown_by = clean(spelling.text(more))
        if part.grown_by[:1] != b"[":
            return None
        if len(self.pieces) > _MANY_PIECES:
            self.pieces = [self.text]
        part.pieces, part.size = [*self.pieces, part.grown_by[1:-1]], self.size + len(part.grown_by)
        part.items, part.print = len(value), self.print.extended(printed)
        return part


class _Fingerprint:
    """The msgpack of a list's items. A longer list shares the bytes of the one it grew from: nothing is copied."""

    __slots__ = ("length", "shared")

    def __init__(self, shared: bytearray, length: int) -> None:
        self.shared = shared
        self.length = length

    def matches(self, encoded: bytearray, start: int) -> bool:
        if len(encoded) != start + self.length:
            return False
        with memoryview(self.shared) as known_bytes, known_bytes[: self.length] as prefix:
            return encoded.startswith(prefix, start)

    def extended(self, more: bytearray) -> _Fingerprint:
        del self.shared[self.length :]
        self.shared += more
        return _Fingerprint(self.shared, len(self.shared))


def _printed(items: list[Json], spelling: MemberEncoder) -> bytearray:
    buffer = bytearray()
    spelling.print_into(buffer, items)
    return buffer[_head_size(len(items)) :]


def _head_size(count: int) -> int:
    """Return the size of msgpack's header for a list of that length."""
    if count < 16:
        return 1
    if count < 65536:
        return 3
    return 5


_NO_PRINT = _Fingerprint(bytearray(), 0)
