"""A command as a candidate: the runner contract."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from replaykit.cases.case import ReplayCase
from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import sayable
from replaykit.runners.attempt import Attempt
from replaykit.runners.output import read_output
from replaykit.runners.process import Ended, Processes, last_lines

OUTPUT_NAME = "runner-output.json"


class CommandCandidate:
    """A program that reads the case from its environment and writes its output to a file."""

    def __init__(self, command: str) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the command {command!r} cannot be read: {error}") from None
        if not self._command:
            raise UsageError("the command is empty")
        self.label = sayable(command)
        self._processes = Processes()

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run the program once."""
        env = {**os.environ, **runner_environment(case, workspace)}
        ended = self._processes.run(_resolved(self._command), env=env, workspace=workspace, timeout_s=timeout_s)
        return attempt_of(ended, workspace, timeout_s)

    def stop(self) -> None:
        """End the program wherever it runs."""
        self._processes.stop()


def runner_environment(case: ReplayCase, workspace: Path) -> dict[str, str]:
    """The variables of the runner contract."""
    directory = case.directory.absolute()
    return {
        "REPLAYKIT_CASE_PATH": str(case.file.absolute()),
        "REPLAYKIT_OUTPUT_PATH": str((workspace / OUTPUT_NAME).absolute()),
        "REPLAYKIT_FIXTURES_DIR": str(directory / "fixtures"),
        "REPLAYKIT_SOURCE_TRACE_PATH": str(case.trace_path.absolute() if case.trace_path else ""),
    }


def attempt_of(ended: Ended, workspace: Path, timeout_s: float) -> Attempt:
    """What a program's end and the file it wrote add up to."""
    if ended.failed_to_start:
        return Attempt(reason=ended.failed_to_start)
    output = workspace / OUTPUT_NAME
    if ended.timed_out:
        return Attempt(run=timed_out_run(timeout_s))
    if ended.exit_code != 0:
        wrote = " (it wrote an output, which cannot be trusted)" if output.exists() else ""
        said = last_lines(workspace / "stderr.log")
        reason = f"the runner ended with {_exit_text(ended.exit_code)}{wrote}"
        return Attempt(reason=f"{reason}:\n{said}" if said else reason)
    return read_output(output)


def timed_out_run(timeout_s: float) -> TraceRun:
    """The run of a candidate that gave no answer in time."""
    error = ErrorInfo(type="TimeoutError", module="builtins", message=f"no answer within {timeout_s:g} s")
    return TraceRun(id="timeout", status=RunStatus.TIMEOUT, error=error, origin=Origin(kind="replayed"), event_count=0)


def _exit_text(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _resolved(command: list[str]) -> list[str]:
    """`python` means this interpreter where the machine has no program of that name."""
    if command[0] in ("python", "python3") and shutil.which(command[0]) is None:
        return [sys.executable, *command[1:]]
    return command
