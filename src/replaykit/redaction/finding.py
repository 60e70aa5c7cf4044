"""Findings: what was found in a text, and where."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class Finding(Struct, frozen=True):
    """A value in a text that must not be kept: its kind, and from where to where it goes."""

    kind: str
    start: int
    end: int


class Spelling(IntEnum):
    """How a value is written where it was found."""

    PLAIN = 0
    PERCENT = 1  # %40 for @
    BASE64 = 2  # the text that holds it is encoded as a whole


class Hit(Struct, frozen=True):
    """A finding on its way: with its spelling, and its rank among hits that overlap it (lower goes first)."""

    kind: str
    start: int
    end: int
    rank: int = 5
    spelling: Spelling = Spelling.PLAIN


def settled(hits: list[Hit]) -> list[Hit]:
    """The hits without those that overlap a better one, in the order of the text."""
    if len(hits) < 2:
        return hits
    kept: list[Hit] = []
    taken: list[tuple[int, int]] = []
    for hit in sorted(hits, key=lambda hit: (hit.rank, hit.start - hit.end, hit.start)):
        if _is_free(taken, hit.start, hit.end):
            kept.append(hit)
    return sorted(kept, key=lambda hit: hit.start)


def _is_free(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    """Enter the stretch among the taken ones, unless it overlaps one. They are kept in order."""
    from bisect import bisect_left, insort  # noqa: PLC0415 (only where something was found)

    place = bisect_left(taken, (start, start))
    if place < len(taken) and taken[place][0] < end:
        return False
    if place and taken[place - 1][1] > start:
        return False
    insort(taken, (start, end))
    return True
