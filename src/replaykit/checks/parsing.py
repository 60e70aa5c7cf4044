"""Parsing: from a kind and a value in a file to an assertion that can be checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.checks.redacted import said_alike
from replaykit.checks.rule import ASSERTIONS, BadAssertion, Context, Rule, Runs
from replaykit.errors import nearest
from replaykit.model.result import Deviation, Finding, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

if TYPE_CHECKING:
    from replaykit.checks.questions import Answers


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
        """What this assertion finds in the run; `CannotTell` when it needs what is not there.

        `deviations` are those of the replay that the run comes from; None when it comes from none. `runs` gives more
        runs of the same candidate, and `answers` what judges said.
        """
        return self.find(run, Context(side, None if deviations is None else tuple(deviations), runs, answers))

    def find(self, run: TraceRun, context: Context) -> Finding:
        """What this assertion finds in the run, told what there is beside it."""
        value, run = said_alike(self.value, run)
        rule = self.rule if value is self.value else ASSERTIONS.get(self.kind).parse(value)
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
        raise BadAssertion(error.message, (*path, str(kind), *error.path)) from None
