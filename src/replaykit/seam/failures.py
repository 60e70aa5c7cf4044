"""Exceptions as data, and back as their own class.

An exception is rebuilt only from classes that are there already: the builtins, what the tool's own module can
name, and modules that are loaded. Nothing is imported, and no constructor of a user's class is run.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from replaykit.errors import ReplayKitError
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus
from replaykit.model.values import ABSENT, Json, decode, raw, sayable


class RecordedError(Exception):
    """Stands in for a recorded exception whose class is not to be found here."""


def describe(error: BaseException, *, traceback: str | None = None) -> ErrorInfo:
    """The exception as data."""
    kind = type(error)
    # Our own errors carry live objects for those who catch them; the message says all that is to be kept.
    attributes = {} if isinstance(error, ReplayKitError) else error.__dict__
    return ErrorInfo(
        type=kind.__qualname__,
        module=kind.__module__,
        message=_message(error),
        args_json=raw(error.args) if error.args else ABSENT,
        attributes_json=raw(attributes) if attributes else ABSENT,
        bases=tuple(f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[1:-2]),
        traceback=None if traceback is None else sayable(traceback),
    )


def rebuild_error(info: ErrorInfo, namespace: Mapping[str, Any]) -> BaseException:
    """The exception, as its own class where `namespace` or a loaded module has it."""
    kind = _find(info.module, info.type, namespace)
    if kind is None:
        kind = _stand_in(info, namespace)
    arguments = _arguments(info)
    if kind.__module__ == "builtins":
        return _construct(kind, arguments, info)
    # By the nearest builtin's own hand: neither __new__ nor __init__ of the user's class is run.
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    error: BaseException = builtin.__new__(kind, *arguments)
    error.args = arguments
    if info.attributes_json:
        error.__dict__.update(decode(info.attributes_json))
    return error


def status_of(error: BaseException | None) -> RunStatus:
    """How a run ended that ended with this error, or without one."""
    if error is None:
        return RunStatus.SUCCESS
    if isinstance(error, TimeoutError):
        return RunStatus.TIMEOUT
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "CancelledError":
        return RunStatus.CANCELLED
    return RunStatus.ERROR


def _message(error: BaseException) -> str:
    try:
        return sayable(str(error))
    except Exception as broken:  # noqa: BLE001 (a user's __str__)
        return f"<str() failed: {type(broken).__name__}>"


def _arguments(info: ErrorInfo) -> tuple[Json, ...]:
    if not info.args_json:
        return (info.message,) if info.message else ()
    arguments = decode(info.args_json)
    return arguments if isinstance(arguments, tuple) else (arguments,)


def _construct(kind: type[BaseException], arguments: tuple[Json, ...], info: ErrorInfo) -> BaseException:
    try:
        return kind(*arguments)
    except (TypeError, ValueError):  # arguments that could not be kept, such as those of an ExceptionGroup
        return _stand_in_for(kind, info)


def _stand_in_for(kind: type[BaseException], info: ErrorInfo) -> BaseException:
    """An exception of that name with the recorded message, where the class itself refuses the arguments."""
    stubborn = issubclass(kind, BaseExceptionGroup | UnicodeError)
    bases: tuple[type[BaseException], ...] = (RecordedError,) if stubborn else (RecordedError, kind)
    made: type[BaseException] = type(info.type, bases, {})
    return made(info.message)


def _find(module: str, name: str, namespace: Mapping[str, Any]) -> type[BaseException] | None:
    """The exception class of that name, among those that are there already."""
    simple = name.rpartition(".")[2]
    places: list[Mapping[str, Any]] = [namespace]
    if module in ("", "builtins"):
        places = [vars(builtins), namespace]
    elif module in sys.modules:
        places.append(vars(sys.modules[module]))
    places += [vars(value) for value in namespace.values() if isinstance(value, ModuleType)]
    for place in places:
        found = place.get(simple)
        known = isinstance(found, type) and issubclass(found, BaseException)
        if known and (not module or found.__module__ == module):
            return found
    return None


def _stand_in(info: ErrorInfo, namespace: Mapping[str, Any]) -> type[BaseException]:
    """A class of that name below the nearest base that is known, so that `except` of the base still works."""
    for base in info.bases:
        module, _, name = base.rpartition(".")
        known = _find(module, name, namespace)
        if known is not None and known is not Exception and known is not BaseException:
            return type(info.type, (RecordedError, known), {})
    return type(info.type, (RecordedError,), {})
