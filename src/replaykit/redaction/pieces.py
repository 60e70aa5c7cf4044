"""Pieces: the objects in the lists of a JSON text, such as the messages of a conversation.

Each model call repeats all messages so far, so the calls of a run hold each message many times. Checking each distinct
piece once, and the rest of the text without its pieces, keeps the cost proportional to what is new.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import msgspec

from replaykit.model.values import read_items, read_members
from replaykit.redaction.lazy_patterns import lazy

_LARGEST_PIECE = 32 * 1024  # larger objects are searched for lists of their own
_SMALLEST_PIECE = 64
_LARGEST_TEXT = 64 * 1024 * 1024
STAND_IN = b"{}"
"""An empty object in place of a piece."""
_NEXT = STAND_IN + b","
_STEP = len(_NEXT)
_GAP = lazy(rb"[\s,]*+")
_KEY = lazy(rb'[\s,]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+:\s*+')


class TextSpan(NamedTuple):
    """The span of a piece."""

    start: int
    end: int


class Pieces:
    """A JSON text, split into pieces and the rest."""

    def __init__(self, text: bytes, spans: list[TextSpan], flat: int = 0) -> None:
        self.text = text
        self.spans = spans
        self.flat = flat
        """The number of leading pieces that are not nested in another object of a list."""

    @cached_property
    def texts(self) -> list[bytes]:
        """The pieces, in order."""
        return [self.text[start:end] for start, end in self.spans]

    @cached_property
    def rest(self) -> bytes:
        """The text with an empty object in place of each piece."""
        return STAND_IN.join(self._gaps())

    @cached_property
    def places(self) -> list[int]:
        """The positions of the empty objects in the rest."""
        places, removed = [], 0
        for start, end in self.spans:
            places.append(start - removed)
            removed += end - start - len(STAND_IN)
        return places

    def borders(self, since: int = 0) -> Iterator[tuple[int, int, int]]:
        """Yield the borders of pieces, with the indexes of the pieces on both sides (-1 for the rest).

        `since` limits them to later ones, plus possibly one before.
        """
        first = bisect_left(self.spans, since, key=_end)
        last_end = 0
        if first:
            last_end = self.spans[first - 1].end
        before = first - 1
        for number, (start, end) in enumerate(self.spans[first:], first):
            if before >= 0 and start - last_end >= _SMALLEST_PIECE:
                yield last_end, before, -1
                before = -1
            yield start, before, number
            last_end, before = end, number
        if self.spans:
            yield last_end, len(self.spans) - 1, -1

    def cuts(self, first: int, last: int) -> Iterator[int]:
        """Yield the borders between two positions."""
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
    """Split a text; return None if it is not JSON, is too large, or repeats a name."""
    if len(text) > _LARGEST_TEXT:
        return None
    walk = _Walk(smallest, largest)
    spans = walk.spans(text.rstrip(), 0)
    if spans is not None:
        return walk.pieces(text, spans)
    spans, at = [], 0  # perhaps a value on each line
    for line in text.splitlines(keepends=True):
        more = walk.spans(line.rstrip(), at)
        if more is None:
            return None
        spans += more
        at += len(line)
    return Pieces(text, spans)


def grown_pieces(before: Pieces, text: bytes, common: int) -> tuple[Pieces, int] | None:
    """Split a text that shares `common` bytes with another; return the pieces and how many are the same.

    Gives the result of `pieces_of`, but reads only what is new. Returns None if `pieces_of` is needed.
    """
    shared = bisect_right(before.spans, common, hi=before.flat, key=_end)
    if not shared or len(text) > _LARGEST_TEXT:
        return None
    rest, places, last = before.rest, before.places, shared - 1
    first = bisect_left(range(last), True, key=lambda index: places[last] - places[index] == _STEP * (last - index))
    if rest[places[first] : places[last]] != _NEXT * (last - first):
        first = last
    # Of consecutive pieces in a list, one is enough context to read on.
    head = rest[: places[first]] + STAND_IN
    walk = _Walk(_SMALLEST_PIECE, _LARGEST_PIECE)
    known = before.spans[last].end
    new = walk.spans((head + text[known:]).rstrip(), known - len(head))
    if new is None:
        return None
    grown = walk.pieces(text, before.spans[:shared] + new)
    tail = Pieces(text[known:], [TextSpan(start - known, end - known) for start, end in new])
    end = places[last] + len(STAND_IN)
    grown.texts = before.texts[:shared] + tail.texts
    grown.rest = rest[:end] + tail.rest
    grown.places = places[:shared] + [end + place for place in tail.places]
    return grown, shared


def _end(span: TextSpan) -> int:
    return span.end


def joined(rest: bytes, places: list[int], texts: list[bytes]) -> bytes:
    """Put these texts in place of the empty objects of the rest."""
    parts: list[bytes] = []
    at = 0
    for place, text in zip(places, texts, strict=True):
        parts += (rest[at:place], text)
        at = place + len(STAND_IN)
    return b"".join([*parts, rest[at:]])


class _Walk:
    """Walks a JSON value in search of pieces."""

    def __init__(self, smallest: int, largest: int) -> None:
        self._smallest = smallest
        self._largest = largest
        self._first_nested = sys.maxsize  # the position of the first list object that is itself split

    def pieces(self, text: bytes, spans: list[TextSpan]) -> Pieces:
        """Return the pieces of a text with these spans."""
        return Pieces(text, spans, bisect_left(spans, self._first_nested, key=_end))

    def spans(self, value: bytes, at: int) -> list[TextSpan] | None:
        """Return the pieces in a list or object at this position; None if it is not JSON."""
        try:
            return self._spans(value, at)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            return None

    def _spans(self, value: bytes, at: int) -> list[TextSpan]:
        found: list[TextSpan] = []
        for start, child in _children(value):
            place = at + start
            is_piece = child[:1] == b"{" and value[:1] == b"[" and len(child) >= self._smallest
            most = self._smallest
            if is_piece:
                most = self._largest
            below: list[TextSpan] = []
            if len(child) > most and child[:1] in (b"{", b"["):
                below = self._spans(child, place)
            if is_piece and below:
                self._first_nested = min(self._first_nested, place)
            elif is_piece:
                below = [TextSpan(place, place + len(child))]
            found += below
        return found


def _children(value: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield items of a list or values of an object with their positions; nothing for a blank or a scalar."""
    gap: re.Pattern[bytes] = _GAP
    children: list[msgspec.Raw]
    if value[:1] == b"[":
        children = read_items(value)
    elif value[:1] == b"{":
        gap, children = _KEY, list(read_members(value).values())
    else:
        return
    at = 1
    for child in map(bytes, children):
        at = _behind(gap, value, at)
        if not value.startswith(child, at):
            raise ValueError("a name appears twice, so places are not known")
        yield at, child
        at += len(child)
    if _behind(_GAP, value, at) != len(value) - 1:
        raise ValueError("a name appears twice, so places are not known")


def _behind(gap: re.Pattern[bytes], value: bytes, at: int) -> int:
    found = gap.match(value, at)
    if found is None:
        return at
    return found.end()
