"""Arguments of public functions, checked against their annotations before anything is done with them."""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

from replaykit.errors import UsageError, wrong_argument

P = ParamSpec("P")
T = TypeVar("T")
Fits: TypeAlias = Callable[[Any], bool]
"""True for a value that fits a parameter."""


def checked(example: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that answers a wrong argument with a `UsageError`; `example` is a call that is right."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        call = example.partition("(")[0]
        # Both take longer than most calls, and few of the functions are called in one process.
        signature_of = functools.cache(functools.partial(inspect.signature, function))
        tests = functools.cache(functools.partial(_tests, function))

        @functools.wraps(function)
        def checked_function(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                arguments = signature_of().bind(*args, **kwargs).arguments
            except TypeError as error:
                raise UsageError(f"{call}: {error}", hint=f"Write: {example}") from None
            fits = tests()
            for name, value in arguments.items():
                if name in fits and not fits[name](value):
                    raise _wrong(call, name, value, example, fits[name])
            return function(*args, **kwargs)

        return checked_function

    return decorate


def _wrong(call: str, name: str, value: object, example: str, fits: Fits) -> UsageError:
    if isinstance(value, str | os.PathLike) and fits([value]):
        return UsageError(f"{call}: `{name}` is a list", hint=f"Write: {name}=[{str(value)!r}]")
    return wrong_argument(call, value, example, name=name)


def _tests(function: Callable[..., Any]) -> Mapping[str, Fits]:
    """Return a test of each parameter of a function that does not take any value."""
    hints = typing.get_type_hints(function)
    tests = {}
    for name in inspect.signature(function).parameters:
        fits = fits_of(hints.get(name, Any))
        if fits is not _anything:
            tests[name] = fits
    return tests


def fits_of(type_: Any) -> Fits:
    """Return the test of a type. A text is no list of texts: `live="search"` means `live=["search"]`."""
    origin, parts = typing.get_origin(type_), typing.get_args(type_)
    if origin in (typing.Union, types.UnionType):
        return _either(list(map(fits_of, parts)))
    if origin is typing.Literal:
        return lambda value: value in parts
    if origin is Callable:
        return callable
    if origin in (Iterable, Sequence):
        return _list_of(fits_of(parts[0]))
    if type_ is float:
        return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    if type_ is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    class_ = origin or type_
    if not isinstance(class_, type) or class_ is Any:
        return _anything
    if getattr(class_, "_is_protocol", False):
        names = [name for name in vars(class_) if not name.startswith("_")]
        return lambda value: all(hasattr(value, name) for name in names)
    return lambda value: isinstance(value, class_)


def _anything(_value: object) -> bool:
    return True


def _either(tests: Sequence[Fits]) -> Fits:
    if _anything in tests:
        return _anything
    return lambda value: any(fits(value) for fits in tests)


def _list_of(fits: Fits) -> Fits:
    def is_list(value: Any) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        if not isinstance(value, Sequence):  # an iterator can be read only once
            return True
        return all(map(fits, value))

    return is_list
