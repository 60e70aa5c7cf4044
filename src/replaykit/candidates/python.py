"""`module:function` as a candidate, in a fresh process with the tape behind the seam."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
from replaykit.candidates.task_channel import TALK, TaskSender
from replaykit.candidates.worker_protocol import Reply, Task
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import ReplayCase
from replaykit.handlers.replay.world import World
from replaykit.programs.plan import hash_seed

# Garbage is looked for when the agent is there: what is loaded before it stays.
_MAIN = "import gc; gc.disable(); from replaykit.candidates.child import main; main()"
_GRACE_S = 5.0  # the child stops by itself at the time limit; this is for one that cannot


class PythonCandidate:
    """An agent function by name; nothing of it is imported in this process."""

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
            write_log_output(workspace / OUTPUT_NAME, reply.run, reply.deviations)  # the evidence of what was judged
        evidence = served_from(world, reply.run, reply.deviations)
        return Attempt(run=reply.run, deviations=reply.deviations, reason=reply.reason, evidence=evidence)

    def stop(self) -> None:
        """End the function's process wherever it runs."""
        self._processes.stop()
