"""How much memory something takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def traced_memory() -> Iterator[Callable[[], int]]:
    """Give a function that returns the most bytes that were allocated at once during the block.

    Where memory is traced already, as with `PYTHONTRACEMALLOC=8`, it stays traced.
    """
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    peak = 0
    try:
        yield lambda: peak
    finally:
        peak = tracemalloc.get_traced_memory()[1] - before
        if not was_tracing:
            tracemalloc.stop()
