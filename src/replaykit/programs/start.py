"""Inside a Python process of a recorded or replayed program: take part from its first line to its last.

What is to hold in such a process while it takes part is entered in one place, `_TakingPart._enter`.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from replaykit.errors import ReplayKitError, StoreFull
from replaykit.model.events import ErrorEvent
from replaykit.model.pins import Clock
from replaykit.model.run import RunStatus
from replaykit.model.values import sayable
from replaykit.programs.part import Part, numbered, python_names
from replaykit.programs.plan import (
    INJECTED,
    PART,
    RECORDED_TREE,
    RECORDING,
    SESSION,
    Mode,
    Plan,
    read_plan,
    session_directory,
)
from replaykit.programs.tree import PartTree, held_still, names_from
from replaykit.replayer.order import end_run
from replaykit.replayer.world import World
from replaykit.seam.adoption import Nobody
from replaykit.seam.failures import describe
from replaykit.seam.guard import Guard
from replaykit.seam.unrecorded import watching

ALONE = "REPLAYKIT_ALONE"
"""Set for processes of ReplayKit's own, which take part in another way."""
_parts: list[_TakingPart] = []
"""What this process does for the run, once it takes part."""


def start() -> None:
    """Take part in the run that the environment names. A plan that cannot be read ends the process: going on without
    it would do for real what should be served."""
    if os.environ.get(ALONE) or _keeps_house() or _is_shim():
        return
    directory = session_directory()
    if os.environ.get(RECORDING) and not directory.is_dir():
        return  # the recording is over: whoever started this process has outlived it
    _take_part(directory)


def join() -> None:
    """Take part in the run that a process was started for, now that it can make calls of that run.

    The processes of a program do so from their first line on. Those that `rk.record` follows do it when they import
    ReplayKit, and so do those that ignore the start-up file.
    """
    if os.environ.get(SESSION):
        # Where the start-up file was left out on purpose, the processes of the program take no part themselves.
        if str(INJECTED) in os.environ.get("PYTHONPATH", "").split(os.pathsep):
            start()
        return
    directory = Path(os.environ[RECORDED_TREE])
    if _is_our_own():
        del os.environ[RECORDED_TREE]  # it begins a run of its own, and so do its children
    elif directory.is_dir() and not _keeps_house():
        _take_part(directory)


def _take_part(directory: Path) -> None:
    if _parts:
        return  # by the start-up file, or by importing ReplayKit, whichever was first
    try:
        plan, world = read_plan(directory)
        try:
            _parts.append(_TakingPart(plan, world, directory))
        except StoreFull as error:
            if plan.mode is Mode.REPLAY:
                raise
            _say(f"this process is not recorded: {error}")
    except ReplayKitError as error:
        _say(str(error))
        os._exit(int(error.exit_code))


def _say(text: str) -> None:
    from replaykit.terminal import visible_lines  # noqa: PLC0415 (only where something is wrong)

    sys.stderr.write(visible_lines(f"replaykit: {text}\n"))


class _TakingPart:
    """The part of this process, renewed in forked children, ended at exit."""

    def __init__(self, plan: Plan, world: World | None, directory: Path) -> None:
        self._plan, self._world, self._directory = plan, world, directory
        name = os.environ.pop(PART, "") or ("~python" if plan.is_tree else "")
        self._part = Part(plan, world, names_from(name) if name else python_names(_script()))
        self._status = RunStatus.SUCCESS
        self._entered = ExitStack()
        self._enter(self._entered)
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._renew)
        self._hook, sys.excepthook = sys.excepthook, self._on_error

    def _enter(self, entered: ExitStack) -> None:
        replays, session = self._plan.mode is Mode.REPLAY, self._part.session
        self._resalt = entered.enter_context(held_still(self._plan, self._part))
        self._part.leave_out_own_servers(self._directory)
        session.resalt = self._resalt
        if self._plan.is_tree:
            for variable in self._plan.variables:  # they are for programs that cannot stop their connections themselves
                os.environ.pop(variable, None)
        session.begins_with_run = isinstance(self._plan.pins.seed, str) and not self._plan.is_tree
        session.is_elsewhere = True
        session.gives_way = self._plan.is_tree and not replays
        session.make_tree = lambda: PartTree(self._directory, self._plan, self._part.name, session)
        serves = self._plan.in_process
        if replays:
            session.refuse = lambda what, caller: self._part.refuse(what, caller)
        if self._world is not None and (serves or not self._world.is_live):
            allowed = [*self._world.rules.network, urlsplit(self._plan.proxy).netloc]
            entered.enter_context(Guard(session, allowed, self._stopped, everywhere=True).standing())
        if serves and self._part.order is not None:
            pins = self._plan.pins
            entered.enter_context(self._part.order.at_work(pins.started_at if pins.clock is not Clock.LIVE else 0.0))
        if not replays:
            entered.enter_context(watching(session, urlsplit(self._plan.proxy).netloc))
        if serves:
            entered.enter_context(session.active())
        if serves and self._part.order is not None:
            entered.callback(end_run, session, self._part.order)

    def _stopped(self, text: str) -> None:
        self._part.tell(text)

    def _renew(self) -> None:
        """In a forked child: the same session, written to a part of its own."""
        session = self._part.session
        if self._plan.mode is Mode.RECORD and not self._directory.is_dir():
            session.handler = Nobody()  # the recording is over
            return
        own = self._part.name if self._plan.is_tree else _script()
        part = Part(self._plan, self._world, numbered(f"{own}-fork"))
        session.handler = part.session.handler
        session.numbers = part.session.numbers
        part.session = session
        part.leave_out_own_servers(self._directory)
        self._part = part
        self._resalt(part.name)

    def _on_error(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        self._status = RunStatus.ERROR
        self._part.session.is_ending = True
        self._part.session.keep(ErrorEvent, error=describe(error))
        return self._hook(kind, error, trace)

    def _end(self) -> None:
        self._entered.close()
        self._part.end(self._status)


def _script() -> str:
    """What this process runs, as a name: the file of its script, or `python`."""
    arguments = getattr(sys, "orig_argv", sys.argv)[1:]
    if "-m" in arguments[:4]:
        return sayable(arguments[arguments.index("-m") + 1])
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    return sayable(os.path.basename(first)) if first and "-c" not in arguments[:3] else "python"


def _keeps_house() -> bool:
    """True for the process that `multiprocessing` starts to tidy up after the others: it does nothing of its own."""
    return any("multiprocessing.resource_tracker" in argument for argument in getattr(sys, "orig_argv", ()))


def _is_our_own() -> bool:
    """True for the command `replaykit`, and for a process that it has started to run an agent."""
    words = getattr(sys, "orig_argv", sys.argv)
    return any(os.path.basename(word).removesuffix(".exe") == "replaykit" for word in words[:3]) or any(
        "replaykit.runners" in word for word in words
    )


def _is_shim() -> bool:
    """True for `replaykit mcp`, which takes part by itself, for the server that it stands before."""
    words = getattr(sys, "orig_argv", sys.argv)[1:]
    names = [os.path.basename(word).removesuffix(".exe") for word in words]
    if "replaykit" not in names:
        return False
    own = names.index("replaykit")
    verb = next((word for word in words[own + 1 :] if not word.startswith("-")), "")
    return verb == "mcp" and (words[own - 1] == "-m" or all(word.startswith("-") for word in words[:own]))
