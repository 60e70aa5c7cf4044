"""The runner contract: what a candidate's process is told, and what its end and the file it wrote add up to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.candidates.attempt import Attempt
from replaykit.candidates.output import keep_output, read_output
from replaykit.candidates.process import Ended, last_lines
from replaykit.cases.case import CASE_FILE, CaseSource, ReplayCase, dump_case
from replaykit.model.events import ErrorInfo
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.private_directories import private_directory
from replaykit.redaction.files import file_redactor, write_clean

OUTPUT_NAME = "runner-output.json"


class RunnerFiles(Struct, frozen=True, kw_only=True):
    """Raw files that the processes of a candidate write during one run, outside of the evidence."""

    directory: Path
    """Private, absolute, and written by the candidate."""

    @property
    def output(self) -> Path:
        """Where a candidate that keeps the runner contract writes its output."""
        return self.directory / OUTPUT_NAME

    @property
    def session(self) -> Path:
        """Where the stage of a program is set."""
        return self.directory / "session"


@contextmanager
def runner_files() -> Iterator[RunnerFiles]:
    """The files of one run; nothing of them is left when the block ends, or after the next run where it was killed."""
    with private_directory() as directory:
        yield RunnerFiles(directory=directory)


def runner_environment(case: ReplayCase, workspace: Path, files: RunnerFiles) -> dict[str, str]:
    """The variables of the runner contract."""
    directory = (case.directory if case.tape is None else workspace).absolute()
    return {
        "REPLAYKIT_CASE_PATH": str(_case_file(case, workspace).absolute()),
        "REPLAYKIT_OUTPUT_PATH": str(files.output),
        "REPLAYKIT_FIXTURES_DIR": str(directory / "fixtures"),
        "REPLAYKIT_SOURCE_TRACE_PATH": str(case.trace_path.absolute() if case.trace_path else ""),
    }


def _case_file(case: ReplayCase, workspace: Path) -> Path:
    """The case as a file; one that has none, or whose input was attacked, is written for this run alone."""
    chaos = case.scenario.chaos
    if case.file.is_file() and (chaos is None or not chaos.of_input):
        return case.file
    file = workspace / CASE_FILE
    write_clean(file, dump_case(msgspec.structs.replace(case, source=CaseSource())), file_redactor())
    return file


def attempt_of(ended: Ended, workspace: Path, files: RunnerFiles, timeout_s: float) -> Attempt:
    """What a program's end and the file it wrote add up to. The evidence gets that file, redacted."""
    keep_output(files.output, workspace / OUTPUT_NAME)
    if ended.failed_to_start:
        return Attempt(reason=ended.failed_to_start)
    if ended.timed_out:
        return Attempt(run=timed_out_run(timeout_s))
    if ended.exit_code != 0:
        if files.output.exists():
            wrote = " (it wrote an output, which cannot be trusted)"
        else:
            wrote = ""
        last_output = last_lines(workspace / "stderr.log")
        reason = f"the runner ended with {_exit_text(ended.exit_code)}{wrote}"
        return Attempt(reason=f"{reason}:\n{last_output}" if last_output else reason)
    return read_output(files.output)


def timed_out_run(timeout_s: float) -> TraceRun:
    """The run of a candidate that gave no answer in time."""
    error = ErrorInfo(type="TimeoutError", module="builtins", message=f"no answer within {timeout_s:g} s")
    return TraceRun(id="timeout", status=RunStatus.TIMEOUT, error=error, origin=Origin(kind="replayed"), event_count=0)


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit code {code}"
