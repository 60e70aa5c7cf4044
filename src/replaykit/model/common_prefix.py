"""Common prefix: how far two texts are the same."""

from __future__ import annotations


def common_prefix(a: bytes, b: bytes) -> int:
    """Length of the common prefix, by bisection: comparing stretches is what C does fast."""
    low, high = 0, min(len(a), len(b))
    view = memoryview(a)
    while low < high:
        middle = (low + high + 1) // 2
        if b.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
