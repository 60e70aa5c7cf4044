"""Rule: the typed parameters of one kind of assertion, and how a run is checked against them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import ClassVar, NoReturn

import msgspec
from msgspec import Struct

from replaykit.errors import UsageError, nearest
from replaykit.model.lines import split_where
from replaykit.model.result import Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.registry import Registry

Path = tuple[str | int, ...]
"""Where inside an assertion's value: keys and indexes; `()` is the assertion itself."""


class BadAssertion(UsageError):
    """An assertion is not one: an unknown kind or parameter, or a value of the wrong type."""

    def __init__(self, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.path = path


class Seen(Struct, frozen=True):
    """What a rule saw in a run: everything of a finding but the name of its kind."""

    holds: bool
    text: str
    expected: str
    actual: str
    seq: int | None = None


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of one kind of assertion; a subclass adds fields and `check`."""

    plain: ClassVar[str | None] = None
    """The field that a value written without parameter names fills."""
    named: ClassVar[bool] = True
    """False when a mapping is a value like any other, not parameters by name."""

    @classmethod
    def parse(cls, value: Json) -> Rule:
        """The rule a file's value describes; `BadAssertion` says what is wrong, and where."""
        if cls.named and isinstance(value, dict):
            _refuse_unknown(value, cls.__struct_fields__)
            return _convert(value, cls, drop=0)
        if cls.plain is None:
            raise BadAssertion(f"expected a mapping with {_listed(cls.__struct_fields__)}")
        return _convert({cls.plain: value}, cls, drop=1)

    def check(self, run: TraceRun, side: Side) -> Seen:
        """What this rule sees in the run."""
        raise NotImplementedError


_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a mapping",
    "str": "a text",
}
_TYPE = re.compile(rf"`((?:{'|'.join(_WORDS)})(?: \| (?:{'|'.join(_WORDS)}))*)`")


ASSERTIONS: Registry[type[Rule]] = Registry("assertion")
"""Every kind of assertion, by the name it has in a case."""


def _refuse_unknown(parameters: dict[Json, Json], known: Collection[str]) -> None:
    for name in parameters:
        if name not in known:
            raise BadAssertion(f"unknown parameter {name!r}; {nearest(str(name), known)}", (str(name),))


def _convert(parameters: dict[str, Json], rule: type[Rule], *, drop: int) -> Rule:
    try:
        return msgspec.convert(parameters, rule, strict=True)
    except msgspec.ValidationError as error:
        _raise_readable(str(error), drop)


def _raise_readable(text: str, drop: int) -> NoReturn:
    """msgspec's sentence, with its `$.path` taken off and handed over as data."""
    message, path = split_where(text)
    message = message.replace("Object missing required field", "missing parameter")
    message = _TYPE.sub(lambda found: _in_words(found[1]), message)
    raise BadAssertion(message[:1].lower() + message[1:], path[drop:]) from None


def _in_words(types: str) -> str:
    return " or ".join(_WORDS[name] for name in types.split(" | "))


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names)
