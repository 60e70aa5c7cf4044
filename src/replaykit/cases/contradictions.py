"""Contradictions: assertions that no run can satisfy together. Pure, and reports only certain ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from replaykit.checks.assertions import Assertion
from replaykit.checks.combinators import Not
from replaykit.checks.compare import same, within
from replaykit.checks.effects import EffectExactlyOnce, EffectNone
from replaykit.checks.outcome import StatusIs
from replaykit.checks.output import FinalOutputExists, OutputContains, OutputEquals, OutputNotContains
from replaykit.checks.reading import glob
from replaykit.checks.rule import Rule
from replaykit.checks.tool_offers import ToolNotOffered, ToolOnlyAnnounced
from replaykit.checks.tools import MaxToolCalls, ToolCalled, ToolCalls, ToolNotCalled
from replaykit.checks.trajectory import TrajectoryMatch
from replaykit.model.result import Side

MAX_COMPARED = 200  # pairs grow quadratically; no case written by a person has more assertions


def contradictions(assertions: Sequence[Assertion], side: Side) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of assertions, by index, that cannot both hold, and the reason."""
    for first, second in combinations(range(min(len(assertions), MAX_COMPARED)), 2):
        reason = _clash(assertions[first], assertions[second], side)
        if reason:
            yield first, second, reason


def means_the_same(assertion: Assertion, other: Assertion) -> bool:
    """True if an observed and a desired assertion hold for exactly the same runs."""
    # Observed it means "at least", and desired "at most", so equal words mean different things.
    return assertion == other and not _has_kind(assertion, "max_tool_calls")


def tools_named(assertion: Assertion) -> list[str]:
    """Return the tools that an assertion names in full."""
    names: list[str] = []
    for inner in assertion.rule.inside:
        names += tools_named(inner)
    return names + [name for name in _own_tools(assertion.rule) if "*" not in name]


def _own_tools(rule: Rule) -> Iterator[str]:
    if isinstance(rule, EffectNone | EffectExactlyOnce):
        return  # it may name a request rather than a tool
    if isinstance(rule, ToolNotOffered | ToolOnlyAnnounced):
        return  # these concern tools that were never called
    if isinstance(rule, TrajectoryMatch):
        yield from (call if isinstance(call, str) else call.tool for call in rule.calls)
    for field in ("tool", "first", "then", "after"):
        name = getattr(rule, field, None)
        if isinstance(name, str):
            yield name
    yield from getattr(rule, "tools", None) or ()


def _has_kind(assertion: Assertion, kind: str) -> bool:
    return assertion.kind == kind or any(_has_kind(inner, kind) for inner in assertion.rule.inside)


def _clash(assertion: Assertion, other: Assertion, side: Side) -> str | None:
    if _negates(assertion, other) or _negates(other, assertion):
        return "one is the other's opposite"
    are_flags = isinstance(assertion.value, bool) and isinstance(other.value, bool)
    if are_flags and assertion.kind == other.kind and assertion.value is not other.value:
        return f"{assertion.kind} is both true and false"
    for rule in _RULES if side is Side.OBSERVED else (*_RULES, _counts):
        reason = rule(assertion.rule, other.rule) or rule(other.rule, assertion.rule)
        if reason:
            return reason
    return None


def _negates(assertion: Assertion, other: Assertion) -> bool:
    return isinstance(assertion.rule, Not) and assertion.rule.inner == other


def _statuses(rule: Rule, other: Rule) -> str | None:
    if not isinstance(rule, StatusIs) or not isinstance(other, StatusIs) or set(rule.statuses) & set(other.statuses):
        return None
    return f"a run ends once: with {' or '.join(rule.statuses)}, or with {' or '.join(other.statuses)}"


def _outputs(rule: Rule, other: Rule) -> str | None:
    if isinstance(rule, OutputEquals) and isinstance(other, OutputEquals) and not same(rule.value, other.value):
        return "the output cannot equal two different values"
    if not isinstance(rule, OutputContains):
        return None
    if isinstance(other, OutputNotContains) and other.text in rule.text:
        return f"an output that contains {rule.text[:40]!r} contains {other.text[:40]!r} as well"
    if isinstance(other, FinalOutputExists) and not other.exists and rule.text.strip():
        return "a missing output contains nothing"
    return None


def _called(rule: Rule, other: Rule) -> str | None:
    if not isinstance(rule, ToolCalled) or not isinstance(other, ToolNotCalled) or not glob(other.tool, rule.tool):
        return None
    if other.arguments is not None and not within(other.arguments, rule.arguments or {}):
        return None
    return f"the tool {rule.tool!r} is both called and not called"


def _counts(rule: Rule, other: Rule) -> str | None:
    """Find "at least so many" against "at most fewer", if the former's calls count for the latter too."""
    if not isinstance(other, MaxToolCalls | ToolCalls) or not isinstance(rule, ToolCalls | ToolCalled):
        return None
    least = rule.min or 0
    most = other.count if isinstance(other, MaxToolCalls) else other.max
    alike = isinstance(rule, ToolCalls) and rule.same_arguments
    counted = other.tool in (None, rule.tool) and (alike or least == 1 or not other.same_arguments)
    if most is not None and counted and least > most:
        return f"at least {least} calls are more than at most {most}"
    return None


_RULES: tuple[Callable[[Rule, Rule], str | None], ...] = (_statuses, _outputs, _called)
