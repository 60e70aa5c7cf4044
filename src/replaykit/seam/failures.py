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

import msgspec

from replaykit.errors import ReplayKitError
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus
from replaykit.model.values import ABSENT, Json, Raw, decode, encode, raw, sayable

_INNER = "$error"
_LEVELS = 3  # how deep exceptions inside of exceptions are kept


class RecordedError(Exception):
    """Stands in for a recorded exception whose class is not to be found here."""


class ToolError(RecordedError):
    """A tool that answered with an error status: `status` is 0 where no answer came."""

    def __init__(self, message: str, *, status: int = 0, response: Json = None) -> None:
        super().__init__(message)
        self.status = status
        self.response = response


def describe(error: BaseException, *, traceback: str | None = None) -> ErrorInfo:
    """The exception as data."""
    return _described(error, _LEVELS, None if traceback is None else sayable(traceback))


def _described(error: BaseException, levels: int, traceback: str | None = None) -> ErrorInfo:
    kind = type(error)
    # Our own errors carry live objects for those who catch them; the message says all that is to be kept.
    attributes = {} if isinstance(error, ReplayKitError) else error.__dict__
    return ErrorInfo(
        type=kind.__qualname__,
        module=kind.__module__,
        message=_message(error),
        args_json=raw(tuple(_kept(value, levels) for value in error.args)) if error.args else ABSENT,
        attributes_json=raw({n: _kept(value, levels) for n, value in attributes.items()}) if attributes else ABSENT,
        bases=tuple(f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[1:-2]),
        traceback=traceback,
    )


def rebuild_error(info: ErrorInfo, namespace: Mapping[str, Any]) -> BaseException:
    """The exception, as its own class where `namespace` or a loaded module has it."""
    kind, arguments = _find(info.module, info.type, namespace), _arguments(info, namespace)
    if kind is None:
        return _stand_in(info, _known_base(info, namespace))
    try:
        error = _made(kind, arguments)
    except (TypeError, ValueError):  # arguments that could not be kept, such as those of an ExceptionGroup
        return _stand_in(info, kind)
    attributes = decode(info.attributes_json) if info.attributes_json else None
    if isinstance(attributes, dict) and hasattr(error, "__dict__"):
        error.__dict__.update({name: _given_back(value, namespace) for name, value in attributes.items()})
    return error


def status_of(error: BaseException | None) -> RunStatus:
    """How a run ended that ended with this error, or without one."""
    if error is None:
        return RunStatus.SUCCESS
    if isinstance(error, TimeoutError):
        return RunStatus.TIMEOUT
    if isinstance(error, KeyboardInterrupt) or is_cancellation(type(error)):
        return RunStatus.CANCELLED
    return RunStatus.ERROR


def _message(error: BaseException) -> str:
    try:
        return sayable(str(error))
    except Exception as broken:  # noqa: BLE001 (a user's __str__)
        return f"<str() failed: {type(broken).__name__}>"


def _arguments(info: ErrorInfo, namespace: Mapping[str, Any]) -> tuple[Json, ...]:
    if not info.args_json:
        return (info.message,) if info.message else ()
    arguments = decode(info.args_json)
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)
    return tuple(_given_back(argument, namespace) for argument in arguments)


def _kept(value: Json, levels: int) -> Json:
    """An exception inside of another as data; anything else as it is."""
    if not isinstance(value, BaseException) or levels == 0:
        return value
    return {_INNER: Raw(msgspec.json.encode(_described(value, levels - 1)))}


def _given_back(value: Json, namespace: Mapping[str, Any]) -> Json:
    """What `_kept` was given."""
    if type(value) is not dict or value.keys() != {_INNER}:
        return value
    try:
        info = msgspec.json.decode(encode(value[_INNER]), type=ErrorInfo)
    except msgspec.MsgspecError:
        return value  # plain data that looks like one of ours
    return rebuild_error(info, namespace)


def _made(kind: type[BaseException], arguments: tuple[Json, ...]) -> BaseException:
    """An instance by the nearest builtin's own hand: neither __new__ nor __init__ of a user's class is run."""
    builtin: type[BaseException] = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    if kind is builtin:
        return kind(*arguments)
    error = builtin.__new__(kind, *arguments)
    error.args = arguments
    return error


def _find(module: str, name: str, namespace: Mapping[str, Any]) -> type[BaseException] | None:
    """The exception class of that name, among those that are there already."""
    simple = name.rpartition(".")[2]
    places: list[Mapping[str, Any]] = [namespace]
    if module in ("", "builtins"):
        places = [vars(builtins), namespace]
    elif isinstance(sys.modules.get(module), ModuleType):
        places.append(vars(sys.modules[module]))
    places += [vars(value) for value in namespace.values() if isinstance(value, ModuleType)]
    for place in places:
        found = place.get(simple)
        if not isinstance(found, type) or not issubclass(found, BaseException) or is_interruption(found):
            continue
        if not module or found.__module__ == module:
            return found
    return None


def is_interruption(kind: type[BaseException]) -> bool:
    """True for what ends a call from outside; a recording must never raise it."""
    return issubclass(kind, KeyboardInterrupt | GeneratorExit) or is_cancellation(kind)


def is_cancellation(kind: type[BaseException]) -> bool:
    """True for what ends a task that somebody cancelled: asyncio's and the futures' own, and trio's."""
    return kind.__name__ == "CancelledError" or (kind.__name__ == "Cancelled" and kind.__module__.startswith("trio"))


def _known_base(info: ErrorInfo, namespace: Mapping[str, Any]) -> type[BaseException] | None:
    for base in info.bases:
        module, _, name = base.rpartition(".")
        known = _find(module, name, namespace)
        if known is not None:
            return known
    return None


def _stand_in(info: ErrorInfo, base: type[BaseException] | None) -> BaseException:
    """An exception of that name below the nearest base that is known, so that `except` of the base still works."""
    name = "".join(char for char in info.type if char.isprintable()) or "Error"
    bases = (RecordedError,) if base in (None, Exception, BaseException) else (RecordedError, base)
    try:
        return _made(type(name, bases, {}), (info.message,))
    except (TypeError, ValueError):  # a base that does not go with another, or wants other arguments
        return _made(type(name, (RecordedError,), {}), (info.message,))
