"""Where a run that begins with a state goes on counting.

Calls are matched by their causal path, and paths are numbered where things are started. An agent that begins in the
middle has to count on from there, so that its calls have the paths they had when it was recorded.
"""

from __future__ import annotations

import re
from collections import Counter

from replaykit.model.events import State
from replaykit.model.run import TraceRun
from replaykit.seam.scope import Beginning

_NUMBERED = re.compile(r"step_(\d+)")


def beginning_after(parent: TraceRun, since: int, state: State) -> Beginning:
    """The numbers that a run has which begins with this state of its parent, when the event `since` is over."""
    labels = [event.step for event in parent.events if event.step and event.seq <= since]
    numbers = [int(found[1]) for label in labels if (found := _NUMBERED.fullmatch(label))]
    calls = Counter(event.name for event in parent.calls if not event.path and event.seq <= since)
    return Beginning(
        number=max(event.seq for event in parent.events) + 1,
        step=max(numbers, default=0) + 1,
        children={**calls, **state.jobs},
    )
