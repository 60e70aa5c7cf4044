"""Exceptions as data, and the status of a run that ends with one. `recorded_errors` turns the data back."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus
from replaykit.model.values import Json, canonical, sayable


class RecordedError(Exception):
    """Stands in for a recorded exception whose class cannot be found."""


class ToolError(RecordedError):
    """A tool answered with an error status; `status` is 0 if it gave no answer."""

    status: int = 0
    response: Json = None

    def __init__(self, message: str, *, status: int = 0, response: Json = None) -> None:
        super().__init__(message)
        self.status = status
        self.response = response


def describe(error: BaseException, *, traceback: str | None = None) -> ErrorInfo:
    """Return the exception as data."""
    from replaykit.seam.forms import ResultForms, describe_in  # noqa: PLC0415 (slow to import; most calls do not fail)

    if traceback is not None:
        traceback = sayable(traceback)
    return describe_in(error, ResultForms(), traceback)


_ARGS = BaseException.__dict__["args"]
set_args = _ARGS.__set__
"""Set the arguments of an exception; unlike an assignment, never asks its class."""
set_cause = BaseException.__dict__["__cause__"].__set__
_CONTEXT = BaseException.__dict__["__context__"]
set_context = _CONTEXT.__set__
set_suppress_context = BaseException.__dict__["__suppress_context__"].__set__


def raise_again(error: BaseException) -> NoReturn:
    """Raise a recorded exception with its recorded context, not the one being handled."""
    context, outer = _CONTEXT.__get__(error), sys.exception()
    if outer is not None:
        context = _with_outer(context, outer)
    try:
        raise error
    finally:
        set_context(error, context)  # Python has just replaced it


def _with_outer(context: BaseException | None, outer: BaseException) -> BaseException | None:
    """Return the recorded context, in which the exception being handled replaces its recorded self."""
    if context is None or _is_alike(context, outer):
        return outer
    seen: set[int] = set()
    inner: BaseException = context
    while id(inner) not in seen:
        seen.add(id(inner))
        behind: BaseException | None = _CONTEXT.__get__(inner)
        if behind is None:
            break
        if _is_alike(behind, outer):
            set_context(inner, outer)
            break
        inner = behind
    return context


def _is_alike(recorded: BaseException, current: BaseException) -> bool:
    if type(recorded) is not type(current):
        return False
    return canonical(_ARGS.__get__(recorded)) == canonical(_ARGS.__get__(current))


def status_of(error: BaseException | None) -> RunStatus:
    """Return the status of a run that ended with this error, or without one."""
    if error is None:
        return RunStatus.SUCCESS
    if isinstance(error, TimeoutError):
        return RunStatus.TIMEOUT
    if isinstance(error, KeyboardInterrupt) or is_cancellation(type(error)):
        return RunStatus.CANCELLED
    return RunStatus.ERROR


def is_interruption(kind: type[BaseException]) -> bool:
    """True for exceptions that end a call from outside."""
    return issubclass(kind, KeyboardInterrupt | GeneratorExit) or is_cancellation(kind)


def came_from_outside(error: BaseException) -> bool:
    """True for an exception by which somebody else has ended a call. A tool may also raise a cancellation itself, such
    as that of something it waited for: then nobody has cancelled the task that runs it."""
    if not is_interruption(type(error)):
        return False
    return not is_cancellation(type(error)) or type(error).__name__ == "Cancelled" or _is_task_being_cancelled()


def _is_task_being_cancelled() -> bool:
    task = running_task()
    return task is not None and task.cancelling() > 0


def running_task() -> Any:
    """Return the current asyncio task; None if there is none."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop is running
        return None


def is_cancellation(kind: type[BaseException]) -> bool:
    """True for the exceptions of cancelled tasks: asyncio's, those of futures, and trio's."""
    return kind.__name__ == "CancelledError" or (kind.__name__ == "Cancelled" and kind.__module__.startswith("trio"))
