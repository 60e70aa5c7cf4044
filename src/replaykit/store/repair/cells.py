"""Cells: rows found in the raw bytes of a page, independent of the B-tree around them.

A table row consists of the record's length, the key, and the record, whose header holds its own length and one type
code per column. In this store's records the first column is NULL, because it is the key. Everything that matches this
pattern is a candidate; its checksum decides whether it is a row.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from replaykit.store.image import BASE, Image

# A header length of 3 to 30 bytes, then the type code of NULL for the key.
_HEAD = re.compile(rb"[\x03-\x1e]\x00")
_LONGEST_KEY = 9
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_MOST_PAGES = 1 << 20  # limit on the overflow pages of one row


class Cell(NamedTuple):
    """A possible row: key, columns, and the page and version that contain it."""

    key: int
    columns: tuple[Any, ...]
    page: int
    version: int


def cells(image: Image, number: int, version: int, data: bytes) -> Iterator[Cell]:
    """Yield the rows that begin in a page. For a row with overflow pages, yield every possible continuation."""
    found = _HEAD.search(data)
    while found is not None:
        at = found.start()
        kinds = _kinds(data, at)
        if kinds is not None:
            size = data[at] + sum(map(_width, kinds))
            for key in _keys(data, at, size):
                for payload in _payloads(image, version, data, at, size):
                    yield Cell(key, _columns(payload, kinds), number, version)
        found = _HEAD.search(data, at + 1)


def record(image: Image, data: bytes, at: int, size: int, *, is_index: bool) -> tuple[Any, ...] | None:
    """Return the columns of a record at a known position; None if there is no valid record."""
    payload = next(_payloads(image, BASE, data, at, size, is_index=is_index), b"")
    kinds = _kinds(payload, 0) if payload else None
    if kinds is None or payload[0] + sum(map(_width, kinds)) != size:
        return None
    return _columns(payload, kinds)


def _kinds(data: bytes, at: int) -> list[int] | None:
    """Return the column types of a record; None if there is no valid record header."""
    end, position, kinds = at + data[at], at + 1, list[int]()
    while position < end:
        kind, position = varint(data, position)
        kinds.append(kind)
    # Type codes 10 and 11 are reserved by SQLite.
    if position != end or not 2 <= len(kinds) <= 6 or any(kind in (10, 11) for kind in kinds):
        return None
    return kinds


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read SQLite's variable-length integer and return it with the position after it; 0 past the end."""
    value = 0
    for index in range(8):
        if at + index >= len(data):
            return 0, at + index + 1
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    # The ninth byte contributes all of its 8 bits.
    if at + 8 < len(data):
        return (value << 8 | data[at + 8], at + 9)
    return (0, at + 9)


def _written(value: int) -> bytes:
    """Encode a number below 2**56 as SQLite's variable-length integer."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


def _width(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    if kind == 7:
        return 8
    return _INTEGERS.get(kind, 0)


def _keys(data: bytes, at: int, size: int) -> Iterator[int]:
    """Yield every key that fits in front of a record of this size."""
    length = _written(size)
    for width in range(1, _LONGEST_KEY + 1):
        start = at - width
        if start < len(length) or data[start - len(length) : start] != length:
            continue
        key, end = varint(data, start)
        if end == at:
            yield key


def _payloads(
    image: Image, version: int, data: bytes, at: int, size: int, *, is_index: bool = False
) -> Iterator[bytes]:
    """Yield the possible contents of a record, from the page and all versions of its overflow pages."""
    usable = image.page_size
    # SQLite's thresholds for moving the rest of a record to overflow pages.
    most, least = ((usable - 12) * 64 // 255 - 23 if is_index else usable - 35), (usable - 12) * 32 // 255 - 23
    if size <= most:
        if at + size <= len(data):
            yield data[at : at + size]
        return
    here = least + (size - least) % (usable - 4)
    here = here if here <= most else least
    if at + here + 4 > len(data) or size > usable * _MOST_PAGES:
        return
    (first,) = struct.unpack_from(">I", data, at + here)
    seen = set()
    for until in (None, version, BASE):
        rest = _chain(image, first, size - here, until)
        if rest is not None and rest not in seen:
            seen.add(rest)
            yield data[at : at + here] + rest


def _chain(image: Image, number: int, left: int, until: int | None) -> bytes | None:
    parts, seen = list[bytes](), set[int]()
    while left > 0:
        if number in seen:
            return None
        seen.add(number)
        page = image.page(number, until)
        part = page[4 : 4 + left]
        if not part:
            return None
        parts.append(part)
        left -= len(part)
        (number,) = struct.unpack_from(">I", page)
    return b"".join(parts)


def _columns(payload: bytes, kinds: list[int]) -> tuple[Any, ...]:
    at, values = payload[0], list[Any]()
    for kind in kinds:
        width = _width(kind)
        values.append(_value(payload[at : at + width], kind))
        at += width
    return tuple(values)


def _value(data: bytes, kind: int) -> Any:
    if kind >= 12:
        if kind % 2 == 0:
            return data
        return data.decode("utf-8", "surrogateescape")
    if kind in (8, 9):
        return kind - 8
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind in _INTEGERS:
        return int.from_bytes(data, "big", signed=True)
    return None
