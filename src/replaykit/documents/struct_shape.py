"""Shapes of structs: derive a shape, which finds all flaws of a value, from a msgspec struct.

msgspec decodes valid values. Flaws are found here, so that no message of a library has to be parsed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, inspect

from replaykit.documents.shape import (
    ANYTHING,
    FLAG,
    NOTHING,
    Either,
    Flaw,
    Flaws,
    ListOf,
    MapOf,
    Number,
    Record,
    Shape,
    Text,
)
from replaykit.errors import nearest
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject

_SIMPLE: dict[type, Shape] = {
    inspect.StrType: Text("a text"),
    inspect.BoolType: FLAG,
    inspect.NoneType: NOTHING,
}


class Word(Struct, frozen=True):
    """One of the words of an enumeration or a literal."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"a text ({' | '.join(self.words)})"

    def fits(self, value: Json) -> bool:
        return isinstance(value, str)

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        if value not in self.words:
            yield Flaw(path, "bad-value", f"unknown value {value!r}; {nearest(value, self.words)}")

    def schema(self) -> JsonObject:
        return {"enum": list(self.words)}


def struct_shape(struct: type[Struct], *, noun: str) -> Record:
    """Return the shape of a mapping that is converted to this struct; `noun` is the word for its keys in messages."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return _record(info, noun)


def _record(info: inspect.StructType, noun: str) -> Record:
    members = {field.encode_name: _shape(field.type, noun) for field in info.fields}
    required = tuple(field.encode_name for field in info.fields if field.required)
    return Record(members, required=required, cross=partial(_own_flaw, info.cls), noun=noun)


def _own_flaw(struct: type[Struct], value: JsonObject) -> Flaws:
    """Yield the `ValueError` of the struct's own `__post_init__`: valid fields that do not fit together."""
    try:
        msgspec.convert(value, struct, strict=True)
    except msgspec.ValidationError as error:
        yield Flaw((), "bad-value", str(error.__cause__ or error))


def _shape(info: Any, noun: str) -> Shape:
    if type(info) in _SIMPLE:
        return _SIMPLE[type(info)]
    if isinstance(info, inspect.Metadata):
        return _shape(info.type, noun)
    if isinstance(info, inspect.IntType | inspect.FloatType):
        return Number(at_least=info.ge, at_most=info.le, whole=isinstance(info, inspect.IntType))
    if isinstance(info, inspect.LiteralType):
        return Word(tuple(map(str, info.values)))
    if isinstance(info, inspect.EnumType):
        return Word(tuple(str(member.value) for member in info.cls))
    if isinstance(info, inspect.ListType | inspect.VarTupleType):
        return ListOf(_shape(info.item_type, noun))
    if isinstance(info, inspect.DictType):
        return MapOf(_shape(info.value_type, noun))
    if isinstance(info, inspect.StructType):
        return _record(info, noun)
    if isinstance(info, inspect.UnionType):
        return Either(tuple(_shape(member, noun) for member in info.types))
    return ANYTHING
