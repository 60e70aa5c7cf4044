"""Parts lookup: the recorded arguments that may be those of a call which holds parts of placeholders.

Where such a part stands, the recorded text has a value in clear, of any length. So texts are found by what they begin
and end with; and where that leaves many, by the placeholder of the value between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from replaykit.redaction.parts import Parts, slot_of_value

_FEW = 32  # texts that are compared one by one
_AFTER_ALL = b"\xff"
"""Sorts after whatever follows in a text: UTF-8 has no such byte."""


class PartsLookup:
    """The different arguments of the recorded calls of one name."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts = sorted(set(texts))
        self._reversed = sorted(text[::-1] for text in self._texts)
        self._by_value: dict[tuple[str, bytes, bytes], dict[str | bytes, list[bytes]]] = {}
        """By a kind, and the texts before and after the one value: the texts, by that value and by its placeholder."""

    def fitting(self, parts: Parts) -> list[bytes]:
        """Return the texts that may be the same as one with these parts, whatever the key."""
        return [text for text in self._around(parts) if parts.fit(text)]

    def agreeing(self, parts: Parts, key: bytes) -> list[bytes]:
        """Return the texts that are the same as one with these parts, as the key shows."""
        texts = self._around(parts)
        if len(texts) > _FEW and len(parts) == 1:
            texts = self._with_value(parts, key, texts)
        return [text for text in texts if parts.agree_with(text, key)]

    def _around(self, parts: Parts) -> list[bytes]:
        """Return the texts that begin as one with these parts, or those that end so, whichever are fewer."""
        beginning, end = parts.beginning, parts.end[::-1]
        first = bisect_left(self._texts, beginning)
        last = bisect_left(self._texts, beginning + _AFTER_ALL)
        first_reversed = bisect_left(self._reversed, end)
        last_reversed = bisect_left(self._reversed, end + _AFTER_ALL)
        if last - first <= last_reversed - first_reversed:
            return self._texts[first:last]
        return [text[::-1] for text in self._reversed[first_reversed:last_reversed]]

    def _with_value(self, parts: Parts, key: bytes, texts: list[bytes]) -> list[bytes]:
        """Return those of the texts that may hold the one value of these parts, or its placeholder."""
        kind, slot, own_text = parts.first
        place = kind, parts.beginning, parts.end
        if place not in self._by_value:
            by_value: dict[str | bytes, list[bytes]] = {}
            for text in texts:
                for value in parts.values_in(text) or ():
                    by_value.setdefault(value, []).append(text)
                    by_value.setdefault(slot_of_value(key, kind, value), []).append(text)
            self._by_value[place] = by_value
        found = self._by_value[place]
        return [*found.get(own_text, ()), *found.get(slot, ())]
