"""Results and exceptions of tools as data from which they can be rebuilt.

    {"$obj": [class, content, module, detail]}

The module is null if it does not contain the class under its name. The detail is the name of an enum's member, or the
extra values of a pydantic model, or the attributes of an object beside its fields.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from functools import lru_cache
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, TypeAlias, cast

import msgspec
import orjson
from msgspec import Struct

from replaykit.errors import ReplayKitError
from replaykit.model.events import ErrorInfo
from replaykit.model.values import ABSENT, Json, Raw, as_plain, freeze, opaque, plain_base, raw_in, raw_plain, sayable
from replaykit.seam import libraries
from replaykit.seam.classes import Kind, ancestors, field_names, home_of, kind_of, members, qualname

Slot: TypeAlias = MemberDescriptorType | GetSetDescriptorType
CAUSE, CONTEXT, SUPPRESS = "__cause__", "__context__", "__suppress_context__"
_LEVELS = 6  # depth of exceptions inside exceptions
_OWN_MEMBERS = {"args", "__dict__", "__weakref__", "__traceback__", CAUSE, CONTEXT, SUPPRESS, "__notes__"}
_NOT_KEPT = _OWN_MEMBERS | {"characters_written", "print_file_and_line", "obj", "exceptions", "message"}


class ResultForms(Struct, eq=False):
    """The forms that results are recorded in; remembers the classes that it met."""

    _levels: int = _LEVELS
    classes: set[type] = set()

    def freeze(self, value: Json, depth: int) -> Json | None:
        """Return the form of an exception, or of an object whose class can be rebuilt; else None."""
        kind = type(value)
        if issubclass(kind, BaseException):
            return self._error(value)
        self.classes.add(kind)
        known = libraries.taken(value)
        if known is not None:
            name, module, content = known
            return {"$obj": [name, freeze(content, depth + 3, self), module]}
        which = kind_of(kind)
        if which is Kind.ENUM:
            return self._enum(value, depth)
        if which is not None:
            return self._record(value, which, depth)
        if libraries.is_numpy(value):
            return None
        base = plain_base(value)
        if base is None:
            return None
        # The content comes back, together with the fact that the class was another one.
        return self._object(kind, freeze(as_plain(value, base), depth + 2, self))

    def _enum(self, member: Enum, depth: int) -> Json:
        content = freeze(member._value_, depth + 2, self)
        name = member._name_
        return self._object(type(member), content, name if isinstance(name, str) else None)

    def _record(self, value: Any, which: Kind, depth: int) -> Json:
        kind = type(value)
        fields = field_values(value)
        content = {name: freeze(item, depth + 3, self) for name, item in fields.items()}
        more = _beside_fields(value, which, fields)
        detail = {name: freeze(item, depth + 4, self) for name, item in more.items()}
        return self._object(kind, content, detail or None)

    def _object(self, kind: type, content: Json, detail: Json = None) -> Json:
        form = [qualname(kind), content, home_of(kind)]
        if detail is not None:
            form.append(detail)
        return {"$obj": form}

    def _error(self, error: BaseException) -> Json:
        if self._levels == 0:
            return opaque(error)
        inner = ResultForms(self._levels - 1)
        info = describe_in(error, inner)
        self.classes |= inner.classes
        return {"$error": orjson.loads(msgspec.json.encode(info))}


def describe_in(error: BaseException, forms: ResultForms, traceback: str | None = None) -> ErrorInfo:
    """Return the exception as data, with its arguments and attributes in these forms."""
    kind = type(error)
    attributes = _attributes(error)
    return ErrorInfo(
        type=kind.__qualname__,
        module=kind.__module__,
        message=_message(error),
        args_json=_raw(error.args, forms) if error.args else ABSENT,
        attributes_json=_raw(attributes, forms) if attributes else ABSENT,
        bases=tuple(f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[1:-2]),
        traceback=traceback,
    )


def slot_members(kind: type) -> dict[str, Slot]:
    """Return the slots that objects of the class have outside of `__dict__`, by name; the nearest base wins."""
    return _slot_members(cast(Hashable, kind))


@lru_cache(512)
def _slot_members(kind: Any) -> dict[str, Slot]:
    found: dict[str, Slot] = {}
    for base in ancestors(kind):
        for name, member in members(base).items():
            is_slot = type(member) is MemberDescriptorType
            is_of_builtin_error = type(member) is GetSetDescriptorType and base.__module__ == "builtins"
            if (is_slot or is_of_builtin_error) and name not in _NOT_KEPT:
                found.setdefault(name, member)
    return found


def field_values(value: Any) -> dict[str, Any]:
    """Return the fields that an object holds, read without calling a getter."""
    kind = type(value)
    which = kind_of(kind)
    if which is None:
        return {}
    return {name: item for name in field_names(kind) if (item := _held(value, name, which)) is not ABSENT}


def _raw(value: Json, forms: ResultForms) -> Raw:
    return raw_plain(value) or raw_in(value, forms)


def _held(value: Any, name: str, which: Kind) -> Any:
    """Return a field's value as the object holds it; ABSENT if it was never set."""
    if which is Kind.NAMED_TUPLE or which is Kind.STRUCT:
        return getattr(value, name, ABSENT)
    own = _dict_of(value)
    if name in own:
        return own[name]
    member = slot_members(type(value)).get(name)
    if member is None:
        return ABSENT
    try:
        return member.__get__(value)
    except AttributeError:
        return ABSENT


def _beside_fields(value: Any, which: Kind, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an object that are not fields."""
    if which is Kind.MODEL:
        return _beside_model(value, fields)
    if which in (Kind.DATACLASS, Kind.ATTRS):
        own = _dict_of(value)
        return {name: item for name, item in own.items() if name not in fields and isinstance(name, str)}
    return {}


def _beside_model(value: Any, fields: dict[str, Any]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if value.__pydantic_fields_set__ != fields.keys():
        more["set"] = sorted(value.__pydantic_fields_set__)
    if value.__pydantic_private__:
        more["private"] = dict(value.__pydantic_private__)
    if value.__pydantic_extra__:
        more["extra"] = dict(value.__pydantic_extra__)
    return more


def _dict_of(value: Any) -> dict[str, Any]:
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


def _attributes(error: BaseException) -> dict[str, Any]:
    """Return what an exception holds besides its arguments: attributes, and the exceptions behind it."""
    if isinstance(error, ReplayKitError):
        return {}  # ours carry live objects for their handlers; the message is all that matters
    special = libraries.error_content(error)
    if special is not None:
        return special | _chain(error)
    found: dict[str, Any] = {}
    for name, member in slot_members(type(error)).items():
        try:
            value = member.__get__(error)
        except AttributeError:
            continue
        if value is not None:
            found[name] = value
    return found | _dict_of(error) | _chain(error)


def _chain(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if error.__cause__ is not None:
        found[CAUSE] = error.__cause__
    if error.__context__ is not None:
        found[CONTEXT] = CAUSE if error.__context__ is error.__cause__ else error.__context__
    if error.__suppress_context__ != (error.__cause__ is not None):
        found[SUPPRESS] = error.__suppress_context__
    return found


def _message(error: BaseException) -> str:
    try:
        return sayable(str(error))
    except Exception as broken:  # noqa: BLE001 (a user's __str__)
        return f"<str() failed: {type(broken).__name__}>"
