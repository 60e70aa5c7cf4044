"""Run a program with a time limit, its output redacted in files, and nothing of it left afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.candidates.output_log import Logs, is_readable
from replaykit.redaction.files import file_redactor

if TYPE_CHECKING:
    from replaykit.candidates.confinement import Confined

_LONGEST_POLL_S = 2_000_000  # of milliseconds, poll() can count no more


class Ended(Struct, frozen=True, kw_only=True):
    """How a program ended."""

    exit_code: int | None = None
    timed_out: bool = False
    failed_to_start: str = ""
    duration_s: float = 0.0


class Processes:
    """The programs one candidate has running; many may run at once, and all can be ended."""

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
        """Run the command; at the time limit its whole process group is killed. `given` stands on its standard input;
        `pass_fds` are open in it as well. `confined` starts it in isolation; `on_start` is called when it runs."""
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
                start_new_session=os.name == "posix",
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL byte in the command
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
        """End whatever is running."""
        for process in list(self._running):
            kill_group(process)


def wait(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """The exit code of a program, as soon as there is one; `subprocess.TimeoutExpired` when there is none in time."""
    if sys.platform == "linux" and timeout_s < _LONGEST_POLL_S:  # with a time limit `subprocess` looks every 50 ms
        with contextlib.suppress(OSError):  # a kernel, or a sandbox, without it
            handle = os.pidfd_open(process.pid)
            try:
                is_readable(handle, timeout_s)
                timeout_s = 0
            finally:
                os.close(handle)
    return process.wait(timeout_s)


def _holding(stdin_bytes: bytes) -> int:
    """A file to read this from, and nothing more."""
    if not stdin_bytes:
        return os.open(os.devnull, os.O_RDONLY)
    import tempfile  # noqa: PLC0415 (few programs read from there)

    with tempfile.TemporaryFile() as file:
        file.write(stdin_bytes)
        file.seek(0)
        return os.dup(file.fileno())


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it has started and left behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def last_lines(file: Path, count: int = 5, limit_bytes: int = 4096) -> str:
    """The end of a log, for an error message."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - limit_bytes))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line for line in text.splitlines()[-count:] if line.strip())
