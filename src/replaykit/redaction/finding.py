"""Findings: what was found in a text and where, and the edits that replace it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace


class SecretFinding(Struct, frozen=True):
    """A value to redact in a text: its kind and span."""

    kind: str
    start: int
    end: int


class Spelling(IntEnum):
    """The encoding of a value where it was found."""

    PLAIN = 0
    PERCENT = 1  # %40 for @
    BASE64 = 2  # the surrounding text is encoded as a whole
    FORM = 3  # %40 for @, + for a blank
    HEX = 4  # as a whole, in hexadecimal digits
    PACKED = 5  # as a whole, compressed and in base64


class Hit(Struct, frozen=True):
    """A finding before overlaps are resolved, with its rank: the lowest rank names the kind of all that overlap."""

    kind: str
    start: int
    end: int
    rank: int = 5
    spelling: Spelling = Spelling.PLAIN
    is_own: bool = False
    """True if only a rule of the project found it."""

    def moved(self, offset: int) -> Hit:
        """Return the hit for a larger text in which its own text begins at the offset."""
        return replace(self, start=self.start + offset, end=self.end + offset)


def settled(hits: list[Hit], text: str) -> list[Hit]:
    """Sort hits and merge overlapping ones: a token inside a password must not leave the rest of it visible."""
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
    """Merge a group of overlapping hits that ends at `end`."""
    if len(group) == 1:
        return group[0]
    start = group[0].start
    best = min(group, key=lambda hit: (hit.rank, hit.start - hit.end))
    rest = text[start : best.start] + text[best.end : end]
    if len(rest) <= _EDGES and not any(map(str.isalnum, rest)):
        return best  # in `"ghp_…".`, only the token matters
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


_EDGES = 3  # the most quotes and brackets around a value that do not belong to it


class Edit(Struct, frozen=True):
    """One replacement, for a value of a kind, with its JSON path if the text is JSON."""

    start: int
    end: int
    text: str
    kind: str
    value: str = ""
    path: str = ""

    def moved(self, offset: int) -> Edit:
        """Return the edit for a larger text in which its own text begins at the offset."""
        return replace(self, start=self.start + offset, end=self.end + offset)


class _Stretch(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


S = TypeVar("S", bound=_Stretch)


def in_order(stretches: Iterable[S]) -> list[S]:
    """Return spans in the order of the text; of overlapping ones, the earlier and longer one."""
    chosen: list[S] = []
    end = 0
    for stretch in sorted(stretches, key=lambda stretch: (stretch.start, -stretch.end)):
        if stretch.start >= end:
            chosen.append(stretch)
            end = stretch.end
    return chosen


def applied(text: str, edits: Sequence[Edit]) -> str:
    """Apply the edits to the text."""
    pieces, last = [], 0
    for edit in edits:
        pieces += [text[last : edit.start], edit.text]
        last = edit.end
    return "".join([*pieces, text[last:]])


def spread(pieces: list[bytes], spans: Sequence[tuple[int, int, bytes]]) -> list[bytes]:
    """Replace spans of a text that is split into pieces; the replacement goes into the first piece touched."""
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
