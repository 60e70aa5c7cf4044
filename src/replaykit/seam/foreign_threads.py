"""Threads and tasks at the edges of a run: those that it has not started, and those that outlive it.

A worker thread may be older than the run, and `_thread.start_new_thread` and `create_task(context=Context())` lose the
scope. If exactly one run is in progress in the process, such a call belongs to it. If there are several, its run is
unknown: a recording leaves it alone, and a replay stops and names it.

A recording does not contain what threads and tasks did after the end of the run. So a replay that is over ends them
where they wait, or at their next call: they must neither take answers that belong to others nor do anything for real.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from replaykit.model.events import AnyEvent
from replaykit.model.unrecorded import Unrecorded, UnrecordedKind
from replaykit.model.values import Json, sayable
from replaykit.seam.failures import running_task
from replaykit.seam.hooks import hook
from replaykit.seam.own_code import Function
from replaykit.seam.scope import (
    Outcome,
    PendingCall,
    RunSession,
    Scope,
    active_sessions,
    current,
    enter,
    leave,
    only_session,
    sessions_under_way,
)

_SUPPRESSED = "suppress_instrumentation"


def scope_of_call(what: str) -> Scope | None:
    """Return the scope of a call of `what` made here; None if it belongs to no run."""
    scope = current()
    if scope is None or scope.session.over:
        return adopted(scope, what)
    return scope


def adopted(scope: Scope | None, what: str) -> Scope | None:
    """Return the scope for a call made here without one, or with that of a run that has ended.

    Returns `scope` itself if no run is in progress, and raises if a replay has to stop the call.
    """
    if scope is not None and scope.session.stops_when_over:
        return _after_replay(scope)
    if not active_sessions:
        return scope
    if scope is not None and (scope.session.is_apart or scope.session.refuse is not None):
        return scope  # leftovers of a replay are still served from its own tape
    under_way = sessions_under_way()
    if len(under_way) == 1:
        return _foreign(under_way[0])
    where = f"{caller()}: several runs are under way in this process"
    errors = [session.refuse(what, where) for session in under_way if session.refuse is not None]
    if errors:
        raise errors[0]
    recordings = [session.unrecorded for session in under_way if session.unrecorded is not None]
    if len(recordings) == 1:
        recordings[0].note(Unrecorded(kind=UnrecordedKind.CALL, place=sayable(what), where=caller()))
    return scope


def _after_replay(scope: Scope) -> Scope:
    """Return the scope for a call by a thread or task of a finished replay: a worker that was idle since then works for
    the next run, and everybody else is stopped."""
    session = only_session()
    if session is not None and threading.get_ident() in scope.session.idle_threads:
        return _foreign(session)
    raise run_over()


@contextmanager
def apart() -> Iterator[None]:
    """Keep the block out of any run: for a server's other requests, while one is served from a tape."""
    session = RunSession(Nobody())
    session.over, session.gives_way, session.is_apart = True, True, True
    token = enter(session.root)
    try:
        yield
    finally:
        with suppress(ValueError):  # left in another context than it was entered in, which happens to streams
            leave(token)


class RunOver(SystemExit):
    """Ends a thread of a finished replay silently."""


def run_over() -> BaseException:
    """Return the exception that ends the current task or thread."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        cancelled: BaseException = asyncio.CancelledError("the replay is over")
        return cancelled
    return RunOver("the replay is over")


def is_program_ending() -> bool:
    """Return True if the main thread has ended or failed, which interrupts other threads that wait.

    They end silently then: a traceback that is printed during interpreter shutdown can abort the process.
    """
    scope = current()
    return not threading.main_thread().is_alive() or (scope is not None and scope.session.is_ending)


@hook
def stopped(original: Function, *args: Any, **kwargs: Any) -> Any:
    """Replace the start of a thread or a pool's job that would belong to no run, and do everything for real."""
    scope = current()
    if scope is not None and scope.session.over and scope.session.stops_when_over:
        is_worker = threading.get_ident() in scope.session.idle_threads  # it also works for other runs
        if not is_worker:
            raise run_over()
    return original(*args, **kwargs)


def exports_telemetry() -> bool:
    """True inside an OpenTelemetry exporter, whose requests describe runs and belong to none."""
    context = sys.modules.get("opentelemetry.context")
    return context is not None and bool(context.get_value(_SUPPRESSED))


def caller() -> str:
    """Describe the thread or task that makes the call."""
    task = running_task()
    if task is not None:
        return f"task {_function(task)}"
    return f"thread {threading.current_thread().name!r}"


def _foreign(session: RunSession) -> Scope:
    task = running_task()
    key: Any = task or threading.get_ident()
    scope = session.foreign.get(key)
    if scope is None:
        name = _function(task or threading.current_thread())
        scope = session.foreign.setdefault(key, session.root.job(name))
    return scope


def _function(starter: Any) -> str:
    """Return the name of what a thread or task runs, the same in every execution."""
    what = starter.get_coro() if hasattr(starter, "get_coro") else getattr(starter, "_target", None)
    name = getattr(what, "__qualname__", None) or "thread"
    return str(name).replace("<locals>.", "").replace("/", "|")


class Nobody:
    """The handler of calls outside of any run: everything happens, and nothing is stored."""

    def serve(self, call: PendingCall) -> None:
        pass

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        pass

    def keep(self, event: AnyEvent) -> None:
        pass

    def amend(self, step: str | None, state: Json) -> Json:
        return state
