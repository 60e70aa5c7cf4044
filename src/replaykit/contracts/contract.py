"""Contracts as values: invariants, and the conditions under which each is asked."""

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
    """Under which conditions an invariant is asked."""

    ALWAYS = "always"
    TOOL_FAULTS = "tool_faults_active"
    LLM_FAULTS = "llm_faults_active"
    ANY_CHAOS = "any_chaos_active"
    NO_CHAOS = "no_chaos"


class Conditions(Struct, frozen=True, kw_only=True):
    """The kinds of faults that were active in a run."""

    tool_faults: bool = False
    """True when faults of tools were active."""
    llm_faults: bool = False
    """True when faults of models were active."""
    context_faults: bool = False
    """True when faults of the context were active."""

    @property
    def any_chaos(self) -> bool:
        return self.tool_faults or self.llm_faults or self.context_faults

    def why_not(self, when: When) -> str:
        """Return why an invariant with this `when` is not asked; "" when it is."""
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
            return f"active are faults of: {', '.join(active)}"
        return "no fault is active"


def conditions_of(faults: Iterable[str] = (), recorded: Iterable[Event] = ()) -> Conditions:
    """Return what was wrong in a run: injected faults, by their names, and calls of its tape that had failed."""
    sorts = {name.partition(".")[0] for name in faults}
    for call in recorded:
        if isinstance(call, ToolCall | LlmCall) and call_failed(call):
            sorts.add("tool" if isinstance(call, ToolCall) else "model")
    return Conditions(tool_faults="tool" in sorts, llm_faults="model" in sorts, context_faults="context" in sorts)


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

    def assertions(self, conditions: Conditions) -> Assertions:
        """The assertions of the invariants that are asked under these conditions."""
        return tuple(invariant.assertion for invariant in self.invariants if not conditions.why_not(invariant.when))

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
