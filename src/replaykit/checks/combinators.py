"""Assertions made of other assertions."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from replaykit.checks.assertions import Assertion, Assertions, parse_inner
from replaykit.checks.rule import (
    BadAssertion,
    CannotTell,
    Context,
    RepeatedRun,
    Rule,
    Seen,
    Share,
    check_parameters,
    register,
)
from replaykit.checks.verdict import first_with, unused_in_words
from replaykit.model.result import Effect, Finding
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import without

ONE_ASSERTION: JsonObject = {"$ref": "#/$defs/assertion"}
_SOME_ASSERTIONS: JsonObject = {"type": "array", "items": ONE_ASSERTION, "minItems": 1}
_SHOWN = 3


class Combined(Rule, frozen=True, kw_only=True):
    """A rule made of assertions."""

    family = "combining"
    named = False


@register("not")
class Not(Combined, frozen=True, kw_only=True):
    """The assertion inside does not hold.

    A `not` inside a `not` is an error. The side stays the same: in `observed`, `not: {max_tool_calls: 5}` says that no
    tool was called five times. Mind silence: a run without an output does not contain anything, so
    `not: {output.contains: x}` holds for it, and `output.not_contains: x` does not.
    """

    examples = ("not: {tool.ignored_error: lookup_billing}",)
    inner: Assertion

    @property
    def inside(self) -> Assertions:
        return (self.inner,)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        if isinstance(value, dict) and list(value) == ["not"]:
            raise BadAssertion("a `not` inside a `not` has no effect; remove both", ("not",))
        return cls(inner=parse_inner(value, "not"))

    @classmethod
    def schema(cls) -> JsonObject:
        return ONE_ASSERTION

    def check(self, run: TraceRun, context: Context) -> Seen:
        finding = self.inner.find(run, msgspec.structs.replace(context, negated=not context.negated))
        expected = self.inner.rule.opposite(finding.expected)
        return Seen(not finding.holds, finding.text, expected, finding.actual, finding.seq, finding.run)


class _Several(Combined, frozen=True, kw_only=True):
    kind: ClassVar[str]
    of: Assertions

    @property
    def inside(self) -> Assertions:
        return self.of

    @classmethod
    def parse(cls, value: Json) -> Rule:
        return cls(of=_list_of(value, cls.kind))

    @classmethod
    def schema(cls) -> JsonObject:
        return _SOME_ASSERTIONS

    def _findings(self, run: TraceRun, context: Context) -> tuple[list[Finding], list[Finding], list[Finding]]:
        """Return all findings, those that hold, and those that do not."""
        findings = [assertion.find(run, context) for assertion in self.of]
        holding: list[Finding] = []
        failed: list[Finding] = []
        for finding in findings:
            (holding if finding.holds else failed).append(finding)
        return findings, holding, failed


@register("all")
class All(_Several, frozen=True, kw_only=True):
    """Every assertion of the list holds. The finding names the first that does not."""

    kind = "all"
    examples = ('all: [{tool.called: refund}, {output.contains: "refunded"}]',)

    def check(self, run: TraceRun, context: Context) -> Seen:
        findings, _holding, failed = self._findings(run, context)
        decisive, expected = findings[-1], f"all of: {_expected(findings)}"
        if failed:
            decisive, expected = failed[0], failed[0].expected
        return Seen(not failed, _texts(failed or findings), expected, decisive.actual, decisive.seq, decisive.run)


@register("any")
class Any(_Several, frozen=True, kw_only=True):
    """At least one assertion of the list holds. The finding names the first that does."""

    kind = "any"
    examples = ('any: [{tool.called: refund}, {output.contains: "cannot refund"}]',)

    def check(self, run: TraceRun, context: Context) -> Seen:
        findings, holding, _failed = self._findings(run, context)
        decisive, actual = findings[0], _listed([finding.actual for finding in findings])
        if holding:
            decisive, actual = holding[0], holding[0].actual
        expected = f"any of: {_expected(findings)}"
        return Seen(bool(holding), _texts(holding or findings), expected, actual, decisive.seq, decisive.run)


@register("threshold")
class Threshold(_Several, frozen=True, kw_only=True):
    """Enough of the assertions hold: the weight of those that do is at least `min` of the weight of all.

    Without `weights` each weighs 1.
    """

    named = True
    notes = {
        "of": "the assertions",
        "min": "the share that must hold, from 0 to 1",
        "weights": "the weight of each, in the same order",
    }
    examples = ('threshold: {min: 0.6, weights: [2, 1], of: [{tool.called: refund}, {output.contains: "sorry"}]}',)
    min: Share
    weights: tuple[float, ...] = ()

    @classmethod
    def parse(cls, value: Json) -> Rule:
        check_parameters(value, cls.__struct_fields__)
        of = _list_of(value.get("of"), "threshold", "of")
        numbers = _ThresholdNumbers.parse(without(value, "of"))
        assert isinstance(numbers, _ThresholdNumbers)
        weights = numbers.weights
        if weights is not None and len(weights) != len(of):
            raise BadAssertion(f"expected as many weights as assertions: {len(of)}, not {len(weights)}", ("weights",))
        if weights is not None and not sum(weights):
            raise BadAssertion("expected at least one weight above 0", ("weights",))
        return cls(of=of, min=numbers.min, weights=tuple(weights or [1.0] * len(of)))

    @classmethod
    def schema(cls) -> JsonObject:
        share = {"type": "number", "minimum": 0, "maximum": 1}
        weights = {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1}
        return {
            "type": "object",
            "properties": {"of": _SOME_ASSERTIONS, "min": share, "weights": weights},
            "required": ["of", "min"],
            "additionalProperties": False,
        }

    def check(self, run: TraceRun, context: Context) -> Seen:
        findings, _holding, failed = self._findings(run, context)
        held = sum(weight * finding.holds for finding, weight in zip(findings, self.weights, strict=True))
        share = held / sum(self.weights)
        decisive, missing = findings[0], ""
        if failed:
            decisive, missing = failed[0], f"; missing: {_expected(failed)}"
        return Seen(
            holds=share >= self.min - 1e-9,  # in floating point, 0.7 + 0.1 is less than 0.8
            text=f"{len(findings) - len(failed)} of {len(findings)} assertions hold",
            expected=f"assertions of at least {self.min:.0%} of the weight to hold",
            actual=f"{share:.0%}{missing}",
            seq=decisive.seq,
            run=decisive.run,
        )


class _ThresholdNumbers(Rule, frozen=True):
    """The parameters of a threshold, without its assertions."""

    min: Share
    weights: list[Annotated[float, Meta(ge=0)]] | None = None


def _list_of(value: Json, where: str, *path: str) -> Assertions:
    if not isinstance(value, list) or not value:
        raise BadAssertion(f"expected a list of assertions in `{where}`, at least one", path)
    return tuple(parse_inner(inner, where, (*path, index)) for index, inner in enumerate(value))


def _texts(findings: list[Finding]) -> str:
    shown = "; ".join(finding.text for finding in findings[:_SHOWN])
    if len(findings) > _SHOWN:
        return f"{shown} …"
    return shown


def _expected(findings: list[Finding]) -> str:
    return _listed([finding.expected for finding in findings])


def _listed(texts: list[str]) -> str:
    shown = "; ".join(texts[:_SHOWN])
    if len(texts) > _SHOWN:
        return f"{shown} (and {len(texts) - _SHOWN} more)"
    return shown


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
        # Get all runs before checking the first: an unjudged answer in one must not hide the others from a judge.
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
        if outside:  # such a run counts neither for the assertion nor for its opposite
            return Finding(kind=self.of.kind, holds=context.negated, text=outside, actual=outside)
        if repeated.run.status is RunStatus.RUNNING:
            raise CannotTell(f"run {number} has not ended")
        try:
            inner = msgspec.structs.replace(context, deviations=repeated.deviations, runs=None)
            return self.of.find(repeated.run, inner)
        except CannotTell as error:
            raise CannotTell(f"run {number}: {error.message}", hint=error.hint) from None


def _outside(repeated: RepeatedRun) -> str:
    """Return why a run left or ignored the recorded world; "" if it did neither."""
    stopped = first_with(Effect.DIVERGED, repeated.deviations or ())
    if stopped is not None:
        return f"left the tape: {stopped.text}"
    if repeated.evidence.suffices:
        return ""
    return unused_in_words(repeated.evidence)


class _RepeatNumbers(Rule, frozen=True):
    """The parameters of a repeat, without its assertion."""

    times: Annotated[int, Meta(ge=2, le=MAX_TIMES)]
    at_least: Annotated[int, Meta(ge=1)] | None = None


def needed_runs(assertion: Assertion) -> int:
    """Return how many runs an assertion needs."""
    if isinstance(assertion.rule, Repeat):
        return assertion.rule.times
    return max(map(needed_runs, assertion.rule.inside), default=1)
