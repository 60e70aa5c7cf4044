"""Seeded chance: decide from a seed whether a fault strikes a call, the same way in every execution.

A call is identified by its causal path, kind, name and number among the same calls there. None of that depends on
scheduling, so the same seed strikes the same calls on one worker and on many.

"After N calls" is counted along the path too: the calls made before at the same path, plus the number in each part of
the path. The request inside the fourth `search` comes after three searches, and a call of the third worker after two
workers. The count is exact if each of those made one such call, and otherwise at least the same in every execution.
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
    """A random number for one call and one fault."""

    drawn: int
    """From 0 up to 2**64."""

    def strikes(self, probability: float) -> bool:
        return self.drawn < probability * _RANGE

    def dice(self) -> random.Random:
        """Return a generator for details, seeded by this number."""
        return random.Random(self.drawn)


def draw(seed: int, *subject: object) -> SeededChance:
    """Derive the random number of this subject from the seed."""
    text = "\0".join(map(str, (seed, *subject)))
    # Not `hash`, which differs in every process.
    return SeededChance(int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()))


def number_in(path: str) -> int:
    """Return how many calls and strands of the same names started before those in the path."""
    return sum(map(int, _NUMBER.findall(path)))


class Counting:
    """Thread-safe counters of calls, by any key."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[object, ...]] = Counter()
        self._lock = threading.Lock()

    def next(self, *what: object) -> int:
        """Return how often this key was counted before, and count it."""
        with self._lock:
            number = self._seen[what]
            self._seen[what] += 1
        return number


def is_like(text: str, pattern: str) -> bool:
    """True if the text equals the pattern or matches its `*` and `?`."""
    return text == pattern or fnmatchcase(text, pattern)
