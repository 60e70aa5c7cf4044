"""Chance that is the same every time: what a seed says about one fault and one call.

A call is known by its causal path, its kind, its name and its number among its like there. None of that depends on
which thread or task comes first, so the same seed strikes the same calls on one worker and on many.

"After N calls" is counted along the path too. The number of a call is how many calls the fault means were made at its
path before it, and, for each part of the path, how many of that name had been begun there before: the request inside
the fourth `search` comes after three searches, and the call of the third worker after two workers. That is exact where
each of those made one such call, and the same in every execution where they did not.
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from fnmatch import fnmatchcase
from hashlib import blake2b

from msgspec import Struct

_NUMBER = re.compile(r"#(\d+)(?=/|$)")
_RANGE = 2**64


class SeededChance(Struct, frozen=True):
    """The draw for one call and one fault."""

    drawn: int
    """From 0 up to 2**64."""

    def strikes(self, probability: float) -> bool:
        """True with that probability."""
        return self.drawn < probability * _RANGE

    def dice(self) -> random.Random:
        """Chance for the details, which is another for each call and fault."""
        return random.Random(self.drawn)


def draw(seed: int, *subject: object) -> SeededChance:
    """Return what the seed says about this."""
    text = "\0".join(map(str, (seed, *subject)))
    return SeededChance(int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()))


def number_in(path: str) -> int:
    """Return how many calls and strands of the same names were begun before those around a call."""
    return sum(map(int, _NUMBER.findall(path)))


class Counting:
    """The numbers of calls, by what they are and where."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[object, ...]] = Counter()
        self._lock = threading.Lock()

    def next(self, *what: object) -> int:
        """Return how many of these there were before."""
        with self._lock:
            number = self._seen[what]
            self._seen[what] += 1
        return number


def is_like(text: str, pattern: str) -> bool:
    """True when the text is that, or what a pattern with `*` and `?` means."""
    return text == pattern or fnmatchcase(text, pattern)
