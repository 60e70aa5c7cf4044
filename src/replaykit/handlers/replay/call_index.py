"""Call index: recorded calls by what they are found by. A lookup costs the same however many calls are recorded."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence

NONE = -1


class CallIndex:
    """Recorded calls in their order, by a key; those that are taken are passed over once.

    A key holds one number, that of its first call, and each call that of the next with the same key. A list for each
    key would take 70 MB more with 100,000 calls that all differ.
    """

    def __init__(self, keys: Sequence[Hashable], used: bytearray) -> None:
        """`keys`: those of the recorded calls; None for a call that is not to be found. `used`: which are taken."""
        self.heads: dict[Hashable, int] = {}
        """The first call of each key that is not known to be taken."""
        self.after = array("l", [NONE]) * len(keys)
        """Of each call, the next with the same key."""
        self._used = used
        for index in range(len(keys) - 1, -1, -1):
            key = keys[index]
            if key is not None:
                self.after[index] = self.heads.get(key, NONE)
                self.heads[key] = index

    def first(self, key: Hashable) -> int | None:
        """Return the first call of this key that is not taken."""
        index = self.heads.get(key, NONE)
        if index == NONE:
            return None
        if self._used[index]:
            index = self._free_from(index)
            self.heads[key] = index
            if index == NONE:
                return None
        return index

    def is_only(self, index: int) -> bool:
        """True when no later call of the same key is left."""
        return self.after[index] == NONE

    def free(self, key: Hashable) -> Iterator[int]:
        """Yield the calls of this key that are not taken."""
        index = self.first(key)
        while index is not None and index != NONE:
            yield index
            following = self._free_from(self.after[index])
            self.after[index] = following
            index = following

    def _free_from(self, index: int) -> int:
        """Return the first call that is not taken, of this one and those after it."""
        used, after = self._used, self.after
        while index != NONE and used[index]:
            index = after[index]
        return index
