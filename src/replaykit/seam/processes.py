"""Processes that a run starts: each learns which run it belongs to, however it is started.

A process that is started while a run is recorded or replayed gets the variables that lead it to the run's plan; a
forked one goes on under a name of its own; and a job of a process pool carries the way to the plan with it, since its
worker may be older than the run. What the processes do with the plan is the business of `replaykit.programs`.

Where the tree of a replay confines its processes, each enters a sandbox right after the fork. So whatever starts a
process without a fork that passes here (`os.system`, `os.posix_spawn`, `spawnv_passfds`) is done with one.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol
from weakref import WeakValueDictionary

from replaykit.seam import forked_clocks as forked_clocks  # registered first, so that its locks are taken last
from replaykit.seam import posix_spawn
from replaykit.seam.foreign_threads import adopted
from replaykit.seam.scope import RunSession, Scope, current

SESSION = "REPLAYKIT_SESSION"
"""The variable that names the directory of the plan for the processes of a program, or of a replayed agent."""
RECORDED_TREE = "REPLAYKIT_RECORDED_TREE"
"""The same, for the processes that an agent starts while `rk.record` records it."""
_PREEXEC, _ENVIRONMENT = 6, 10  # the places of `preexec_fn` and `env` among the arguments of `Popen`
_TRACKER = "multiprocessing.resource_tracker"
"""A process of Python's own that tidies up after all others, also after the run."""
_POOLS = ("concurrent.futures.process", "multiprocessing.pool", "multiprocessing.managers")
_environment_lock = threading.Lock()
_started_workers: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Workers of pools that were started in a run, by their identity."""


class JobHandle(Protocol):
    """Calls a function in another process, as a part of the run. Can be pickled."""

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...

    def item(self, number: int) -> JobHandle:
        """The job for one of several items."""


class Entrance(Protocol):
    """The way of one process into its sandbox."""

    def enter(self) -> None:
        """Enter it: called in the child, right after the fork. A ReplayKitError says that the child has to end."""

    def begin(self) -> None:
        """Say that the process was started."""

    def abandon(self) -> None:
        """Say that no process was started."""

    def failed(self) -> Exception:
        """Return the error for a process that could not be isolated, and has ended for that."""


class ProcessTree(Protocol):
    """The processes of one run."""

    session: RunSession
    """Whose forked children go on under a name of their own."""

    def environment(self, environ: Mapping[Any, Any], name: str) -> dict[Any, Any]:
        """The variables a process of this name is started with, in place of the given ones."""

    def job(self, name: str) -> JobHandle:
        """A job of this name for a process of a pool."""

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """Prepare for a fork; what is given back is called in the child."""

    def forked(self) -> None:
        """Say, in the parent and the same thread, that the fork was made."""

    def confines(self) -> bool:
        """True where the processes are shut in."""

    def note(self, text: str) -> None:
        """Note something about how the processes are shut in."""

    def entrance(self, *, outlives: bool = False) -> Entrance | None:
        """Prepare the sandbox of a process that is about to be started; None where there is none.

        `outlives`: the process may go on, shut in, when the run has ended.
        """

    def close(self) -> None:
        """The run has ended: gather what its processes did."""


def replayed_tree(*arguments: Any) -> ProcessTree:
    """The processes of a run that is replayed in this one."""
    # By name: that room is above this one, and most runs start no process.
    return import_module("replaykit.programs.process_tree").ReplayedTree(*arguments)  # type: ignore[no-any-return]


def recorded_tree(*arguments: Any) -> ProcessTree:
    """The processes of a run that is recorded in this one."""
    return import_module("replaykit.programs.process_tree").RecordedTree(*arguments)  # type: ignore[no-any-return]


def join() -> None:
    """Take part in the run that this process was started for, if there is one and it does not do so already."""
    has_run = os.environ.get(SESSION) or os.environ.get(RECORDED_TREE)
    if has_run and "replaykit.programs.process_startup" not in sys.modules:
        import_module("replaykit.programs.process_startup").join()


def _following(what: str) -> tuple[Scope, ProcessTree] | None:
    """The place in the run that starts a process here, and the run's processes; None where nobody follows them."""
    scope = current()
    if scope is None or scope.session.over:
        scope = adopted(scope, what)
    if scope is None or scope.session.over:
        return None
    tree = scope.session.tree()
    return None if tree is None else (scope, tree)


def _started(what: str) -> tuple[ProcessTree, str] | None:
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
def _in_environment(tree: ProcessTree, name: str) -> Any:
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
        environ = _argument(args, kwargs, _ENVIRONMENT, "env")
        environment = tree.environment(os.environ if environ is None else environ, name)
        args = _with_argument(args, kwargs, (_ENVIRONMENT, "env", environment))
        entrance = tree.entrance()
        if entrance is None:
            original(popen, command, *args, **kwargs)
            return
        first = _entering(entrance, _argument(args, kwargs, _PREEXEC, "preexec_fn"))
        args = _with_argument(args, kwargs, (_PREEXEC, "preexec_fn", first))
        with _abandoning(entrance), own_forks():
            original(popen, command, *args, **kwargs)
        entrance.begin()

    return __init__


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    """Return an argument of `Popen`; `args` are those after the command."""
    return args[place - 1] if len(args) >= place else kwargs.get(name)


def _with_argument(args: tuple[Any, ...], kwargs: dict[str, Any], argument: tuple[int, str, Any]) -> tuple[Any, ...]:
    """Return the arguments with one exchanged, which is put where it was: among `args`, or in `kwargs`."""
    place, name, value = argument
    if len(args) >= place:
        return (*args[: place - 1], value, *args[place:])
    kwargs[name] = value
    return args


def _entering(entrance: Entrance, then: Callable[[], Any] | None) -> Callable[[], None]:
    """Return a function for the child: what the agent wants done there is done in the sandbox."""

    def first() -> None:
        entrance.enter()
        if then is not None:
            then()

    return first


@contextmanager
def _abandoning(entrance: Entrance) -> Iterator[None]:
    """Give an entrance back if no process is started."""
    try:
        with _no_fork_warnings():
            yield
    except Exception as error:
        if type(error).__name__ == "SubprocessError":  # of a function that is called in the child
            raise entrance.failed() from None
        entrance.abandon()
        raise


@contextmanager
def _no_fork_warnings() -> Iterator[None]:
    """Keep Python from warning of forks beside threads: the agent did not ask for one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


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


def _execve(original: Callable[..., Any]) -> Callable[..., Any]:
    def execve(path: Any, argv: Any, env: Any) -> Any:
        found = _started(_program(path))
        if found is not None:
            env = found[0].environment(env, found[1])
        return original(path, argv, env)

    return execve


def _posix_spawn(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(path: Any, argv: Any, env: Any, **options: Any) -> Any:
        found = _started(_program(path))
        if found is None:
            return original(path, argv, env, **options)
        env = found[0].environment(env, found[1])
        entrance = found[0].entrance()
        if entrance is None:
            return original(path, argv, env, **options)
        search = original.__name__ == "posix_spawnp"
        try:
            return _forked(entrance, lambda: posix_spawn.execute(path, argv, env, search=search, **options))
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None

    return start


def _spawnv_passfds(original: Callable[..., Any]) -> Callable[..., Any]:
    def spawnv_passfds(path: Any, args: Any, passfds: Any) -> Any:
        found = None if any(_TRACKER in os.fsdecode(word) for word in args) else _started(_program(path))
        if found is None:
            return original(path, args, passfds)
        entrance = found[0].entrance()
        if entrance is None:
            with _in_environment(*found):
                return original(path, args, passfds)
        env = found[0].environment(os.environ, found[1])
        return _forked(entrance, lambda: posix_spawn.execute_with(path, args, env, passfds))

    return spawnv_passfds


def _forked(entrance: Entrance, execute: Callable[[], Any]) -> int:
    """Start a process in a sandbox, and return its number; an OSError of `execute` is raised here."""
    source, sink = os.pipe()
    try:
        with _abandoning(entrance), own_forks():
            pid = os.fork()
            if pid == 0:
                posix_spawn.run_to_end(sink, entrance.enter, execute)
    finally:
        os.close(sink)
    with open(source, "rb") as answer:
        number = answer.read()
    if number:
        os.waitpid(pid, 0)
        if number == posix_spawn.NOT_ISOLATED:
            raise entrance.failed()
        entrance.abandon()
        raise OSError(int(number), os.strerror(int(number)))
    entrance.begin()
    return pid


def _system(original: Callable[..., Any]) -> Callable[..., Any]:
    follow = _in_changed_environment(_program)(original)

    def system(command: Any) -> Any:
        found = _following(_program(command))
        if found is None or found[0].call is not None or not found[1].confines():
            return follow(command)
        from subprocess import Popen  # noqa: PLC0415 (slow to import, and few agents start processes)

        code = Popen(command, shell=True, close_fds=False).wait()
        return code << 8 if code >= 0 else -code

    return system


def _mkdir(original: Callable[..., Any]) -> Callable[..., Any]:
    def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
        original(path, *args, **kwargs)
        if kwargs.get("dir_fd") is None:
            _note_own(path)

    return mkdir


def _open(original: Callable[..., Any]) -> Callable[..., Any]:
    def open_file(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        descriptor = original(path, flags, *args, **kwargs)
        if flags & os.O_EXCL and kwargs.get("dir_fd") is None:  # as `tempfile` does: it was not there before
            _note_own(path)
        return descriptor

    return open_file


def _semaphore(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(semaphore: Any, *args: Any, **kwargs: Any) -> None:
        original(semaphore, *args, **kwargs)
        name = getattr(semaphore._semlock, "name", None)
        if name:
            _note_own(f"/dev/shm/sem.{name.lstrip('/')}")

    return __init__


def _shared_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(memory: Any, *args: Any, **kwargs: Any) -> None:
        original(memory, *args, **kwargs)
        _note_own(f"/dev/shm/{memory._name.lstrip('/')}")

    return __init__


def _note_own(path: Any) -> None:
    """Note that the agent has made this itself: its child processes may use it."""
    scope = current()
    if scope is not None and not scope.session.over:
        scope.session.own_paths.append(os.path.abspath(os.fsdecode(path)))


def _execv(original: Callable[..., Any]) -> Callable[..., Any]:
    def execv(path: Any, argv: Any) -> Any:
        return os.execve(path, argv, os.environ)

    return execv


def _pool_job(pool: Any, fn: Any) -> tuple[ProcessTree, str] | None:
    """The tree that a job of a process pool belongs to, and the job's name."""
    if _has_threads(pool):
        return None
    found = _started(_name(fn))
    if found is not None and _is_older_than_run(pool) and found[0].confines():
        found[0].note("a process pool is older than the replay: its workers are not shut in")
    return found


def _is_older_than_run(pool: Any) -> bool:
    by_number = getattr(pool, "_processes", None)  # of an executor; those of `Pool` are in a list
    workers = by_number.values() if isinstance(by_number, dict) else getattr(pool, "_pool", ())
    return any(id(worker) not in _started_workers for worker in workers)


def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(pool: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        found = _pool_job(pool, fn)
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
        _fork.is_pool_worker = is_worker
        try:
            original(process)
        finally:
            _fork.is_pool_worker = False
        if is_worker and _following("worker") is not None:
            _started_workers[id(process)] = process

    return start


def _apply(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_async(pool: Any, func: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
        found = _pool_job(pool, func)
        if found is None:
            return original(pool, func, args, *rest, **options)
        return original(pool, found[0].job(found[1]), (func, *args), *rest, **options)

    return apply_async


def _map(original: Callable[..., Any]) -> Callable[..., Any]:
    def _map_async(pool: Any, func: Any, iterable: Any, mapper: Any, *rest: Any, **options: Any) -> Any:
        found = _pool_job(pool, func)
        if found is None:
            return original(pool, func, iterable, mapper, *rest, **options)
        takes_one = getattr(mapper, "__name__", "") == "mapstar"
        job = _ItemJob(found[0].job(found[1]), func, takes_one=takes_one)
        return original(pool, job, _paired(iterable, takes_one=takes_one), mapper, *rest, **options)

    return _map_async


def _imap(original: Callable[..., Any]) -> Callable[..., Any]:
    def imap(pool: Any, func: Any, iterable: Any, *rest: Any, **options: Any) -> Any:
        found = _pool_job(pool, func)
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

    def __init__(self, job: JobHandle, fn: Callable[..., Any], *, takes_one: bool) -> None:
        self._job = job
        self._fn = fn
        self._takes_one = takes_one

    def __call__(self, *numbered: Any) -> Any:
        number, *arguments = numbered[0] if self._takes_one else numbered
        return self._job.item(number)(self._fn, *arguments)


def _fork_function(original: Callable[[], Any]) -> Callable[[], Any]:
    """For `os.fork` and `os.forkpty`: prepare before the fork, and go on after it.

    What is registered with `os.register_at_fork` holds locks in between, as `concurrent.futures` does. To prepare takes
    forks of our own, which would wait for these locks forever.
    """

    def fork() -> Any:
        if _fork.is_ours or _fork.is_prepared:
            return original()
        _prepare_fork()
        _fork.is_prepared = True
        try:
            forked = original()
        finally:
            _fork.is_prepared = False
        pid = forked[0] if isinstance(forked, tuple) else forked
        if pid == 0:
            _go_on_in_child()
        else:
            _go_on_in_parent()
        return forked

    return fork


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
    "multiprocessing.util": (("", "spawnv_passfds", _spawnv_passfds),),
    "multiprocessing.synchronize": (("SemLock", "__init__", _semaphore),),
    "multiprocessing.shared_memory": (("SharedMemory", "__init__", _shared_memory),),
    "os": (
        ("", "fork", _fork_function),
        ("", "forkpty", _fork_function),
        ("", "execv", _execv),
        ("", "execve", _execve),
        ("", "posix_spawn", _posix_spawn),
        ("", "posix_spawnp", _posix_spawn),
        ("", "system", _system),
        ("", "mkdir", _mkdir),
        ("", "open", _open),
    ),
}
"""Module → the classes and methods, or functions, that start a process, and what takes their place."""


class _Fork(threading.local):
    """What the child of a fork that is under way in this thread has to do first."""

    renew: Callable[[], None] | None = None
    tree: ProcessTree | None = None
    is_ours = False
    is_prepared = False
    """True where `_fork_function` does what the functions registered below would do."""
    is_pool_worker = False


_fork = _Fork()


@contextmanager
def own_forks() -> Iterator[None]:
    """Forks inside are ours, in this thread: they are no processes of the run, or are led into a sandbox already."""
    before, _fork.is_ours = _fork.is_ours, True
    try:
        yield
    finally:
        _fork.is_ours = before


def is_pool_worker() -> bool:
    """Return True while a worker of a process pool is started in this thread."""
    return _fork.is_pool_worker


def _before_fork() -> None:
    """Prepare a fork that was not made by `os.fork`."""
    if not _fork.is_prepared:
        _prepare_fork()


def _after_in_child() -> None:
    if not _fork.is_prepared:
        _go_on_in_child()


def _after_in_parent() -> None:
    if not _fork.is_prepared:
        _go_on_in_parent()


def _prepare_fork() -> None:
    _fork.renew = _fork.tree = None
    if _fork.is_ours:
        return
    scope = current()
    if scope is None or scope.session.over:
        return
    tree = scope.session.tree()
    if tree is not None:
        name = scope.path if scope.call is not None else _numbered(scope, "fork")
        _fork.renew, _fork.tree = tree.forking(name, inside_call=scope.call is not None), tree


def _go_on_in_child() -> None:
    renew, _fork.renew = _fork.renew, None
    if renew is not None:
        renew()


def _go_on_in_parent() -> None:
    tree, _fork.tree = _fork.tree, None
    if tree is not None:
        tree.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_in_child, after_in_parent=_after_in_parent)
