"""Recorded exceptions as exceptions again.

An exception is created by the nearest `__new__` written in C: neither `__new__` nor `__init__` of a user's class runs.
Values outside of `__dict__`, such as the `errno` of an OSError, are set one by one.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType
from typing import Any

import orjson

from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, Raw
from replaykit.seam.classes import ancestors, defined, find_class, is_class, is_hashed_as_usual, members
from replaykit.seam.failures import (
    RecordedError,
    ToolError,
    is_interruption,
    set_args,
    set_cause,
    set_context,
    set_suppress_context,
)
from replaykit.seam.forms import CAUSE, CONTEXT, SUPPRESS, slot_members
from replaykit.seam.libraries import made_error

Rebuild = Callable[[Json], Any]


def make_error(
    info: ErrorInfo, namespace: Mapping[str, Any], rebuild: Rebuild, missing: Callable[[ErrorInfo], None]
) -> BaseException:
    """Return an exception of the recorded class, or else one that a base catches, after calling `missing`."""
    kind = _find(info.module, info.type, namespace)
    attributes = _attributes(info, rebuild)
    try:
        error = None if kind is None else _special(kind, attributes) or _new_error(kind, _arguments(info, rebuild))
    except (TypeError, ValueError, LookupError):  # arguments that do not fit the class
        error = None
    if error is None:
        missing(info)
        base = kind if kind is not None and _is_bare(kind) else _known_base(info, namespace)
        error = _stand_in(info, base)
    _fill(error, attributes)
    return error


def _attributes(info: ErrorInfo, rebuild: Rebuild) -> dict[str, Any]:
    if not info.attributes_json:
        return {}
    frozen = _loaded(info.attributes_json)
    if type(frozen) is dict and frozen.keys() == {"$dict"}:
        frozen = rebuild(frozen)
        return frozen if isinstance(frozen, dict) else {}
    return {name: rebuild(value) for name, value in frozen.items()} if type(frozen) is dict else {}


def _arguments(info: ErrorInfo, rebuild: Rebuild) -> tuple[Any, ...]:
    if not info.args_json:
        is_recorded = bool(info.bases)  # others have only a message
        return (info.message,) if info.message and not is_recorded else ()
    arguments = rebuild(_loaded(info.args_json))
    return arguments if isinstance(arguments, tuple) else (arguments,)


def _loaded(text: Raw) -> Json:
    return orjson.loads(bytes(text))


def _special(kind: type[BaseException], attributes: dict[str, Any]) -> BaseException | None:
    error = made_error(kind, attributes)
    if error is not None:
        set_args(error, ())
        chain = {name: attributes[name] for name in (CAUSE, CONTEXT, SUPPRESS) if name in attributes}
        attributes.clear()  # they are in the exception already
        attributes.update(chain)
    return error


def _new_error(kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException:
    if kind.__module__ == "builtins":
        return kind(*arguments)
    base: type = kind
    while type(members(base).get("__new__")) is not BuiltinFunctionType:
        base = base.__base__  # type: ignore[assignment]  # the base that determines the memory layout
    is_group = issubclass(kind, BaseExceptionGroup)
    new: Callable[..., BaseException] = base.__new__
    error = new(kind, *arguments[:2]) if is_group else new(kind)
    set_args(error, arguments)
    return error


def _fill(error: BaseException, attributes: dict[str, Any]) -> None:
    """Set an exception's attributes, and the exceptions behind it, without calling a setter."""
    cause = attributes.pop(CAUSE, None)
    context = attributes.pop(CONTEXT, None)
    suppress = attributes.pop(SUPPRESS, None)
    if isinstance(cause, BaseException):
        set_cause(error, cause)
    if type(context) is str and context == CAUSE:
        context = cause
    if isinstance(context, BaseException):
        set_context(error, context)
    if type(suppress) is bool:
        set_suppress_context(error, suppress)
    slots = slot_members(type(error))
    for name, value in attributes.items():
        if name in slots:
            _set(slots[name], error, value)
        elif defined(type(error), "__dict__") is not None and isinstance(name, str):
            BaseException.__getattribute__(error, "__dict__")[name] = value


def _set(member: Any, error: BaseException, value: Any) -> None:
    try:
        member.__set__(error, value)
    except (TypeError, AttributeError, ValueError):
        return  # read-only, or of another type: the arguments have set it


def _find(module: str, name: str, namespace: Mapping[str, Any]) -> type[BaseException] | None:
    """Return the exception class of that name among the loaded ones."""
    simple = name.rpartition(".")[2]
    found: Any = vars(builtins).get(simple) if module in ("", "builtins") else None
    if not _is_error(found) and module != "builtins":
        found = find_class(module or None, name if module else simple, namespace)
    if found is None and not module and simple == ToolError.__name__:
        return ToolError  # the name that traces use for any tool's error
    return found if _is_error(found) else None


def _is_error(found: Any) -> bool:
    if not is_class(found) or not is_hashed_as_usual(found) or defined(found, "__del__") is not None:
        return False
    return BaseException in ancestors(found) and (not is_interruption(found) or _is_raised_by_tools(found))


def _is_raised_by_tools(kind: type[BaseException]) -> bool:
    """True for cancellations that a tool may raise itself. Data must not raise any other interruption."""
    return kind.__name__ == "CancelledError" and kind.__module__ in ("asyncio.exceptions", "concurrent.futures._base")


def _known_base(info: ErrorInfo, namespace: Mapping[str, Any]) -> type[BaseException] | None:
    for base in info.bases:
        module, _, name = base.rpartition(".")
        known = _find(module, name, namespace)
        if known is not None and _is_bare(known):
            return known
    return None


def _is_bare(kind: type[BaseException]) -> bool:
    """True if creating a subclass of this class runs none of its code."""
    return type(kind) is type and defined(kind, "__init_subclass__") is members(object)["__init_subclass__"]


def _stand_in(info: ErrorInfo, base: type[BaseException] | None) -> BaseException:
    """Return an exception of that name below the nearest known base, so that `except` of the base still works."""
    name = "".join(char for char in info.type if char.isprintable()) or "Error"
    bases = (RecordedError,) if base in (None, Exception, BaseException) else (RecordedError, base)
    try:
        return _new_error(type(name, bases, {}), (info.message,))
    except (TypeError, ValueError):  # bases that do not fit together, or other arguments
        return _new_error(type(name, (RecordedError,), {}), (info.message,))
