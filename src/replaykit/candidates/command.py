"""Run a command as a candidate: any program, or one that follows the runner contract."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from replaykit.candidates.attempt import Attempt
from replaykit.candidates.confinement import Confined, confined, with_isolation
from replaykit.candidates.output import keep_output, write_log_output
from replaykit.candidates.process import (
    OUTPUT_NAME,
    Ended,
    Processes,
    RunnerFiles,
    attempt_of,
    runner_environment,
    runner_files,
    timed_out_run,
)
from replaykit.cases.case import ReplayCase
from replaykit.errors import UsageError
from replaykit.model.events import ErrorEvent
from replaykit.model.values import encode, sayable
from replaykit.programs.command import resolved

if TYPE_CHECKING:
    from replaykit.candidates.program import Performance
    from replaykit.programs.launch_options import LaunchOptions
    from replaykit.programs.launcher import LaunchEnvironment


class CommandCandidate:
    """A program in a case's world.

    Its calls are served and make up its run. A program that follows the runner contract also writes its output to a
    file, which is trusted.

    A command given as a string is split like a shell does and expected to follow the contract. A command given as a
    list of words is any program: what it prints counts as its answer even if it makes no call.
    """

    def __init__(self, command: str | Sequence[str], launch_options: LaunchOptions | None = None) -> None:
        if isinstance(command, str):
            self._command = _words(command)
        else:
            self._command = list(command)
        if not self._command:
            raise UsageError("the command is empty")
        self._is_program = not isinstance(command, str)
        self._launch_options = launch_options
        self.label = sayable(command if isinstance(command, str) else shlex.join(command))
        self._processes = Processes()

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run the program once."""
        from replaykit.candidates.program import Performance  # noqa: PLC0415 (slow to import; not every candidate runs)

        with runner_files() as files:
            performance = Performance(case, files.session, self._launch_options)
            with performance.stage() as stage, self._confined(case, files, stage) as inside:
                ended = self._processes.run(
                    stage.command(resolved(self._command)),
                    env={**stage.environment, **runner_environment(case, workspace, files)},
                    workspace=workspace,
                    timeout_s=timeout_s,
                    stdin_bytes=_stdin_bytes(case),
                    confined=inside,
                    on_start=lambda: inside.let_serve(stage.serve_inside),
                )
                isolation = inside.isolation()
            attempt = self._attempt(performance, ended, workspace, files, timeout_s)
        return with_isolation(attempt, isolation)

    def _confined(
        self, case: ReplayCase, files: RunnerFiles, stage: LaunchEnvironment
    ) -> AbstractContextManager[Confined]:
        return confined(case, scratch=(files.directory,), ports=stage.ports)

    def _attempt(
        self, performance: Performance, ended: Ended, workspace: Path, files: RunnerFiles, timeout_s: float
    ) -> Attempt:
        output, log = files.output, workspace / "stdout.log"
        # Under the runner contract, a lone exception may be the runner's own failure. For any other program it is the
        # whole run.
        seen = any(self._is_program or not isinstance(event, ErrorEvent) for event in performance.run.events)
        deviations = performance.deviations
        if not seen and not self._is_program:  # the runner read the fixtures itself, or needed none
            deviations = tuple(deviation for deviation in deviations if deviation.kind != "unused")
        if ended.timed_out and seen:
            run = performance.like(timed_out_run(timeout_s))
            keep_output(output, workspace / OUTPUT_NAME)
        elif ended.exit_code is None or output.exists() or not (seen or self._answered(ended, log)):
            attempt = attempt_of(ended, workspace, files, timeout_s)
            evidence = performance.evidence_in(attempt.run)
            return replace(attempt, deviations=attempt.deviations + deviations, evidence=evidence)
        else:
            run = performance.ended(ended.exit_code, log)
        if not output.exists():
            write_log_output(workspace / OUTPUT_NAME, run, deviations)  # the evidence that was judged
        return Attempt(run=run, deviations=deviations, evidence=performance.evidence)

    def _answered(self, ended: Ended, log: Path) -> bool:
        return self._is_program and ended.exit_code == 0 and log.stat().st_size > 0

    def stop(self) -> None:
        """End all running programs."""
        self._processes.stop()


def _stdin_bytes(case: ReplayCase) -> bytes:
    """Return the standard input that the case defines."""
    scenario_input = case.scenario.input if case.scenario.stdin else b""
    if isinstance(scenario_input, str):
        return scenario_input.encode("utf-8", "replace")
    if isinstance(scenario_input, bytes):
        return scenario_input
    return encode(scenario_input)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the command {command!r} cannot be read: {error}") from None
