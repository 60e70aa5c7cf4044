"""Conditions: what went wrong around an agent while it ran, and which invariants that calls for."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from replaykit.checks.failures import call_failed
from replaykit.model.events import Call, Event, LlmCall, ToolCall


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
    llm_faults: bool = False
    context_faults: bool = False

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
        faults = {"tool": self.tool_faults, "llm": self.llm_faults, "context": self.context_faults}
        active = [name for name, is_active in faults.items() if is_active]
        if active:
            return f"active are faults of: {', '.join(active)}"
        return "no fault is active"


def conditions_of(faults: Iterable[str] = (), recorded: Iterable[Event] = ()) -> Conditions:
    """Return what was wrong in a run: injected faults, by their names, and calls of its tape that had failed."""
    sorts = {name.partition(".")[0] for name in faults}
    failed = [call for call in recorded if isinstance(call, Call) and call_failed(call)]
    return Conditions(
        tool_faults="tool" in sorts or any(isinstance(call, ToolCall) for call in failed),
        llm_faults="model" in sorts or any(isinstance(call, LlmCall) for call in failed),
        context_faults="context" in sorts,
    )
