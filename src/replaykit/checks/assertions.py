"""Assertions: one engine for both sides of a case, failure signatures and desired behaviour.

A kind is a `Rule` entered in `ASSERTIONS`; the modules imported here bring the built-in ones. Another package
adds its own through the entry point group `replaykit.assertions`.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from replaykit.checks import outcome, tool_errors, tools
from replaykit.checks.rule import ASSERTIONS, BadAssertion, Rule, Seen
from replaykit.errors import nearest
from replaykit.model.result import Finding, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

__all__ = ["ASSERTIONS", "Assertion", "BadAssertion", "parse_assertion"]

BUILT_IN = (outcome, tool_errors, tools)
"""The modules whose import enters the built-in kinds."""


class Assertion(Struct, frozen=True):
    """One assertion of a case: its kind, its value as written in the file, and the rule they give."""

    kind: str
    value: Json
    rule: Rule

    def check(self, run: TraceRun, side: Side) -> Finding:
        """What this assertion finds in the run."""
        seen = self.rule.check(run, side)
        return Finding(
            kind=self.kind,
            holds=seen.holds,
            text=seen.text,
            expected=seen.expected,
            actual=seen.actual,
            seq=seen.seq,
        )


def parse_assertion(kind: str, value: Json) -> Assertion:
    """The assertion that `kind: value` says in a case; `BadAssertion` when it says none."""
    if kind not in ASSERTIONS:
        raise BadAssertion(f"unknown assertion {kind!r}; {nearest(str(kind), ASSERTIONS)}")
    return Assertion(kind, value, ASSERTIONS.get(kind).parse(value))


@ASSERTIONS.register("not")
class Not(Rule, frozen=True, kw_only=True):
    """The assertion inside does not hold."""

    named: ClassVar[bool] = False
    inner: Assertion

    @classmethod
    def parse(cls, value: Json) -> Rule:
        if not isinstance(value, dict) or len(value) != 1:
            raise BadAssertion("expected one assertion inside `not`, as in `not: {tool_called: refund}`")
        ((kind, inner),) = value.items()
        if kind == "not":
            raise BadAssertion("a `not` inside a `not` says nothing; take both away", (kind,))
        try:
            return cls(inner=parse_assertion(kind, inner))
        except BadAssertion as error:
            raise BadAssertion(error.message, (str(kind), *error.path)) from None

    def check(self, run: TraceRun, side: Side) -> Seen:
        found = self.inner.check(run, side)
        return Seen(
            holds=not found.holds,
            text=found.text,
            expected=f"anything but {found.expected}",
            actual=found.actual,
            seq=found.seq,
        )
