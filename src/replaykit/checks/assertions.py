"""Assertions: one engine for both sides of a case, failure signatures and desired behaviour.

A kind is a `Rule` entered in `ASSERTIONS`; `homes` says which module brings which of the built-in ones. Another package
adds its own through the entry point group `replaykit.assertions`.
"""

from __future__ import annotations

from replaykit.checks.inside import inner_assertions
from replaykit.checks.parsing import Assertion, parse_assertion
from replaykit.checks.rule import ASSERTIONS, BadAssertion, CannotTell

__all__ = [
    "ASSERTIONS",
    "Assertion",
    "BadAssertion",
    "CannotTell",
    "inner_assertions",
    "parse_assertion",
]
