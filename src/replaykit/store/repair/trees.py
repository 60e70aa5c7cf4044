"""B-trees: find the runs that a damaged store still lists, from the runs table and its indexes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from replaykit.store.image import Image
from replaykit.store.repair.cells import record, varint

_LEAF, _INNER, _INDEX_LEAF, _INDEX_INNER = 0x0D, 0x05, 0x0A, 0x02
_IDS = "sqlite_autoindex_runs_1"
_NAMES = "runs_by_name"
_TREES = ("runs", _IDS, "runs_by_start", _NAMES)


class NamedRun(Struct):
    """Runs known only by number, id or name."""

    numbers: set[int]
    ids: dict[int, str]
    names: dict[int, tuple[str, float]]
    """Name and start time."""
    pages: set[int]
    """The reachable leaf pages of the table."""
    sure: bool
    """True if the list is complete, so that any other run was deleted."""


def named_runs(image: Image) -> NamedRun:
    """Return the runs that are reachable through any B-tree that lists them."""
    found = NamedRun(numbers=set(), ids={}, names={}, pages=set(), sure=False)
    roots = _roots(image)
    for tree in _TREES:
        walk = _TreeWalk(image)
        for key, columns in walk.rows(roots.get(tree, 0)):
            if tree == "runs":
                number = key
            elif columns:
                number = columns[-1]
            else:
                number = None
            if not isinstance(number, int):
                walk.whole = False
                continue
            found.numbers.add(number)
            if tree == _IDS and isinstance(columns[0], str):
                found.ids[number] = columns[0]
            if tree == _NAMES and len(columns) == 3 and isinstance(columns[0], str):
                found.names[number] = (columns[0], float(columns[1] or 0))
        if tree == "runs":
            found.pages = walk.leaves
        found.sure |= walk.whole
    return found


def _roots(image: Image) -> dict[str, int]:
    """Return the root page of each B-tree by name."""
    walk = _TreeWalk(image)
    rows = (columns for _, columns in walk.rows(1))
    return {row[1]: row[3] for row in rows if len(row) == 5 and isinstance(row[1], str) and isinstance(row[3], int)}


class _TreeWalk:
    """Walks one B-tree from its root. `whole` stays true while all of its pages are intact."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._seen: set[int] = set()
        self.leaves: set[int] = set()
        self.whole = True

    def rows(self, root: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the rows of the tree as key (0 in an index) and columns."""
        left = [root]
        while left:
            number = left.pop()
            page = self._image.page(number)
            start = 100 if number == 1 else 0
            kind = page[start] if len(page) == self._image.page_size else 0
            if kind not in (_LEAF, _INNER, _INDEX_LEAF, _INDEX_INNER) or number in self._seen:
                self.whole = False
                continue
            self._seen.add(number)
            inner = kind in (_INNER, _INDEX_INNER)
            head = start + (12 if inner else 8)
            (count,) = struct.unpack_from(">H", page, start + 3)
            if head + 2 * count > len(page):
                self.whole = False
                continue
            if inner:
                left.append(struct.unpack_from(">I", page, start + 8)[0])
            elif kind == _LEAF:
                self.leaves.add(number)
            for at in struct.unpack_from(f">{count}H", page, head):
                if inner and at + 4 <= len(page):
                    left.append(struct.unpack_from(">I", page, at)[0])
                if kind != _INNER:
                    yield from self._row(page, at + 4 * inner, kind == _LEAF)

    def _row(self, page: bytes, at: int, has_key: bool) -> Iterator[tuple[int, tuple[Any, ...]]]:
        key = 0
        size, at = varint(page, at)
        if has_key:
            key, at = varint(page, at)
        columns = record(self._image, page, at, size, is_index=not has_key)
        self.whole &= columns is not None
        if columns is not None or has_key:
            yield key, columns or ()
