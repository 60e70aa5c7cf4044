"""Shapes: what a file may contain, declared once for the loader, the linter and the JSON Schema.

A shape finds all flaws of a value at once, each with its path. Values that fit a shape need no further checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from replaykit.documents.document import Document
from replaykit.errors import nearest
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject

_SHOWN_CHARS = 40


class FlawSeverity(StrEnum):
    """The severity of a flaw."""

    ERROR = "error"  # the file cannot be used, or cannot mean what it says
    WARNING = "warning"  # the file can be used, but needs attention


class Flaw(Struct, frozen=True):
    """One flaw of a value, and its path."""

    path: DocumentPath
    code: str
    message: str
    hint: str = "Correct it."
    severity: FlawSeverity = FlawSeverity.ERROR


Flaws: TypeAlias = Iterator[Flaw]


class Shape(Protocol):
    """A declaration of allowed values."""

    @property
    def expected(self) -> str:
        """The allowed values, in words."""

    def fits(self, value: Json) -> bool:
        """Return whether the value has the right type; its parts may still have flaws."""

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        """Yield all flaws of a value that fits."""

    def schema(self) -> JsonObject:
        """Return the shape as JSON Schema."""


def find_flaws(shape: Shape, value: Json, path: DocumentPath = ()) -> Flaws:
    """Yield all flaws of a value; if its own type is wrong, only that."""
    if shape.fits(value):
        yield from shape.flaws(value, path)
    else:
        yield Flaw(path, "wrong-type", _wrong_value(shape, value, path), _advice(shape, value))


def describe(value: Json) -> str:
    """Return a value in a few words, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        if len(value) > _SHOWN_CHARS:
            value = f"{value[:_SHOWN_CHARS]}…"
        return repr(value)
    if abs(value) > 1e30:
        return "a huge number"
    return repr(value)


class Simple(Struct, frozen=True):
    """A value of some types, without parts that could have flaws."""

    expected: str
    types: tuple[type, ...]
    json_schema: JsonObject

    def fits(self, value: Json) -> bool:
        return isinstance(value, self.types)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        return iter(())

    def schema(self) -> JsonObject:
        return self.json_schema


ANYTHING = Simple("anything", (object,), {})
FLAG = Simple("true or false", (bool,), {"type": "boolean"})
NOTHING = Simple("null", (type(None),), {"type": "null"})
"""Null: the key is present without a value."""


class Text(Struct, frozen=True):
    """A text; `pattern` limits it, and `check` raises `ValueError` for flaws."""

    expected: str = "text"
    pattern: str | None = None
    max_length: int | None = None
    check: Callable[[str], object] | None = None

    def fits(self, value: Json) -> bool:
        return isinstance(value, str)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        too_long = self.max_length is not None and len(value) > self.max_length
        if too_long or (self.pattern and not re.search(self.pattern, value)):
            yield Flaw(path, "bad-value", _wrong_value(self, value, path))
        elif self.check is not None:
            try:
                self.check(value)
            except ValueError as error:
                yield Flaw(path, "bad-value", f"{_shown_path(path)}: {error}")

    def schema(self) -> JsonObject:
        return _limited_schema("string", pattern=self.pattern, maxLength=self.max_length)


class Number(Struct, frozen=True, kw_only=True):
    """A finite number within bounds; `above` excludes its bound, `at_least` includes it."""

    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    whole: bool = False

    @property
    def expected(self) -> str:
        words = {"above": self.above, "of at least": self.at_least, "at most": self.at_most}
        bounds = [f"{word} {bound:g}" for word, bound in words.items() if bound is not None]
        noun = "a whole number" if self.whole else "a number"
        return f"{noun} {' and '.join(bounds)}".strip()

    def fits(self, value: Json) -> bool:
        return isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        if not self._is_within(value):
            yield Flaw(path, "bad-value", _wrong_value(self, value, path))

    def _is_within(self, value: float) -> bool:
        # NaN is outside all bounds: each comparison with it is false.
        return (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
        )

    def schema(self) -> JsonObject:
        kind = "integer" if self.whole else "number"
        return _limited_schema(kind, exclusiveMinimum=self.above, minimum=self.at_least, maximum=self.at_most)


class Choice(Struct, frozen=True):
    """One of a few words."""

    words: type[StrEnum]

    @property
    def expected(self) -> str:
        return " | ".join(self.words)

    def fits(self, value: Json) -> bool:
        return isinstance(value, str)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        if value not in list(self.words):
            advice = nearest(value[:_SHOWN_CHARS], map(str, self.words))
            yield Flaw(path, "bad-value", _wrong_value(self, value, path), advice[:1].upper() + advice[1:])

    def schema(self) -> JsonObject:
        return {"enum": list(map(str, self.words))}


class ListOf(Struct, frozen=True):
    """A list whose items all have one shape."""

    item: Shape

    expected = "a list"

    def fits(self, value: Json) -> bool:
        return isinstance(value, list)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        for index, item in enumerate(value):
            yield from find_flaws(self.item, item, (*path, index))

    def schema(self) -> JsonObject:
        return {"type": "array", "items": self.item.schema()}


class MapOf(Struct, frozen=True):
    """A mapping from any name to one shape."""

    member: Shape

    expected = "a mapping"

    def fits(self, value: Json) -> bool:
        return isinstance(value, dict)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        for name, member in value.items():
            yield from find_flaws(self.member, member, (*path, name))

    def schema(self) -> JsonObject:
        return {"type": "object", "additionalProperties": self.member.schema()}


class Record(Struct, frozen=True):
    """A mapping with known keys. `cross` checks a record whose own members have no flaws."""

    members: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    notes: Mapping[str, str] = {}
    cross: Callable[[JsonObject], Iterator[Flaw]] | None = None
    noun: str = "key"
    """The word for a key in messages."""

    expected = "a mapping"

    def fits(self, value: Json) -> bool:
        return isinstance(value, dict)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        clean = True
        # `cross` relies on valid members, so it runs only on a record without flaws.
        for flaw in self._own_flaws(value, path):
            clean = False
            yield flaw
        if self.cross is not None and clean:
            for flaw in self.cross(value):
                yield Flaw((*path, *flaw.path), flaw.code, flaw.message, flaw.hint)

    def _own_flaws(self, value: JsonObject, path: DocumentPath) -> Flaws:
        where = f" in {_shown_path(path)}" if path else ""
        for key in value:
            if key not in self.members:
                advice = nearest(key[:_SHOWN_CHARS], self.members)
                message = f"unknown {self.noun} {describe(key)}{where}; {advice}"
                yield Flaw((*path, key), "unknown-key", message, f"Correct the {self.noun}, or remove it.")
        for key in self.required:
            if key not in value:
                yield Flaw(path, "missing-key", f"the {self.noun} {key!r} is missing{where}", f"Add {key}.")
        for key, shape in self.members.items():
            if key in value:
                yield from find_flaws(shape, value[key], (*path, key))

    def schema(self) -> JsonObject:
        members = {}
        for key, shape in self.members.items():
            note = {"description": self.notes[key]} if key in self.notes else {}
            members[key] = {**note, **shape.schema()}
        schema: JsonObject = {"type": "object", "properties": members, "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        return schema


class Either(Struct, frozen=True):
    """The first of several shapes that fits the value's type."""

    shapes: tuple[Shape, ...]

    @property
    def expected(self) -> str:
        return ", or ".join(shape.expected for shape in self.shapes)

    def fits(self, value: Json) -> bool:
        return any(shape.fits(value) for shape in self.shapes)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        return next(shape for shape in self.shapes if shape.fits(value)).flaws(value, path)

    def schema(self) -> JsonObject:
        return {"anyOf": [shape.schema() for shape in self.shapes]}


def optional(*shapes: Shape) -> Either:
    """Return the shape of a value of one of these shapes, or null."""
    return Either((*shapes, NOTHING))


SOME_TEXT = Text("some text", pattern=r"\S")


def refuse_flaws(document: Document, flaws: Iterable[Flaw]) -> None:
    """Raise an `InvalidFile` for the first flaw, with its line."""
    for flaw in flaws:
        raise document.error(flaw.message, flaw.path, hint=flaw.hint)


def _limited_schema(kind: str, **limits: Json) -> JsonObject:
    schema = {"type": kind}
    for name, limit in limits.items():
        if limit is not None:
            schema[name] = limit
    return schema


def _wrong_value(shape: Shape, value: Json, path: DocumentPath) -> str:
    name = f"{_shown_path(path)}: " if path else ""
    return f"{name}expected {shape.expected}, got {describe(value)}"


def _advice(shape: Shape, value: Json) -> str:
    if isinstance(shape, Text) and value is not None and not isinstance(value, dict | list):
        return f'Quote it: "{describe(value)}"'
    return f"Write {shape.expected} here."


def _shown_path(path: DocumentPath) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step[:_SHOWN_CHARS]}"
    return text.lstrip(".")
