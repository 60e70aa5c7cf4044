"""Combining: assertions made of other assertions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from replaykit.checks.parsing import Assertion, parse_inner
from replaykit.checks.rule import ASSERTIONS, BadAssertion, Context, Rule, Seen, Share, refuse_unknown
from replaykit.model.result import Finding
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

ONE: dict[str, Json] = {"$ref": "#/$defs/assertion"}
_SOME: dict[str, Json] = {"type": "array", "items": ONE, "minItems": 1}
_SHOWN = 3


class Combined(Rule, frozen=True, kw_only=True):
    """A rule that is made of assertions."""

    family: ClassVar[str] = "combining"
    named: ClassVar[bool] = False


@ASSERTIONS.register("not")
class Not(Combined, frozen=True, kw_only=True):
    """The assertion inside does not hold.

    A `not` inside a `not` is an error. The side stays the same: in `observed`, `not: {max_tool_calls: 5}` says that no
    tool was called five times. Mind silence: a run without an output does not contain anything, so
    `not: {output.contains: x}` holds for it, and `output.not_contains: x` does not.
    """

    examples: ClassVar[tuple[str, ...]] = ("not: {tool.ignored_error: lookup_billing}",)
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
        return ONE

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = self.inner.find(run, msgspec.structs.replace(context, negated=not context.negated))
        expected = f"anything but {found.expected}"
        return Seen(not found.holds, found.text, expected, found.actual, found.seq, found.run)


class _Several(Combined, frozen=True, kw_only=True):
    of: tuple[Assertion, ...]

    @property
    def inside(self) -> tuple[Assertion, ...]:
        return self.of

    @classmethod
    def schema(cls) -> dict[str, Json]:
        return _SOME


@ASSERTIONS.register("all")
class All(_Several, frozen=True, kw_only=True):
    """Every assertion of the list holds. The first that does not is told."""

    examples: ClassVar[tuple[str, ...]] = ('all: [{tool.called: refund}, {output.contains: "refunded"}]',)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        return cls(of=_list_of(value, "all"))

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = [one.find(run, context) for one in self.of]
        failed = [one for one in found if not one.holds]
        told = failed[0] if failed else found[-1]
        expected = told.expected if failed else f"all of: {_listed(one.expected for one in found)}"
        return Seen(not failed, _texts(failed or found), expected, told.actual, told.seq, told.run)


@ASSERTIONS.register("any")
class Any(_Several, frozen=True, kw_only=True):
    """At least one assertion of the list holds. The first that does is told."""

    examples: ClassVar[tuple[str, ...]] = ('any: [{tool.called: refund}, {output.contains: "cannot refund"}]',)

    @classmethod
    def parse(cls, value: Json) -> Rule:
        return cls(of=_list_of(value, "any"))

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = [one.find(run, context) for one in self.of]
        held = [one for one in found if one.holds]
        told = held[0] if held else found[0]
        actual = told.actual if held else _listed(one.actual for one in found)
        expected = f"any of: {_listed(one.expected for one in found)}"
        return Seen(bool(held), _texts(held or found), expected, actual, told.seq, told.run)


@ASSERTIONS.register("threshold")
class Threshold(Combined, frozen=True, kw_only=True):
    """Enough of the assertions hold: the weight of those that do is at least `min` of the weight of all.

    Without `weights` each weighs 1.
    """

    named: ClassVar[bool] = True
    notes: ClassVar[dict[str, str]] = {
        "of": "the assertions",
        "min": "the share that has to hold, from 0 to 1",
        "weights": "the weight of each, in the same order",
    }
    examples: ClassVar[tuple[str, ...]] = (
        'threshold: {min: 0.6, weights: [2, 1], of: [{tool.called: refund}, {output.contains: "sorry"}]}',
    )
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
        numbers = _Numbers.parse({key: value[key] for key in value if key != "of"})
        assert isinstance(numbers, _Numbers)
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
            "properties": {"of": _SOME, "min": share, "weights": weights},
            "required": ["of", "min"],
            "additionalProperties": False,
        }

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = [one.find(run, context) for one in self.of]
        held = sum(weight for one, weight in zip(found, self.weights, strict=True) if one.holds)
        share = held / sum(self.weights)
        failed = [one for one in found if not one.holds]
        told = failed[0] if failed else found[0]
        missing = f"; missing: {_listed(one.expected for one in failed)}" if failed else ""
        return Seen(
            holds=share >= self.min - 1e-9,
            text=f"{len(found) - len(failed)} of {len(found)} assertions hold",
            expected=f"assertions of at least {self.min:.0%} of the weight to hold",
            actual=f"{share:.0%}{missing}",
            seq=told.seq,
            run=told.run,
        )


class _Numbers(Rule, frozen=True, kw_only=True):
    """The parameters of a threshold that are no assertions."""

    min: Share
    weights: list[Annotated[float, Meta(ge=0)]] | None = None


def _list_of(value: Json, where: str, *path: str) -> tuple[Assertion, ...]:
    if not isinstance(value, list) or not value:
        raise BadAssertion(f"expected a list of assertions in `{where}`, at least one", path)
    return tuple(parse_inner(one, where, (*path, index)) for index, one in enumerate(value))


def _texts(found: list[Finding]) -> str:
    return "; ".join(one.text for one in found[:_SHOWN]) + (" …" if len(found) > _SHOWN else "")


def _listed(texts: Iterable[str]) -> str:
    known = list(texts)
    return "; ".join(known[:_SHOWN]) + (f" (and {len(known) - _SHOWN} more)" if len(known) > _SHOWN else "")
