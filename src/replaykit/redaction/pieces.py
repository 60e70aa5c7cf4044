"""Pieces: the objects in the lists of a JSON text, such as the messages of a conversation.

Every model call of an agent holds all messages so far, so the calls of a run hold each message again and again. Looking
at each distinct piece once, and at the rest of the text with its pieces taken out, makes that cost what is new.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import msgspec

from replaykit.redaction.lazy_patterns import lazy

LEAST_BYTES = 16 * 1024
"""A shorter text is looked at as a whole."""
_LARGEST_PIECE = 32 * 1024
"""A larger object is looked into for lists of its own."""
_SMALLEST_PIECE = 64
_LARGEST_TEXT = 64 * 1024 * 1024
STAND_IN = b"{}"
"""An object that holds nothing, in the place of a piece."""
_NEXT = STAND_IN + b","
_STEP = len(_NEXT)
_GAP = lazy(rb"[\s,]*+")
_KEY = lazy(rb'[\s,]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+:\s*+')
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class TextSpan(NamedTuple):
    """From where to where a piece goes."""

    start: int
    end: int


class Pieces:
    """A JSON text as its pieces and the rest."""

    def __init__(self, text: bytes, spans: list[TextSpan], flat: int = 0) -> None:
        self.text = text
        self.spans = spans
        self.flat = flat
        """How many pieces at the beginning are no part of another object in a list."""

    @cached_property
    def texts(self) -> list[bytes]:
        """The pieces, in order."""
        return [self.text[start:end] for start, end in self.spans]

    @cached_property
    def rest(self) -> bytes:
        """The text with an empty object in the place of each piece."""
        return STAND_IN.join(self._gaps())

    @cached_property
    def places(self) -> list[int]:
        """Where the empty objects stand in the rest."""
        places, removed = [], 0
        for start, end in self.spans:
            places.append(start - removed)
            removed += end - start - len(STAND_IN)
        return places

    def borders(self, since: int = 0) -> Iterator[tuple[int, int, int]]:
        """The places where a piece begins or ends, with the numbers of the pieces before and behind (-1: the rest).

        From a place on: all borders behind it, and maybe the one before.
        """
        first = bisect_left(self.spans, since, key=_end) if since > 0 else 0
        last_end = self.spans[first - 1].end if first else 0
        for number, (start, end) in enumerate(self.spans[first:], first):
            is_next = number > 0 and start - last_end < _SMALLEST_PIECE
            if number and not is_next:
                yield last_end, number - 1, -1
            yield start, number - 1 if is_next else -1, number
            last_end = end
        if self.spans:
            yield last_end, len(self.spans) - 1, -1

    def cuts(self, first: int, last: int) -> Iterator[int]:
        """The places between two others where a piece begins or ends."""
        for number in range(bisect_right(self.spans, first, key=_end), len(self.spans)):
            start, end = self.spans[number]
            if start >= last:
                return
            if start > first:
                yield start
            if end < last:
                yield end

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
        walk = _Walk(smallest, largest)
        return walk.pieces(text, walk.spans(text.rstrip(), 0))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        pass  # it may be a value on each line
    spans: list[TextSpan] = []
    at = 0
    try:
        for line in text.splitlines(keepends=True):
            spans += _Walk(smallest, largest).spans(line.rstrip(), at)
            at += len(line)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return Pieces(text, spans)


def grown_pieces(before: Pieces, text: bytes, common: int) -> tuple[Pieces, int] | None:
    """The text in pieces, and how many of them it shares with another text, with which it has `common` bytes in common.

    The result is that of `pieces_of`, and only what is new is read. None where `pieces_of` has to tell.
    """
    shared = bisect_right(before.spans, common, hi=before.flat, key=_end)
    if not shared or len(text) > _LARGEST_TEXT:
        return None
    rest, places, last = before.rest, before.places, shared - 1
    first = bisect_left(range(last), True, key=lambda index: places[last] - places[index] == _STEP * (last - index))
    if rest[places[first] : places[last]] != _NEXT * (last - first):
        first = last
    # Of the pieces that follow each other in a list, one is enough to read on behind them.
    head = rest[: places[first]] + STAND_IN
    moved = before.spans[last].end - len(head)
    walk = _Walk(_SMALLEST_PIECE, _LARGEST_PIECE)
    try:
        new = walk.spans((head + text[before.spans[last].end :]).rstrip(), moved)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    grown = walk.pieces(text, before.spans[:shared] + new)
    tail = Pieces(
        text[before.spans[last].end :], [TextSpan(*(at - before.spans[last].end for at in span)) for span in new]
    )
    end = places[last] + len(STAND_IN)
    grown.texts = before.texts[:shared] + tail.texts
    grown.rest = rest[:end] + tail.rest
    grown.places = places[:shared] + [end + place for place in tail.places]
    return grown, shared


def _end(span: TextSpan) -> int:
    return span.end


def joined(rest: bytes, places: list[int], texts: list[bytes]) -> bytes:
    """The rest with these texts in the places of its empty objects."""
    parts: list[bytes] = []
    at = 0
    for place, text in zip(places, texts, strict=True):
        parts += (rest[at:place], text)
        at = place + len(STAND_IN)
    return b"".join([*parts, rest[at:]])


class _Walk:
    """A walk over a JSON value in search of pieces."""

    def __init__(self, smallest: int, largest: int) -> None:
        self._smallest = smallest
        self._largest = largest
        self._first_nested: int | None = None
        """Where the first object of a list begins that is in pieces itself."""

    def pieces(self, text: bytes, spans: list[TextSpan]) -> Pieces:
        """The pieces of a text that these spans were found in."""
        if self._first_nested is None:
            return Pieces(text, spans, len(spans))
        return Pieces(text, spans, bisect_left(spans, self._first_nested, key=_end))

    def spans(self, value: bytes, at: int) -> list[TextSpan]:
        """The pieces below a list or an object that begins at this place."""
        found: list[TextSpan] = []
        children = _list_items(value) if value[:1] == b"[" else _object_members(value)
        for start, child in children:
            is_container = child[:1] in (b"{", b"[")
            is_piece = child[:1] == b"{" and value[:1] == b"[" and len(child) >= self._smallest
            below: list[TextSpan] = []
            if is_container and len(child) > (self._largest if is_piece else self._smallest):
                below = self.spans(child, at + start)
            if is_piece and below and (self._first_nested is None or at + start < self._first_nested):
                self._first_nested = at + start
            if is_piece and not below:
                below = [TextSpan(at + start, at + start + len(child))]
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
