"""Call index: find recorded calls by key, at a cost that does not depend on their number."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence

NONE = -1


class CallIndex:
    """Recorded calls by key, in order. Used calls are skipped, each only once.

    The index is a linked list: a key maps to its first call, and each call to the next with the same key. A list per
    key would take 70 MB more for 100,000 different calls.
    """

    def __init__(self, keys: Sequence[Hashable], used: bytearray) -> None:
        """`keys` has one key per recorded call, or None if it must not be found.

        `used` marks the calls already used.
        """
        self.heads: dict[Hashable, int] = {}
        """The first call of each key that may be unused."""
        # An array of machine integers takes a fraction of the memory of a list.
        self.after = array("l", [NONE]) * len(keys)
        """For each call, the next with the same key."""
        self._used = used
        # Backwards, so that each head ends up at the first call of its key.
        for index in range(len(keys) - 1, -1, -1):
            key = keys[index]
            if key is not None:
                self.after[index] = self.heads.get(key, NONE)
                self.heads[key] = index

    def first(self, key: Hashable) -> int | None:
        """Return the first unused call with this key."""
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
        """Return whether no later call has the same key."""
        return self.after[index] == NONE

    def free(self, key: Hashable) -> Iterator[int]:
        """Yield the unused calls with this key."""
        index = self.first(key)
        while index is not None and index != NONE:
            yield index
            following = self._free_from(self.after[index])
            self.after[index] = following
            index = following

    def _free_from(self, index: int) -> int:
        """Return the first unused call, starting at this one."""
        used, after = self._used, self.after
        while index != NONE and used[index]:
            index = after[index]
        return index
