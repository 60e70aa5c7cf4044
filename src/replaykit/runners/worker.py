"""Inside a worker: import the agent once, then run case after case, each with the tape behind the seam."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import IO, Any, NoReturn

from replaykit.errors import UsageError
from replaykit.model.values import sayable
from replaykit.recording.calling import finished
from replaykit.runners.calling import AgentCall
from replaykit.runners.clock import Clock
from replaykit.runners.entries import Entry
from replaykit.runners.frames import Job, Reply, Task, receive, send
from replaykit.runners.loading import load_agent, load_named


def main() -> None:
    """Serve tasks until the pipe ends. What the agent prints never gets into the pipe."""
    tasks, replies = _pipes()
    job = receive(tasks, Job)
    if job is None:
        _leave()
    try:
        entry = Entry(load_named(job.spec, *job.directories), job.spec, job.sort)
        reset = load_agent(job.reset, *job.directories) if job.reset else None
    except UsageError as error:
        send(replies, Reply(reason=sayable(str(error)), last=True))
        _leave()
    send(replies, Reply())
    worker = _Worker(entry, reset, replies)
    while (task := receive(tasks, Task)) is not None:
        worker.run(task)
    _leave()


class _Turn:
    """One task on its way: whoever speaks for it first is the only one."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.call: AgentCall | None = None
        self._taken = threading.Lock()

    def take(self, *, wait: bool) -> bool:
        """True when nobody has spoken yet. Who waits for the clock waits for the end: it ends the process."""
        return self._taken.acquire(blocking=wait)


class _Worker:
    """Runs tasks, each under the clock: one that takes too long ends the worker, and leaves what it did so far."""

    def __init__(self, entry: Entry, reset: Callable[..., Any] | None, replies: IO[bytes]) -> None:
        self._entry = entry
        self._reset = reset
        self._replies = replies
        self._process = os.getpid()
        self._clock = Clock()

    def run(self, task: Task) -> None:
        """Run one case, and say how it ended."""
        if task.logs is not None:
            _print_to(*task.logs)
        turn = _Turn(task)
        self._clock.start(task.timeout_s, partial(self._out_of_time, turn))
        # A context of its own: what a case leaves in context variables is gone with it.
        reply = copy_context().run(self._reply, turn)
        if os.getpid() != self._process:
            os._exit(0)  # the agent forked, and this is the copy: the original answers
        self._clock.cancel()
        turn.take(wait=True)
        self._say(reply)

    def _reply(self, turn: _Turn) -> Reply:
        if self._reset is not None:
            try:
                finished(self._reset())
            except BaseException as error:  # noqa: BLE001 (a user's function)
                return Reply(reason=sayable(f"the agent could not be reset: {type(error).__name__}: {error}"))
        world = turn.task.world
        if refused := self._entry.refusal(world):
            return Reply(reason=sayable(refused))
        call = turn.call = AgentCall(world, alone=True)
        return Reply(run=self._entry.run(call, world), deviations=self._entry.deviations(call, world))

    def _out_of_time(self, turn: _Turn) -> None:
        limit, call = turn.task.timeout_s, turn.call
        if call is None:
            reply = Reply(reason=f"the agent was not reset within {limit:g} s", last=True)
        else:
            run = call.so_far(failure=TimeoutError(f"no answer within {limit:g} s"))
            reply = Reply(run=run, deviations=self._entry.deviations(call, turn.task.world), last=True)
        if turn.take(wait=False):
            self._say(reply)
            _leave()

    def _say(self, reply: Reply) -> None:
        _flush()
        send(self._replies, reply)


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The two ends that were stdin and stdout; the agent gets neither."""
    tasks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # until the first case, what is printed goes where errors go
    os.close(nothing)
    return tasks, replies


def _print_to(out: str, err: str) -> None:
    _flush()  # what was printed before belongs where it was printed to
    for number, name in ((1, out), (2, err)):
        log = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(log, number)
        os.close(log)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):  # the agent may have closed it
            stream.flush()


def _leave() -> NoReturn:
    _flush()
    os._exit(0)  # stray threads cannot hold it
