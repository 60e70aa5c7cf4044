"""Combining: assertions made of other assertions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from replaykit.checks.assertions import Assertion, parse_inner
from replaykit.checks.rule import ASSERTIONS, BadAssertion, Context, Rule, Seen, Share, refuse_unknown
from replaykit.model.result import Finding
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

ONE_ASSERTION: dict[str, Json] = {"$ref": "#/$defs/assertion"}
_SOME_ASSERTIONS: dict[str, Json] = {"type": "array", "items": ONE_ASSERTION, "minItems": 1}
_SHOWN = 3


class Combined(Rule, frozen=True, kw_only=True):
    """A rule that is made of assertions."""

    family = "combining"
    named = False


@ASSERTIONS.register("not")
class Not(Combined, frozen=True, kw_only=True):
    """The assertion inside does not hold.

    A `not` inside a `not` is an error. The side stays the same: in `observed`, `not: {max_tool_calls: 5}` says that no
    tool was called five times. Mind silence: a run without an output does not contain anything, so
    `not: {output.contains: x}` holds for it, and `output.not_contains: x` does not.
    """

    examples = ("not: {tool.ignored_error: lookup_billing}",)
    inner: Assertion

    @property
    def inside(self) -> tuple[Assertion, ...]:
        return (self.inner,)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        if isinstance(value, dict) and list(value) == ["not"]:
            raise BadAssertion("a `not` inside a `not` says nothing; take both away", ("not",))
        return cls(inner=parse_inner(value, "not"))

    @classmethod
    def schema(cls) -> dict[str, Json]:
        return ONE_ASSERTION

    def check(self, run: TraceRun, context: Context) -> Seen:
        findings = self.inner.find(run, msgspec.structs.replace(context, negated=not context.negated))
        expected = f"anything but {findings.expected}"
        return Seen(not findings.holds, findings.text, expected, findings.actual, findings.seq, findings.run)


class _Several(Combined, frozen=True, kw_only=True):
    of: tuple[Assertion, ...]

    @property
    def inside(self) -> tuple[Assertion, ...]:
        return self.of

    @classmethod
    def schema(cls) -> dict[str, Json]:
        return _SOME_ASSERTIONS


@ASSERTIONS.register("all")
class All(_Several, frozen=True, kw_only=True):
    """Every assertion of the list holds. The first that does not is told."""

    examples = ('all: [{tool.called: refund}, {output.contains: "refunded"}]',)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        return cls(of=_list_of(value, "all"))

    def check(self, run: TraceRun, context: Context) -> Seen:
        findings = [assertion.find(run, context) for assertion in self.of]
        failed = [finding for finding in findings if not finding.holds]
        decisive = failed[0] if failed else findings[-1]
        if failed:
            expected = decisive.expected
        else:
            expected = f"all of: {_listed(finding.expected for finding in findings)}"
        return Seen(not failed, _texts(failed or findings), expected, decisive.actual, decisive.seq, decisive.run)


@ASSERTIONS.register("any")
class Any(_Several, frozen=True, kw_only=True):
    """At least one assertion of the list holds. The first that does is told."""

    examples = ('any: [{tool.called: refund}, {output.contains: "cannot refund"}]',)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        return cls(of=_list_of(value, "any"))

    def check(self, run: TraceRun, context: Context) -> Seen:
        findings = [assertion.find(run, context) for assertion in self.of]
        holding = [finding for finding in findings if finding.holds]
        decisive = holding[0] if holding else findings[0]
        actual = decisive.actual if holding else _listed(finding.actual for finding in findings)
        expected = f"any of: {_listed(finding.expected for finding in findings)}"
        return Seen(bool(holding), _texts(holding or findings), expected, actual, decisive.seq, decisive.run)


@ASSERTIONS.register("threshold")
class Threshold(Combined, frozen=True, kw_only=True):
    """Enough of the assertions hold: the weight of those that do is at least `min` of the weight of all.

    Without `weights` each weighs 1.
    """

    named = True
    notes = {
        "of": "the assertions",
        "min": "the share that has to hold, from 0 to 1",
        "weights": "the weight of each, in the same order",
    }
    examples = ('threshold: {min: 0.6, weights: [2, 1], of: [{tool.called: refund}, {output.contains: "sorry"}]}',)
    of: tuple[Assertion, ...]
    min: Share
    weights: tuple[float, ...] = ()

    @property
    def inside(self) -> tuple[Assertion, ...]:
        return self.of

    @classmethod
    def parse(cls, value: Json) -> Rule:
        if not isinstance(value, dict):
            raise BadAssertion("expected a mapping with 'of', 'min', 'weights'")
        refuse_unknown(value, cls.__struct_fields__)
        of = _list_of(value.get("of"), "threshold", "of")
        numbers = _ThresholdNumbers.parse({key: value[key] for key in value if key != "of"})
        assert isinstance(numbers, _ThresholdNumbers)
        weights = numbers.weights
        if weights is not None and len(weights) != len(of):
            raise BadAssertion(f"expected as many weights as assertions: {len(of)}, not {len(weights)}", ("weights",))
        if weights is not None and not sum(weights):
            raise BadAssertion("expected at least one weight above 0", ("weights",))
        return cls(of=of, min=numbers.min, weights=tuple(weights or [1.0] * len(of)))

    @classmethod
    def schema(cls) -> dict[str, Json]:
        share = {"type": "number", "minimum": 0, "maximum": 1}
        weights = {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1}
        return {
            "type": "object",
            "properties": {"of": _SOME_ASSERTIONS, "min": share, "weights": weights},
            "required": ["of", "min"],
            "additionalProperties": False,
        }

    def check(self, run: TraceRun, context: Context) -> Seen:
        findings = [assertion.find(run, context) for assertion in self.of]
        holding = sum(weight for finding, weight in zip(findings, self.weights, strict=True) if finding.holds)
        share = holding / sum(self.weights)
        failed = [finding for finding in findings if not finding.holds]
        decisive = failed[0] if failed else findings[0]
        if failed:
            missing = f"; missing: {_listed(finding.expected for finding in failed)}"
        else:
            missing = ""
        return Seen(
            holds=share >= self.min - 1e-9,
            text=f"{len(findings) - len(failed)} of {len(findings)} assertions hold",
            expected=f"assertions of at least {self.min:.0%} of the weight to hold",
            actual=f"{share:.0%}{missing}",
            seq=decisive.seq,
            run=decisive.run,
        )


class _ThresholdNumbers(Rule, frozen=True, kw_only=True):
    """The parameters of a threshold that are no assertions."""

    min: Share
    weights: list[Annotated[float, Meta(ge=0)]] | None = None


def _list_of(value: Json, where: str, *path: str) -> tuple[Assertion, ...]:
    if not isinstance(value, list) or not value:
        raise BadAssertion(f"expected a list of assertions in `{where}`, at least one", path)
    return tuple(parse_inner(inner, where, (*path, index)) for index, inner in enumerate(value))


def _texts(findings: list[Finding]) -> str:
    return "; ".join(finding.text for finding in findings[:_SHOWN]) + (" …" if len(findings) > _SHOWN else "")


def _listed(texts: Iterable[str]) -> str:
    known = list(texts)
    return "; ".join(known[:_SHOWN]) + (f" (and {len(known) - _SHOWN} more)" if len(known) > _SHOWN else "")
