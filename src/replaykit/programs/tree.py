"""The processes that an agent starts, while it is recorded by `rk.record` or replayed in a process of its own.

They meet what the processes of a whole program meet: a plan in a directory, a part for each, a tape that all of them
share. The directory is made when the first of them is started; a run that starts none pays nothing.
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
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from replaykit.config import default_store_path
from replaykit.errors import Divergence, ReplayKitError
from replaykit.model.events import AnyEvent
from replaykit.model.isolation import IsolationLevel
from replaykit.model.pins import Pins
from replaykit.model.result import Deviation
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.programs.isolation_level import sandbox_level
from replaykit.programs.merge import merged, parts_of
from replaykit.programs.part import MAIN, Part, deviations_of, numbered
from replaykit.programs.plan import INJECTED, PART, RECORDED_TREE, SESSION, Mode, Plan, read_plan, write_plan
from replaykit.programs.refused_proxy import RefusedProxy
from replaykit.programs.sharing import SharedMatcher
from replaykit.replayer.handler import Replayer
from replaykit.replayer.world import World, is_closed
from replaykit.seam.adoption import Nobody
from replaykit.seam.guard import Guard
from replaykit.seam.pinning import pinned
from replaykit.seam.processes import Entrance, is_pool_worker, own_forks
from replaykit.seam.scope import Answer, Handler, Outcome, PendingCall, Session, active_sessions
from replaykit.seam.unrecorded import watching
from replaykit.store.sqlite import SQLiteStore

if TYPE_CHECKING:
    from replaykit.programs.child_sandboxes import ChildSandboxes

_SEARCHED = "PYTHONPATH"
_NOT_ISOLATED = 70
"""The exit code of a forked process that could not be isolated."""


class RunInProgress(Protocol):
    """What the processes of a recorded run have to know of it."""

    @property
    def header(self) -> RunHeader: ...
    @property
    def store(self) -> SQLiteStore: ...
    @property
    def pins(self) -> Pins: ...


class Job:
    """A function's call in a process of a pool, as a part of the run. It finds the plan wherever it is unpickled."""

    def __init__(self, directory: str, name: str, mode: Mode) -> None:
        self._directory = directory
        self._name = name
        self._mode = mode

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        with _taking_part(self._directory, self._name, self._mode):
            return fn(*args, **kwargs)

    def item(self, number: int) -> Job:
        """The job for one of several items."""
        return Job(self._directory, f"{self._name}.{number}", self._mode)


class PartTree:
    """The processes that one process of a program starts: they belong to the same plan."""

    def __init__(self, directory: Path, plan: Plan, name: str, session: Session, *, is_job: bool = False) -> None:
        self._is_job = is_job
        self._directory = directory
        self._plan = plan
        self._name = name
        self.session = session

    def environment(self, given: Mapping[Any, Any], name: str) -> dict[Any, Any]:
        """The variables that lead to the plan, and what else the program's processes have."""
        variables = {**self._plan.variables, **_leading_to(self._directory, self._plan)}
        if self._plan.is_tree:
            variables[PART] = f"{self._name}|{name}"
        return _with(given, variables, searched=self._plan.mode is Mode.REPLAY or not self._plan.is_tree)

    def job(self, name: str) -> Job:
        """A job in a process of a pool."""
        place = name if self._name == MAIN else f"{self._name}|{name}"
        return Job(str(self._directory), place, self._plan.mode)

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """A forked child of a job goes on as a part of its own; for a process `start` has arranged that."""
        if not self._is_job:
            return None
        return lambda: self._renew(f"{self._name}|{name}")

    def _renew(self, name: str) -> None:
        self._name = name
        self.session.go_on_in_child(_LatePart(self._directory, name))
        self.session.resalt(name)

    def forked(self) -> None:
        """Nothing: the child sees to itself."""

    def confines(self) -> bool:
        """False: whoever started this process has shut it in."""
        return False

    def note(self, text: str) -> None:
        """Nothing: whoever has shut this process in knows more."""

    def entrance(self, *, outlives: bool = False) -> None:
        """No sandbox: the process is in one already, where there is one."""

    def close(self) -> None:
        """The processes end by themselves."""


class _Staged:
    """A plan in a directory of its own, from the first process that is started to the end of the run."""

    mode: Mode

    session: Session

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._own_name = ""  # of a forked child, before the names of what it starts
        self._place: Path | None = None

    def _plan(self, directory: Path) -> tuple[Plan, World | None]:
        raise NotImplementedError

    def _stage(self, directory: Path) -> None:
        plan, world = self._plan(directory)
        write_plan(directory, plan, world)

    def directory(self) -> Path:
        """Where the plan is; it is written when this is first asked."""
        with self._lock:
            if self._place is None:
                place = Path(tempfile.mkdtemp(prefix="replaykit-tree-"))
                self._stage(place)
                self._place = place
            return self._place

    def environment(self, given: Mapping[Any, Any], name: str) -> dict[Any, Any]:
        """The variables of a process that is started."""
        directory = self.directory()
        plan = read_cached(str(directory))[0]
        name = self._name_of(name)
        variables = {**self._variables(name), **_leading_to(directory, plan), PART: name}
        return _with(given, variables, searched=self.mode is Mode.REPLAY)

    def _variables(self, name: str) -> dict[str, str]:
        """What else a process of this name is started with."""
        return {}

    def job(self, name: str) -> Job:
        """A job in a process of a pool."""
        return Job(str(self.directory()), self._name_of(name), self.mode)

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """The child of a fork goes on as a part of its own."""
        directory, own = self.directory(), self._name_of(name)

        def renew() -> None:
            self._own_name = own
            self._renew(directory, own, inside_call=inside_call)

        return renew

    def forked(self) -> None:
        """Nothing, where the processes are not shut in."""

    def confines(self) -> bool:
        """True where the processes are shut in."""
        return False

    def note(self, text: str) -> None:
        """Nothing, where they are not."""

    def entrance(self, *, outlives: bool = False) -> Entrance | None:
        """Prepare the sandbox of a process that is about to be started; None where there is none."""
        return None

    def _name_of(self, name: str) -> str:
        return f"{self._own_name}|{name}" if self._own_name else name

    def _renew(self, directory: Path, name: str, *, inside_call: bool) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """The run has ended."""
        if os.getpid() != self._owner:
            return  # the child of a fork leaves the directory to its parent
        with self._lock:
            place, self._place = self._place, None
        if place is None:
            return
        try:
            self._gather(place)
        finally:
            rmtree(place, ignore_errors=True)

    def _gather(self, directory: Path) -> None:
        raise NotImplementedError


class _Forking(threading.local):
    """The entrance for the child of the fork that this thread is making."""

    entrance: Entrance | None = None


class ReplayedTree(_Staged):
    """The processes of a run that is replayed in this process: each is served from the one tape."""

    mode = Mode.REPLAY

    def __init__(self, replayer: Replayer) -> None:
        super().__init__()
        self._replayer = replayer
        self._refused: RefusedProxy | None = None
        self._sandboxes: ChildSandboxes | None = None
        self._forking = _Forking()

    def _variables(self, name: str) -> dict[str, str]:
        return {} if self._refused is None else self._refused.variables(name)

    def _plan(self, directory: Path) -> tuple[Plan, World | None]:
        world = self._replayer.world
        plan = Plan(
            mode=Mode.REPLAY,
            run_id=f"replay-{world.case_id or 'tape'}",
            store=str(directory / "parts.db"),
            redact_as=str(default_store_path().absolute()),
            pins=world.pins,
            is_tree=True,
            variables=self._variables("program"),
        )
        return plan, world

    def _stage(self, directory: Path) -> None:
        world = self._replayer.world
        level = self._sandbox_level()
        if level is not None:
            from replaykit.programs.child_sandboxes import ChildSandboxes  # noqa: PLC0415 (for Linux alone)

            self._sandboxes = ChildSandboxes(level, world)
        if is_closed(world):
            listener = None if self._sandboxes is None else self._sandboxes.listener
            self._refused = RefusedProxy(self._replayer.stopped, listener)
        super()._stage(directory)
        self._replayer.share(lambda matcher: SharedMatcher.shared(matcher, directory / "taken"))

    def _sandbox_level(self) -> IsolationLevel | None:
        """The level of the sandboxes for child processes; None where this process is in one, or calls are made live."""
        if self._replayer.is_alone or self._replayer.world.is_live or os.getpid() != self._owner:
            return None
        with own_forks():  # what the machine offers is found out by trying
            return sandbox_level(IsolationLevel.FULL)

    def confines(self) -> bool:
        """True where the processes are shut in."""
        self.directory()
        return self._sandboxes is not None and os.getpid() == self._owner

    def note(self, text: str) -> None:
        """Note something about how the processes are shut in."""
        if self._sandboxes is not None:
            self._sandboxes.notes.append(text)

    def entrance(self, *, outlives: bool = False) -> Entrance | None:
        """Prepare the sandbox of a process that is about to be started; None where there is none."""
        directory = self.directory()
        if self._sandboxes is None or os.getpid() != self._owner:
            return None  # a forked child is in a sandbox, and so is what it starts
        ports = () if self._refused is None else (self._refused.port,)
        return self._sandboxes.entrance([str(directory), *self.session.own_paths], ports, outlives=outlives)

    def forking(self, name: str, *, inside_call: bool) -> Callable[[], None] | None:
        """The child of a fork goes on as a part of its own, in a sandbox where there is one."""
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
        """Say, in the parent and the same thread, that the fork was made."""
        entrance, self._forking.entrance = self._forking.entrance, None
        if entrance is not None:
            entrance.begin()

    def _renew(self, directory: Path, name: str, *, inside_call: bool) -> None:
        late = _LatePart(directory, name)
        self.session.is_elsewhere = True
        self.session.go_on_in_child(late)
        self._replayer.tell = late.tell
        self.session.resalt(name)

    def _gather(self, directory: Path) -> None:
        if self._refused is not None:
            self._refused.close()
        store, plan = directory / "parts.db", read_cached(str(directory))[0]
        parts = _parts(store, plan.run_id) if store.exists() else []
        own = TraceRun.of(RunHeader(id=plan.run_id, name=MAIN), tuple(self._replayer.events()))
        whole = merged(own.header, [own, *parts])
        deviations = [_placed(deviation, part.name) for part in parts for deviation in deviations_of(part)]
        if self._sandboxes is not None:
            named = [*self._replayer.deviations, *deviations]
            self._replayer.isolation, found = self._sandboxes.close(named)
            deviations += found
        self._replayer.gathered(_numbers(own, whole), whole.events, deviations)


class RecordedTree(_Staged):
    """The processes of a run that is recorded in this process: each writes its part beside the run."""

    mode = Mode.RECORD

    def __init__(self, recording: RunInProgress, session: Session) -> None:
        super().__init__()
        self.session = session
        self._recording = recording

    def _plan(self, directory: Path) -> tuple[Plan, World | None]:
        store = self._recording.store
        plan = Plan(
            mode=Mode.RECORD,
            run_id=self._recording.header.id,
            store=str(store.path.absolute()),
            durability=store.durability.value,
            redact=store.door is not None,
            pins=self._recording.pins,
            is_tree=True,
        )
        return plan, None

    def _renew(self, directory: Path, name: str, *, inside_call: bool) -> None:
        # What a tool does in processes of its own is inside of the tool's call, which is recorded as a whole.
        self.session.is_elsewhere = self.session.gives_way = True
        self.session.go_on_in_child(Nobody() if inside_call else _LatePart(directory, name))
        self.session.resalt(name)

    def _gather(self, directory: Path) -> None:
        store, run_id = self._recording.store, self._recording.header.id
        with store.exclusive():
            parts = parts_of(store, run_id)
            if not parts:
                return
            own = store.load(run_id)
            run = merged(own.header, [TraceRun.of(_named(own.header, MAIN), own.events), *parts])
            store.delete([part.id for part in parts])
            store.replace([run])


class _LatePart:
    """The handler of a forked child: its part is begun with its first call, since most children make none."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._lock = threading.Lock()
        self._begun: Part | None = None

    def _part(self) -> Part:
        with self._lock:
            if self._begun is None:
                plan, world = read_cached(str(self._directory))
                self._begun = Part(plan, world, names_from(self._name))
            return self._begun

    def _is_over(self) -> bool:
        return self._begun is None and not self._directory.is_dir()

    @property
    def _handler(self) -> Handler:
        plan = read_cached(str(self._directory))[0]
        if self._is_over() and plan.mode is Mode.RECORD:
            return Nobody()
        return self._part().told

    def tell(self, text: str) -> None:
        """Write down that the process did what no call of the tape accounts for."""
        self._part().tell(text)

    def serve(self, call: PendingCall) -> Answer | None:
        return self._handler.serve(call)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        self._handler.settle(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        self._handler.keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        return self._handler.amend(step, state)


@lru_cache(maxsize=4)
def read_cached(directory: str) -> tuple[Plan, World | None]:
    """The plan in a directory. It does not change, and a pool's worker needs it for every job."""
    return read_plan(Path(directory))


def names_from(name: str) -> Iterator[str]:
    """The name, or that with a number where another process bears it."""
    return chain((name,), numbered(name))


@contextmanager
def _taking_part(directory: str, name: str, mode: Mode) -> Iterator[None]:
    """What runs inside is the part of this name."""
    if not Path(directory).is_dir():
        if mode is Mode.REPLAY:
            raise Divergence(f"the job {name!r} was started after its replay had ended", index=0)
        yield  # the recording is over: whoever waits for the job has outlived it
        return
    plan, world = read_cached(directory)
    part = Part(plan, world, names_from(name))
    session = part.session
    session.is_elsewhere, session.gives_way = True, mode is Mode.RECORD
    session.make_tree = lambda: PartTree(Path(directory), plan, part.name, session, is_job=True)
    status = RunStatus.ERROR
    with ExitStack() as entered:
        entered.callback(lambda: part.end(status))
        entered.enter_context(_only(session))
        session.resalt = entered.enter_context(held_still(plan, part))
        if world is not None:
            guard = Guard(session, world.rules.network, part.tell, everywhere=True)
            entered.enter_context(guard.standing())
            session.refuse = part.refuse
        else:
            entered.enter_context(watching(session, urlsplit(plan.proxy).netloc))
        entered.enter_context(session.active())
        yield
        status = RunStatus.SUCCESS


def held_still(plan: Plan, part: Part) -> Any:
    """The pins of a process. A recording holds only chance: its clock and variables are real."""
    replays = plan.mode is Mode.REPLAY
    pins = plan.pins if replays else Pins(seed=plan.pins.seed)
    return pinned(pins, part.name, keys=replays, not_held=part.not_held)


@contextmanager
def _only(session: Session) -> Iterator[None]:
    """No other run is under way here meanwhile: a pool's worker does one job at a time."""
    others = active_sessions[:]
    active_sessions.clear()
    try:
        yield
    finally:
        active_sessions[:] = others


def _leading_to(directory: Path, plan: Plan) -> dict[str, str]:
    variable = RECORDED_TREE if plan.is_tree and plan.mode is Mode.RECORD else SESSION
    return {variable: str(directory.absolute())}


def _with(given: Mapping[Any, Any], variables: Mapping[str, str], *, searched: bool) -> dict[Any, Any]:
    changed = {**given, **variables}
    if searched:  # Python finds the start-up file first
        before = given.get(_SEARCHED) or (given.get(_SEARCHED.encode()) if not isinstance(given, os._Environ) else None)
        places = [str(INJECTED), *(os.fsdecode(before).split(os.pathsep) if before else ())]
        changed[_SEARCHED] = os.pathsep.join(dict.fromkeys(places))
    return changed


def _parts(file: Path, run_id: str) -> list[TraceRun]:
    with SQLiteStore.open(file) as store:
        return parts_of(store, run_id)


def _named(header: RunHeader, name: str) -> RunHeader:
    return msgspec.structs.replace(header, name=name)


def _placed(deviation: Deviation, name: str) -> Deviation:
    return msgspec.structs.replace(deviation, text=f"{deviation.text} (in the process {name.lstrip('~')!r})")


def _numbers(own: TraceRun, whole: TraceRun) -> dict[int, int]:
    """The numbers of this process's own events, before and after they were put together with the others."""
    before = sorted(own.events, key=lambda event: (event.at, event.seq))
    after = [event for event in whole.events if not event.path.startswith("/!")]
    return {one.seq: other.seq for one, other in zip(before, after, strict=True)}
