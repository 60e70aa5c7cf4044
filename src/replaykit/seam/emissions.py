"""Log records and warnings that a tool emits and the agent reads: a replay serves the call, and emits none.

The agent's own handlers are examined before and after they get a record, like objects that a tool changes. What they
print or send decides nothing. A list of `warnings.catch_warnings(record=True)` exists to be read.
"""

from __future__ import annotations

import functools
import io
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from replaykit.seam.agent_code import is_own_class
from replaykit.seam.hooks import Hooks, hook
from replaykit.seam.own_code import Function, is_library
from replaykit.seam.scope import PendingCall, RunSession, current
from replaykit.seam.side_effects import Reach, agent_code_of, differences

_CAUGHT = "warnings.catch_warnings()"


def _call_under_way() -> tuple[RunSession, PendingCall] | None:
    """Return the call that the agent itself made, if a tool is running in a recording."""
    scope = current()
    if scope is None or scope.outermost is None or scope.session.unrecorded is None:
        return None
    return scope.session, scope.outermost


def _note(call: PendingCall, name: str) -> None:
    if name not in call.emitted:
        call.emitted = (*call.emitted, name)


@hook
def _handling(original: Function, handler: Any, record: Any) -> Any:
    """Wrap `logging.Handler.handle`."""
    under_way = _call_under_way()
    if under_way is None:
        return original(handler, record)
    session, call = under_way
    is_buffered = hasattr(handler, "buffer")  # a `logging.handlers.MemoryHandler`
    if is_buffered and agent_code_of(session).reads_field("buffer"):
        _note(call, f"logging.{type(handler).__name__}.buffer")
    if not _keeps_text(handler):
        owners = [handler] if is_own_class(type(handler)) else []
        with _noting_changes(call, owners, "emit"):
            return original(handler, record)
    result = original(handler, record)
    if agent_code_of(session).reads_field("getvalue"):
        _note(call, f"logging.{type(handler).__name__}.stream")
    return result


@hook
def _filtering(original: Function, filterer: Any, record: Any) -> Any:
    """Wrap `logging.Filterer.filter`, of loggers and handlers."""
    under_way = _call_under_way()
    if under_way is None:
        return original(filterer, record)
    own = [item for item in filterer.filters if is_own_class(type(item)) and hasattr(item, "filter")]
    with _noting_changes(under_way[1], own, "filter"):
        return original(filterer, record)


@contextmanager
def _noting_changes(call: PendingCall, owners: list[Any], method: str) -> Iterator[None]:
    """Note changes by the method in objects of the agent's own classes."""
    reaches = [_reach_of(cast(Hashable, type(owner)), method) for owner in owners]
    before = [reach.look((owner,)) for reach, owner in zip(reaches, owners, strict=True)]
    yield
    for reach, owner, earlier in zip(reaches, owners, before, strict=True):
        for name in sorted(differences(earlier, reach.look((owner,)))):
            _note(call, f"{type(owner).__name__}.{name.removeprefix('self.')}")


def _keeps_text(handler: Any) -> bool:
    """True for a handler that appends to a text, except for those of test runners."""
    kind = type(handler)
    if kind.__module__ != "logging" and not is_own_class(kind):
        return False
    return isinstance(getattr(handler, "stream", None), io.StringIO | io.BytesIO)


@functools.lru_cache(maxsize=64)
def _reach_of(kind: Any, method: str) -> Reach:
    return Reach(getattr(kind, method), receiver="self")


def _entering(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap `warnings.catch_warnings.__enter__`."""

    def enter(catcher: Any) -> Any:
        log = original(catcher)
        scope = current()
        is_own = not is_library(sys._getframe(1).f_code.co_filename)
        if log is not None and is_own and scope is not None and scope.session.unrecorded is not None:
            scope.session.warning_logs.append((log, scope.outermost))
        return log

    return enter


@hook
def _showing(original: Function, message: Any) -> None:
    """Wrap `warnings._showwarnmsg`, which C code calls as well."""
    under_way = _call_under_way()
    if under_way is not None:
        session, call = under_way
        # The list that warnings are currently added to; None if they are shown.
        log = getattr(getattr(warnings, "_showwarnmsg_impl", None), "__self__", None)
        if any(caught is log and caught_in is not call for caught, caught_in in session.warning_logs):
            _note(call, _CAUGHT)
    original(message)


_HOOKS = Hooks(
    {
        "logging": (("Handler", "handle", _handling), ("Filterer", "filter", _filtering)),
        "warnings": (("catch_warnings", "__enter__", _entering), ("", "_showwarnmsg", _showing)),
    },
)
watching_emissions = _HOOKS.installed
"""Make a recording note what tools emit, during the block."""
