"""Parts lookup: find recorded arguments that may equal those of a call containing parts of placeholders.

Where the call has such a part, the recorded text has an unredacted value of any length. Texts are therefore found by
their beginning and end and, if many fit, by the placeholder of the value between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from replaykit.redaction.parts import Parts, slot_of_value

_FEW = 32  # number of texts that are simply compared one by one
# Sorts after every continuation of a text, because UTF-8 never contains this byte.
_AFTER_ALL = b"\xff"


class PartsLookup:
    """The distinct arguments of the recorded calls of one name."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts = sorted(set(texts))
        self._reversed = sorted(text[::-1] for text in self._texts)
        self._by_value: dict[tuple[str, bytes, bytes], dict[str | bytes, list[bytes]]] = {}
        """Texts by kind and surrounding text, then by their value and by its placeholder."""

    def fitting(self, parts: Parts) -> list[bytes]:
        """Return the texts that may equal one with these parts under any key."""
        return [text for text in self._around(parts) if parts.fit(text)]

    def agreeing(self, parts: Parts, key: bytes) -> list[bytes]:
        """Return the texts that equal one with these parts under this key."""
        texts = self._around(parts)
        if len(texts) > _FEW and len(parts) == 1:
            texts = self._with_value(parts, key, texts)
        return [text for text in texts if parts.agree_with(text, key)]

    def _around(self, parts: Parts) -> list[bytes]:
        """Return the texts with the same beginning, or those with the same end, whichever are fewer."""
        beginning, end = parts.beginning, parts.end[::-1]
        first = bisect_left(self._texts, beginning)
        last = bisect_left(self._texts, beginning + _AFTER_ALL)
        first_reversed = bisect_left(self._reversed, end)
        last_reversed = bisect_left(self._reversed, end + _AFTER_ALL)
        if last - first <= last_reversed - first_reversed:
            return self._texts[first:last]
        return [text[::-1] for text in self._reversed[first_reversed:last_reversed]]

    def _with_value(self, parts: Parts, key: bytes, texts: list[bytes]) -> list[bytes]:
        """Return the texts that may contain the only value of these parts, or its placeholder."""
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
