"""Assertions: one engine for both sides of a case, failure signatures and desired behaviour.

A kind of assertion is a `Rule` in the registry `ASSERTIONS`; `kind_modules` names the module of each built-in kind.
Other packages add their own through the entry point group `replaykit.assertions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.checks.redacted_values import redact_alike
from replaykit.checks.rule import ASSERTIONS, BadAssertion, Context, Rule, Runs
from replaykit.errors import nearest
from replaykit.model.result import Deviation, Finding, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

if TYPE_CHECKING:
    from replaykit.checks.questions import Answers
from collections.abc import Iterable, Iterator

from replaykit.checks.rule import CannotTell


class Assertion(Struct, frozen=True):
    """One assertion of a case: its kind, its value as written in the file, and the rule they give."""

    kind: str
    value: Json
    rule: Rule
    id: str = ""
    """Of the invariant that asks it, where a contract does."""
    severity: str = ""

    def check(
        self,
        run: TraceRun,
        side: Side,
        deviations: Sequence[Deviation] | None = None,
        *,
        runs: Runs | None = None,
        answers: Answers | None = None,
    ) -> Finding:
        """Return the finding of this assertion; `CannotTell` when it needs what is not there.

        `deviations` are those of the replay that the run comes from; None when it comes from none. `runs` gives more
        runs of the same candidate, and `answers` what judges said.
        """
        return self.find(run, Context(side, None if deviations is None else tuple(deviations), runs, answers))

    def find(self, run: TraceRun, context: Context) -> Finding:
        """Return the finding of this assertion in the run, in its context."""
        value, run = redact_alike(self.value, run)
        if value is self.value:
            rule = self.rule
        else:
            rule = ASSERTIONS.get(self.kind).parse(value)
        seen = rule.check(run, context)
        return Finding(
            kind=self.kind,
            holds=seen.holds,
            text=seen.text,
            expected=seen.expected,
            actual=seen.actual,
            seq=seen.seq,
            run=seen.run,
            id=self.id,
            severity=self.severity,
        )


def parse_assertion(kind: str, value: Json) -> Assertion:
    """The assertion that `kind: value` says in a case; `BadAssertion` when it says none."""
    if kind not in ASSERTIONS:
        raise BadAssertion(f"unknown assertion {kind!r}; {nearest(str(kind), ASSERTIONS)}")
    return Assertion(kind, value, ASSERTIONS.get(kind).parse(value))


def parse_inner(value: Json, where: str, path: tuple[str | int, ...] = ()) -> Assertion:
    """The assertion that stands inside another one, at this path of it."""
    if not isinstance(value, dict) or len(value) != 1:
        raise BadAssertion(f"expected one assertion inside `{where}`, as in `{{tool.called: refund}}`", path)
    ((kind, inner),) = value.items()
    try:
        return parse_assertion(kind, inner)
    except BadAssertion as error:
        raise BadAssertion(error.message, (*path, str(kind), *error.path), hint=error.hint) from None


def inner_assertions(assertion: Assertion) -> tuple[Assertion, ...]:
    """The assertions that one is directly made of; none for a plain one."""
    return assertion.rule.inside


def concerns_one_run(assertion: Assertion) -> bool:
    """True when an assertion, or a part of it, speaks of the first run alone."""
    if assertion.rule.is_repeated:
        return False
    inside = inner_assertions(assertion)
    if inside:
        return any(map(concerns_one_run, inside))
    return True


def find_judged(assertions: Iterable[Assertion]) -> Iterator[tuple[Assertion, bool]]:
    """Every assertion that somebody has to judge, and whether it is asked about several runs."""
    for assertion in assertions:
        if assertion.rule.is_judged:
            yield assertion, False
        for inner, several in find_judged(inner_assertions(assertion)):
            yield inner, several or assertion.rule.is_repeated


__all__ = [
    "ASSERTIONS",
    "Assertion",
    "BadAssertion",
    "CannotTell",
    "inner_assertions",
    "parse_assertion",
]
