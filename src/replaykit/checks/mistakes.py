"""Mistakes: what msgspec says of a wrong value, in plain words and with the nearest valid spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from replaykit.errors import nearest

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
_UNQUOTED = re.compile(r"\ba text\b.*, got (a number|a whole number|true or false)$")
_CHOICE = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def in_plain_words(message: str, rule: type, path: Iterable[str | int]) -> str:
    """The message of a validation error at this path of a rule's value."""
    if found := _CHOICE.fullmatch(message):
        choices = [str(word) for kind in _types_at(rule, path) for word in _choices(kind)]
        return f"unknown value {found[1]!r}; {nearest(found[1], choices)}"
    if found := _UNKNOWN.fullmatch(message):
        names = [name for kind in _types_at(rule, path) for name in _fields(kind)]
        return f"unknown parameter {found[1]!r}; {nearest(found[1], names)}"
    message = message.replace("Object missing required field", "missing parameter")
    message = _TYPE.sub(lambda found: _in_words(found[1]), message)
    return message[:1].lower() + message[1:] + (": put it in quotes" if _UNQUOTED.search(message) else "")


def _in_words(types: str) -> str:
    return " or ".join(_WORDS[name] for name in types.split(" | "))


def _types_at(rule: type, path: Iterable[str | int]) -> list[Any]:
    """Every type that may stand at the path."""
    kinds: list[Any] = list(_spread(msgspec.inspect.type_info(rule)))
    for key in path:
        kinds = [inner for kind in kinds for below in _below(kind, key) for inner in _spread(below)]
    return kinds


def _below(kind: Any, key: str | int) -> Iterator[Any]:
    if isinstance(kind, msgspec.inspect.StructType):
        yield from (field.type for field in kind.fields if field.encode_name == key)
    elif isinstance(kind, msgspec.inspect.ListType):
        yield kind.item_type
    elif isinstance(kind, msgspec.inspect.DictType):
        yield kind.value_type


def _spread(kind: Any) -> Iterator[Any]:
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from _spread(kind.type)
    elif isinstance(kind, msgspec.inspect.UnionType):
        for member in kind.types:
            yield from _spread(member)
    else:
        yield kind


def _choices(kind: Any) -> list[Any]:
    if isinstance(kind, msgspec.inspect.LiteralType):
        return list(kind.values)
    if isinstance(kind, msgspec.inspect.EnumType):
        return [member.value for member in kind.cls]
    return []


def _fields(kind: Any) -> list[str]:
    return [field.encode_name for field in kind.fields] if isinstance(kind, msgspec.inspect.StructType) else []
