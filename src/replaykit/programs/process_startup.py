"""Inside a Python process of a recorded or replayed program: join the run from the first line to the last.

Everything that holds in such a process is set up in one place, `_Participation._enter`.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from replaykit.errors import ReplayKitError, StoreFull
from replaykit.handlers.replay.order import end_run
from replaykit.handlers.replay.world import World
from replaykit.model.events import ErrorEvent
from replaykit.model.pins import Clock
from replaykit.model.run import RunStatus
from replaykit.model.values import sayable
from replaykit.programs.plan import (
    INJECT_DIRECTORY,
    PROCESS_NAME,
    RECORDED_TREE,
    RECORDING,
    SESSION,
    Mode,
    ProgramPlan,
    read_plan,
    session_directory,
)
from replaykit.programs.process_log import ProcessLog, numbered_names, python_names
from replaykit.programs.process_tree import ChildProcessTree, candidate_names, pinned_process
from replaykit.seam.changed_files import FileLog, watching_files, watching_leftovers
from replaykit.seam.emissions import watching_emissions
from replaykit.seam.failures import describe
from replaykit.seam.foreign_threads import Nobody
from replaykit.seam.guard import Guard
from replaykit.seam.unrecorded import watching

ALONE = "REPLAYKIT_ALONE"
"""Set for ReplayKit's own processes, which join a run in other ways."""
# This process's participation in the run; empty until it joins.
_participations: list[_Participation] = []


def start() -> None:
    """Join the run that the environment names. An unreadable plan ends the process: continuing would do for real what
    should be served."""
    if os.environ.get(ALONE) or _is_resource_tracker() or _is_shim():
        return
    directory = session_directory()
    if os.environ.get(RECORDING) and not directory.is_dir():
        return  # the recording is over, and this process's parent has outlived it
    _join_run(directory)


def join() -> None:
    """Join the run that this process was started for, now that it can make calls.

    The processes of a program join from their first line on. Those that `rk.record` follows, and those that ignore the
    start-up file, join when they import ReplayKit.
    """
    if os.environ.get(SESSION):
        # Without the start-up file, which is left out on purpose, the program's processes do not join.
        if str(INJECT_DIRECTORY) in os.environ.get("PYTHONPATH", "").split(os.pathsep):
            start()
        return
    directory = Path(os.environ[RECORDED_TREE])
    if _is_replaykit_process():
        del os.environ[RECORDED_TREE]  # it starts a run of its own, and so do its children
    elif directory.is_dir() and not _is_resource_tracker():
        _join_run(directory)


def _join_run(directory: Path) -> None:
    if _participations:
        return  # by the start-up file or the import of ReplayKit, whichever came first
    try:
        plan, world = read_plan(directory)
        try:
            _participations.append(_Participation(plan, world, directory))
        except StoreFull as error:
            if plan.mode is Mode.REPLAY:
                raise
            _warn(f"this process is not recorded: {error}")
    except ReplayKitError as error:
        _warn(str(error))
        os._exit(int(error.exit_code))


def _warn(text: str) -> None:
    from replaykit.terminal import visible_lines  # noqa: PLC0415 (only for errors)

    sys.stderr.write(visible_lines(f"replaykit: {text}\n"))


class _Participation:
    """This process's share of the run: reopened in forked children, closed at exit."""

    def __init__(self, plan: ProgramPlan, world: World | None, directory: Path) -> None:
        self._plan, self._world, self._directory = plan, world, directory
        name = os.environ.pop(PROCESS_NAME, "")
        if not name and plan.is_tree:
            name = "~python"
        names = candidate_names(name) if name else python_names(_script_name())
        self._process_log = ProcessLog.open(plan, world, names)
        self._status = RunStatus.SUCCESS
        self._entered = ExitStack()
        self._enter(self._entered)
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._renew)
        self._hook, sys.excepthook = sys.excepthook, self._on_error

    def _enter(self, entered: ExitStack) -> None:
        replays, session = self._plan.mode is Mode.REPLAY, self._process_log.session
        self._resalt = entered.enter_context(pinned_process(self._plan, self._process_log))
        self._process_log.leave_out_own_servers(self._directory)
        session.resalt = self._resalt
        if self._plan.is_tree:
            for variable in self._plan.variables:  # for programs that cannot stop their own connections
                os.environ.pop(variable, None)
        session.begins_with_run = isinstance(self._plan.pins.seed, str) and not self._plan.is_tree
        session.is_elsewhere = True
        session.gives_way = self._plan.is_tree and not replays
        session.make_tree = lambda: ChildProcessTree(self._directory, self._plan, self._process_log.name, session)
        serves = self._plan.in_process
        # Via `self`, here and below: a forked child has another process log.
        if replays:
            session.refuse = lambda what, caller: self._process_log.refuse(what, caller)
        if self._world is not None and (serves or not self._world.is_live):
            allowed = [*self._world.rules.network, urlsplit(self._plan.proxy).netloc]
            entered.enter_context(Guard(session, allowed, self._stopped, everywhere=True).standing())
        if serves and self._process_log.order is not None:
            pins = self._plan.pins
            entered.enter_context(
                self._process_log.order.at_work(pins.started_at if pins.clock is not Clock.LIVE else 0.0)
            )
        if not replays:
            entered.enter_context(watching(session, urlsplit(self._plan.proxy).netloc))
            entered.enter_context(watching_files(session, FileLog(session, self._plan.working_directory)))
            entered.enter_context(watching_emissions())
        elif self._world is not None:
            entered.enter_context(self._watching_leftovers(self._world))
        # Last, because calls are recorded or served from here on.
        if serves:
            entered.enter_context(session.active())
        if serves and self._process_log.order is not None:
            entered.callback(end_run, session, self._process_log.order)

    def _watching_leftovers(self, world: World) -> AbstractContextManager[None]:
        session, directory = self._process_log.session, self._plan.working_directory
        return watching_leftovers(
            session, world.changed_files, lambda tool: self._process_log.was_served(tool), directory=directory
        )

    def _stopped(self, text: str) -> None:
        self._process_log.add_deviation(text)

    def _renew(self) -> None:
        """Continue in a forked child: in the same session, with a log of its own."""
        session = self._process_log.session
        if self._plan.mode is Mode.RECORD and not self._directory.is_dir():
            session.handler = Nobody()  # the recording is over
            return
        own = self._process_log.name if self._plan.is_tree else _script_name()
        process_log = ProcessLog.open(self._plan, self._world, numbered_names(f"{own}-fork"))
        session.handler = process_log.session.handler
        session.numbers = process_log.session.numbers
        process_log.session = session
        process_log.leave_out_own_servers(self._directory)
        self._process_log = process_log
        self._resalt(process_log.name)

    def _on_error(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        self._status = RunStatus.ERROR
        self._process_log.session.is_ending = True
        self._process_log.session.keep(ErrorEvent, error=describe(error))
        return self._hook(kind, error, trace)

    def _end(self) -> None:
        self._entered.close()
        self._process_log.end(self._status)


def _script_name() -> str:
    """Return the name of this process: its script's file name, or `python`."""
    arguments = sys.orig_argv[1:]
    if "-m" in arguments[:4]:
        return sayable(arguments[arguments.index("-m") + 1])
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    if first and "-c" not in arguments[:3]:
        return sayable(os.path.basename(first))
    return "python"


def _is_resource_tracker() -> bool:
    """True for the process with which `multiprocessing` tidies up; it runs none of the program's code."""
    return any("multiprocessing.resource_tracker" in argument for argument in sys.orig_argv)


def _is_replaykit_process() -> bool:
    """True for the command `replaykit`, and for a process that it started to run an agent."""
    if any("replaykit.candidates" in word for word in sys.orig_argv):
        return True
    return "replaykit" in map(_program_name, sys.orig_argv[:3])


def _program_name(word: str) -> str:
    return os.path.basename(word).removesuffix(".exe")


def _is_shim() -> bool:
    """True for `replaykit mcp`, which records the server behind it by itself."""
    words = sys.orig_argv[1:]
    names = list(map(_program_name, words))
    if "replaykit" not in names:
        return False
    own = names.index("replaykit")
    verb = next((word for word in words[own + 1 :] if not word.startswith("-")), "")
    return verb == "mcp" and (words[own - 1] == "-m" or all(word.startswith("-") for word in words[:own]))
