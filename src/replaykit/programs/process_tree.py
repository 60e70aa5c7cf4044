"""The processes that an agent starts, while it is recorded by `rk.record` or replayed in a process of its own.

They work like the processes of a whole program: with a plan in a directory, a log for each, and a shared tape. The
directory is created when the first of them starts, so a run that starts none pays nothing.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from replaykit.config import default_store_path
from replaykit.errors import Divergence, ReplayKitError
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.world import World, is_closed
from replaykit.model.events import AnyEvent
from replaykit.model.isolation import IsolationLevel
from replaykit.model.pins import Pins
from replaykit.model.result import Deviation
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.private_files import remove_tree
from replaykit.programs.isolation_level import sandbox_level
from replaykit.programs.merge import load_process_logs, merge_runs
from replaykit.programs.plan import (
    INJECT_DIRECTORY,
    PROCESS_NAME,
    RECORDED_TREE,
    SESSION,
    Mode,
    ProgramPlan,
    read_plan,
    write_plan,
)
from replaykit.programs.process_log import MAIN, ProcessLog, deviations_of, numbered_names
from replaykit.programs.refusing_proxy import RefusingProxy
from replaykit.programs.shared_tape import SharedMatcher
from replaykit.seam.foreign_threads import Nobody
from replaykit.seam.guard import Guard
from replaykit.seam.pinning import pinned
from replaykit.seam.processes import Entrance, is_pool_worker, own_forks
from replaykit.seam.scope import CallAnswer, Handler, Outcome, PendingCall, RunSession, active_sessions
from replaykit.seam.unrecorded import watching
from replaykit.store.sqlite import SQLiteStore

if TYPE_CHECKING:
    from replaykit.programs.child_sandboxes import ChildSandboxes

_PYTHONPATH = "PYTHONPATH"
# The exit code of a forked process that could not be isolated.
_NOT_ISOLATED = 70


class RunInProgress(Protocol):
    """The facts about a recorded run that its processes need."""

    @property
    def header(self) -> RunHeader: ...
    @property
    def store(self) -> SQLiteStore: ...
    @property
    def pins(self) -> Pins: ...


class PoolJob(msgspec.Struct):
    """A function call in a pool's process, recorded as part of the run; it carries the plan's path when pickled."""

    _directory: str
    _name: str
    _mode: Mode

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        with _recorded_job(self._directory, self._name, self._mode):
            return fn(*args, **kwargs)

    def item(self, number: int) -> PoolJob:
        """Return the job for one of several items."""
        return PoolJob(self._directory, f"{self._name}.{number}", self._mode)


class _UnconfinedTree:
    """The defaults for a tree without sandboxes of its own."""

    def forked(self) -> None:
        """Do nothing: the child handles the fork."""

    def confines(self) -> bool:
        """Return False: this process is confined from outside, or not at all."""
        return False

    def note(self, text: str) -> None:
        """Do nothing: there is no sandbox to report on."""

    def entrance(self, *, outlives: bool = False) -> Entrance | None:
        """Return None: there is no sandbox."""
        return None


class ChildProcessTree(_UnconfinedTree):
    """The processes that one process of a program starts, under the same plan."""

    def __init__(
        self, directory: Path, plan: ProgramPlan, name: str, session: RunSession, *, is_job: bool = False
    ) -> None:
        self._is_job = is_job
        self._directory = directory
        self._plan = plan
        self._name = name
        self.session = session

    def environment(self, environment_before: Mapping[Any, Any], name: str) -> dict[Any, Any]:
        """Return an environment with the plan, and with the program's own variables."""
        variables = {**self._plan.variables, **_plan_variable(self._directory, self._plan)}
        if self._plan.is_tree:
            variables[PROCESS_NAME] = f"{self._name}|{name}"
        return _child_environment(
            environment_before, variables, searched=self._plan.mode is Mode.REPLAY or not self._plan.is_tree
        )

    def job(self, name: str) -> PoolJob:
        """Return a job for a process of a pool."""
        place = name if self._name == MAIN else f"{self._name}|{name}"
        return PoolJob(str(self._directory), place, self._plan.mode)

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """Give a job's forked child a log of its own; for a process, `start` has arranged that."""
        if not self._is_job:
            return None
        return lambda: self._renew(f"{self._name}|{name}")

    def _renew(self, name: str) -> None:
        self._name = name
        self.session.go_on_in_child(_LazyProcessLog(self._directory, name))
        self.session.resalt(name)

    def close(self) -> None:
        """Do nothing: the processes end by themselves."""


class _PlannedTree(_UnconfinedTree):
    """A plan in a directory of its own, from the first process to the end of the run."""

    mode: Mode

    session: RunSession

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._own_name = ""  # in a forked child: the prefix of its children's names
        self._place: Path | None = None

    def _plan(self, directory: Path) -> tuple[ProgramPlan, World | None]:
        raise NotImplementedError

    def _stage(self, directory: Path) -> None:
        plan, world = self._plan(directory)
        write_plan(directory, plan, world)

    def directory(self) -> Path:
        """Return the directory of the plan, which is created on first use."""
        with self._lock:
            if self._place is None:
                place = Path(tempfile.mkdtemp(prefix="replaykit-tree-"))
                self._stage(place)
                self._place = place
            return self._place

    def environment(self, environment_before: Mapping[Any, Any], name: str) -> dict[Any, Any]:
        """Return the environment for a new process."""
        directory = self.directory()
        plan = read_plan_cached(str(directory))[0]
        name = self._name_of(name)
        variables = {**self._variables(name), **_plan_variable(directory, plan), PROCESS_NAME: name}
        return _child_environment(environment_before, variables, searched=self.mode is Mode.REPLAY)

    def _variables(self, name: str) -> dict[str, str]:
        """Return further variables for a process of this name."""
        return {}

    def job(self, name: str) -> PoolJob:
        """Return a job for a process of a pool."""
        return PoolJob(str(self.directory()), self._name_of(name), self.mode)

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """Return a function that gives a forked child a log of its own."""
        directory, own = self.directory(), self._name_of(name)

        def renew() -> None:
            self._own_name = own
            self._renew(directory, own, inside_call=inside_call)

        return renew

    def _name_of(self, name: str) -> str:
        if self._own_name:
            return f"{self._own_name}|{name}"
        return name

    def _renew(self, directory: Path, name: str, *, inside_call: bool) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Collect the logs, and remove the directory."""
        if os.getpid() != self._owner:
            return  # a forked child leaves the directory to its parent
        with self._lock:
            place, self._place = self._place, None
        if place is None:
            return
        try:
            self._gather(place)
        finally:
            remove_tree(place)

    def _gather(self, directory: Path) -> None:
        raise NotImplementedError


class _ForkState(threading.local):
    """The sandbox of the child that this thread is forking."""

    entrance: Entrance | None = None


class ReplayedTree(_PlannedTree):
    """The processes of a run that is replayed in this process, all served from one tape."""

    mode = Mode.REPLAY

    def __init__(self, replayer: Replayer) -> None:
        super().__init__()
        self._replayer = replayer
        self._refused: RefusingProxy | None = None
        self._sandboxes: ChildSandboxes | None = None
        self._forking = _ForkState()

    def _variables(self, name: str) -> dict[str, str]:
        if self._refused is None:
            return {}
        return self._refused.variables(name)

    def _plan(self, directory: Path) -> tuple[ProgramPlan, World | None]:
        world = self._replayer.world
        plan = ProgramPlan(
            mode=Mode.REPLAY,
            run_id=f"replay-{world.case_id or 'tape'}",
            store=str(directory / "parts.db"),
            redact_as=str(default_store_path().absolute()),
            pins=world.pins,
            is_tree=True,
            working_directory=os.getcwd(),
            variables=self._variables("program"),
        )
        return plan, world

    def _stage(self, directory: Path) -> None:
        world = self._replayer.world
        level = self._sandbox_level()
        if level is not None:
            from replaykit.programs.child_sandboxes import ChildSandboxes  # noqa: PLC0415 (Linux only)

            self._sandboxes = ChildSandboxes(level, world)
        if is_closed(world):
            listener = None if self._sandboxes is None else self._sandboxes.listener
            self._refused = RefusingProxy(self._replayer.stopped, listener)
        super()._stage(directory)
        self._replayer.share(lambda matcher: SharedMatcher.shared(matcher, directory / "taken"))

    def _sandbox_level(self) -> IsolationLevel | None:
        """Return the level of child sandboxes; None if this process is in one, or calls are live."""
        if self._replayer.is_alone or self._replayer.world.is_live or os.getpid() != self._owner:
            return None
        with own_forks():  # support is found out by forking
            return sandbox_level(IsolationLevel.FULL)

    def confines(self) -> bool:
        """True if the processes are confined."""
        self.directory()
        return self._sandboxes is not None and os.getpid() == self._owner

    def note(self, text: str) -> None:
        """Note something about the confinement."""
        if self._sandboxes is not None:
            self._sandboxes.notes.append(text)

    def entrance(self, *, outlives: bool = False) -> Entrance | None:
        """Prepare the sandbox of a process that is about to start; None if there is none."""
        directory = self.directory()
        if self._sandboxes is None or os.getpid() != self._owner:
            return None  # a forked child is in a sandbox, and so are its own children
        ports = () if self._refused is None else (self._refused.port,)
        return self._sandboxes.entrance([str(directory), *self.session.own_paths], ports, outlives=outlives)

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """Return a function that gives a forked child a log of its own, in a sandbox if there is one."""
        renew = super().forking(name, inside_call=inside_call)
        entrance = None if inside_call else self.entrance(outlives=is_pool_worker())
        self._forking.entrance = entrance
        if entrance is None or renew is None:
            return renew

        def enter_and_renew() -> None:
            try:
                entrance.enter()
            except ReplayKitError:
                os._exit(_NOT_ISOLATED)
            renew()

        return enter_and_renew

    def forked(self) -> None:
        """Note that the fork was made; called in the parent, in the same thread."""
        entrance, self._forking.entrance = self._forking.entrance, None
        if entrance is not None:
            entrance.begin()

    def _renew(self, directory: Path, name: str, *, inside_call: bool) -> None:
        late = _LazyProcessLog(directory, name)
        self.session.is_elsewhere = True
        self.session.go_on_in_child(late)
        self._replayer.tell = late.add_deviation
        self.session.resalt(name)

    def _gather(self, directory: Path) -> None:
        if self._refused is not None:
            self._refused.close()
        store, plan = directory / "parts.db", read_plan_cached(str(directory))[0]
        logs: list[TraceRun] = []
        if store.exists():
            with SQLiteStore.open(store) as opened:
                logs = load_process_logs(opened, plan.run_id)
        own = TraceRun.of(RunHeader(id=plan.run_id, name=MAIN), tuple(self._replayer.events()))
        whole = merge_runs(own.header, [own, *logs])
        deviations: list[Deviation] = []
        for log in logs:
            for deviation in deviations_of(log):
                text = f"{deviation.text} (in the process {log.name.lstrip('~')!r})"
                deviations.append(msgspec.structs.replace(deviation, text=text))
        if self._sandboxes is not None:
            named = [*self._replayer.deviations, *deviations]
            self._replayer.isolation, more_deviations = self._sandboxes.close(named)
            deviations += more_deviations
        self._replayer.gathered(_renumbering(own, whole), whole.events, deviations)


class RecordedTree(_PlannedTree):
    """The processes of a run that is recorded in this process; each writes its own log beside the run."""

    mode = Mode.RECORD

    def __init__(self, recording: RunInProgress, session: RunSession) -> None:
        super().__init__()
        self.session = session
        self._recording = recording

    def _plan(self, directory: Path) -> tuple[ProgramPlan, World | None]:
        store = self._recording.store
        plan = ProgramPlan(
            mode=Mode.RECORD,
            run_id=self._recording.header.id,
            store=str(store.path.absolute()),
            durability=store.durability.value,
            redact=store.door is not None,
            pins=self._recording.pins,
            is_tree=True,
            working_directory=os.getcwd(),
        )
        return plan, None

    def _renew(self, directory: Path, name: str, *, inside_call: bool) -> None:
        # A tool's call is recorded as a whole, with everything that its own processes do.
        self.session.is_elsewhere = self.session.gives_way = True
        self.session.go_on_in_child(Nobody() if inside_call else _LazyProcessLog(directory, name))
        self.session.resalt(name)

    def _gather(self, directory: Path) -> None:
        store, run_id = self._recording.store, self._recording.header.id
        with store.exclusive():
            logs = load_process_logs(store, run_id)
            if not logs:
                return
            own = store.load(run_id)
            main_header = msgspec.structs.replace(own.header, name=MAIN)
            run = merge_runs(own.header, [TraceRun.of(main_header, own.events), *logs])
            store.delete([process_log.id for process_log in logs])
            store.replace([run])


class _LazyProcessLog:
    """The handler of a forked child. It opens its log at the first call, since most children make none."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._lock = threading.Lock()
        self._begun: ProcessLog | None = None

    def _process_log(self) -> ProcessLog:
        with self._lock:
            if self._begun is None:
                plan, world = read_plan_cached(str(self._directory))
                self._begun = ProcessLog.open(plan, world, candidate_names(self._name))
            return self._begun

    @property
    def _handler(self) -> Handler:
        plan = read_plan_cached(str(self._directory))[0]
        is_over = self._begun is None and not self._directory.is_dir()
        if is_over and plan.mode is Mode.RECORD:
            return Nobody()
        return self._process_log().handler

    def add_deviation(self, text: str) -> None:
        """Record something that the process did and that the tape does not account for."""
        self._process_log().add_deviation(text)

    def serve(self, call: PendingCall) -> CallAnswer | None:
        return self._handler.serve(call)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        self._handler.settle(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        self._handler.keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        return self._handler.amend(step, state)


@lru_cache(maxsize=4)
def read_plan_cached(directory: str) -> tuple[ProgramPlan, World | None]:
    """Read the plan in a directory, cached: it does not change, and a pool's worker needs it for every job."""
    return read_plan(Path(directory))


def candidate_names(name: str) -> Iterator[str]:
    """Yield the name, then numbered ones in case another process has it."""
    return chain((name,), numbered_names(name))


@contextmanager
def _recorded_job(directory: str, name: str, mode: Mode) -> Iterator[None]:
    """Record or serve the calls of the block under this process name."""
    if not Path(directory).is_dir():
        if mode is Mode.REPLAY:
            raise Divergence(f"the job {name!r} was started after its replay had ended", index=0)
        yield  # the recording is over, and the caller of the job has outlived it
        return
    plan, world = read_plan_cached(directory)
    process_log = ProcessLog.open(plan, world, candidate_names(name))
    session = process_log.session
    session.is_elsewhere, session.gives_way = True, mode is Mode.RECORD
    session.make_tree = lambda: ChildProcessTree(Path(directory), plan, process_log.name, session, is_job=True)
    status = RunStatus.ERROR
    with ExitStack() as entered:
        entered.callback(lambda: process_log.end(status))
        entered.enter_context(_only_active_session(session))
        session.resalt = entered.enter_context(pinned_process(plan, process_log))
        if world is not None:
            guard = Guard(session, world.rules.network, process_log.add_deviation, everywhere=True)
            entered.enter_context(guard.standing())
            session.refuse = process_log.refuse
        else:
            entered.enter_context(watching(session, urlsplit(plan.proxy).netloc))
        entered.enter_context(session.active())
        yield
        status = RunStatus.SUCCESS


def pinned_process(plan: ProgramPlan, process_log: ProcessLog) -> Any:
    """Apply the pins to this process. A recording pins only randomness: its clock and variables are real."""
    replays = plan.mode is Mode.REPLAY
    pins = plan.pins if replays else Pins(seed=plan.pins.seed)
    return pinned(pins, process_log.name, keys=replays, not_held=process_log.not_held)


@contextmanager
def _only_active_session(session: RunSession) -> Iterator[None]:
    """Suspend other runs in this process: a pool's worker does one job at a time."""
    others = active_sessions[:]
    active_sessions.clear()
    try:
        yield
    finally:
        active_sessions[:] = others


def _plan_variable(directory: Path, plan: ProgramPlan) -> dict[str, str]:
    is_recorded_tree = plan.is_tree and plan.mode is Mode.RECORD
    return {RECORDED_TREE if is_recorded_tree else SESSION: str(directory.absolute())}


def _child_environment(
    environment_before: Mapping[Any, Any], variables: Mapping[str, str], *, searched: bool
) -> dict[Any, Any]:
    changed = {**environment_before, **variables}
    if searched:  # so that Python finds the start-up file first
        before = environment_before.get(_PYTHONPATH)
        if not before and not isinstance(environment_before, os._Environ):  # os.environ raises for names that are bytes
            before = environment_before.get(_PYTHONPATH.encode())
        places = [str(INJECT_DIRECTORY)]
        if before:
            places += os.fsdecode(before).split(os.pathsep)
        changed[_PYTHONPATH] = os.pathsep.join(dict.fromkeys(places))
    return changed


def _renumbering(own: TraceRun, whole: TraceRun) -> dict[int, int]:
    """Return the numbers of this process's own events before the merge, with those after it."""
    before = sorted(own.events, key=lambda event: (event.at, event.seq))
    after = [event for event in whole.events if not event.path.startswith("/!")]
    return {old.seq: new.seq for old, new in zip(before, after, strict=True)}
