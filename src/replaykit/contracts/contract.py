"""Contracts as values: named invariants, and the conditions that each applies under."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from itertools import compress

from msgspec import Struct

from replaykit.checks.assertions import Assertion, Assertions
from replaykit.checks.failures import call_failed
from replaykit.model.events import Event, LlmCall, ToolCall
from replaykit.model.faults import ChaosPlan
from replaykit.model.values import Json


class When(StrEnum):
    """The conditions that an invariant applies under."""

    ALWAYS = "always"
    TOOL_FAULTS = "tool_faults_active"
    LLM_FAULTS = "llm_faults_active"
    ANY_CHAOS = "any_chaos_active"
    NO_CHAOS = "no_chaos"


class Conditions(Struct, frozen=True, kw_only=True):
    """The kinds of faults that were active in a run."""

    tool_faults: bool = False
    """True if faults of tools were active."""
    llm_faults: bool = False
    """True if faults of models were active."""
    context_faults: bool = False
    """True if faults of the context were active."""

    @property
    def any_chaos(self) -> bool:
        return self.tool_faults or self.llm_faults or self.context_faults

    def why_not(self, when: When) -> str:
        """Return why an invariant with this `when` does not apply; empty if it does."""
        met = {
            When.ALWAYS: True,
            When.TOOL_FAULTS: self.tool_faults,
            When.LLM_FAULTS: self.llm_faults,
            When.ANY_CHAOS: self.any_chaos,
            When.NO_CHAOS: not self.any_chaos,
        }
        if met[when]:
            return ""
        return f"when: {when.value}, and {self}"

    def __str__(self) -> str:
        faults = (self.tool_faults, self.llm_faults, self.context_faults)
        active = list(compress(("tool", "llm", "context"), faults))
        if active:
            return f"active faults: {', '.join(active)}"
        return "no fault is active"


def conditions_of(faults: Iterable[str] = (), recorded: Iterable[Event] = ()) -> Conditions:
    """Return the conditions of a run, from the names of injected faults and the recorded calls that had failed."""
    kinds = {name.partition(".")[0] for name in faults}
    for call in recorded:
        if isinstance(call, ToolCall | LlmCall) and call_failed(call):
            kinds.add("tool" if isinstance(call, ToolCall) else "model")
    return Conditions(tool_faults="tool" in kinds, llm_faults="model" in kinds, context_faults="context" in kinds)


class Severity(StrEnum):
    """How much a broken invariant weighs."""

    CRITICAL = "critical"  # the contract fails, whatever its score
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def weight(self) -> int:
        return {Severity.CRITICAL: 3, Severity.HIGH: 2}.get(self, 1)


class Invariant(Struct, frozen=True, kw_only=True):
    """One promise: an assertion with an id, a weight and the conditions it applies under."""

    id: str
    type: str
    assertion: Assertion
    """Carries the invariant's id and severity; negated if `negate` is set."""
    description: str = ""
    severity: Severity = Severity.MEDIUM
    when: When = When.ALWAYS
    negate: bool = False
    probes: tuple[str, ...] = ()
    """Inputs of its own; without any, the invariant is checked with the inputs of the trial."""


class Contract(Struct, frozen=True, kw_only=True):
    """Named invariants that an agent must keep."""

    name: str
    description: str = ""
    invariants: tuple[Invariant, ...] = ()
    matrix: tuple[Json, ...] = ()
    """The worlds to try the agent in, as written; `project.chaos_config.matrix_of` turns them into plans."""

    def assertions(self, conditions: Conditions) -> Assertions:
        """Return the assertions of the invariants that apply under these conditions."""
        return tuple(invariant.assertion for invariant in self.invariants if not conditions.why_not(invariant.when))

    @property
    def probes(self) -> tuple[str, ...]:
        """The inputs that its invariants ask for, without duplicates."""
        return tuple(dict.fromkeys(probe for invariant in self.invariants for probe in invariant.probes))


class ChaosScenario(Struct, frozen=True, kw_only=True):
    """A world of a chaos matrix: its name and its faults."""

    name: str
    plan: ChaosPlan = ChaosPlan()


CALM = ChaosScenario(name="no chaos")
"""The world without faults."""
