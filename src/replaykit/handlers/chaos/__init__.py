"""Chaos: seeded faults behind the seam, attacks on an agent's input, and mutations of it.

Knows the model, the wire and the seam; knows nothing of recordings, cases, reports or terminals.
"""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.events import Call
from replaykit.model.faults import ChaosPlan
from replaykit.seam.scope import Handler


def under_chaos(handler: Handler, plan: ChaosPlan | None, *, place: str = "", recorded: Iterable[Call] = ()) -> Handler:
    """Put the plan's faults in front of the handler; return it unchanged if no fault concerns calls."""
    if plan is None or not plan.of_calls:
        return handler
    from replaykit.handlers.chaos.handler import Chaos  # noqa: PLC0415 (brings in the APIs of models; few runs have faults)

    return Chaos(handler, plan, place=place, recorded=recorded)
