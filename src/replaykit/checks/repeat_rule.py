"""Repeating: an assertion about several runs of one candidate, for agents that do not do the same each time."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from replaykit.checks.assertions import Assertion, inner_assertions, parse_inner
from replaykit.checks.combinators import ONE_ASSERTION, Combined
from replaykit.checks.rule import ASSERTIONS, BadAssertion, CannotTell, Context, RepeatedRun, Rule, Seen, refuse_unknown
from replaykit.checks.verdict import first_with, unused_in_words
from replaykit.model.result import Effect, Finding
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json

MAX_TIMES = 100


@ASSERTIONS.register("repeat")
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
        "at_least": "in how many of them it has to hold; in all of them without it",
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
    def inside(self) -> tuple[Assertion, ...]:
        return (self.of,)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        if not isinstance(value, dict):
            raise BadAssertion("expected a mapping with 'times', 'at_least', 'of'")
        refuse_unknown(value, cls.__struct_fields__)
        numbers = _RepeatNumbers.parse({key: value[key] for key in value if key != "of"})
        assert isinstance(numbers, _RepeatNumbers)
        least = numbers.times if numbers.at_least is None else numbers.at_least
        if least > numbers.times:
            raise BadAssertion(f"expected at most {numbers.times}, as many as `times`, got {least}", ("at_least",))
        of = parse_inner(value.get("of"), "repeat", ("of",))
        if needed_runs(of) > 1:
            raise BadAssertion("a `repeat` inside a `repeat`: say in one how often it runs", ("of",))
        return cls(times=numbers.times, at_least=least, of=of)

    @classmethod
    def schema(cls) -> dict[str, Json]:
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
                f"`repeat` needs {self.times} runs of the candidate, and there is one that nobody can repeat",
                hint="Replay a case with a candidate: replaykit replay CASE --agent MODULE:FUNCTION",
            )
        # All of them before the first is looked at: what is unjudged in one should not hide the others from a judge.
        runs = [context.runs(number) for number in range(1, self.times + 1)]
        found = [self._found(number, one, context) for number, one in enumerate(runs, 1)]
        return self._summed(found)

    def _found(self, number: int, one: RepeatedRun, context: Context) -> Finding:
        outside = _outside(one)
        if outside:  # it helps nobody: neither the assertion nor its opposite
            return Finding(kind=self.of.kind, holds=context.negated, text=outside, actual=outside)
        if one.run.status is RunStatus.RUNNING:
            raise CannotTell(f"run {number} has not ended")
        try:
            return self.of.find(one.run, msgspec.structs.replace(context, deviations=one.deviations, runs=None))
        except CannotTell as error:
            raise CannotTell(f"run {number}: {error.message}", hint=error.hint) from None

    def _summed(self, found: list[Finding]) -> Seen:
        held = [number for number, one in enumerate(found, 1) if one.holds]
        failed = [number for number, one in enumerate(found, 1) if not one.holds]
        holds = len(held) >= self.at_least
        shown_number = held[0] if holds else failed[0]
        shown = found[shown_number - 1]
        if failed:
            first = f"; first not in run {failed[0]}: {found[failed[0] - 1].actual}"
        else:
            first = ""
        expectation = next((one.expected for one in found if one.expected), self.of.kind)
        return Seen(
            holds=holds,
            text=f"Holds in {len(held)} of {self.times} runs; run {shown_number}: {shown.text}",
            expected=f"{expectation}, in at least {self.at_least} of {self.times} runs",
            actual=f"{len(held)} of {self.times} runs{first}",
            seq=shown.seq,
            run=shown_number,
        )


def _outside(one: RepeatedRun) -> str:
    """Return why a run left or ignored the recorded world; "" where it did neither."""
    stopped = first_with(Effect.DIVERGED, one.deviations or ())
    if stopped is not None:
        return f"left the tape: {stopped.text}"
    if one.evidence.suffices:
        return ""
    return unused_in_words(one.evidence)


class _RepeatNumbers(Rule, frozen=True, kw_only=True):
    """The parameters that are no assertion."""

    times: Annotated[int, Meta(ge=2, le=MAX_TIMES)]
    at_least: Annotated[int, Meta(ge=1)] | None = None


def needed_runs(assertion: Assertion) -> int:
    """Return the number of runs that an assertion looks at."""
    if isinstance(assertion.rule, Repeat):
        return assertion.rule.times
    return max(map(needed_runs, inner_assertions(assertion)), default=1)
