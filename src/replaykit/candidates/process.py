"""Run a candidate's program with a time limit and redacted logs, and leave none of its processes behind.

Also the runner contract: the variables that a program gets, and how its exit and output file become an attempt.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.attempt import Attempt
from replaykit.candidates.output import keep_output, read_output
from replaykit.candidates.output_log import Logs, is_readable
from replaykit.cases.case import CASE_FILE, CaseSource, ReplayCase, dump_case
from replaykit.model.events import ErrorInfo
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.private_files import private_directory
from replaykit.redaction.files import file_redactor, write_clean

if TYPE_CHECKING:
    from replaykit.candidates.confinement import Confined


_LONGEST_POLL_S = 2_000_000  # poll() takes milliseconds in a 32-bit integer


class Ended(Struct, frozen=True, kw_only=True):
    """The end of a program."""

    exit_code: int | None = None
    timed_out: bool = False
    failed_to_start: str = ""
    duration_s: float = 0.0


class Processes:
    """The running programs of one candidate, which can all be ended at once."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        workspace: Path,
        timeout_s: float,
        stdin_bytes: bytes = b"",
        pass_fds: Sequence[int] = (),
        confined: Confined | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> Ended:
        """Run the command and kill its whole process group at the time limit.

        `stdin_bytes` is its standard input, and `pass_fds` are descriptors it inherits. `confined` starts it in
        isolation, and `on_start` is called once it runs.
        """
        began = time.monotonic()
        logs = Logs(workspace, file_redactor())
        stdin = _holding(stdin_bytes)
        try:
            start = subprocess.Popen if confined is None else confined.start
            process = start(
                command,
                env=dict(env),
                stdin=stdin,
                stdout=logs.sinks[0],
                stderr=logs.sinks[1],
                pass_fds=pass_fds,
                # A process group of its own can be killed as a whole, including what it started.
                start_new_session=os.name == "posix",
            )
        except (OSError, ValueError) as error:  # ValueError means a NUL byte in the command
            why = getattr(error, "strerror", None) or error
            return Ended(failed_to_start=f"{command[0]!r} cannot be started: {why}")
        finally:
            logs.let_go()
            os.close(stdin)
        self._running.add(process)
        try:
            if on_start is not None:
                on_start()
            code = wait(process, timeout_s)
        except subprocess.TimeoutExpired:
            return Ended(timed_out=True, duration_s=time.monotonic() - began)
        finally:
            self._running.discard(process)
            kill_group(process)
            logs.settle()
        return Ended(exit_code=code, duration_s=time.monotonic() - began)

    def stop(self) -> None:
        """End everything that is running."""
        for process in list(self._running):
            kill_group(process)


def wait(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Return a program's exit code without delay; raise `subprocess.TimeoutExpired` after the time limit."""
    if sys.platform == "linux" and timeout_s < _LONGEST_POLL_S:  # `subprocess` would poll every 50 ms
        with contextlib.suppress(OSError):  # an old kernel or a sandbox may lack pidfd_open
            handle = os.pidfd_open(process.pid)
            try:
                is_readable(handle, timeout_s)
                timeout_s = 0
            finally:
                os.close(handle)
    return process.wait(timeout_s)


def _holding(stdin_bytes: bytes) -> int:
    """Return a descriptor of a file with this content."""
    if not stdin_bytes:
        return os.open(os.devnull, os.O_RDONLY)
    import tempfile  # noqa: PLC0415 (few programs read standard input)

    with tempfile.TemporaryFile() as file:
        file.write(stdin_bytes)
        file.seek(0)
        return os.dup(file.fileno())


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its whole process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def last_lines(file: Path, count: int = 5, limit_bytes: int = 4096) -> str:
    """Return the end of a log for an error message."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - limit_bytes))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line for line in text.splitlines()[-count:] if line.strip())


OUTPUT_NAME = "runner-output.json"


class RunnerFiles(Struct, frozen=True, kw_only=True):
    """Unredacted files that a candidate writes during one run, outside of the evidence."""

    directory: Path
    """A private directory that the candidate writes to, as an absolute path."""

    @property
    def output(self) -> Path:
        """The candidate's output file under the runner contract."""
        return self.directory / OUTPUT_NAME

    @property
    def session(self) -> Path:
        """The directory of a program's session."""
        return self.directory / "session"


@contextmanager
def runner_files() -> Iterator[RunnerFiles]:
    """Yield the files of one run and delete them at the end. If the process is killed, the next run deletes them."""
    with private_directory() as directory:
        yield RunnerFiles(directory=directory)


def runner_environment(case: ReplayCase, workspace: Path, files: RunnerFiles) -> dict[str, str]:
    """Return the environment variables of the runner contract."""
    directory = (case.directory if case.tape is None else workspace).absolute()
    return {
        "REPLAYKIT_CASE_PATH": str(_case_file(case, workspace).absolute()),
        "REPLAYKIT_OUTPUT_PATH": str(files.output),
        "REPLAYKIT_FIXTURES_DIR": str(directory / "fixtures"),
        "REPLAYKIT_SOURCE_TRACE_PATH": str(case.trace_path.absolute() if case.trace_path else ""),
    }


def _case_file(case: ReplayCase, workspace: Path) -> Path:
    """Return the case as a file. A case without one, or with attacks in its input, is written for this run only."""
    chaos = case.scenario.chaos
    if case.file.is_file() and (chaos is None or not chaos.of_input):
        return case.file
    file = workspace / CASE_FILE
    write_clean(file, dump_case(replace(case, source=CaseSource())), file_redactor())
    return file


def attempt_of(ended: Ended, workspace: Path, files: RunnerFiles, timeout_s: float) -> Attempt:
    """Build an attempt from a program's exit and its output file. A redacted copy of the file goes to the evidence."""
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
    """Return the run of a candidate that gave no answer in time."""
    error = ErrorInfo(type="TimeoutError", module="builtins", message=f"no answer within {timeout_s:g} s")
    return TraceRun(id="timeout", status=RunStatus.TIMEOUT, error=error, origin=Origin(kind="replayed"), event_count=0)


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit code {code}"
