"""Threads and tasks at the edges of a run: those that it has not started, and those that outlive it.

A worker thread may be older than the run, `_thread.start_new_thread` and `create_task(context=Context())` leave the
scope behind. Where exactly one run is under way in the process, such a call is recorded in it, or served from its tape.
Where there are several, nobody knows whose it is: a recording leaves it alone, and a replay stops and names it.

What threads and tasks did after the end of the recorded run is not in the recording. So a replay that is over ends them
where they wait, or where they make their next call: they must neither take answers that belong to others nor do
anything for real.
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
    """Return the scope of a call of `what` that is made here; None where it belongs to no run."""
    scope = current()
    if scope is None or scope.session.over:
        return adopted(scope, what)
    return scope


def adopted(scope: Scope | None, what: str) -> Scope | None:
    """The scope for a call of `what` that is made here, where there is none or that of a run which has ended.

    Gives back `scope` itself where no run is under way, and raises where a replay has to stop the call.
    """
    if scope is not None and scope.session.stops_when_over:
        return _after_replay(scope)
    if not active_sessions:
        return scope
    if scope is not None and (scope.session.is_apart or scope.session.refuse is not None):
        return scope  # what a replay has left behind is still served from its own tape
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
    """The scope for a call by a thread or a task of a replay that is over: a worker that has waited for something to do
    since works for the next run, and everybody else is stopped."""
    session = only_session()
    if session is not None and threading.get_ident() in scope.session.idle_threads:
        return _foreign(session)
    raise run_over()


@contextmanager
def apart() -> Iterator[None]:
    """Keep the block out of any run: a server's other requests, while one is served from a tape."""
    session = RunSession(Nobody())
    session.over, session.gives_way, session.is_apart = True, True, True
    token = enter(session.root)
    try:
        yield
    finally:
        with suppress(ValueError):  # left in another context than it was entered in, as streams may be
            leave(token)


class RunOver(SystemExit):
    """Ends a thread of a replay that is over, without a word."""


def run_over() -> BaseException:
    """Return the exception that ends the task, or else the thread, that goes on here."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        cancelled: BaseException = asyncio.CancelledError("the replay is over")
        return cancelled
    return RunOver("the replay is over")


def is_program_ending() -> bool:
    """Return True when the main thread has ended or failed: that interrupts what other threads are still waiting for.

    They end without a word then. A traceback that is printed while the interpreter shuts down can abort the process.
    """
    scope = current()
    return not threading.main_thread().is_alive() or (scope is not None and scope.session.is_ending)


@hook
def stopped(original: Function, *args: Any, **kwargs: Any) -> Any:
    """For what starts a thread or a pool's job: it would belong to no run, and do everything for real."""
    scope = current()
    if scope is not None and scope.session.over and scope.session.stops_when_over:
        is_worker = threading.get_ident() in scope.session.idle_threads  # it works for others, too
        if not is_worker:
            raise run_over()
    return original(*args, **kwargs)


def exports_telemetry() -> bool:
    """True inside of an OpenTelemetry exporter, whose requests are about runs and part of none."""
    context = sys.modules.get("opentelemetry.context")
    return context is not None and bool(context.get_value(_SUPPRESSED))


def caller() -> str:
    """The thread or task that makes the call, in words."""
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
    """The name of what a thread or a task runs, the same in every execution."""
    what = starter.get_coro() if hasattr(starter, "get_coro") else getattr(starter, "_target", None)
    name = getattr(what, "__qualname__", None) or "thread"
    return str(name).replace("<locals>.", "").replace("/", "|")


class Nobody:
    """The handler of what is no part of a run: everything happens, nothing is kept."""

    def serve(self, call: PendingCall) -> None:
        pass

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        pass

    def keep(self, event: AnyEvent) -> None:
        pass

    def amend(self, step: str | None, state: Json) -> Json:
        return state
