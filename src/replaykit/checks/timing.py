"""Timing: how long a run took by its log, which is the same in a replay that serves the recorded calls.

A replay serves a call at once, and writes down how long it took when it was recorded. So time is counted from the
calls' own durations and not from any clock. Calls that were made side by side are added up: a replay cannot tell them
from calls one after the other, and a budget that counts too much is the safer one.
"""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.events import AnyEvent, Call
from replaykit.model.run import TraceRun

REPLAYED = "replayed"


def own_calls(events: Iterable[AnyEvent]) -> list[Call]:
    """The calls that are inside of no other: the time of those inside is in that of the one around them."""
    calls = [event for event in events if isinstance(event, Call)]
    known = {call.seq for call in calls}
    return [call for call in calls if call.parent not in known]


def time_of(events: Iterable[AnyEvent]) -> float:
    """Return the seconds that the calls among these events took, by the log."""
    return sum(call.duration_s for call in own_calls(events))


def own_time(run: TraceRun) -> float:
    """Return the seconds that the agent took beside its calls, on the machine it ran on.

    A replay waits for no recorded call, so all of its time is the agent's own; of another run it is what is left.
    """
    whole = run.duration_s or 0.0
    return max(0.0, whole if run.origin.kind == REPLAYED else whole - time_of(run.events))
