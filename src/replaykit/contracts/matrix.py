"""The chaos matrix: the worlds a contract is tried in."""

from __future__ import annotations

from msgspec import Struct

from replaykit.model.faults import ChaosPlan


class ChaosScenario(Struct, frozen=True, kw_only=True):
    """One world: its name, and the faults in it."""

    name: str
    plan: ChaosPlan = ChaosPlan()


CALM = ChaosScenario(name="no chaos")
"""A world in which nothing is wrong."""
