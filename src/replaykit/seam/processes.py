"""Processes that a run starts: each learns which run it belongs to, however it is started.

A process that is started while a run is recorded or replayed gets the variables that lead it to the run's plan; a
forked one goes on under a name of its own; and a job of a process pool carries the way to the plan with it, since its
worker may be older than the run. What the processes do with the plan is the business of `replaykit.programs`.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

from replaykit.seam.adoption import adopted
from replaykit.seam.scope import Scope, Session, current

SESSION = "REPLAYKIT_SESSION"
"""The variable that names the directory of the plan for the processes of a program, or of a replayed agent."""
RECORDED_TREE = "REPLAYKIT_RECORDED_TREE"
"""The same, for the processes that an agent starts while `rk.record` records it."""
_ENVIRONMENT = 10  # the place of `env` among the arguments of `Popen`
_POOLS = ("concurrent.futures.process", "multiprocessing.pool", "multiprocessing.managers")
_environment_lock = threading.Lock()


class Job(Protocol):
    """Calls a function in another process, as a part of the run. Can be pickled."""

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...

    def item(self, number: int) -> Job:
        """The job for one of several items."""


class Tree(Protocol):
    """The processes of one run."""

    session: Session
    """Whose forked children go on under a name of their own."""

    def environment(self, given: Mapping[Any, Any], name: str) -> dict[Any, Any]:
        """The variables a process of this name is started with, in place of the given ones."""

    def job(self, name: str) -> Job:
        """A job of this name for a process of a pool."""

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """Prepare for a fork; what is given back is called in the child."""

    def close(self) -> None:
        """The run has ended: gather what its processes did."""


def replayed_tree(*arguments: Any) -> Tree:
    """The processes of a run that is replayed in this one."""
    # By name: that room is above this one, and most runs start no process.
    return import_module("replaykit.programs.tree").ReplayedTree(*arguments)  # type: ignore[no-any-return]


def recorded_tree(*arguments: Any) -> Tree:
    """The processes of a run that is recorded in this one."""
    return import_module("replaykit.programs.tree").RecordedTree(*arguments)  # type: ignore[no-any-return]


def join() -> None:
    """Take part in the run that this process was started for, if there is one and it does not do so already."""
    has_run = os.environ.get(SESSION) or os.environ.get(RECORDED_TREE)
    if has_run and "replaykit.programs.start" not in sys.modules:
        import_module("replaykit.programs.start").join()


def _following(what: str) -> tuple[Scope, Tree] | None:
    """The place in the run that starts a process here, and the run's processes; None where nobody follows them."""
    scope = current()
    if scope is None or scope.session.over:
        scope = adopted(scope, what)
    if scope is None or scope.session.over:
        return None
    tree = scope.session.tree()
    return None if tree is None else (scope, tree)


def _started(what: str) -> tuple[Tree, str] | None:
    """The tree that a new process belongs to, and the process's name. What a tool starts is the tool's own business."""
    found = _following(what)
    if found is None or found[0].call is not None:
        return None
    return found[1], _numbered(found[0], what)


def _numbered(scope: Scope, what: str) -> str:
    return scope.job(what).path.removeprefix("/").replace("/", "|")


def _name(what: Any) -> str:
    while isinstance(what, functools.partial):
        what = what.args[0] if what.args and callable(what.args[0]) else what.func
    name = getattr(what, "__qualname__", None) or type(what).__qualname__
    return str(name).replace("<locals>.", "")


def _program(command: Any) -> str:
    """A program's name: the file, without its directory."""
    words = [command] if isinstance(command, str | bytes | os.PathLike) else list(command)
    first = os.fsdecode(words[0]) if words else ""
    return os.path.basename(first.split()[0]) if first.split() else "program"


@contextmanager
def _in_environment(tree: Tree, name: str) -> Any:
    """The variables are those of this process meanwhile, for what offers no other way."""
    with _environment_lock:
        before = dict(os.environ)
        changed = tree.environment(before, name)
        os.environ.update(changed)
        try:
            yield
        finally:
            for variable in changed.keys() - before.keys():
                del os.environ[variable]
            os.environ.update(before)


def _popen(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(popen: Any, command: Any, *args: Any, **kwargs: Any) -> None:
        found = _started(_program(command))
        if found is None:
            original(popen, command, *args, **kwargs)
            return
        tree, name = found
        at = _ENVIRONMENT - 1
        given = args[at] if len(args) > at else kwargs.get("env")
        environment = tree.environment(os.environ if given is None else given, name)
        if len(args) > at:
            args = (*args[:at], environment, *args[at + 1 :])
        else:
            kwargs["env"] = environment
        original(popen, command, *args, **kwargs)

    return __init__


def _in_changed_environment(what: Callable[..., str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace a function that starts a process with the variables of this one."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(*args: Any, **kwargs: Any) -> Any:
            found = _started(what(*args))
            if found is None:
                return original(*args, **kwargs)
            with _in_environment(*found):
                return original(*args, **kwargs)

        return start

    return make


def _with_environment(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a function that is given the program, its arguments and its variables."""

    def start(path: Any, argv: Any, env: Any, *args: Any, **kwargs: Any) -> Any:
        found = _started(_program(path))
        if found is not None:
            env = found[0].environment(env, found[1])
        return original(path, argv, env, *args, **kwargs)

    return start


def _execv(original: Callable[..., Any]) -> Callable[..., Any]:
    def execv(path: Any, argv: Any) -> Any:
        return os.execve(path, argv, os.environ)

    return execv


def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(pool: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        found = _started(_name(fn))
        if found is None:
            return original(pool, fn, *args, **kwargs)
        return original(pool, found[0].job(found[1]), fn, *args, **kwargs)

    return submit


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(process: Any) -> None:
        target = getattr(process, "_target", None)
        # A pool's worker outlives the run; its jobs are followed one by one.
        is_worker = getattr(target, "__module__", "") in _POOLS
        if target is not None and not is_worker:
            found = _started(_name(target))
            if found is not None:
                process._target = functools.partial(found[0].job(found[1]), target)
        original(process)

    return start


def _apply(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_async(pool: Any, func: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
        found = None if _has_threads(pool) else _started(_name(func))
        if found is None:
            return original(pool, func, args, *rest, **options)
        return original(pool, found[0].job(found[1]), (func, *args), *rest, **options)

    return apply_async


def _map(original: Callable[..., Any]) -> Callable[..., Any]:
    def _map_async(pool: Any, func: Any, iterable: Any, mapper: Any, *rest: Any, **options: Any) -> Any:
        found = None if _has_threads(pool) else _started(_name(func))
        if found is None:
            return original(pool, func, iterable, mapper, *rest, **options)
        takes_one = getattr(mapper, "__name__", "") == "mapstar"
        job = _ItemJob(found[0].job(found[1]), func, takes_one=takes_one)
        return original(pool, job, _paired(iterable, takes_one=takes_one), mapper, *rest, **options)

    return _map_async


def _imap(original: Callable[..., Any]) -> Callable[..., Any]:
    def imap(pool: Any, func: Any, iterable: Any, *rest: Any, **options: Any) -> Any:
        found = None if _has_threads(pool) else _started(_name(func))
        if found is None:
            return original(pool, func, iterable, *rest, **options)
        job = _ItemJob(found[0].job(found[1]), func, takes_one=True)
        return original(pool, job, enumerate(iterable), *rest, **options)

    return imap


def _has_threads(pool: Any) -> bool:
    return any(kind.__name__ == "ThreadPool" for kind in type(pool).__mro__)


def _paired(iterable: Iterable[Any], *, takes_one: bool) -> list[Any]:
    """The items with their numbers, as the pool's mapper hands them over."""
    return [(number, item) if takes_one else (number, *item) for number, item in enumerate(iterable)]


class _ItemJob:
    """A pool's function for many items, each a job of its own."""

    def __init__(self, job: Job, fn: Callable[..., Any], *, takes_one: bool) -> None:
        self._job = job
        self._fn = fn
        self._takes_one = takes_one

    def __call__(self, *given: Any) -> Any:
        number, *arguments = given[0] if self._takes_one else given
        return self._job.item(number)(self._fn, *arguments)


def _spawned(path: Any, args: Any = (), *_: Any) -> str:
    return _program(path)


HOOKS: dict[str, tuple[tuple[str, str, Callable[[Callable[..., Any]], Callable[..., Any]]], ...]] = {
    "subprocess": (("Popen", "__init__", _popen),),
    "concurrent.futures.process": (("ProcessPoolExecutor", "submit", _submit),),
    "multiprocessing.process": (("BaseProcess", "start", _start),),
    "multiprocessing.pool": (
        ("Pool", "apply_async", _apply),
        ("Pool", "_map_async", _map),
        ("Pool", "imap", _imap),
        ("Pool", "imap_unordered", _imap),
    ),
    "multiprocessing.util": (("", "spawnv_passfds", _in_changed_environment(_spawned)),),
    "os": (
        ("", "execv", _execv),
        ("", "execve", _with_environment),
        ("", "posix_spawn", _with_environment),
        ("", "posix_spawnp", _with_environment),
        ("", "system", _in_changed_environment(_program)),
    ),
}
"""Module → the classes and methods, or functions, that start a process, and what takes their place."""


class _Fork(threading.local):
    """What the child of a fork that is under way in this thread has to do first."""

    renew: Callable[[], None] | None = None


_fork = _Fork()


def _before_fork() -> None:
    _fork.renew = None
    scope = current()
    if scope is None or scope.session.over:
        return
    tree = scope.session.tree()
    if tree is not None:
        name = scope.path if scope.call is not None else _numbered(scope, "fork")
        _fork.renew = tree.forking(name, inside_call=scope.call is not None)


def _after_in_child() -> None:
    renew, _fork.renew = _fork.renew, None
    if renew is not None:
        renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_in_child)
