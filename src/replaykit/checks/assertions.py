"""Assertions: one engine for both sides of a case, failure signatures and desired behaviour.

A kind is a `Rule` entered in `ASSERTIONS`; the modules imported here bring the built-in ones. Another package
adds its own through the entry point group `replaykit.assertions`.
"""

from __future__ import annotations

from replaykit.checks import (
    budgets,
    combining,
    counts,
    custom,
    effects,
    judged,
    outcome,
    output,
    output_form,
    output_likeness,
    repeating,
    replays,
    safety,
    spans,
    states,
    tool_args,
    tool_errors,
    tools,
    trajectory,
    trajectory_order,
)
from replaykit.checks.combining import Not, inner_assertions
from replaykit.checks.parsing import Assertion, parse_assertion
from replaykit.checks.rule import ASSERTIONS, BadAssertion, CannotTell

__all__ = [
    "ASSERTIONS",
    "Assertion",
    "BadAssertion",
    "CannotTell",
    "Not",
    "inner_assertions",
    "parse_assertion",
]

BUILT_IN = (
    outcome,
    output,
    output_form,
    output_likeness,
    tools,
    tool_args,
    tool_errors,
    trajectory,
    trajectory_order,
    counts,
    states,
    effects,
    budgets,
    replays,
    safety,
    spans,
    judged,
    custom,
    combining,
    repeating,
)
"""The modules whose import enters the built-in kinds."""
