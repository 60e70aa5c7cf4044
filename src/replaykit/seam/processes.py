"""Processes that a run starts: each learns which run it belongs to, however it is started.

A process that starts while a run is recorded or replayed gets variables that lead it to the run's plan; a forked one
continues under a name of its own; and a job of a process pool carries the path of the plan, since its worker may be
older than the run. `replaykit.programs` decides what the processes do with the plan.

If a replay confines its processes, each enters a sandbox right after its fork. So functions that start a process
without a fork that passes here (`os.system`, `os.posix_spawn`, `spawnv_passfds`) are replaced by one with a fork.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from replaykit.seam import forked_clocks as forked_clocks  # registered first, so that its locks are taken last
from replaykit.seam import posix_spawn
from replaykit.seam.foreign_threads import scope_of_call
from replaykit.seam.hooks import Rows, hook
from replaykit.seam.own_code import Function, qualified_name
from replaykit.seam.scope import RunSession, Scope, current
from replaykit.seam.variables import RECORDED_TREE, SESSION

_PREEXEC, _ENVIRONMENT = 6, 10  # the positions of `preexec_fn` and `env` among the arguments of `Popen`
_TRACKER = "multiprocessing.resource_tracker"
_POOLS = ("concurrent.futures.process", "multiprocessing.pool", "multiprocessing.managers")
_environment_lock = threading.Lock()
# Workers of pools that were started in a run, by their identity.
_started_workers: WeakValueDictionary[int, Any] = WeakValueDictionary()
_confined_pids: set[int] = set()
"""Processes that were started in a sandbox, such as a fork server."""


class JobHandle(Protocol):
    """Calls a function in another process as a part of the run. Can be pickled."""

    def __call__(self, fn: Function, /, *args: Any, **kwargs: Any) -> Any: ...

    def item(self, number: int) -> JobHandle:
        """Return the job for one of several items."""


class Entrance(Protocol):
    """The entry of one process into its sandbox."""

    def enter(self) -> None:
        """Enter the sandbox; call it in the child, right after the fork. A ReplayKitError means that it has to end."""

    def begin(self) -> None:
        """Note that the process was started."""

    def abandon(self) -> None:
        """Note that no process was started."""

    def failed(self) -> Exception:
        """Return the error for a process that ended because it could not be isolated."""


class ProcessTree(Protocol):
    """The processes of one run."""

    session: RunSession
    """The session whose forked children continue under names of their own."""

    def environment(self, environ: Mapping[Any, Any], name: str) -> dict[Any, Any]:
        """Return the variables for a process of this name, based on the given ones."""

    def job(self, name: str) -> JobHandle:
        """Return a job of this name for a process of a pool."""

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """Prepare for a fork; the returned function is called in the child."""

    def forked(self) -> None:
        """Note that the fork was made; called in the parent, in the same thread."""

    def confines(self) -> bool:
        """Return True if the processes are confined."""

    def note(self, text: str) -> None:
        """Note something about the confinement."""

    def entrance(self, *, outlives: bool = False) -> Entrance | None:
        """Prepare the sandbox of a process that is about to start; None if there is none.

        `outlives`: the process may continue, confined, after the run has ended.
        """

    def close(self) -> None:
        """Collect the work of the processes at the end of the run."""


def replayed_tree(*arguments: Any) -> ProcessTree:
    """Return the processes of a run that is replayed in this one."""
    return _tree_module().ReplayedTree(*arguments)  # type: ignore[no-any-return]


def recorded_tree(*arguments: Any) -> ProcessTree:
    """Return the processes of a run that is recorded in this one."""
    return _tree_module().RecordedTree(*arguments)  # type: ignore[no-any-return]


def _tree_module() -> Any:
    # By name: that package is above this one, and most runs start no process.
    return import_module("replaykit.programs.process_tree")


def join() -> None:
    """Join the run that this process was started for, unless it has done so already."""
    has_run = os.environ.get(SESSION) or os.environ.get(RECORDED_TREE)
    if has_run and "replaykit.programs.process_startup" not in sys.modules:
        import_module("replaykit.programs.process_startup").join()


class _Child(NamedTuple):
    """A process, or a job in one, that is about to start: its tree, and its name there."""

    tree: ProcessTree
    name: str

    def environment(self, environ: Mapping[Any, Any]) -> dict[Any, Any]:
        return self.tree.environment(environ, self.name)

    def job(self) -> JobHandle:
        return self.tree.job(self.name)


def _following(what: str) -> tuple[Scope, ProcessTree] | None:
    """Return the scope and the processes of the run that starts a process here; None if they are not followed."""
    scope = scope_of_call(what)
    if scope is None or scope.session.over:
        return None
    tree = scope.session.tree()
    if tree is None:
        return None
    return scope, tree


def _started(what: str) -> _Child | None:
    """Return the process that is started here; None if it is not followed, such as one that a tool starts."""
    found = _following(what)
    if found is None or found[0].call is not None:
        return None
    scope, tree = found
    return _Child(tree, _numbered(scope, what))


def _numbered(scope: Scope, what: str) -> str:
    return scope.job(what).path.removeprefix("/").replace("/", "|")


def _name(what: Any) -> str:
    while isinstance(what, functools.partial):
        what = what.args[0] if what.args and callable(what.args[0]) else what.func
    return qualified_name(what)


def _program(command: Any) -> str:
    """Return a program's name: the file, without its directory."""
    if not isinstance(command, str | bytes | os.PathLike):
        command = next(iter(command), "")
    words = os.fsdecode(command).split() or ["program"]
    return os.path.basename(words[0])


@contextmanager
def _in_environment(child: _Child) -> Any:
    """Set the variables in this process meanwhile, for functions that offer no other way."""
    with _environment_lock:
        before = dict(os.environ)
        changed = child.environment(before)
        os.environ.update(changed)
        try:
            yield
        finally:
            for variable in changed.keys() - before.keys():
                del os.environ[variable]
            os.environ.update(before)


@hook
def _popen(original: Function, popen: Any, command: Any, *args: Any, **kwargs: Any) -> None:
    child = _started(_program(command))
    if child is None:
        original(popen, command, *args, **kwargs)
        return
    arguments = _PopenArguments(args, kwargs)
    environ = arguments.get(_ENVIRONMENT, "env")
    if environ is None:
        environ = os.environ
    arguments.set(_ENVIRONMENT, "env", child.environment(environ))
    entrance = child.tree.entrance()
    if entrance is None:
        original(popen, command, *arguments.args, **kwargs)
        return
    first = _entering(entrance, arguments.get(_PREEXEC, "preexec_fn"))
    arguments.set(_PREEXEC, "preexec_fn", first)
    with _abandoning(entrance), own_forks():
        original(popen, command, *arguments.args, **kwargs)
    entrance.begin()


class _PopenArguments:
    """The arguments of `Popen` after the command, by position or by name."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = list(args)
        self._kwargs = kwargs

    def get(self, place: int, name: str) -> Any:
        if len(self.args) >= place:
            return self.args[place - 1]
        return self._kwargs.get(name)

    def set(self, place: int, name: str, value: Any) -> None:
        """Replace an argument where it was: among those by position, or by name."""
        if len(self.args) >= place:
            self.args[place - 1] = value
        else:
            self._kwargs[name] = value


def _entering(entrance: Entrance, then: Callable[[], Any] | None) -> Callable[[], None]:
    """Return a function for the child that enters the sandbox, and then does what the agent wants done there."""

    def first() -> None:
        entrance.enter()
        if then is not None:
            then()

    return first


@contextmanager
def _abandoning(entrance: Entrance) -> Iterator[None]:
    """Give up an entrance if no process is started."""
    try:
        # The agent did not ask for a fork, so Python must not warn it of forks beside threads.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except Exception as error:
        if type(error).__name__ == "SubprocessError":  # raised for a function that runs in the child
            raise entrance.failed() from None
        entrance.abandon()
        raise


@hook
def _execve(original: Function, path: Any, argv: Any, env: Any) -> Any:
    child = _started(_program(path))
    if child is not None:
        env = child.environment(env)
    return original(path, argv, env)


@hook
def _execv(original: Function, path: Any, argv: Any) -> Any:
    return os.execve(path, argv, os.environ)


@hook
def _posix_spawn(original: Function, path: Any, argv: Any, env: Any, **options: Any) -> Any:
    child = _started(_program(path))
    if child is None:
        return original(path, argv, env, **options)
    env = child.environment(env)
    entrance = child.tree.entrance()
    if entrance is None:
        return original(path, argv, env, **options)
    search = original.__name__ == "posix_spawnp"
    try:
        return _forked(entrance, lambda: posix_spawn.execute(path, argv, env, search=search, **options))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


@hook
def _spawnv_passfds(original: Function, path: Any, args: Any, passfds: Any) -> Any:
    is_tracker = any(_TRACKER in os.fsdecode(word) for word in args)
    child = None if is_tracker else _started(_program(path))
    if child is None:
        return original(path, args, passfds)
    entrance = child.tree.entrance()
    if entrance is None:
        with _in_environment(child):
            return original(path, args, passfds)
    env = child.environment(os.environ)
    pid = _forked(entrance, lambda: posix_spawn.execute_with(path, args, env, passfds))
    _confined_pids.add(pid)
    return pid


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


@hook
def _system(original: Function, command: Any) -> Any:
    program = _program(command)
    found = _following(program)
    if found is not None and found[0].call is None and found[1].confines():
        from subprocess import Popen  # noqa: PLC0415 (slow to import, and few agents start processes)

        code = Popen(command, shell=True, close_fds=False).wait()
        if code < 0:
            return -code
        return code << 8
    child = _started(program)
    if child is None:
        return original(command)
    with _in_environment(child):
        return original(command)


@hook
def _mkdir(original: Function, path: Any, *args: Any, **kwargs: Any) -> None:
    original(path, *args, **kwargs)
    if kwargs.get("dir_fd") is None:
        _note_own(path)


@hook
def _open(original: Function, path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
    descriptor = original(path, flags, *args, **kwargs)
    if flags & os.O_EXCL and kwargs.get("dir_fd") is None:  # a new file, like those of `tempfile`
        _note_own(path)
    return descriptor


@hook
def _semaphore(original: Function, semaphore: Any, *args: Any, **kwargs: Any) -> None:
    original(semaphore, *args, **kwargs)
    name = getattr(semaphore._semlock, "name", None)
    if name:
        _note_own(f"/dev/shm/sem.{name.lstrip('/')}")


@hook
def _shared_memory(original: Function, memory: Any, *args: Any, **kwargs: Any) -> None:
    original(memory, *args, **kwargs)
    _note_own(f"/dev/shm/{memory._name.lstrip('/')}")


def _note_own(path: Any) -> None:
    """Note that the agent has created this path itself, so that its child processes may use it."""
    scope = current()
    if scope is not None and not scope.session.over:
        scope.session.own_paths.append(os.path.abspath(os.fsdecode(path)))


def _pool_job(pool: Any, fn: Any) -> JobHandle | None:
    """Return the job of a process pool that calls this function; None if it is not followed."""
    if any(kind.__name__ == "ThreadPool" for kind in type(pool).__mro__):
        return None
    child = _started(_name(fn))
    if child is None:
        return None
    if _is_older_than_run(pool) and child.tree.confines():
        child.tree.note("a process pool is older than the replay: its workers are not isolated")
    return child.job()


def _is_older_than_run(pool: Any) -> bool:
    workers = getattr(pool, "_pool", ())
    by_number = getattr(pool, "_processes", None)  # of an executor; `Pool` has a list
    if isinstance(by_number, dict):
        workers = by_number.values()
    return any(id(worker) not in _started_workers for worker in workers)


@hook
def _submit(original: Function, pool: Any, fn: Function, /, *args: Any, **kwargs: Any) -> Any:
    job = _pool_job(pool, fn)
    if job is None:
        return original(pool, fn, *args, **kwargs)
    return original(pool, job, fn, *args, **kwargs)


@hook
def _start(original: Function, process: Any) -> None:
    target = getattr(process, "_target", None)
    # A pool's worker outlives the run, so its jobs are followed one by one.
    is_worker = getattr(target, "__module__", "") in _POOLS
    if target is not None and not is_worker:
        child = _started(_name(target))
        if child is not None:
            process._target = functools.partial(child.job(), target)
    if getattr(process, "_start_method", None) == "forkserver":
        _note_fork_server()
    _fork.is_pool_worker = is_worker
    try:
        original(process)
    finally:
        _fork.is_pool_worker = False
    if is_worker and _following("worker") is not None:
        _started_workers[id(process)] = process


def _note_fork_server() -> None:
    """Note a fork server that was started outside of the sandbox: so are all processes that it forks."""
    module = sys.modules.get("multiprocessing.forkserver")
    pid = None if module is None else module._forkserver._forkserver_pid
    found = _following("worker")
    if found is None or pid is None or pid in _confined_pids:
        return
    tree = found[1]
    if tree.confines():
        tree.note("the fork server of multiprocessing is older than the replay: its processes are not isolated")


@hook
def _apply(original: Function, pool: Any, func: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
    job = _pool_job(pool, func)
    if job is None:
        return original(pool, func, args, *rest, **options)
    return original(pool, job, (func, *args), *rest, **options)


@hook
def _map(original: Function, pool: Any, func: Any, iterable: Any, mapper: Any, *rest: Any, **options: Any) -> Any:
    job = _pool_job(pool, func)
    if job is None:
        return original(pool, func, iterable, mapper, *rest, **options)
    takes_one = getattr(mapper, "__name__", "") == "mapstar"
    numbered: list[Any] = list(enumerate(iterable))
    if not takes_one:
        numbered = [(number, *item) for number, item in numbered]
    return original(pool, _ItemJob(job, func, takes_one=takes_one), numbered, mapper, *rest, **options)


@hook
def _imap(original: Function, pool: Any, func: Any, iterable: Any, *rest: Any, **options: Any) -> Any:
    job = _pool_job(pool, func)
    if job is None:
        return original(pool, func, iterable, *rest, **options)
    return original(pool, _ItemJob(job, func, takes_one=True), enumerate(iterable), *rest, **options)


class _ItemJob(NamedTuple):
    """A pool's function for many items, each a job of its own."""

    job: JobHandle
    fn: Function
    takes_one: bool

    def __call__(self, *numbered: Any) -> Any:
        number, *arguments = numbered[0] if self.takes_one else numbered
        return self.job.item(number)(self.fn, *arguments)


@hook
def _fork_function(original: Callable[[], Any]) -> Any:
    """Wrap `os.fork` and `os.forkpty`: prepare before the fork, and continue after it.

    Functions registered with `os.register_at_fork` hold locks in between, for example those of `concurrent.futures`.
    The preparation makes forks of its own, which would wait for these locks forever.
    """
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


HOOKS: dict[str, Rows] = {
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
"""Module → the classes and methods, or functions, that start a process, with their replacements."""


class _Fork(threading.local):
    """The state of a fork in progress in this thread."""

    renew: Callable[[], None] | None = None
    tree: ProcessTree | None = None
    is_ours = False
    is_prepared = False
    """True if `_fork_function` does what the functions registered below would do."""
    is_pool_worker = False


_fork = _Fork()


@contextmanager
def own_forks() -> Iterator[None]:
    """Mark this thread's forks as ours: they are not processes of the run, or are already sandboxed."""
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
