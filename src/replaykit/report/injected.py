"""What was injected into replays, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from replaykit.model.result import ReplayResult


def injected_text(results: Sequence[ReplayResult]) -> str:
    """The faults that struck calls, and how often."""
    return counts_text(name for result in results if result.run for call in result.run.calls for name in call.faults)


def counts_text(names: Iterable[str]) -> str:
    """Each name and how often it is there; `nothing` where there is none."""
    counts = sorted(Counter(names).items())
    return ", ".join(f"{name} × {count}" for name, count in counts) or "nothing"
