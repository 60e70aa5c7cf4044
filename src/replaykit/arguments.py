"""Arguments of public functions, checked against their annotations before anything is done with them."""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from replaykit.errors import UsageError, wrong_argument

P = ParamSpec("P")
T = TypeVar("T")


def checked(example: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that answers a wrong argument with a `UsageError`; `example` is a call that is right."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        call = example.partition("(")[0]
        signature = inspect.signature(function)
        types_of = functools.cache(functools.partial(_types_of, function))

        @functools.wraps(function)
        def checked_function(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise UsageError(f"{call}: {error}", hint=f"Write: {example}") from None
            expected = types_of()
            for name, value in given.items():
                if name in expected and not fits(value, expected[name]):
                    if isinstance(value, str | os.PathLike) and fits([value], expected[name]):
                        raise UsageError(f"{call}: `{name}` is a list", hint=f"Write: {name}=[{str(value)!r}]")
                    raise wrong_argument(call, value, example, name=name)
            return function(*args, **kwargs)

        return checked_function

    return decorate


def _types_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the types of a function's parameters; those of `*args` and `**kwargs` are left out."""
    hints = typing.get_type_hints(function)
    expected = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in hints and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            expected[name] = hints[name]
    return expected


def fits(value: object, type_: Any) -> bool:
    """True for a value of this type. A text is no sequence of texts: `live="search"` means `live=["search"]`."""
    origin, parts = typing.get_origin(type_), typing.get_args(type_)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is typing.Literal:
        return value in parts
    if origin is Callable:
        return callable(value)
    if origin in (Iterable, Sequence):
        return _is_list(value, parts[0])
    if type_ is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if type_ is int:
        return isinstance(value, int) and not isinstance(value, bool)
    class_ = origin or type_
    if not isinstance(class_, type) or class_ is Any:
        return True
    if getattr(class_, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(class_) if not name.startswith("_"))
    return isinstance(value, class_)


def _is_list(value: object, item_type: Any) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    if not isinstance(value, Sequence):  # an iterator can be read only once
        return True
    return all(fits(item, item_type) for item in value)
