"""Rule: the typed parameters of one kind of assertion, and how a run is checked against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta, Struct

from replaykit.errors import ReplayKitError, UsageError, nearest
from replaykit.model.json_positions import DocumentPath
from replaykit.model.result import Deviation, Evidence, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.registry import Registry

if TYPE_CHECKING:
    from replaykit.checks.assertions import Assertion
    from replaykit.checks.questions import Answers


Count: TypeAlias = Annotated[int, Meta(ge=0)]
"""A number of things."""
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
"""A part of a whole: 0 is none of it, 1 is all."""


class BadAssertion(UsageError):
    """An assertion is not one: an unknown kind or parameter, or a value of the wrong type."""

    def __init__(self, message: str, path: DocumentPath = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class CannotTell(ReplayKitError):
    """The assertion is a good one, and yet nobody can say whether it holds here: what it needs is not there."""


class RepeatedRun(Struct, frozen=True):
    """One run of the candidate, and where it did not follow the tape; None when nobody watched."""

    run: TraceRun
    deviations: tuple[Deviation, ...] | None = None
    evidence: Evidence = Evidence()
    """The share of the tape it used."""


Runs: TypeAlias = Callable[[int], RepeatedRun]
"""The candidate's run of that number, counted from 1, which is the one that is checked; `CannotTell` without one."""


class Context(Struct, frozen=True):
    """Everything that a rule gets beside the run."""

    side: Side
    deviations: tuple[Deviation, ...] | None = None
    """The deviations from the tape; None when the run is no replay, or was not watched."""
    runs: Runs | None = None
    """More runs of the candidate in the same world; None where it cannot be run again."""
    answers: Answers | None = None
    """Answers of judges and people; None where none are stored."""
    negated: bool = False
    """True inside of a `not`."""


class Seen(Struct, frozen=True):
    """The result of a rule on a run: everything of a finding but the name of its kind."""

    holds: bool
    text: str
    expected: str
    actual: str
    seq: int | None = None
    run: int | None = None
    """The number of the run that `seq` is in, where a rule asks for several."""


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of one kind of assertion; a subclass adds fields and `check`.

    Its docstring, `notes` and `examples` are the kind's documentation, in the terminal and in the docs.
    """

    plain: ClassVar[str | None] = None
    """The parameter that a value written without parameter names fills."""
    named: ClassVar[bool] = True
    """False when a mapping is a value like any other, not parameters by name."""
    family: ClassVar[str] = ""
    """The family of a kind whose name has no dot."""
    notes: ClassVar[dict[str, str]] = {}
    """The meaning of each parameter, in a few words."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Assertions of this kind as one writes them in a case."""
    is_judged: ClassVar[bool] = False
    """True when somebody has to judge it."""
    is_repeated: ClassVar[bool] = False
    """True when it looks at several runs of the candidate."""

    @property
    def inside(self) -> tuple[Assertion, ...]:
        """The assertions it is made of."""
        return ()

    def opposite(self, expected: str) -> str:
        """Return what a `not` around this rule expects, in words; `expected` is what the rule itself does."""
        return f"anything but {expected}"

    @classmethod
    def parse(cls, value: Json) -> Rule:
        """Return the rule a file's value describes; `BadAssertion` says what is wrong, and where."""
        if cls.named and isinstance(value, dict):
            parameters = value
        elif cls.plain is None:
            raise BadAssertion(f"expected a mapping with {', '.join(map(repr, cls.__struct_encode_fields__))}")
        else:
            parameters = {cls.plain: value}
        try:
            return msgspec.convert(parameters, cls, strict=True)
        except msgspec.ValidationError:
            # msgspec decodes fast, but names the first flaw in its own words. The slow path finds ours.
            raise _bad_assertion(cls, parameters, is_plain=parameters is not value) from None

    @classmethod
    def schema(cls) -> JsonObject | None:
        """The JSON Schema of the value, for a rule that parses it by itself; None when its fields say it."""
        return None

    def check(self, run: TraceRun, context: Context) -> Seen:
        """Return the result of this rule on the run in its context. Most rules need no more than the run."""
        return self.seen_in(run)

    def seen_in(self, run: TraceRun) -> Seen:
        """Return the result of a rule that is about the run alone."""
        raise NotImplementedError


_KINDS = {
    "outcome": "status_is run.error run.failed_steps steps.exhausted",
    "output": "final_output_exists output.empty output.equals output.contains output.not_contains output.icontains"
    " output.error output.starts_with output.contains_all output.contains_any output.regex output.answer",
    "grounding": "output.grounded",
    "tool_contradictions": "output.contradicts",
    "output_form": "output.json output.json_schema output.json_path output.length output.finish_reason",
    "output_similarity": "output.edit_distance output.similar output.refusal",
    "tools": "max_tool_calls tool.calls tool.called tool.not_called",
    "tool_args": "tool.args tool.args_schema tool.result",
    "tool_offers": "tool.not_offered tool.invalid_arguments tool.only_announced tool.lookup_skipped",
    "model_calls": "llm.truncated llm.context_overflow llm.malformed_call llm.same_request llm.same_answer",
    "tool_errors": "tool.error tool.unretried_error tool.ignored_error",
    "trajectory": "trajectory.match trajectory.f1",
    "trajectory_order": "trajectory.before trajectory.never_after trajectory.no_loop trajectory.allowlist tool.stuck",
    "states": "state.equals state.path state.diff state.hash state.repeated",
    "effects": "effect.exactly_once effect.none",
    "budgets": "budget.cost budget.tokens budget.latency steps.count llm.calls",
    "replays": "replay.no_divergence replay.diverges_at",
    "safety": "safety.no_secret safety.no_pii",
    "spans": "span.exists span.count span.duration span.no_errors",
    "questions": "judge.rubric judge.score judge.factual judge.faithful judge.label",
    "custom": "custom.python",
    "combinators": "not all any threshold repeat",
}
"""The kinds of assertion that each module enters, so that a case imports only the modules of the kinds that it uses."""
KIND_MODULES = {kind: f"replaykit.checks.{module}" for module, kinds in _KINDS.items() for kind in kinds.split()}
"""Every built-in kind, and the module that enters it."""


ASSERTIONS: Registry[type[Rule]] = Registry("assertion", KIND_MODULES)
"""Every kind of assertion, by the name it has in a case."""
register = ASSERTIONS.register


def check_parameters(value: Json, known: Sequence[str]) -> None:
    """Raise unless the value is a mapping with known parameters; name the nearest to an unknown one."""
    if not isinstance(value, dict):
        raise BadAssertion(f"expected a mapping with {', '.join(map(repr, known))}")
    for name in value:
        if name not in known:
            raise BadAssertion(f"unknown parameter {name!r}; {nearest(str(name), known)}", (str(name),))


def _bad_assertion(rule: type[Rule], parameters: JsonObject, *, is_plain: bool) -> BadAssertion:
    """Return the error for the first flaw of the parameters; a plain value is shown without its parameter's name."""
    from replaykit.documents.shape import find_flaws  # noqa: PLC0415 (few cases hold a mistake)
    from replaykit.documents.struct_shape import struct_shape  # noqa: PLC0415

    shape = struct_shape(rule, noun="parameter")
    flaws = find_flaws(shape, parameters)
    if is_plain:
        ((name, value),) = parameters.items()
        flaws = chain(find_flaws(shape.members[name], value), flaws)
    flaw = next(flaws)
    return BadAssertion(flaw.message, flaw.path, hint=flaw.hint)


def check_range(least: float | None, most: float | None, *, unit: str = "") -> None:
    """Refuse a range that says nothing, or that nothing is in; `unit` ends the names of its parameters."""
    if least is None and most is None:
        raise ValueError(f"expected `min{unit}`, `max{unit}` or both")
    if least is not None and most is not None and least > most:
        raise ValueError(f"nothing is at least {least:g} and at most {most:g}")


def in_range(value: float, least: float | None, most: float | None) -> bool:
    """True when the number is neither below nor above."""
    return (least is None or value >= least) and (most is None or value <= most)


def range_text(least: float | None, most: float | None) -> str:
    """`at least 2`, `at most 5`, `2 to 5`, `exactly 3`."""
    if least is not None and most is not None:
        if least == most:
            return f"exactly {least:g}"
        return f"{least:g} to {most:g}"
    if least is None:
        return f"at most {most:g}"
    return f"at least {least:g}"
