"""Rule: the typed parameters of one kind of assertion, and how a run is checked against them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, ClassVar, NoReturn, TypeAlias

import msgspec
from msgspec import Meta, Struct

from replaykit.checks.homes import HOMES
from replaykit.errors import ReplayKitError, UsageError, nearest
from replaykit.model.lines import split_where
from replaykit.model.result import Deviation, Evidence, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.registry import Registry

if TYPE_CHECKING:
    from replaykit.checks.parsing import Assertion
    from replaykit.checks.questions import Answers

Path = tuple[str | int, ...]
"""Where inside an assertion's value: keys and indexes; `()` is the assertion itself."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]
"""A number of things."""
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
"""A part of a whole: 0 is none of it, 1 is all."""


class BadAssertion(UsageError):
    """An assertion is not one: an unknown kind or parameter, or a value of the wrong type."""

    def __init__(self, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.path = path


class CannotTell(ReplayKitError):
    """The assertion is a good one, and yet nobody can say whether it holds here: what it needs is not there."""


class Ran(Struct, frozen=True):
    """One run of the candidate, and where it did not follow the tape; None when nobody watched."""

    run: TraceRun
    deviations: tuple[Deviation, ...] | None = None
    evidence: Evidence = Evidence()
    """How much of the tape it used."""


Runs: TypeAlias = Callable[[int], Ran]
"""The candidate's run of that number, counted from 1, which is the one that is checked; `CannotTell` without one."""


class Context(Struct, frozen=True):
    """What a rule is told beside the run."""

    side: Side
    deviations: tuple[Deviation, ...] | None = None
    """Where the candidate did not follow the tape; None when the run is no replay, or nobody watched it."""
    runs: Runs | None = None
    """More runs of the candidate in the same world; None where it cannot be run again."""
    answers: Answers | None = None
    """What judges and people said; None where nothing is kept."""
    negated: bool = False
    """True inside of a `not`."""


class Seen(Struct, frozen=True):
    """What a rule saw in a run: everything of a finding but the name of its kind."""

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
    """What each parameter means, in a few words."""
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
        """The rule a file's value describes; `BadAssertion` says what is wrong, and where."""
        if cls.named and isinstance(value, dict):
            refuse_unknown(value, cls.__struct_encode_fields__)
            return _convert(value, cls, drop=0)
        if cls.plain is None:
            raise BadAssertion(f"expected a mapping with {_listed(cls.__struct_encode_fields__)}")
        return _convert({cls.plain: value}, cls, drop=1)

    @classmethod
    def schema(cls) -> dict[str, Json] | None:
        """The JSON Schema of the value, for a rule that parses it by itself; None when its fields say it."""
        return None

    def check(self, run: TraceRun, context: Context) -> Seen:
        """What this rule sees in the run."""
        raise NotImplementedError


_SOME_MEMBER = "…"

ASSERTIONS: Registry[type[Rule]] = Registry("assertion", HOMES)
"""Every kind of assertion, by the name it has in a case."""


def refuse_unknown(parameters: dict[Json, Json], known: Collection[str]) -> None:
    """Raise on the first parameter that there is none of, with the nearest that there is."""
    for name in parameters:
        if name not in known:
            raise BadAssertion(f"unknown parameter {name!r}; {nearest(str(name), known)}", (str(name),))


def _convert(parameters: dict[str, Json], rule: type[Rule], *, drop: int) -> Rule:
    try:
        return msgspec.convert(parameters, rule, strict=True)
    except msgspec.ValidationError as error:
        _raise_readable(str(error), rule, drop)


def _raise_readable(text: str, rule: type[Rule], drop: int) -> NoReturn:
    """msgspec's sentence, with its `$.path` taken off and handed over as data."""
    from replaykit.checks.mistakes import in_plain_words  # noqa: PLC0415 (few cases hold a mistake)

    # Of a member of a mapping msgspec does not say which one it is: the place is the mapping.
    message, path = split_where(text.replace("[...]", f".{_SOME_MEMBER}"))
    known = path[: path.index(_SOME_MEMBER)] if _SOME_MEMBER in path else path
    raise BadAssertion(in_plain_words(message, rule, path), known[drop:]) from None


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names)
