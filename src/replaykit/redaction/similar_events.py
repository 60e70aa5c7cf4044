"""Alike: events one after another that differ in nothing but texts and numbers, as most events of a stream do.

They are one event with longer texts, which is read as soon as one of them. What is told of it is what all of them tell.
Numbers tell nothing, unless they tell parts apart.
"""

from __future__ import annotations

from operator import itemgetter

import orjson

from replaykit.model.values import Json
from replaykit.redaction.json_text import PAIR_NAMES

TELLS_APART = frozenset({"index", "type", "output_index", "content_index", "item_id", "summary_index"})
"""Members that number and name the parts of a stream."""
ALSO_APART = TELLS_APART | {"id", "tool_call_id", "name"}
"""Those that may do so, and may be cut into deltas as well."""
_APART = frozenset(name.encode() for name in ALSO_APART)
_PAIRS = frozenset(name.encode() for name in PAIR_NAMES - ALSO_APART)
_SLASH, _QUOTE = b"\xfe", b"\xff"  # for these when they are escaped; no text has such bytes
_BACKSLASH = ord("\\")  # as a number: of bytes, `in` first fails to make a number, and then looks for them
_DIGITS = b"0123456789"


def tokens_of(payload: bytes) -> list[bytes] | None:
    """What stands between the quotes, texts and the rest in turn; None for what is no JSON.

    Where it has no escapes, and nothing beyond ASCII, longer texts are valid when each of them is: that is seen later.
    """
    if payload.isascii() and _BACKSLASH not in payload:
        return payload.split(b'"')
    if not is_json(payload):
        return None
    return payload.replace(b"\\\\", _SLASH).replace(b'\\"', _QUOTE).split(b'"')


class Alike:
    """Events that are alike: the first, and those that it takes."""

    def __init__(self, payload: bytes, tokens: list[bytes]) -> None:
        self.payload = payload
        """The first one."""
        self.strings = (len(tokens) - 1) / 2
        """How many texts it has, with the names of its members."""
        self._rows = [tokens]
        self._shape: _Shape | None = None

    @property
    def count(self) -> int:
        return len(self._rows)

    def takes(self, payload: bytes, tokens: list[bytes]) -> bool:
        """True, and it belongs to them, when that event is like the first."""
        first = self._rows[0]
        if len(tokens) != len(first):
            return False
        if self._shape is None:
            self._shape = _Shape(first)
        if self._shape.same_in(tokens) != self._shape.same or not self._shape.is_usual:
            return False
        numbers = [place for place in self._shape.numbers if tokens[place] != first[place]]
        if numbers and not (_same_but_digits(tokens, first, numbers) and is_json(payload)):
            return False
        self._rows.append(tokens)
        return True

    def value(self) -> Json:
        """All of them as one; raises what orjson does."""
        if len(self._rows) == 1:
            return orjson.loads(self.payload)
        tokens = list(self._rows[0])
        for place in self._shape.texts if self._shape else ():
            tokens[place] = b"".join([row[place] for row in self._rows])
        return orjson.loads(b'"'.join(tokens).replace(_QUOTE, b'\\"').replace(_SLASH, b"\\\\"))


def _same_but_digits(tokens: list[bytes], others: list[bytes], places: list[int]) -> bool:
    return all(tokens[at].translate(None, _DIGITS) == others[at].translate(None, _DIGITS) for at in places)


def is_json(payload: bytes | str) -> bool:
    """True for a JSON text."""
    try:
        orjson.loads(payload)
    except ValueError:
        return False
    return True


class _Shape:
    """Where events that are alike may differ, and what is the same in all of them."""

    def __init__(self, first: list[bytes]) -> None:
        self.texts: list[int] = []
        self.numbers: list[int] = []
        same = [0]
        name = b""
        for place in range(1, len(first) - 1, 2):
            after = first[place + 1].strip()
            is_name = after[:1] == b":"
            (same if is_name or name in _APART else self.texts).append(place)
            has_number = is_name and after != b":" and first[place] not in _APART
            (self.numbers if has_number else same).append(place + 1)
            name = first[place] if after == b":" else b""
        self.same_in = itemgetter(0, *same)  # one twice: of several it gives a tuple
        self.same = self.same_in(first)
        whole = b"".join(self.same)
        self.is_usual = whole.isascii() and b"\\" not in whole and _PAIRS.isdisjoint(self.same)
