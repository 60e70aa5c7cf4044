"""Findings: what was found in a text and where, and the edits that replace it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace


class SecretFinding(Struct, frozen=True):
    """A value in a text that must not be kept: its kind, and from where to where it goes."""

    kind: str
    start: int
    end: int


class Spelling(IntEnum):
    """The way a value is written where it was found."""

    PLAIN = 0
    PERCENT = 1  # %40 for @
    BASE64 = 2  # the text that holds it is encoded as a whole
    FORM = 3  # %40 for @, + for a blank
    HEX = 4  # as a whole, in hexadecimal digits
    PACKED = 5  # as a whole, compressed and in base64


class Hit(Struct, frozen=True):
    """A finding on its way: with its spelling, and its rank among hits that overlap it (the lowest names them all)."""

    kind: str
    start: int
    end: int
    rank: int = 5
    spelling: Spelling = Spelling.PLAIN
    is_own: bool = False
    """True when a rule of the project found it, and no built-in one."""

    def moved(self, offset: int) -> Hit:
        """Return the hit as it stands in a larger text that its own text begins in at the offset."""
        return replace(self, start=self.start + offset, end=self.end + offset)


def settled(hits: list[Hit], text: str) -> list[Hit]:
    """The hits in the order of the text, those that overlap as one: a token inside of a password unmasks none of it."""
    if len(hits) < 2:
        return hits
    ordered = sorted(hits, key=lambda hit: (hit.start, -hit.end))
    united: list[Hit] = []
    group, end = [ordered[0]], ordered[0].end
    for hit in ordered[1:]:
        if hit.start < end:
            group.append(hit)
            end = max(end, hit.end)
        else:
            united.append(_union(group, end, text))
            group, end = [hit], hit.end
    united.append(_union(group, end, text))
    return united


def _union(group: list[Hit], end: int, text: str) -> Hit:
    """One hit for all of a group that begins with its first and goes to `end`."""
    if len(group) == 1:
        return group[0]
    start = group[0].start
    best = min(group, key=lambda hit: (hit.rank, hit.start - hit.end))
    rest = text[start : best.start] + text[best.end : end]
    if len(rest) <= _EDGES and not any(map(str.isalnum, rest)):
        return best  # `"ghp_…".` is the token, whatever else was taken along
    covering = [hit for hit in group if hit.start == start and hit.end == end]
    if covering:
        return min(covering, key=lambda hit: hit.rank)
    kinds, spellings = set(), set()
    for hit in group:
        kinds.add(hit.kind)
        spellings.add(hit.spelling)
    kinds.discard("")
    kind = "secret"
    if len(kinds) == 1:
        (kind,) = kinds
    for spelling in (Spelling.FORM, Spelling.PERCENT):
        if spelling in spellings:
            return Hit(kind, start, end, best.rank, spelling)
    return Hit(kind, start, end, best.rank)


_EDGES = 3
"""The number of quotes, brackets and the like around a value that are none of it."""


class Edit(Struct, frozen=True):
    """One replacement: the kind and the value that it is for, and the JSON path where the text is JSON."""

    start: int
    end: int
    text: str
    kind: str
    value: str = ""
    path: str = ""

    def moved(self, offset: int) -> Edit:
        """Return the edit as it stands in a larger text that its own text begins in at the offset."""
        return replace(self, start=self.start + offset, end=self.end + offset)


class _Stretch(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


S = TypeVar("S", bound=_Stretch)


def in_order(stretches: Iterable[S]) -> list[S]:
    """Return stretches in the order of the text; of those that overlap, the earlier and longer one."""
    chosen: list[S] = []
    end = 0
    for stretch in sorted(stretches, key=lambda stretch: (stretch.start, -stretch.end)):
        if stretch.start >= end:
            chosen.append(stretch)
            end = stretch.end
    return chosen


def applied(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the edits made."""
    pieces, last = [], 0
    for edit in edits:
        pieces += [text[last : edit.start], edit.text]
        last = edit.end
    return "".join([*pieces, text[last:]])


def spread(pieces: list[bytes], spans: Sequence[tuple[int, int, bytes]]) -> list[bytes]:
    """The pieces of a text with the spans of the whole replaced; what is put in goes into the first piece touched."""
    changed, at, rest = [], 0, list(reversed(spans))
    pending: tuple[int, int, bytes] | None = None
    for piece in pieces:
        end, out, here = at + len(piece), [], at
        while here < end:
            if pending is not None:
                here = min(end, pending[1])
                if here == pending[1]:
                    pending = None
            elif rest and rest[-1][0] < end:
                span = rest.pop()
                out += [piece[here - at : span[0] - at], span[2]]
                here, pending = span[0], span
            else:
                out.append(piece[here - at :])
                here = end
        changed.append(b"".join(out))
        at = end
    return changed
