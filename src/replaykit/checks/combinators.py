"""Combining: assertions made of other assertions."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from replaykit.checks.assertions import Assertion, Assertions, parse_inner
from replaykit.checks.rule import BadAssertion, Context, Rule, Seen, Share, check_parameters, register
from replaykit.model.result import Finding
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import without

ONE_ASSERTION: JsonObject = {"$ref": "#/$defs/assertion"}
_SOME_ASSERTIONS: JsonObject = {"type": "array", "items": ONE_ASSERTION, "minItems": 1}
_SHOWN = 3


class Combined(Rule, frozen=True, kw_only=True):
    """A rule that is made of assertions."""

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
            holds=share >= self.min - 1e-9,
            text=f"{len(findings) - len(failed)} of {len(findings)} assertions hold",
            expected=f"assertions of at least {self.min:.0%} of the weight to hold",
            actual=f"{share:.0%}{missing}",
            seq=decisive.seq,
            run=decisive.run,
        )


class _ThresholdNumbers(Rule, frozen=True):
    """The parameters of a threshold that are no assertions."""

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
