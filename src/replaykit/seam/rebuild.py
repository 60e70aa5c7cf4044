"""Results in their own type again, by the tool's own return annotation.

A recorded class is only a name; it becomes an object again when the annotation, at that place, can mean a class
of that name, and is a record of fields. Fields are set, constructors and validators are not run.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_origin

import msgspec
import orjson

from replaykit.model.values import READERS, Json, Raw, is_tagged, record_fields, thaw

_STREAMS = ("Iterator", "Iterable", "Generator", "AsyncIterator", "AsyncIterable", "AsyncGenerator")


def rebuild(value: Json, hint: Any) -> Json:
    """The frozen value as the hint's classes where it names them, else as plain data."""
    if type(value) is list:
        return [rebuild(item, _item_hint(hint, i)) for i, item in enumerate(value)]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag == "$obj" and _is_object(content):
            return _rebuild_object(content[0], content[1], hint)
        if tag in ("$tuple", "$set", "$frozenset") and type(content) is list:
            items = [rebuild(item, _item_hint(hint, i)) for i, item in enumerate(content)]
            return {"$tuple": tuple, "$set": set, "$frozenset": frozenset}[tag](items)
        if tag in READERS:
            return thaw(value)
    return {key: rebuild(item, _member_hint(hint, key)) for key, item in value.items()}


def value_of(text: Raw, hint: Any) -> Json:
    """The recorded value, as the hint's classes where it names them."""
    data = bytes(text)
    value = orjson.loads(data)
    return rebuild(value, hint) if is_tagged(data) else value


def item_hint(hint: Any) -> Any:
    """What the items of a stream with this return annotation are."""
    for option in _options(hint):
        origin = get_origin(option)
        if getattr(origin, "__name__", "") in _STREAMS and get_args(option):
            return get_args(option)[0]
    return None


def return_hint(fn: Any) -> Any:
    """The function's return annotation, resolved; None when it has none that can be resolved."""
    try:
        return typing.get_type_hints(fn, include_extras=False).get("return")
    except Exception:  # noqa: BLE001 (evaluating a user's annotations can raise anything)
        return getattr(fn, "__annotations__", {}).get("return")


def _is_object(content: Json) -> bool:
    return type(content) is list and len(content) == 2 and type(content[0]) is str


def _rebuild_object(name: str, content: Json, hint: Any) -> Json:
    for option in _options(hint):
        for kind in _with_subclasses(option):
            if kind.__name__ == name:
                return _make(kind, content)
    return rebuild(content, None)


def _make(kind: Any, content: Json) -> Json:
    if issubclass(kind, Enum):
        member = thaw(content)
        return next((m for m in kind if m.value == member), member)
    if type(content) is not dict:
        return thaw(content)
    names = record_fields(kind)
    if names is None:
        return rebuild(content, None)
    hints = _field_hints(kind)
    takes_more = getattr(kind, "model_config", {}).get("extra") == "allow"
    # Only what the class itself declares is set: a name out of a log must not reach a property.
    fields = {key: rebuild(item, hints.get(key)) for key, item in content.items() if takes_more or key in names}
    if issubclass(kind, tuple):
        return tuple.__new__(kind, fields.values())
    if hasattr(kind, "model_fields"):
        return _make_model(kind, fields)
    if issubclass(kind, msgspec.Struct):
        return kind(**fields)  # msgspec makes structs in no other way
    made = object.__new__(kind)
    for key, item in fields.items():
        object.__setattr__(made, key, item)
    return made


def _make_model(kind: Any, fields: dict[str, Json]) -> Any:
    """A pydantic model, by the way it unpickles itself: fields are set, validators are not run."""
    made = kind.__new__(kind)
    extra = {key: item for key, item in fields.items() if key not in kind.model_fields}
    made.__setstate__(
        {
            "__dict__": {key: item for key, item in fields.items() if key in kind.model_fields},
            "__pydantic_fields_set__": set(fields),
            "__pydantic_extra__": extra if kind.model_config.get("extra") == "allow" else None,
            "__pydantic_private__": None,
        }
    )
    return made


def _field_hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 (evaluating a user's annotations can raise anything)
        return {}


def _options(hint: Any) -> Iterator[Any]:
    """The classes and generics a hint can mean: unions, aliases and wrappers taken apart."""
    if isinstance(hint, typing.TypeVar):
        yield from _options(hint.__bound__)
        for constraint in hint.__constraints__:
            yield from _options(constraint)
    elif hasattr(hint, "__supertype__"):
        yield from _options(hint.__supertype__)
    elif hasattr(hint, "__value__"):  # a `type X = …` alias
        yield from _options(hint.__value__)
    elif get_origin(hint) in (typing.Union, types.UnionType):
        for argument in get_args(hint):
            yield from _options(argument)
    elif get_origin(hint) in (typing.Annotated, typing.Final, typing.ClassVar):
        yield from _options(get_args(hint)[0])
    elif hint is not None:
        yield hint


def _with_subclasses(option: Any) -> Iterator[type]:
    origin = get_origin(option) or option
    if isinstance(origin, type) and origin is not object:
        yield origin
        children: list[type] = [] if origin.__module__ == "builtins" else origin.__subclasses__()
        for child in children:
            yield from _with_subclasses(child)


def _item_hint(hint: Any, index: int) -> Any:
    for option in _options(hint):
        arguments = get_args(option)
        if not arguments:
            continue
        if get_origin(option) is tuple and arguments[-1] is not Ellipsis:
            return arguments[index] if index < len(arguments) else None
        return arguments[0]
    return None


def _member_hint(hint: Any, key: str) -> Any:
    for option in _options(hint):
        if typing.is_typeddict(option):
            return _field_hints(option).get(key)
        arguments = get_args(option)
        if len(arguments) == 2:
            return arguments[1]
    return None
