"""Inside the fresh process: import the agent, call it with the tape behind the seam, leave the run log."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import NoReturn

import msgspec

from replaykit.errors import UsageError
from replaykit.replayer.world import World
from replaykit.runners.calling import AgentCall
from replaykit.runners.entries import Entry
from replaykit.runners.loading import load_named
from replaykit.runners.output import CANNOT_LOAD, REASON_NAME, WORLD_NAME, write_log_output


def main() -> None:
    """Run the agent that the environment names. Ends the process, so that stray threads cannot hold it."""
    output = Path(os.environ["REPLAYKIT_OUTPUT_PATH"])
    spec, timeout_s = os.environ["REPLAYKIT_AGENT"], float(os.environ["REPLAYKIT_TIMEOUT_S"])
    world = msgspec.json.decode(output.with_name(WORLD_NAME).read_bytes(), type=World)
    call = AgentCall(world)
    watchdog = threading.Timer(timeout_s, _out_of_time, (call, output, timeout_s))
    watchdog.daemon = True
    watchdog.start()
    try:
        entry = Entry(load_named(spec), spec)
    except UsageError as error:
        _leave(CANNOT_LOAD, str(error))
    run = entry.run(call, world)
    watchdog.cancel()
    write_log_output(output, run, entry.deviations(call, world))
    _leave(0)


def _out_of_time(call: AgentCall, output: Path, timeout_s: float) -> None:
    """The agent hangs: what it did so far is its run, with the status `timeout`."""
    failure = TimeoutError(f"no answer within {timeout_s:g} s")
    write_log_output(output, call.so_far(failure=failure), call.replayer.all_deviations())
    _leave(0)


def _leave(code: int, message: str = "") -> NoReturn:
    if message:
        Path(os.environ["REPLAYKIT_OUTPUT_PATH"]).with_name(REASON_NAME).write_text(message, encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):  # the agent may have closed it
            stream.flush()
    os._exit(code)
