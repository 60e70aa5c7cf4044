"""Repeating: an assertion about several runs of one candidate, for agents that do not do the same each time."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from replaykit.checks.assertions import Assertion, Assertions, parse_inner
from replaykit.checks.combinators import ONE_ASSERTION, Combined
from replaykit.checks.rule import (
    BadAssertion,
    CannotTell,
    Context,
    RepeatedRun,
    Rule,
    Seen,
    check_parameters,
    register,
)
from replaykit.checks.verdict import first_with, unused_in_words
from replaykit.model.result import Effect, Finding
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import without

MAX_TIMES = 100


@register("repeat")
class Repeat(Combined, frozen=True, kw_only=True):
    """The candidate is run several times, and the assertion inside holds for enough of its runs.

    `at_least: 1` is pass@k, and without `at_least` it has to hold each time (pass^k). In `observed` it says how often
    the failure shows. Each run is in the same world, with the whole tape and the same clock and seed; several `repeat`
    of a case share their runs, and the first run is the one that everything else is asked about. A run that leaves the
    tape or uses none of it counts as one for which it does not hold; one that cannot be had makes the verdict
    `inconclusive`. A finding names the run it points at. Where nobody can run the candidate again, as on a recorded
    run, the verdict is `inconclusive`. A `repeat` inside a `repeat` is an error.
    """

    named = True
    is_repeated = True
    notes = {
        "times": f"how many runs, the first one included; at least 2 and at most {MAX_TIMES}",
        "at_least": "in how many of them it must hold; default: all",
        "of": "the assertion",
    }
    examples = (
        'repeat: {times: 5, at_least: 4, of: {output.contains: "refunded"}}',
        "repeat: {times: 3, of: {tool.called: refund}}",
    )
    times: int
    at_least: int
    of: Assertion

    @property
    def inside(self) -> Assertions:
        return (self.of,)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        check_parameters(value, cls.__struct_fields__)
        numbers = _RepeatNumbers.parse(without(value, "of"))
        assert isinstance(numbers, _RepeatNumbers)
        least = numbers.times if numbers.at_least is None else numbers.at_least
        if least > numbers.times:
            raise BadAssertion(f"expected at most {numbers.times}, as many as `times`, got {least}", ("at_least",))
        of = parse_inner(value.get("of"), "repeat", ("of",))
        if needed_runs(of) > 1:
            raise BadAssertion("a `repeat` inside a `repeat`: say in one how often it runs", ("of",))
        return cls(times=numbers.times, at_least=least, of=of)

    @classmethod
    def schema(cls) -> JsonObject:
        times = {"type": "integer", "minimum": 2, "maximum": MAX_TIMES}
        least = {"type": "integer", "minimum": 1, "maximum": MAX_TIMES}
        return {
            "type": "object",
            "properties": {"times": times, "at_least": least, "of": ONE_ASSERTION},
            "required": ["times", "of"],
            "additionalProperties": False,
        }

    def check(self, run: TraceRun, context: Context) -> Seen:
        if context.runs is None:
            raise CannotTell(
                f"`repeat` needs {self.times} runs of the candidate, but this run cannot be repeated",
                hint="Replay a case with a candidate: replaykit replay CASE --agent MODULE:FUNCTION",
            )
        # All of them before the first is looked at: what is unjudged in one should not hide the others from a judge.
        runs = [context.runs(number) for number in range(1, self.times + 1)]
        held: list[tuple[int, Finding]] = []
        failed: list[tuple[int, Finding]] = []
        expectation = ""
        for number, repeated in enumerate(runs, 1):
            finding = self._finding(number, repeated, context)
            (held if finding.holds else failed).append((number, finding))
            expectation = expectation or finding.expected
        holds = len(held) >= self.at_least
        shown_number, shown = (held if holds else failed)[0]
        first_failure = ""
        if failed:
            number, finding = failed[0]
            first_failure = f"; first not in run {number}: {finding.actual}"
        return Seen(
            holds=holds,
            text=f"Holds in {len(held)} of {self.times} runs; run {shown_number}: {shown.text}",
            expected=f"{expectation or self.of.kind}, in at least {self.at_least} of {self.times} runs",
            actual=f"{len(held)} of {self.times} runs{first_failure}",
            seq=shown.seq,
            run=shown_number,
        )

    def _finding(self, number: int, repeated: RepeatedRun, context: Context) -> Finding:
        outside = _outside(repeated)
        if outside:  # it helps nobody: neither the assertion nor its opposite
            return Finding(kind=self.of.kind, holds=context.negated, text=outside, actual=outside)
        if repeated.run.status is RunStatus.RUNNING:
            raise CannotTell(f"run {number} has not ended")
        try:
            inner = msgspec.structs.replace(context, deviations=repeated.deviations, runs=None)
            return self.of.find(repeated.run, inner)
        except CannotTell as error:
            raise CannotTell(f"run {number}: {error.message}", hint=error.hint) from None


def _outside(repeated: RepeatedRun) -> str:
    """Return why a run left or ignored the recorded world; "" where it did neither."""
    stopped = first_with(Effect.DIVERGED, repeated.deviations or ())
    if stopped is not None:
        return f"left the tape: {stopped.text}"
    if repeated.evidence.suffices:
        return ""
    return unused_in_words(repeated.evidence)


class _RepeatNumbers(Rule, frozen=True):
    """The parameters that are no assertion."""

    times: Annotated[int, Meta(ge=2, le=MAX_TIMES)]
    at_least: Annotated[int, Meta(ge=1)] | None = None


def needed_runs(assertion: Assertion) -> int:
    """Return the number of runs that an assertion looks at."""
    if isinstance(assertion.rule, Repeat):
        return assertion.rule.times
    return max(map(needed_runs, assertion.rule.inside), default=1)
