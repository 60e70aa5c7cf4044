"""What a worker prints, case after case, in the logs of each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from replaykit.candidates.output_log import LATE_S, LOGS, Pump, started
from replaykit.private_directories import private_directory
from replaykit.redaction.files import file_redactor, write_clean

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor


class WorkerLogs:
    """Pipes that a worker prints to, case after case; each case has logs of its own.

    They are made once: a pipe and a thread for each log of each case would take longer than most cases do. The worker
    inherits them: in its sandbox, a named pipe would be another one than outside.
    """

    def __init__(self, redactor: Redactor | None) -> None:
        self.sinks: tuple[int, ...] = ()
        """The ends that the worker writes to; this process holds them, so that no pipe ends between two cases."""
        self._pumps: list[Pump] = []
        for _ in LOGS:
            source, sink = os.pipe()
            self.sinks = (*self.sinks, sink)
            self._pumps.append(started(Pump(source, Path(os.devnull), redactor)))

    @contextlib.contextmanager
    def into(self, workspace: Path) -> Iterator[None]:
        """What the worker prints while the block lasts goes into this directory; the logs are whole at its end."""
        for pump, name in zip(self._pumps, LOGS, strict=True):
            pump.turn_to(workspace / name)
        try:
            yield
        finally:
            for pump in self._pumps:
                pump.settle(LATE_S)

    def close(self) -> None:
        """Let the pipes end with the worker."""
        sinks, self.sinks = self.sinks, ()
        for sink in sinks:
            os.close(sink)


def worker_logs() -> WorkerLogs | None:
    """The logs of a worker; None where a process cannot inherit pipes."""
    if os.name == "posix":
        return WorkerLogs(file_redactor())
    return None


@contextlib.contextmanager
def in_files(workspace: Path) -> Iterator[tuple[str, str]]:
    """Files for a worker that has no pipes; where something is to be redacted they get into the logs when it is."""
    redactor = file_redactor()
    if redactor is None:
        yield str(workspace / LOGS[0]), str(workspace / LOGS[1])
        return
    with private_directory() as directory:
        yield str(directory / LOGS[0]), str(directory / LOGS[1])
        for name in LOGS:
            if (directory / name).exists():
                write_clean(workspace / name, (directory / name).read_bytes(), redactor)
