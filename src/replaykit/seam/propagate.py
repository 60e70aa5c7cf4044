"""Carry the active scope into everything a run starts: tasks, pool jobs, threads.

Context variables follow `asyncio` tasks by themselves, but not jobs of a pool or new threads; and two tasks
that share a scope could not be told apart on replay. While a session is active, each task, job and thread
therefore starts in a child scope of its own, named after its function and numbered where it is *started*.

The iterations of event loops are counted as well, so that calls that end in the same burst of a loop do so in a replay.

`asyncio` and the pools are slow to import; an agent that does not use them does not pay for them (`seam.hooks`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any

from replaykit.model.unrecorded import Unrecorded, UnrecordedKind
from replaykit.model.values import sayable
from replaykit.seam.hooks import Rows, hook
from replaykit.seam.own_code import Function, qualified_name
from replaykit.seam.scope import RunSession, Scope, current, enter, scope_in


@hook
def _create_task(original: Function, loop: Any, coro: Any, *, context: Context | None = None, **options: Any) -> Any:
    scope = current()
    if context is not None:
        scope = scope_in(context) or scope  # a context without a scope: use that of the creator
    # The coroutine that starts a loop (asyncio.run) continues its caller's scope; everything started in it is a branch.
    if scope is not None and scope.session.carries and loop.is_running():
        context = copy_context() if context is None else context.copy()
        context.run(enter, scope.job(_name(coro)))
    if context is not None:
        options["context"] = context
    task = original(loop, coro, **options)
    if scope is not None and scope.outermost is not None:
        scope.note_job(task)
    return task


@hook
def _call_at(original: Function, loop: Any, when: float, callback: Function, *args: Any, **options: Any) -> Any:
    timer = original(loop, when, callback, *args, **options)
    scope = current()
    if scope is not None and scope.outermost is not None:
        scope.note_job(timer)
    return timer


@hook
def _submit(original: Function, pool: Any, fn: Function, /, *args: Any, **kwargs: Any) -> Any:
    carried = _context_inside(fn)
    if carried is not None:  # asyncio.to_thread has already copied its context: put the job's scope into that
        scope = carried.run(current)
        if scope is None:
            return original(pool, fn, *args, **kwargs)
        carried.run(enter, scope.job(_name(fn)))
        future = _submitted(scope, original, pool, functools.partial(fn, *args, **kwargs))
        return _noted(scope, future, (fn, args, kwargs))
    scope = current()
    if scope is not None and _is_of_interpreters(pool):
        _leave_to_interpreter(scope.session, _name(fn))
    elif scope is not None:
        context = copy_context()
        context.run(enter, scope.job(_name(fn)))
        future = _submitted(scope, original, pool, functools.partial(context.run, fn, *args, **kwargs))
        return _noted(scope, future, (fn, args, kwargs))
    return original(pool, fn, *args, **kwargs)


def _is_of_interpreters(pool: Any) -> bool:
    """Return whether the jobs of a pool run in other interpreters, as they can from Python 3.14 on."""
    module = sys.modules.get("concurrent.futures.interpreter")
    return module is not None and isinstance(pool, module.InterpreterPoolExecutor)


def _leave_to_interpreter(session: RunSession, job: str) -> None:
    """Note a job of another interpreter, which belongs to no run; raise if a replay has to stop it."""
    where = "a pool of interpreters, which a run cannot follow"
    if session.refuse is not None:
        raise session.refuse(job, where)
    if session.unrecorded is not None:
        session.unrecorded.note(Unrecorded(kind=UnrecordedKind.CALL, place=sayable(job), where=where))


@hook
def _start(original: Function, thread: Any) -> Any:
    scope = current()
    target = getattr(thread, "_target", None)
    # A pool's worker outlives the run; its jobs bring their own context.
    is_worker = getattr(target, "__module__", "") == "concurrent.futures.thread"
    if scope is not None and scope.session.carries and not is_worker:
        context = copy_context()
        context.run(enter, scope.job(_name(target or type(thread).run)))
        if scope.outermost is not None:
            scope.note_job(thread)
        thread.run = functools.partial(context.run, _watched(scope, thread.run))
    return original(thread)


def _submitted(scope: Scope, submit: Function, pool: Any, job: Callable[[], Any]) -> Any:
    """Submit a job to a pool; in a recording, the job notes how long it was held up."""
    hold_ups = scope.session.hold_ups
    if hold_ups is None:
        return submit(pool, job)
    return hold_ups.submit(submit, pool, job)


def _noted(scope: Scope, future: Any, job: tuple[Any, ...]) -> Any:
    """Note a job that starts inside of a call; its future knows function and arguments until it has ended."""
    if scope.outermost is not None:
        future._replaykit_job = job
        future.add_done_callback(lambda _: vars(future).pop("_replaykit_job", None))
        scope.note_job(future)
    return future


def job_of(future: Any) -> Any:
    """Return the function and the arguments of a running job; None if they are unknown."""
    return getattr(future, "_replaykit_job", None)


def _watched(scope: Scope, function: Function) -> Function:
    """Return the function of a thread; in a recording, it notes how long it was held up."""
    if scope.session.hold_ups is None:
        return function
    return scope.session.hold_ups.watched(function)


def _set(original: Function) -> Function:
    """Replace the `set` that `asyncio.as_completed` builds from its arguments before it creates tasks.

    A set of coroutines is in the order of addresses, so tasks would start, and be numbered, differently each time.
    """

    def make(*items: Iterable[Any]) -> Any:
        if items and sys._getframe(1).f_code.co_name in ("as_completed", "__init__"):
            return list(dict.fromkeys(*items))
        return original(*items)

    return make


def counted(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap `BaseEventLoop._run_once`."""

    def run_once(loop: Any) -> None:
        try:
            waits, iterations = loop._replaykit_turn
        except AttributeError:  # its first iteration
            waits, iterations = 0, 0
        if loop._ready:
            loop._replaykit_turn = (waits, iterations + 1)
        else:  # it waits for a timer, a file or another thread
            loop._replaykit_turn = (waits + 1, 0)
        original(loop)

    return run_once


def running_loop() -> Any:
    """Return the event loop of this thread; None if there is none."""
    events = sys.modules.get("asyncio.events")
    return None if events is None else events._get_running_loop()


def turn_of(loop: Any) -> tuple[int, int] | None:
    """Return how often a loop has waited, and its iterations since; None if it is not counted, and for None."""
    return getattr(loop, "_replaykit_turn", None)


HOOKS: dict[str, Rows] = {
    "threading": (("Thread", "start", _start),),
    "concurrent.futures.thread": (("ThreadPoolExecutor", "submit", _submit),),
    "asyncio.base_events": (
        ("BaseEventLoop", "create_task", _create_task),
        ("BaseEventLoop", "call_at", _call_at),
        ("BaseEventLoop", "_run_once", counted),
    ),
    "asyncio.tasks": (("", "set", _set),),
}
"""Module → the classes and methods that start something, or a builtin that they use, with their replacements."""


def _context_inside(fn: Function) -> Context | None:
    """Return the context in `partial(context.run, …)`, the form in which asyncio passes jobs on."""
    owner = getattr(fn.func, "__self__", None) if isinstance(fn, functools.partial) else None
    if isinstance(owner, Context):
        return owner
    return None


def _name(what: Any) -> str:
    """Return the name of the function behind partials."""
    while isinstance(what, functools.partial):
        inner = getattr(what.func, "__self__", None)
        what = what.args[0] if isinstance(inner, Context) and what.args else what.func
    return qualified_name(what).replace("/", "|")
