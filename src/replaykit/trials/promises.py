"""What an agent must keep in a trial where nobody names a contract: the promises of its project."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.contracts.conditions import Conditions
from replaykit.contracts.contract import Contract
from replaykit.contracts.types import needs_baseline
from replaykit.project.project import Project


def promised(contracts: Iterable[Contract]) -> Contract | None:
    """Return what an agent must keep whatever it is asked: the invariants without probes and baselines of their own."""
    every = list(contracts)
    general = [
        invariant
        for contract in every
        for invariant in contract.invariants
        if not invariant.probes and not needs_baseline(invariant.assertion)
    ]
    return Contract(name=", ".join(one.name for one in every), invariants=tuple(general)) if general else None


def promised_under_chaos(project: Project | None, *, in_cases: bool) -> Contract | None:
    """Return what the project's agent must keep under faults; None where it has to complete, and no more.

    In the worlds of cases, several contracts are asked of none: each session keeps one of them, and all at once would
    be asked of each.
    """
    if project is None or (in_cases and len(project.contracts) > 1):
        return None
    return promised(project.contracts.values())


def promised_in_other_words(project: Project | None) -> Contract | None:
    """Return what the project's agent must keep when it is asked in other words."""
    contract = None if project is None else promised(project.contracts.values())
    return contract if contract is not None and contract.assertions(Conditions()) else None
