"""What a worker prints, case after case, in the logs of each."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from replaykit.redaction.files import file_redactor, write_clean
from replaykit.runners.pump import LATE_S, LOGS, Pump, started

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor


class WorkerLogs:
    """Named pipes that a worker prints to, case after case; each case has logs of its own.

    They are made once: a pipe and a thread for each log of each case would take longer than most cases do.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._home = tempfile.mkdtemp(prefix="replaykit-")
        self._names = [str(Path(self._home, name)) for name in LOGS]
        self._sinks: list[int] = []
        self._pumps: list[Pump] = []
        for name in self._names:
            os.mkfifo(name, 0o600)
            source = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
            self._sinks.append(os.open(name, os.O_WRONLY))  # so that it does not end between two cases
            self._pumps.append(started(Pump(source, Path(os.devnull), redactor)))

    @contextlib.contextmanager
    def into(self, workspace: Path) -> Iterator[tuple[str, str]]:
        """What the worker opens for its output while the block lasts; the logs are whole at its end."""
        for pump, name in zip(self._pumps, LOGS, strict=True):
            pump.turn_to(workspace / name)
        try:
            yield self._names[0], self._names[1]
        finally:
            for pump in self._pumps:
                pump.settle(LATE_S)

    def close(self) -> None:
        """Let the pipes end with the worker."""
        while self._sinks:
            os.close(self._sinks.pop())
        shutil.rmtree(self._home, ignore_errors=True)


def worker_logs() -> WorkerLogs | None:
    """The logs of a worker; None where nothing is redacted, or where there are no named pipes."""
    redactor = file_redactor()
    return None if redactor is None or not hasattr(os, "mkfifo") else WorkerLogs(redactor)


@contextlib.contextmanager
def in_files(workspace: Path) -> Iterator[tuple[str, str]]:
    """Files for a worker that has no pipes; they are redacted, where that is wanted, when they are there."""
    files = workspace / LOGS[0], workspace / LOGS[1]
    yield str(files[0]), str(files[1])
    redactor = file_redactor()
    for file in files:
        if redactor is not None and file.exists():
            write_clean(file, file.read_bytes(), redactor)
