"""Rows: of a long text that has changed a little, only what is new is cleaned.

To clean a text takes a hundred times longer than to write it, and an agent's state is mostly what it was. A long JSON
text is taken as its rows: the items of its lists and the members of its objects, each with its name and with what
stands beside it. Rows that stood in the text before are not looked at again. New ones are, together with those in which
something was found, so that what was found there is known here too; and when something is found in a new row, the whole
text is looked at, for what is secret in one place is secret in all.
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
"""A text up to this is cleaned as a whole."""
_SHORT = 256  # an item up to this may say what the next one is
_FEW = 16  # so many members belong together


class _TextRow(NamedTuple):
    """Part of a text."""

    names: tuple[bytes, ...]
    spots: tuple[tuple[int, bytes], ...]
    """The positions of its values in the text, and the values."""
    text: bytes
    """As an object of its own."""


class IncrementalRedaction:
    """The rows of a text that is cleaned again and again."""

    __slots__ = ("_found", "_seen")

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._found: dict[bytes, tuple[bytes, ...]] = {}  # rows that are written otherwise: what stands in their spots

    def cleaned(self, text: bytes, name: str, clean: Clean) -> bytes:
        """The text of this name as it may be written; the same object if it may."""
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
                rows, found = [], {}  # it is another text altogether: the next one is looked at as a whole, too
            self._found = found
        self._seen = {row.text for row in rows}
        return shown

    def _is_clean(self, new: list[bytes], name: str, clean: Clean) -> bool:
        """True when nothing is found in new rows, known what was found in the old ones."""
        if not new:
            return True
        looked = b",".join([*self._found, *new])
        return clean(b"[" + looked + b"]", name).endswith(b",".join(new) + b"]")


def _rows(text: bytes, name: str) -> list[_TextRow] | None:
    """The rows of a text; None if it is not compact JSON, so that their positions are unknown."""
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
        at += 1  # a bracket, or a comma
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
            value = b""  # but its name may be what must not be written
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
    """Blanks, escapes and members of the same name make a text longer than what it says."""
    if at + 1 != end:
        raise ValueError("not written as briefly as can be")


def _replacements(rows: list[_TextRow], shown: list[_TextRow] | None) -> dict[bytes, tuple[bytes, ...]] | None:
    """The rows that are shown otherwise, with what stands in their spots then; None where these are other rows."""
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
    """The text with other words in the spots of some rows."""
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
