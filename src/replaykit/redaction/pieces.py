"""Pieces: the objects in the lists of a JSON text, such as the messages of a conversation.

Every model call of an agent holds all messages so far, so the calls of a run hold each message again and again. Looking
at each distinct piece once, and at the rest of the text with its pieces taken out, makes that cost what is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from replaykit.redaction.lazy import lazy

LEAST_BYTES = 16 * 1024
"""A shorter text is looked at as a whole."""
_LARGEST_PIECE = 32 * 1024
"""A larger object is looked into for lists of its own."""
_SMALLEST_PIECE = 64
_LARGEST_TEXT = 64 * 1024 * 1024
STAND_IN = b"{}"
"""An object that holds nothing, in the place of a piece."""
_GAP = lazy(rb"[\s,]*+")
_KEY = lazy(rb'[\s,]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+:\s*+')
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Span(NamedTuple):
    """From where to where a piece goes."""

    start: int
    end: int


class Pieces:
    """A JSON text as its pieces and the rest."""

    def __init__(self, text: bytes, spans: list[Span]) -> None:
        self.text = text
        self.spans = spans

    @property
    def texts(self) -> list[bytes]:
        """The pieces, in order."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def rest(self) -> bytes:
        """The text with an empty object in the place of each piece."""
        return STAND_IN.join(self._gaps())

    @property
    def places(self) -> list[int]:
        """Where the empty objects stand in the rest."""
        places, removed = [], 0
        for start, end in self.spans:
            places.append(start - removed)
            removed += end - start - len(STAND_IN)
        return places

    def borders(self) -> Iterator[tuple[int, int, int]]:
        """The places where a piece begins or ends, with the numbers of the pieces before and behind (-1: the rest)."""
        last_end = 0
        for number, (start, end) in enumerate(self.spans):
            is_next = number > 0 and start - last_end < _SMALLEST_PIECE
            if number and not is_next:
                yield last_end, number - 1, -1
            yield start, number - 1 if is_next else -1, number
            last_end = end
        if self.spans:
            yield last_end, len(self.spans) - 1, -1

    def _gaps(self) -> Iterator[bytes]:
        at = 0
        for start, end in self.spans:
            yield self.text[at:start]
            at = end
        yield self.text[at:]


def pieces_of(text: bytes, *, smallest: int = _SMALLEST_PIECE, largest: int = _LARGEST_PIECE) -> Pieces | None:
    """The text in pieces; None when it is no JSON, is too large, or says a name twice."""
    if len(text) > _LARGEST_TEXT:
        return None
    try:
        return Pieces(text, _walk(text.rstrip(), 0, smallest, largest))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        pass  # it may be a value on each line
    spans: list[Span] = []
    at = 0
    try:
        for line in text.splitlines(keepends=True):
            spans += _walk(line.rstrip(), at, smallest, largest)
            at += len(line)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return Pieces(text, spans)


def joined(rest: bytes, places: list[int], texts: list[bytes]) -> bytes:
    """The rest with these texts in the places of its empty objects."""
    parts: list[bytes] = []
    at = 0
    for place, text in zip(places, texts, strict=True):
        parts += (rest[at:place], text)
        at = place + len(STAND_IN)
    return b"".join([*parts, rest[at:]])


def _walk(value: bytes, at: int, smallest: int, largest: int) -> list[Span]:
    """The pieces below a list or an object that begins at this place."""
    found: list[Span] = []
    children = _list_items(value) if value[:1] == b"[" else _object_members(value)
    for start, child in children:
        is_container = child[:1] in (b"{", b"[")
        is_piece = child[:1] == b"{" and value[:1] == b"[" and len(child) >= smallest
        below: list[Span] = []
        if is_container and len(child) > (largest if is_piece else smallest):
            below = _walk(child, at + start, smallest, largest)
        if is_piece and not below:
            below = [Span(at + start, at + start + len(child))]
        found += below
    return found


def _list_items(value: bytes) -> Iterator[tuple[int, bytes]]:
    at = 1
    for item in map(bytes, _items(value)):
        gap = _GAP.match(value, at)
        at = gap.end() if gap else at
        _check(value, item, at)
        yield at, item
        at += len(item)
    _check_end(value, at)


def _object_members(value: bytes) -> Iterator[tuple[int, bytes]]:
    if value[:1] != b"{":
        return  # blank, or a scalar
    at = 1
    for member in map(bytes, _members(value).values()):
        key = _KEY.match(value, at)
        at = key.end() if key else at
        _check(value, member, at)
        yield at, member
        at += len(member)
    _check_end(value, at)


def _check(value: bytes, part: bytes, at: int) -> None:
    if not value.startswith(part, at):
        raise ValueError("a name is there twice, so places are not known")


def _check_end(value: bytes, at: int) -> None:
    gap = _GAP.match(value, at)
    if (gap.end() if gap else at) != len(value) - 1:
        raise ValueError("a name is there twice, so places are not known")
