"""Inside the fresh process: import the agent, call it with the tape behind the seam, give its run."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from typing import NoReturn

from replaykit.candidates.agent_loader import load_named
from replaykit.candidates.agent_run import AgentCall, AgentEntry
from replaykit.candidates.task_channel import TaskChannel
from replaykit.candidates.worker_protocol import Reply
from replaykit.errors import UsageError


def main() -> None:
    """Run the agent that the environment names. Ends the process, so that stray threads cannot hold it."""
    channel = TaskChannel()
    world, timeout_s = channel.task.world, channel.task.timeout_s
    spec = os.environ["REPLAYKIT_AGENT"]
    call = AgentCall(world, alone=True)
    watchdog = threading.Timer(timeout_s, _out_of_time, (channel, call, timeout_s))
    watchdog.daemon = True
    watchdog.start()
    gc.freeze()  # what is there stays, and the agent's collections need not look at it
    gc.enable()
    try:
        entry = AgentEntry(load_named(spec, replayer=call.replayer), spec)
    except UsageError as error:
        _leave(channel, Reply(reason=str(error)))
    if refused := entry.refusal(world):
        _leave(channel, Reply(reason=refused))
    run = entry.run(call, world)
    watchdog.cancel()
    _leave(channel, Reply(run=run, deviations=tuple(entry.deviations(call, world))))


def _out_of_time(channel: TaskChannel, call: AgentCall, timeout_s: float) -> None:
    """The agent hangs: what it did so far is its run, with the status `timeout`."""
    failure = TimeoutError(f"no answer within {timeout_s:g} s")
    _leave(channel, Reply(run=call.so_far(failure=failure), deviations=tuple(call.replayer.all_deviations())))


def _leave(channel: TaskChannel, reply: Reply) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):  # the agent may have closed it
            stream.flush()
    channel.say(reply)
    os._exit(0)
