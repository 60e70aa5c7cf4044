"""Arguments in the order of a set: another one in every process, so that a replay cannot make the call again.

A list does not say where its order comes from. One that is in the very order that a set of its items has, and in no
other that explains it, most likely came out of one.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

_FEWEST = 5  # of fewer items, too many are in that order by accident


def hash_seed() -> str:
    """Return what the order of sets of texts follows from; nothing where it is another one in every process."""
    value = os.environ.get("PYTHONHASHSEED", "")
    return value if value.isdecimal() else ""


def note_order(tool: str, arguments: Mapping[str, Any], noted: set[str]) -> None:
    """Warn once for each tool that is called with items in the order of a set."""
    for name, value in arguments.items():
        kind = type(value)
        if (kind is list or kind is tuple) and len(value) >= _FEWEST and tool not in noted and _is_of_set(value):
            noted.add(tool)
            with contextlib.suppress(RuntimeWarning):  # as an error it would change what the program does
                warnings.warn(
                    f"`{tool}` was called with `{name}` in the order of a set, which is another one in every process: "
                    "sort it, or set PYTHONHASHSEED before Python starts, so that a replay can make the same call",
                    RuntimeWarning,
                    stacklevel=4,
                )


def _is_of_set(items: Sequence[Any]) -> bool:
    if not all(type(item) is str for item in items):
        return False
    order = list(items)
    if len(set(order)) < len(order) or order == sorted(order):
        return False
    return list(set(order)) == order or any(_has_order_of_slots(order, size) for size in _table_sizes(len(order)))


def _table_sizes(count: int) -> tuple[int, ...]:
    """Return how many slots a set of so many items may have: how it grew decides."""
    smallest = 1 << (count * 5 // 3).bit_length()
    return smallest, smallest * 2, smallest * 4


def _has_order_of_slots(order: Sequence[str], size: int) -> bool:
    """True when the items stand as their hashes place them; one in eight may have found its slot taken."""
    slots = [hash(item) & (size - 1) for item in order]
    displaced = sum(slot > following for slot, following in pairwise(slots))
    return displaced <= len(order) // 8
