"""Annotations taken apart: which classes the value at a place may be of."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, get_args, get_origin

_STREAMS = ("Iterator", "Iterable", "Generator", "AsyncIterator", "AsyncIterable", "AsyncGenerator")


def return_hint(fn: Any) -> Any:
    """The function's return annotation, resolved; None when it has none that can be resolved."""
    try:
        return typing.get_type_hints(fn, include_extras=False).get("return")
    except Exception:  # noqa: BLE001 (evaluating a user's annotations can raise anything)
        return getattr(fn, "__annotations__", {}).get("return")


def stream_item_hint(hint: Any) -> Any:
    """The annotation of the items of a stream with this return annotation."""
    for option in options_of(hint):
        origin = get_origin(option)
        if getattr(origin, "__name__", "") in _STREAMS and get_args(option):
            return get_args(option)[0]
    return None


def stream_return_hint(hint: Any) -> Any:
    """The annotation of what a generator with this return annotation returns."""
    for option in options_of(hint):
        if getattr(get_origin(option), "__name__", "") == "Generator" and len(get_args(option)) == 3:
            return get_args(option)[2]
    return None


def item_hint(hint: Any, index: int) -> Any:
    """The annotation of an item of a sequence with this annotation."""
    for option in options_of(hint):
        arguments = get_args(option)
        if not arguments:
            continue
        if get_origin(option) is tuple and arguments[-1] is not Ellipsis:
            return dict(enumerate(arguments)).get(index)
        return arguments[0]
    return None


def member_hint(hint: Any, key: str | None) -> Any:
    """The annotation of a member of a mapping with this annotation."""
    for option in options_of(hint):
        if typing.is_typeddict(option):
            return field_hints(option).get(key or "")
        arguments = get_args(option)
        if len(arguments) == 2:
            return arguments[1]
    return None


def classes_in(hint: Any) -> Iterator[type]:
    """The classes that a hint can mean, and those below them."""
    for option in options_of(hint):
        yield from _with_subclasses(option)


@lru_cache(512)
def field_hints(kind: Any, *, include_extras: bool = False) -> dict[str, Any]:
    """Return the annotations of a class's fields, resolved; none where they cannot be."""
    try:
        return typing.get_type_hints(kind, include_extras=include_extras)
    except Exception:  # noqa: BLE001 (evaluating a user's annotations can raise anything)
        return {}


def options_of(hint: Any) -> Iterator[Any]:
    """The classes and generics a hint can mean: unions, aliases and wrappers taken apart."""
    if isinstance(hint, typing.TypeVar):
        yield from options_of(hint.__bound__)
        for constraint in hint.__constraints__:
            yield from options_of(constraint)
    elif hasattr(hint, "__supertype__"):
        yield from options_of(hint.__supertype__)
    elif hasattr(hint, "__value__"):  # a `type X = …` alias
        yield from options_of(hint.__value__)
    elif get_origin(hint) in (typing.Union, types.UnionType):
        for argument in get_args(hint):
            yield from options_of(argument)
    elif get_origin(hint) in (typing.Annotated, typing.Final, typing.ClassVar):
        yield from options_of(get_args(hint)[0])
    elif hint is not None:
        yield hint


def _with_subclasses(option: Any) -> Iterator[type]:
    origin = get_origin(option) or option
    if isinstance(origin, type) and origin is not object:
        yield origin
        if origin.__module__ == "builtins":
            return
        children: list[type] = type.__subclasses__(origin)
        for child in children:
            yield from _with_subclasses(child)
