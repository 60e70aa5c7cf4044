"""Look up classes by name among those that the process has already loaded.

A recording names classes. A lookup runs no code: it imports nothing, calls no `__getattr__` of a module, class or
metaclass, and triggers no lazy module.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from dataclasses import Field
from enum import Enum, StrEnum
from functools import lru_cache
from types import ModuleType
from typing import Any, cast

import msgspec

_MRO = type.__dict__["__mro__"].__get__
_MEMBERS = type.__dict__["__dict__"].__get__
_QUALNAME = type.__dict__["__qualname__"].__get__
_MODULE = type.__dict__["__module__"].__get__
_MAIN = ("__main__", "__mp_main__")


class Kind(StrEnum):
    """The kinds of classes whose objects are rebuilt."""

    ENUM = "enum"
    DATACLASS = "dataclass"
    NAMED_TUPLE = "named tuple"
    MODEL = "pydantic model"
    ATTRS = "attrs class"
    STRUCT = "msgspec struct"


def is_class(value: object) -> bool:
    """True for a class; unlike `isinstance`, never asks the value itself."""
    return issubclass(type(value), type)


def members(kind: type) -> Mapping[str, Any]:
    """Return the attributes that the body of the class defines."""
    return _MEMBERS(kind)  # type: ignore[no-any-return]


def ancestors(kind: type) -> tuple[type, ...]:
    """Return the class and its bases in method resolution order."""
    return _MRO(kind)  # type: ignore[no-any-return]


def defined(kind: type, name: str) -> Any:
    """Return the attribute as the class or its nearest base defines it, without descriptors; None if there is none."""
    return next((members(base)[name] for base in ancestors(kind) if name in members(base)), None)


def qualname(kind: type) -> str:
    return str(_QUALNAME(kind))


def module_of(kind: type) -> str:
    """Return the name of the module that the class claims to be from."""
    return str(_MODULE(kind))


def loaded_module(name: str) -> Mapping[str, Any] | None:
    """Return the names in a loaded module; None for any other, or one that is no real module."""
    module = sys.modules.get(name)
    if not issubclass(type(module), ModuleType):
        return None
    return object.__getattribute__(module, "__dict__")  # type: ignore[no-any-return]


def loaded_class(module: str, name: str) -> type | None:
    """Return the class of that qualified name in the module of that name, if both are loaded."""
    names = loaded_module(module)
    return None if names is None else _walk(names, name)


def find_class(module: str | None, name: str, namespace: Mapping[str, Any]) -> type | None:
    """Return the class that a recording names, from `namespace` or from the very module that it names.

    Without a module, return a class of that name in `namespace` or in a module that `namespace` names.
    """
    named = _in_namespace(module, name, namespace)
    if named is not None:
        return named
    if module:
        found = loaded_class(module, name)
        return found if found is not None and module_of(found) == module else None
    for value in list(namespace.values()):
        if issubclass(type(value), ModuleType):
            found = _walk(object.__getattribute__(value, "__dict__"), name)
            if found is not None:
                return found
    return None


def home_of(kind: type) -> str | None:
    """Return the module in which the class is found by its qualified name; None if there is none."""
    module = module_of(kind)
    return module if loaded_class(module, qualname(kind)) is kind else None


def is_hashed_as_usual(kind: type) -> bool:
    """True if hashing the class runs no code of its metaclass, so that it can be a cache key."""
    return defined(type(kind), "__hash__") is members(object)["__hash__"]


def kind_of(kind: type) -> Kind | None:
    """Return the kind of a class whose objects are rebuilt; None for any other."""
    return _kind_of(cast(Hashable, kind)) if is_hashed_as_usual(kind) else None


@lru_cache(512)  # called for every object in a value; inspecting the bases of a class takes 5 µs
def _kind_of(kind: Any) -> Kind | None:
    if not is_class(kind) or defined(kind, "__del__") is not None:
        return None  # an object's finalizer would run for every object that is rebuilt
    lineage = ancestors(kind)
    if Enum in lineage:
        return Kind.ENUM
    if BaseException in lineage:
        return None
    if tuple in lineage:
        return Kind.NAMED_TUPLE if _has_field_names(kind) else None
    if msgspec.Struct in lineage:
        return Kind.STRUCT if _is_bare_struct(kind) else None
    base_model = (loaded_module("pydantic.main") or {}).get("BaseModel")
    if base_model is not None and base_model in lineage:
        return Kind.MODEL
    if _is_attrs(kind):
        return Kind.ATTRS
    return Kind.DATACLASS if _is_dataclass(kind) else None


def field_names(kind: type) -> list[str]:
    """Return the fields of a class that `kind_of` knows, other than an enum."""
    which = kind_of(kind)
    if which is Kind.DATACLASS:
        fields = defined(kind, "__dataclass_fields__")
        return [name for name, field in fields.items() if field._field_type.name == "_FIELD"]
    if which is Kind.ATTRS:
        return [attribute.name for attribute in defined(kind, "__attrs_attrs__")]
    if which is Kind.NAMED_TUPLE:
        return list(defined(kind, "_fields"))
    if which is Kind.STRUCT:
        return list(kind.__struct_fields__)  # type: ignore[attr-defined]
    fields = defined(kind, "__pydantic_fields__") or defined(kind, "model_fields")
    return list(fields) if type(fields) is dict else []


def _walk(names: Mapping[str, Any], name: str) -> type | None:
    first, *rest = name.split(".")
    found: Any = names.get(first)
    for part in rest:
        if not is_class(found):
            return None
        found = members(found).get(part)
    return found if is_class(found) and qualname(found) == name else None


def _in_namespace(module: str | None, name: str, namespace: Mapping[str, Any]) -> type | None:
    found: Any = _walk(namespace, name)
    if found is None:
        found = namespace.get(name.rpartition(".")[2])  # a class inside a function, in the tool's closure
    if not is_class(found):
        return None
    same_name = qualname(found) == name or qualname(found).rpartition(".")[2] == name
    return found if same_name and _is_from(module_of(found), module) else None


def _is_from(actual: str, recorded: str | None) -> bool:
    """True if a class of module `actual` is the recorded one: a script has another name when it is imported, and so has
    a module that was found along another path."""
    if not recorded or actual == recorded or actual in _MAIN or recorded in _MAIN:
        return True
    return recorded not in sys.modules


def _has_field_names(kind: type) -> bool:
    fields = defined(kind, "_fields")
    return type(fields) is tuple and all(type(name) is str for name in fields)


def _is_bare_struct(kind: type) -> bool:
    """True if creating a struct, which is possible in one way only, runs nothing of its class."""
    own = ("__post_init__", "__init__", "__new__")
    bodies = [members(base) for base in ancestors(kind) if base not in (msgspec.Struct, object)]
    return type(kind) is type(msgspec.Struct) and not any(name in body for body in bodies for name in own)


def _is_dataclass(kind: type) -> bool:
    fields = defined(kind, "__dataclass_fields__")
    return type(fields) is dict and all(issubclass(type(field), Field) for field in fields.values())


def _is_attrs(kind: type) -> bool:
    fields = defined(kind, "__attrs_attrs__")
    attribute = (loaded_module("attr._make") or {}).get("Attribute")
    return attribute is not None and isinstance(fields, tuple) and all(type(field) is attribute for field in fields)
