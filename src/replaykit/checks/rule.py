"""Rule: the typed parameters of one kind of assertion, and how a run is checked against them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import chain
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta, Struct

from replaykit.checks.kind_modules import KIND_MODULES
from replaykit.errors import ReplayKitError, UsageError, nearest
from replaykit.model.result import Deviation, Evidence, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.registry import Registry

if TYPE_CHECKING:
    from replaykit.checks.assertions import Assertion
    from replaykit.checks.questions import Answers

Path = tuple[str | int, ...]
"""A place inside an assertion's value: keys and indexes; `()` is the assertion itself."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]
"""A number of things."""
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
"""A part of a whole: 0 is none of it, 1 is all."""


class BadAssertion(UsageError):
    """An assertion is not one: an unknown kind or parameter, or a value of the wrong type."""

    def __init__(self, message: str, path: Path = (), *, hint: str | None = None) -> None:
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

    @classmethod
    def parse(cls, value: Json) -> Rule:
        """Return the rule a file's value describes; `BadAssertion` says what is wrong, and where."""
        if cls.named and isinstance(value, dict):
            parameters = value
        elif cls.plain is None:
            raise BadAssertion(f"expected a mapping with {_listed(cls.__struct_encode_fields__)}")
        else:
            parameters = {cls.plain: value}
        try:
            return msgspec.convert(parameters, cls, strict=True)
        except msgspec.ValidationError:
            raise _bad_assertion(cls, parameters, is_plain=parameters is not value) from None

    @classmethod
    def schema(cls) -> dict[str, Json] | None:
        """The JSON Schema of the value, for a rule that parses it by itself; None when its fields say it."""
        return None

    def check(self, run: TraceRun, context: Context) -> Seen:
        """Return the result of this rule on the run."""
        raise NotImplementedError


ASSERTIONS: Registry[type[Rule]] = Registry("assertion", KIND_MODULES)
"""Every kind of assertion, by the name it has in a case."""


def refuse_unknown(parameters: dict[Json, Json], known: Collection[str]) -> None:
    """Raise on the first parameter that there is none of, with the nearest that there is."""
    for name in parameters:
        if name not in known:
            raise BadAssertion(f"unknown parameter {name!r}; {nearest(str(name), known)}", (str(name),))


def _bad_assertion(rule: type[Rule], parameters: dict[str, Json], *, is_plain: bool) -> BadAssertion:
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


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names)
