"""Run `module:function` as a candidate, in a fresh process with the tape behind the seam."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

from msgspec import MsgspecError
from msgspec.structs import replace

from replaykit.candidates.agent_loader import check_spec
from replaykit.candidates.attempt import Attempt, reported_on, served_from
from replaykit.candidates.confinement import confined, with_isolation
from replaykit.candidates.output import write_log_output
from replaykit.candidates.process import (
    OUTPUT_NAME,
    Ended,
    Processes,
    RunnerFiles,
    attempt_of,
    runner_environment,
    runner_files,
)
from replaykit.candidates.worker_protocol import REPLY_FILE, TALK, TASK_FILE, Reply, Task, receive_reply, send_task
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import ReplayCase
from replaykit.handlers.replay.world import World
from replaykit.programs.plan import hash_seed

# Collect garbage only once the agent is loaded: everything loaded before stays anyway.
_MAIN = "import gc; gc.disable(); from replaykit.candidates.worker import run_one; run_one()"
_LATE_S = 5.0
_GRACE_S = 5.0  # extra time for a child that cannot stop itself at the time limit


class PythonCandidate:
    """An agent function by name. This process imports none of it."""

    def __init__(self, spec: str) -> None:
        self.label = check_spec(spec)
        self._processes = Processes()

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Import and call the function in a new interpreter."""
        with runner_files() as files:
            return self._run(case, workspace, files, timeout_s)

    def _run(self, case: ReplayCase, workspace: Path, files: RunnerFiles, timeout_s: float) -> Attempt:
        world = world_of(case)
        env = {**os.environ, **runner_environment(case, workspace, files), "REPLAYKIT_AGENT": self.label}
        env["PYTHONHASHSEED"] = hash_seed(world.pins, os.environ)
        command = [sys.executable, "-c", _MAIN]
        confinement = confined(case, scratch=(files.directory,))
        with confinement as inside, TaskSender(Task(world=world, timeout_s=timeout_s)) as talk:
            ended = self._processes.run(
                command,
                env={**env, TALK: talk.address},
                workspace=workspace,
                timeout_s=timeout_s + _GRACE_S,
                pass_fds=talk.handed,
                confined=inside,
            )
            isolation = inside.isolation()
        return with_isolation(self._attempt(talk.reply, ended, world, workspace, files, timeout_s), isolation)

    def _attempt(
        self, reply: Reply | None, ended: Ended, world: World, workspace: Path, files: RunnerFiles, timeout_s: float
    ) -> Attempt:
        if reply is None and ended.exit_code == 0 and not files.output.exists():
            return Attempt(reason=f"the agent {self.label!r} ended its process, with exit code 0, before it answered")
        if reply is None or (ended.exit_code != 0 and not reply.reason):
            attempt = attempt_of(ended, workspace, files, timeout_s)
            return replace(attempt, evidence=reported_on(world, attempt.run))
        if reply.run is not None:
            write_log_output(workspace / OUTPUT_NAME, reply.run, reply.deviations)  # the evidence that was judged
        evidence = served_from(world, reply.run, reply.deviations)
        return Attempt(run=reply.run, deviations=reply.deviations, reason=reply.reason, evidence=evidence)

    def stop(self) -> None:
        """End all running processes of the function."""
        self._processes.stop()


class TaskSender:
    """Sends a task to a fresh process for the length of a `with` block. The reply is available when the block ends.

    It uses pipes, so that unredacted data never touches the disk: task and reply are judged as they are, and only
    redacted copies are written. Where pipes cannot be inherited, both are files in a temporary directory.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._cleanup = contextlib.ExitStack()
        self.handed: tuple[int, ...] = ()
        """The file descriptors that the process must inherit."""
        self.address = ""
        self.reply: Reply | None = None

    def __enter__(self) -> TaskSender:
        if os.name == "posix":
            task_source, task_sink = os.pipe()
            reply_source, reply_sink = os.pipe()
            self.handed = task_source, reply_sink
            self.address = f"{task_source},{reply_sink}"
            self._thread = threading.Thread(target=self._talk, args=(task_sink, reply_source), daemon=True)
            self._thread.start()
        else:
            from tempfile import TemporaryDirectory  # noqa: PLC0415 (slow to import, and not needed with pipes)

            self.address = self._cleanup.enter_context(TemporaryDirectory(prefix="replaykit-"))
            with Path(self.address, TASK_FILE).open("wb") as stream:
                send_task(stream, self._task)
        return self

    def __exit__(self, *_: object) -> None:
        if self.handed:
            for handle in self.handed:  # no other holder is left, so the pipes end and nothing waits forever
                os.close(handle)
            self._thread.join(_LATE_S)  # a detached process of the agent may still hold the pipe
        else:
            file = Path(self.address, REPLY_FILE)
            with contextlib.suppress(OSError, ValueError, MsgspecError), file.open("rb") as stream:
                self.reply = receive_reply(stream, self._task.world.calls)
        self._cleanup.close()

    def _talk(self, sink: int, source: int) -> None:
        with os.fdopen(source, "rb") as replies:
            with contextlib.suppress(OSError), os.fdopen(sink, "wb") as out:  # the process died before it got its task
                send_task(out, self._task)
            with contextlib.suppress(OSError, ValueError, MsgspecError):  # the process died or sent garbage
                self.reply = receive_reply(replies, self._task.world.calls)
