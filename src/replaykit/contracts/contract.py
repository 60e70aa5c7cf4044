"""Contract: the promises of an agent, as a value."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replaykit.checks.assertions import Assertion
from replaykit.contracts.conditions import Conditions, When
from replaykit.model.faults import ChaosPlan
from replaykit.model.values import Json


class Severity(StrEnum):
    """The weight of a broken invariant."""

    CRITICAL = "critical"  # the contract fails, whatever its score
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def weight(self) -> int:
        return {Severity.CRITICAL: 3, Severity.HIGH: 2}.get(self, 1)


class Invariant(Struct, frozen=True, kw_only=True):
    """One promise: an assertion with a name, how much it weighs, and when it is asked."""

    id: str
    type: str
    assertion: Assertion
    """Carries the invariant's id and severity; under `negate` it is the opposite of what the type says."""
    description: str = ""
    severity: Severity = Severity.MEDIUM
    when: When = When.ALWAYS
    negate: bool = False
    probes: tuple[str, ...] = ()
    """Inputs of its own; without any it is checked with the inputs of the trial."""


class Contract(Struct, frozen=True, kw_only=True):
    """Named invariants an agent must keep."""

    name: str
    description: str = ""
    invariants: tuple[Invariant, ...] = ()
    matrix: tuple[Json, ...] = ()
    """The worlds it is tried in, as they are written; `project.chaos_config.matrix_of` makes plans of them."""

    def assertions(self, conditions: Conditions) -> tuple[Assertion, ...]:
        """The assertions of the invariants that are asked under these conditions."""
        return tuple(i.assertion for i in self.invariants if not conditions.why_not(i.when))

    @property
    def probes(self) -> tuple[str, ...]:
        """Everything its invariants want to be asked, each once."""
        return tuple(dict.fromkeys(probe for invariant in self.invariants for probe in invariant.probes))


class ChaosScenario(Struct, frozen=True, kw_only=True):
    """One world of a chaos matrix: its name, and the faults in it."""

    name: str
    plan: ChaosPlan = ChaosPlan()


CALM = ChaosScenario(name="no chaos")
"""A world in which nothing is wrong."""
