"""Incremental redaction: of a long text that has changed a little, only the new parts are searched.

Redacting a text takes a hundred times longer than writing it, and an agent's state changes little from step to step. A
long JSON text is split into rows: the items of its lists and the members of its objects, each with its name and its
neighbors. Rows that were in the previous text are not searched again. New rows are searched together with the old rows
that held secrets, so that those secrets are known there too. If a new row holds a secret, the whole text is searched,
because a value that is secret in one place is secret everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import orjson

from replaykit.model.values import read_items, read_members

Clean = Callable[[bytes, str], bytes]
"""Redacts the text under a name; returns the same object if there is nothing to redact."""
LONG = 4096
"""Texts up to this size are redacted as a whole."""
_SHORT = 256  # an item up to this size may be a label for the next one
_FEW = 16  # up to this many members make one row: their names say what the values next to them are


class _TextRow(NamedTuple):
    """A part of a text that can be redacted on its own."""

    names: tuple[bytes, ...]
    spots: tuple[tuple[int, bytes], ...]
    """The positions of its values in the text, and the values."""
    text: bytes
    """The row as a JSON object of its own."""


class IncrementalRedaction:
    """Redacts successive versions of one text, and remembers its rows."""

    __slots__ = ("_found", "_seen")

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._found: dict[bytes, tuple[bytes, ...]] = {}  # rows that hold secrets, and their redacted values

    def cleaned(self, text: bytes, name: str, clean: Clean) -> bytes:
        """Return the redacted text; the same object if nothing is secret."""
        rows = _rows(text, name) if len(text) > LONG else None
        if rows is None:
            self._seen, self._found = set(), {}
            return clean(text, name)
        new = [row.text for row in rows if row.text not in self._seen]
        if len(new) < len(rows) and self._is_clean(new, name, clean):
            shown = _with_replacements(text, rows, self._found)
            self._found = {row.text: self._found[row.text] for row in rows if row.text in self._found}
        else:
            shown = clean(text, name)
            found = {} if shown is text else _replacements(rows, _rows(shown, name))
            if found is None:
                rows, found = [], {}  # redaction changed the structure: start over with the next text
            self._found = found
        self._seen = {row.text for row in rows}
        return shown

    def _is_clean(self, new: list[bytes], name: str, clean: Clean) -> bool:
        """Return whether new rows hold no secret, given those already found in old rows."""
        if not new:
            return True
        looked = b",".join([*self._found, *new])
        return clean(b"[" + looked + b"]", name).endswith(b",".join(new) + b"]")


def _rows(text: bytes, name: str) -> list[_TextRow] | None:
    """Split a text into rows; None if it is not compact JSON, as positions are unknown then."""
    try:
        return list(_walk(text, 0, orjson.dumps(name)))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _walk(text: bytes, at: int, name: bytes) -> Iterator[_TextRow]:
    if text[:1] == b"[":
        return _walk_list(text, at, name)
    if text[:1] == b"{":
        return _walk_object(text, at)
    return iter([_TextRow((name,), ((at, text),), b"{%b:%b}" % (name, text))])


def _walk_list(text: bytes, at: int, name: bytes) -> Iterator[_TextRow]:
    end, before = at + len(text), b""
    for item in map(bytes, read_items(text)):
        at += 1  # a bracket or a comma
        if len(item) > LONG:
            yield from _walk(item, at, name)
        else:
            yield _TextRow((name,), ((at, item),), b"{%b:[%b%b]}" % (name, before, item))
        before = item + b"," if len(item) <= _SHORT else b""
        at += len(item)
    _check_end(at, end)


def _walk_object(text: bytes, at: int) -> Iterator[_TextRow]:
    end, members = at + len(text), []
    for key, raw in read_members(text).items():
        name, value = orjson.dumps(key), bytes(raw)
        at += len(name) + 2  # a brace or a comma, and a colon
        if len(value) > LONG and value[:1] in b"[{":
            yield from _walk(value, at, name)
            value = b""  # its name alone may still have to be redacted
        members.append((name, at, value))
        at += len(raw)
    _check_end(at, end)
    are_few = len(members) <= _FEW
    yield _row([member for member in members if are_few or len(member[2]) <= _SHORT])
    yield from (_row([member]) for member in members if not are_few and len(member[2]) > _SHORT)


def _row(members: list[tuple[bytes, int, bytes]]) -> _TextRow:
    text = b",".join(b"%b:%b" % (name, value or b"0") for name, _, value in members)
    spots = tuple((at, value) for _, at, value in members if value)
    return _TextRow(tuple(name for name, _, _ in members), spots, b"{" + text + b"}")


def _check_end(at: int, end: int) -> None:
    """Raise if positions are off: blanks, escapes and repeated names make a text longer than its compact form."""
    if at + 1 != end:
        raise ValueError("not written as briefly as can be")


def _replacements(rows: list[_TextRow], shown: list[_TextRow] | None) -> dict[bytes, tuple[bytes, ...]] | None:
    """Return the redacted values of each changed row; None if the two texts do not have the same rows."""
    if shown is None or [*map(_shape, rows)] != [*map(_shape, shown)]:
        return None
    return {
        row.text: tuple(value for _, value in other.spots)
        for row, other in zip(rows, shown, strict=True)
        if row.text != other.text
    }


def _shape(row: _TextRow) -> tuple[tuple[bytes, ...], int]:
    return row.names, len(row.spots)


def _with_replacements(text: bytes, rows: list[_TextRow], found: dict[bytes, tuple[bytes, ...]]) -> bytes:
    """Return the text with the values of some rows replaced."""
    if not any(row.text in found for row in rows):
        return text
    spots = sorted(
        (at, len(value), shown)
        for row in rows
        if row.text in found
        for (at, value), shown in zip(row.spots, found[row.text], strict=True)
    )
    pieces: list[bytes] = []
    end = 0
    for at, size, shown in spots:
        pieces += (text[end:at], shown)
        end = at + size
    return b"".join([*pieces, text[end:]])
