"""Contradictions: assertions that no run can satisfy together. Pure, and only what is certain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from replaykit.checks.assertions import Assertion, inner_assertions
from replaykit.checks.call_selection import glob
from replaykit.checks.combinators import Not
from replaykit.checks.compare import same, within
from replaykit.checks.effects import EffectExactlyOnce, EffectNone
from replaykit.checks.outcome import StatusIs
from replaykit.checks.output import FinalOutputExists, OutputContains, OutputEquals, OutputNotContains
from replaykit.checks.rule import Rule
from replaykit.checks.tool_offers import ToolNotOffered, ToolOnlyAnnounced
from replaykit.checks.tools import MaxToolCalls, ToolCalled, ToolCalls, ToolNotCalled
from replaykit.checks.trajectory import TrajectoryMatch
from replaykit.model.result import Side

MAX_COMPARED = 200  # every pair is looked at; no case that a person wrote has more


def contradictions(assertions: Sequence[Assertion], side: Side) -> Iterator[tuple[int, int, str]]:
    """Pairs of assertions, by index, that cannot both hold, and why not."""
    for first, second in combinations(range(min(len(assertions), MAX_COMPARED)), 2):
        reason = _clash(assertions[first], assertions[second], side)
        if reason:
            yield first, second, reason


def means_the_same(one: Assertion, other: Assertion) -> bool:
    """True when an observed and a desired assertion hold for exactly the same runs."""
    # Observed, it counts "at least"; desired, "at most": equal words, different questions.
    return one == other and "max_tool_calls" not in _kinds(one)


def tools_named(assertion: Assertion) -> list[str]:
    """The tools an assertion speaks of by their whole name."""
    inside = [name for one in inner_assertions(assertion) for name in tools_named(one)]
    return inside + [name for name in _own_tools(assertion.rule) if "*" not in name]


def _own_tools(rule: Rule) -> Iterator[str]:
    if isinstance(rule, EffectNone | EffectExactlyOnce):
        return  # what it names may be a request as well
    if isinstance(rule, ToolNotOffered | ToolOnlyAnnounced):
        return  # a tool that was never called is what it is about
    if isinstance(rule, TrajectoryMatch):
        yield from (call if isinstance(call, str) else call.tool for call in rule.calls)
    for field in ("tool", "first", "then", "after"):
        name = getattr(rule, field, None)
        if isinstance(name, str):
            yield name
    yield from getattr(rule, "tools", None) or ()


def _kinds(assertion: Assertion) -> list[str]:
    return [assertion.kind, *(kind for one in inner_assertions(assertion) for kind in _kinds(one))]


def _clash(one: Assertion, other: Assertion, side: Side) -> str | None:
    if _negates(one, other) or _negates(other, one):
        return "one is the other's opposite"
    flags = [assertion.value for assertion in (one, other) if isinstance(assertion.value, bool)]
    if one.kind == other.kind and sorted(flags) == [False, True]:
        return f"{one.kind} is both true and false"
    for rule in _RULES if side is Side.OBSERVED else (*_RULES, _counts):
        reason = rule(one.rule, other.rule) or rule(other.rule, one.rule)
        if reason:
            return reason
    return None


def _negates(one: Assertion, other: Assertion) -> bool:
    return isinstance(one.rule, Not) and one.rule.inner == other


def _statuses(one: Rule, other: Rule) -> str | None:
    if not isinstance(one, StatusIs) or not isinstance(other, StatusIs) or set(one.statuses) & set(other.statuses):
        return None
    return f"a run ends once: with {' or '.join(one.statuses)}, or with {' or '.join(other.statuses)}"


def _outputs(one: Rule, other: Rule) -> str | None:
    if isinstance(one, OutputEquals) and isinstance(other, OutputEquals) and not same(one.value, other.value):
        return "the output cannot equal two different values"
    if not isinstance(one, OutputContains):
        return None
    if isinstance(other, OutputNotContains) and other.text in one.text:
        return f"an output with {one.text[:40]!r} has {other.text[:40]!r} in it"
    if isinstance(other, FinalOutputExists) and not other.exists and one.text.strip():
        return "without an output, nothing is in it"
    return None


def _called(one: Rule, other: Rule) -> str | None:
    if not isinstance(one, ToolCalled) or not isinstance(other, ToolNotCalled) or not glob(other.tool, one.tool):
        return None
    if other.arguments is not None and not within(other.arguments, one.arguments or {}):
        return None
    return f"the tool {one.tool!r} is both called and not called"


def _counts(one: Rule, other: Rule) -> str | None:
    """At least so many, and at most fewer: only where the first calls are among those the second counts."""
    if not isinstance(other, MaxToolCalls | ToolCalls) or not isinstance(one, ToolCalls | ToolCalled):
        return None
    least = one.min or 0
    most = other.count if isinstance(other, MaxToolCalls) else other.max
    alike = isinstance(one, ToolCalls) and one.same_arguments
    counted = other.tool in (None, one.tool) and (alike or least == 1 or not other.same_arguments)
    if most is not None and counted and least > most:
        return f"at least {least} calls are more than at most {most}"
    return None


_RULES: tuple[Callable[[Rule, Rule], str | None], ...] = (_statuses, _outputs, _called)
