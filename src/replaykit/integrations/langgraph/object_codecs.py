"""Kinds: how objects of a class are taken apart into plain content, and put together again.

Putting together sets the fields and nothing else: no constructor, validator or hook of the class is run.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from enum import Enum, Flag
from functools import partial
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from replaykit.errors import UsageError
from replaykit.model.values import Json, record_fields

_set = object.__setattr__
_NO_DEFAULT = (PydanticUndefined, dataclasses.MISSING, ...)
EMPTY = (list, dict, set, tuple, frozenset, str)
"""Factories that may be called for a field that is not there."""


class ObjectCodec(NamedTuple):
    """Encodes and decodes the objects of one class."""

    name: str
    take: Callable[[Any], Json]
    make: Callable[[Any], Any]


def codec_of(cls: type) -> ObjectCodec:
    """Return the codec of a class; a UsageError if it has none."""
    if not isinstance(cls, type):
        raise UsageError(f"{cls!r} cannot be allowed: it is not a class")
    name = f"{cls.__module__}.{cls.__qualname__}"
    found = _find_codec(name, cls)
    if found is None:
        raise UsageError(
            f"{name} cannot be allowed: objects of it cannot be rebuilt without running its code",
            hint="These can: models, dataclasses, attrs, structs, named tuples, enums, kinds of str, dict, list, …",
        )
    return found


def is_encodable(cls: type) -> bool:
    """True for a class that objects can be kept of."""
    return _find_codec("", cls) is not None


def _find_codec(name: str, cls: type) -> ObjectCodec | None:
    if issubclass(cls, BaseModel):
        return _model_codec(name, cls)
    if issubclass(cls, Flag):
        return ObjectCodec(name, lambda value: value.value, cls)
    if issubclass(cls, Enum):
        return ObjectCodec(name, lambda value: value.name, lambda member: cls.__members__[member])
    if hasattr(cls, "__struct_fields__"):
        if hasattr(cls, "__post_init__"):
            return None
        return ObjectCodec(name, _taker(cls.__struct_fields__), lambda content: cls(**content))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple_codec(name, cls)
    fields = record_fields(cls) or _slots(cls)
    if fields and _is_bare(cls):
        return _record_codec(name, cls, fields)
    return _subclass_codec(name, cls)


def _slots(cls: type) -> list[str]:
    """The fields of LangGraph's own slotted classes, such as `Send`."""
    if not cls.__module__.startswith("langgraph."):
        return []
    return [name for base in cls.__mro__ for name in getattr(base, "__slots__", ())]


def _is_bare(cls: type) -> bool:
    """True when an object of the class can be made with nothing in it."""
    try:
        object.__new__(cls)
    except TypeError:  # it is abstract, or a kind of another builtin
        return False
    return True


def _taker(names: Iterable[str]) -> Callable[[Any], Json]:
    known = tuple(names)
    return lambda value: {name: getattr(value, name) for name in known if hasattr(value, name)}


def _defaults(fields: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """Return the defaults of fields that an older log does not have."""
    found: dict[str, Callable[[], Any]] = {}
    for name, field in fields.items():
        if not any(field.default is nothing for nothing in _NO_DEFAULT):
            found[name] = partial(copy.deepcopy, field.default)
        elif any(field.default_factory is empty for empty in EMPTY):
            found[name] = field.default_factory
    return found


def _complete(content: Any, known: Set[str], defaults: Mapping[str, Callable[[], Any]]) -> None:
    """Refuse fields that are not known; add those that are not there and have a default."""
    if not content.keys() <= known:
        raise TypeError(f"no such field: {', '.join(sorted(map(str, content.keys() - known)))}")
    if len(content) != len(known):
        for name in defaults.keys() - content.keys():
            content[name] = defaults[name]()


def _record_codec(name: str, cls: type, fields: list[str]) -> ObjectCodec:
    known = frozenset(fields)
    defaults = _defaults(getattr(cls, "__dataclass_fields__", {}))
    defaults = {field: make for field, make in defaults.items() if field in known}

    def make(content: Any) -> Any:
        _complete(content, known, defaults)
        value: Any = object.__new__(cls)
        for field, item in content.items():
            _set(value, field, item)
        return value

    return ObjectCodec(name, _taker(fields), make)


def _named_tuple_codec(name: str, cls: Any) -> ObjectCodec:
    def make(content: Any) -> Any:
        _complete(content, set(cls._fields), {})
        return tuple.__new__(cls, [{**cls._field_defaults, **content}[field] for field in cls._fields])

    return ObjectCodec(name, lambda value: dict(zip(cls._fields, value, strict=True)), make)


def _model_codec(name: str, cls: type[BaseModel]) -> ObjectCodec:
    fields, privates = cls.model_fields, cls.__private_attributes__
    defaults, private_defaults = _defaults(fields), _defaults(privates)
    is_open = cls.model_config.get("extra") == "allow"

    def make(content: Any) -> Any:
        extra = content.pop("$extra", None)
        private = content.pop("$private", None)
        fields_set = content.pop("$set", None)
        _complete(content, fields.keys(), defaults)
        if privates:
            private = private or {}
            _complete(private, privates.keys(), private_defaults)
        value = object.__new__(cls)
        _set(value, "__dict__", content)
        _set(value, "__pydantic_fields_set__", {*content, *(extra or ())} if fields_set is None else set(fields_set))
        if not cls.__pydantic_root_model__:
            _set(value, "__pydantic_extra__", dict(extra or {}) if is_open else None)
            _set(value, "__pydantic_private__", private)
        return value

    is_message = issubclass(cls, BaseMessage)
    return ObjectCodec(name, _message_content if is_message else lambda value: _model_content(value, fields), make)


def _message_content(value: Any) -> Json:
    """A message's fields. They are many and all alike, so which of them were given is not kept."""
    if not value.__pydantic_extra__ and value.__pydantic_private__ is None:
        return value.__dict__
    return _model_content(value, type(value).model_fields)


def _model_content(value: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    content = {name: item for name, item in value.__dict__.items() if name in fields}
    names = {*content, *(value.__pydantic_extra__ or ())}
    if value.__pydantic_extra__:
        content["$extra"] = value.__pydantic_extra__
    if value.__pydantic_private__ is not None:
        content["$private"] = value.__pydantic_private__
    if value.__pydantic_fields_set__ != names:
        content["$set"] = sorted(value.__pydantic_fields_set__)
    return content


_MUTABLE: dict[type, Callable[[Any, Any], object]] = {dict: dict.update, list: list.extend, set: set.update}
_BASES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    **{base: base for base in (bytes, int, float, tuple, frozenset, dict, list, set)},
}


def _subclass_codec(name: str, cls: type) -> ObjectCodec | None:
    """A kind of `str`, `dict`, `list`, …: what it holds as such."""
    bases: list[Any] = [base for base in _BASES if issubclass(cls, base) and cls is not base]
    if not bases:
        return None
    base, new = bases[0], bases[0].__new__
    try:
        new(cls)
    except TypeError:  # it has a layout of its own
        return None
    fill = _MUTABLE.get(base)

    def make(content: Any) -> Any:
        if type(content) is not base:
            raise TypeError(f"{type(content).__name__} where {base.__name__} is expected")
        if fill is None:
            return new(cls, content)
        value = new(cls)
        fill(value, content)
        return value

    return ObjectCodec(name, _BASES[base], make)


_DTYPE = re.compile(r"[<>|=][biufcmMSU]\d+(\[\w+\])?")
_ARRAY, _NUMBER = "numpy.ndarray", "numpy.generic"


def array_codec(cls: type) -> ObjectCodec | None:
    """Return the codec of an array or number class; None for any other class."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    if cls is numpy.ndarray:
        return ObjectCodec(_ARRAY, _encode_array, _decode_array)
    if issubclass(cls, numpy.generic):
        return ObjectCodec(_NUMBER, _encode_array, _decode_number)
    return None


def codec_named(name: str) -> ObjectCodec | None:
    """Return the codec of this name; None for any other name."""
    if name not in (_ARRAY, _NUMBER):
        return None
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        raise UsageError(f"the thread holds a {name}, and the program has not imported numpy")
    return array_codec(numpy.ndarray if name == _ARRAY else numpy.generic)


def _encode_array(value: Any) -> Json:
    dtype = value.dtype.str
    if value.dtype.names is not None or not _DTYPE.fullmatch(dtype):
        raise UsageError(f"an array of the graph's state holds {value.dtype}, which cannot be kept")
    return [dtype, list(value.shape), value.tobytes()]


def _decode_array(content: Any) -> Any:
    dtype, shape, data = content
    if not _DTYPE.fullmatch(dtype):
        raise ValueError(f"no such dtype: {dtype!r}")
    numpy: Any = sys.modules["numpy"]
    return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _decode_number(content: Any) -> Any:
    return _decode_array(content)[()]
