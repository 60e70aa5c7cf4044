"""`compare` by name: two runs of a store, or two runs as they are."""

from __future__ import annotations

from replaykit.model.run import TraceRun
from replaykit.store.opening import StoreLike, opened
from replaykit.travel.compare import compare as compare_values
from replaykit.travel.compare_result import Comparison


def compare(a: TraceRun | str, b: TraceRun | str, *, store: StoreLike = None) -> Comparison:
    """The second run beside the first: what is the same, what is not, and where they part."""
    if isinstance(a, TraceRun) and isinstance(b, TraceRun):
        return compare_values(a, b)
    with opened(store, read_only=True) as source:
        runs = [run if isinstance(run, TraceRun) else source.load(run) for run in (a, b)]
    return compare_values(*runs)


compare_runs = compare
