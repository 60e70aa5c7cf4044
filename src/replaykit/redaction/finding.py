"""Findings: what was found in a text, and where."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class SecretFinding(Struct, frozen=True):
    """A value in a text that must not be kept: its kind, and from where to where it goes."""

    kind: str
    start: int
    end: int


class Spelling(IntEnum):
    """How a value is written where it was found."""

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
    kinds = {hit.kind for hit in group if hit.kind}
    kind = kinds.pop() if len(kinds) == 1 else "secret"
    spellings = {hit.spelling for hit in group}
    spelling = next((one for one in (Spelling.FORM, Spelling.PERCENT) if one in spellings), Spelling.PLAIN)
    return Hit(kind, start, end, best.rank, spelling)


_EDGES = 3
"""How many quotes, brackets and the like around a value are none of it."""
