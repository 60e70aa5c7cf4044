"""Inside the fresh process: import the agent, call it with the tape behind the seam, leave the run log."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from replaykit.errors import UsageError
from replaykit.model.events import AnyEvent
from replaykit.model.values import Json
from replaykit.runners.calling import AgentCall, World
from replaykit.runners.output import CANNOT_LOAD, REASON_NAME, WORLD_NAME, write_log_output
from replaykit.seam.scope import Answer, Outcome, PendingCall, Session


def main() -> None:
    """Run the agent that the environment names. Ends the process, so that stray threads cannot hold it."""
    output = Path(os.environ["REPLAYKIT_OUTPUT_PATH"])
    spec, timeout_s = os.environ["REPLAYKIT_AGENT"], float(os.environ["REPLAYKIT_TIMEOUT_S"])
    call = AgentCall(msgspec.json.decode(output.with_name(WORLD_NAME).read_bytes(), type=World))
    watchdog = threading.Timer(timeout_s, _out_of_time, (call, output, timeout_s))
    watchdog.daemon = True
    watchdog.start()
    agent = _load(spec)
    run = call.run(agent)
    watchdog.cancel()
    write_log_output(output, run, call.replayer.all_deviations())
    _leave(0)


def _load(spec: str) -> Callable[..., Any]:
    module_name, _, attribute = spec.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        with Session(_Importing(module_name)).active():
            found: Any = import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except BaseException as error:  # noqa: BLE001 (importing runs the user's code)
        _leave(CANNOT_LOAD, f"the agent {spec!r} cannot be loaded: {type(error).__name__}: {error}")
    if not callable(found):
        _leave(CANNOT_LOAD, f"the agent {spec!r} is a {type(found).__name__}, not something to call")
    return found  # type: ignore[no-any-return]


class _Importing:
    """Behind the seam while the agent's module is imported: no tool may run then."""

    def __init__(self, module: str) -> None:
        self._module = module

    def serve(self, call: PendingCall) -> Answer | None:
        raise UsageError(
            f"the tool `{call.name}` was called while {self._module} was imported",
            hint='Put what runs the agent under `if __name__ == "__main__":`',
        )

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """Never reached: nothing is let through."""

    def keep(self, event: AnyEvent) -> None:
        """What is no call is of no interest here."""

    def amend(self, step: str | None, state: Json) -> Json:
        """The state as it is."""
        return state


def _out_of_time(call: AgentCall, output: Path, timeout_s: float) -> None:
    """The agent hangs: what it did so far is its run, with the status `timeout`."""
    failure = TimeoutError(f"no answer within {timeout_s:g} s")
    write_log_output(output, call.so_far(failure=failure), call.replayer.all_deviations())
    _leave(0)


def _leave(code: int, message: str = "") -> Any:
    if message:
        Path(os.environ["REPLAYKIT_OUTPUT_PATH"]).with_name(REASON_NAME).write_text(message, encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):  # the agent may have closed it
            stream.flush()
    os._exit(code)
