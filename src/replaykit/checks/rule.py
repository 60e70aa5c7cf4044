"""Rule: the typed parameters of one kind of assertion, and how it checks a run."""

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
"""A part of a whole, from 0 (none) to 1 (all)."""


class BadAssertion(UsageError):
    """Raised for an invalid assertion: an unknown kind or parameter, or a value of the wrong type."""

    def __init__(self, message: str, path: DocumentPath = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class CannotTell(ReplayKitError):
    """Raised if a valid assertion cannot be decided here, because something that it needs is missing."""


class RepeatedRun(Struct, frozen=True):
    """One run of the candidate with its deviations; None if nobody watched."""

    run: TraceRun
    deviations: tuple[Deviation, ...] | None = None
    evidence: Evidence = Evidence()
    """How much of the tape the run used."""


Runs: TypeAlias = Callable[[int], RepeatedRun]
"""Returns the candidate's run of this number; 1 is the checked run. Raises `CannotTell` without one."""


class Context(Struct, frozen=True):
    """Everything that a rule gets beside the run."""

    side: Side
    deviations: tuple[Deviation, ...] | None = None
    """The deviations from the tape; None if the run is not a replay or was not watched."""
    runs: Runs | None = None
    """More runs of the candidate in the same world; None if it cannot be run again."""
    answers: Answers | None = None
    """Answers of judges and people; None if none are stored."""
    negated: bool = False
    """True inside a `not`."""


class Seen(Struct, frozen=True):
    """The result of a rule on a run: a finding without its kind."""

    holds: bool
    text: str
    expected: str
    actual: str
    seq: int | None = None
    run: int | None = None
    """The number of the run with event `seq`, if a rule needs several."""


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of one kind of assertion; subclasses add fields and `check`.

    The docstring, `notes` and `examples` of a subclass are the kind's documentation, in the terminal and in the docs.
    """

    plain: ClassVar[str | None] = None
    """The parameter that takes a value written without parameter names."""
    named: ClassVar[bool] = True
    """False if a mapping is an ordinary value rather than named parameters."""
    family: ClassVar[str] = ""
    """The family of a kind whose name has no dot."""
    notes: ClassVar[dict[str, str]] = {}
    """The meaning of each parameter, in a few words."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Assertions of this kind as written in a case."""
    is_judged: ClassVar[bool] = False
    """True if it needs a judge."""
    is_repeated: ClassVar[bool] = False
    """True if it looks at several runs of the candidate."""

    @property
    def inside(self) -> tuple[Assertion, ...]:
        """The nested assertions."""
        return ()

    def opposite(self, expected: str) -> str:
        """Return in words what a `not` around this rule expects; `expected` is what the rule itself does."""
        return f"anything but {expected}"

    @classmethod
    def parse(cls, value: Json) -> Rule:
        """Parse a value from a file; raise `BadAssertion` with what is wrong, and where."""
        if cls.named and isinstance(value, dict):
            parameters = value
        elif cls.plain is None:
            raise BadAssertion(f"expected a mapping with {', '.join(map(repr, cls.__struct_encode_fields__))}")
        else:
            parameters = {cls.plain: value}
        try:
            return msgspec.convert(parameters, cls, strict=True)
        except msgspec.ValidationError:
            # msgspec decodes fast, but reports the first flaw in its own words. The slow path reports ours.
            raise _bad_assertion(cls, parameters, is_plain=parameters is not value) from None

    @classmethod
    def schema(cls) -> JsonObject | None:
        """Return the value's JSON Schema, for a rule that parses its value itself; None to derive it from the
        fields."""
        return None

    def check(self, run: TraceRun, context: Context) -> Seen:
        """Check the rule against the run in its context. Most rules need only the run."""
        return self.seen_in(run)

    def seen_in(self, run: TraceRun) -> Seen:
        """Check a rule that needs only the run."""
        raise NotImplementedError


# The kinds that each module registers, so that a case imports only the modules it needs.
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
KIND_MODULES = {kind: f"replaykit.checks.{module}" for module, kinds in _KINDS.items() for kind in kinds.split()}
"""Every built-in kind, and the module that registers it."""


ASSERTIONS: Registry[type[Rule]] = Registry("assertion", KIND_MODULES)
"""All kinds of assertions by name."""
register = ASSERTIONS.register


def check_parameters(value: Json, known: Sequence[str]) -> None:
    """Raise unless the value is a mapping of known parameters; suggest the nearest name."""
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
    """Raise `ValueError` for a range without bounds, or an empty one; `unit` ends the parameters' names."""
    if least is None and most is None:
        raise ValueError(f"expected `min{unit}`, `max{unit}` or both")
    if least is not None and most is not None and least > most:
        raise ValueError(f"nothing is at least {least:g} and at most {most:g}")


def in_range(value: float, least: float | None, most: float | None) -> bool:
    """Return whether the number is within the bounds."""
    return (least is None or value >= least) and (most is None or value <= most)


def range_text(least: float | None, most: float | None) -> str:
    """Return a range in words: `at least 2`, `at most 5`, `2 to 5`, `exactly 3`."""
    if least is not None and most is not None:
        if least == most:
            return f"exactly {least:g}"
        return f"{least:g} to {most:g}"
    if least is None:
        return f"at most {most:g}"
    return f"at least {least:g}"
