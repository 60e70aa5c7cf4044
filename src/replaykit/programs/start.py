"""Inside a Python process of a recorded or replayed program: take part from its first line to its last.

What is to hold in such a process while it takes part is entered in one place, `_TakingPart._enter`.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from replaykit.errors import ReplayKitError
from replaykit.model.events import ErrorEvent
from replaykit.model.pins import Pins
from replaykit.model.run import RunStatus
from replaykit.model.values import sayable
from replaykit.programs.part import Nobody, Part, numbered, python_names
from replaykit.programs.plan import RECORDING, Mode, Plan, read_plan, session_directory
from replaykit.replayer.world import World
from replaykit.seam.failures import describe
from replaykit.seam.guard import Guard
from replaykit.seam.pinning import pinned

ALONE = "REPLAYKIT_ALONE"
"""Set for processes of ReplayKit's own, which take part in another way."""


def start() -> None:
    """Take part in the run that the environment names. A plan that cannot be read ends the process: going on without
    it would do for real what should be served."""
    if os.environ.get(ALONE) or _keeps_house() or _is_shim():
        return
    if os.environ.get(RECORDING) and not session_directory().is_dir():
        return  # the recording is over: whoever started this process has outlived it
    try:
        plan, world = read_plan()
        _TakingPart(plan, world)
    except ReplayKitError as error:
        sys.stderr.write(f"replaykit: {error}\n")
        os._exit(int(error.exit_code))


class _TakingPart:
    """The part of this process, renewed in forked children, ended at exit."""

    def __init__(self, plan: Plan, world: World | None) -> None:
        self._plan, self._world = plan, world
        self._part = Part(plan, world, python_names(_script()))
        self._status = RunStatus.SUCCESS
        self._entered = ExitStack()
        self._enter(self._entered)
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._renew)
        self._hook, sys.excepthook = sys.excepthook, self._on_error

    def _enter(self, entered: ExitStack) -> None:
        replays, session = self._plan.mode is Mode.REPLAY, self._part.session
        # In a recording only chance is held, so that a replay can draw the same: its clock and variables are real.
        pins = self._plan.pins if replays else Pins(seed=self._plan.pins.seed)
        self._resalt = entered.enter_context(pinned(pins, self._part.name, keys=replays))
        self._part.leave_out_own_servers(session_directory())
        serves = self._plan.in_process
        if self._world is not None and (serves or not self._world.is_live):
            allowed = [*self._world.rules.network, urlsplit(self._plan.proxy).netloc]
            entered.enter_context(Guard(session, allowed, self._stopped, everywhere=True).standing())
        if serves:
            entered.enter_context(session.active())

    def _stopped(self, text: str) -> None:
        self._part.tell(text)

    def _renew(self) -> None:
        """In a forked child: the same session, written to a part of its own."""
        session = self._part.session
        if self._plan.mode is Mode.RECORD and not session_directory().is_dir():
            session.handler = Nobody()  # the recording is over
            return
        part = Part(self._plan, self._world, numbered(f"{_script()}-fork"))
        session.handler = part.session.handler
        session.numbers = part.session.numbers
        part.session = session
        part.leave_out_own_servers(session_directory())
        self._part = part
        self._resalt(part.name)

    def _on_error(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        self._status = RunStatus.ERROR
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


def _is_shim() -> bool:
    """True for `replaykit mcp`, which takes part by itself, for the server that it stands before."""
    words = getattr(sys, "orig_argv", sys.argv)[1:]
    names = [os.path.basename(word).removesuffix(".exe") for word in words]
    if "replaykit" not in names:
        return False
    own = names.index("replaykit")
    verb = next((word for word in words[own + 1 :] if not word.startswith("-")), "")
    return verb == "mcp" and (words[own - 1] == "-m" or all(word.startswith("-") for word in words[:own]))
