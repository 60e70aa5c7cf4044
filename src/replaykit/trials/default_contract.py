"""The contract of a trial that names none: the general invariants of the project's contracts."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.contracts.contract import Conditions, Contract
from replaykit.contracts.invariant_types import needs_baseline
from replaykit.project.project import Project


def general_contract(contracts: Iterable[Contract]) -> Contract | None:
    """Return what an agent must keep whatever it is asked: the invariants without probes and baselines of their own."""
    names = []
    invariants = []
    for contract in contracts:
        names.append(contract.name)
        for invariant in contract.invariants:
            if not invariant.probes and not needs_baseline(invariant.assertion):
                invariants.append(invariant)
    if not invariants:
        return None
    return Contract(name=", ".join(names), invariants=tuple(invariants))


def chaos_contract(project: Project | None, *, in_cases: bool) -> Contract | None:
    """Return what the project's agent must keep under faults; None where it has to complete, and no more.

    In the worlds of cases, several contracts are asked of none: each session keeps one of them, and all at once would
    be asked of each.
    """
    if project is None or (in_cases and len(project.contracts) > 1):
        return None
    return general_contract(project.contracts.values())


def mutation_contract(project: Project | None) -> Contract | None:
    """Return what the project's agent must keep when it is asked in other words."""
    contract = None if project is None else general_contract(project.contracts.values())
    if contract is not None and contract.assertions(Conditions()):
        return contract
    return None
