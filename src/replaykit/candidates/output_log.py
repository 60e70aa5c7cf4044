"""Program output on its way into a log: redacted before it is written, several whole lines at a time.

A thread reads the pipe, so the program never waits for long. A value may arrive in pieces, and a private key spans many
lines, so the end of what was read is held back until more arrives, the program ends, or it falls silent.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from replaykit.private_files import private_directory
from replaykit.redaction.files import file_redactor, write_clean

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor


_READ_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 16  # redacted together
_HELD_BYTES = 1 << 12  # part of a block that is searched again together with what follows
_SEAM_BYTES = 1 << 11  # context on both sides of a cut
_KEY_BYTES = 1 << 15  # upper limit of the length of a private key
_QUIET_S = 0.25
_STEP_S = 0.002
LATE_S = 30.0  # for a full pipe on a busy machine; an empty one is not waited for
_BEGINS, _ENDS = b"-----BEGIN ", b"-----END "
_CAN_WAIT = os.name == "posix"  # POSIX pipes can be polled without reading


LOGS = ("stdout.log", "stderr.log")
"""The file names of a program's stdout and stderr logs."""


class Pump(threading.Thread):
    """Copies what it reads from the file descriptor `source` to a file, redacted unless `redactor` is None.

    The file is created with the first output. The descriptor is closed at the end.
    """

    def __init__(self, source: int, file: Path, redactor: Redactor | None) -> None:
        super().__init__(name="replaykit-log", daemon=True)
        self._source = source
        self._redactor = redactor
        self._turn = threading.Lock()
        self._pending = bytearray()
        self._file = file
        self._log: IO[bytes] | None = None
        self._over = False

    def turn_to(self, file: Path) -> None:
        """Write further output to another file."""
        with self._turn:
            self._close()
            self._file = file

    def run(self) -> None:
        while self._wait():
            with self._turn:
                data = self._read()
                if not data:
                    self._write(all_of_it=True)
                    break
                self._pending += data
                while len(self._pending) >= _BLOCK_BYTES + _HELD_BYTES:
                    self._write(all_of_it=False)
        with self._turn:
            self._over = True
            self._close()
        os.close(self._source)

    def settle(self, timeout_s: float) -> None:
        """Wait until everything printed so far is in the file.

        Another process may keep the pipe open and print more later.
        """
        give_up = time.monotonic() + timeout_s
        while self.is_alive() and time.monotonic() < give_up:
            if _CAN_WAIT and self._is_dry():
                break
            self.join(_STEP_S)
        with self._turn:
            if not self._over:
                self._write(all_of_it=True)

    def _wait(self) -> bool:
        """Wait for input and return whether there is any. Writes pending lines when the program falls silent."""
        if not _CAN_WAIT:
            return True
        if self._pending and not is_readable(self._source, _QUIET_S):
            with self._turn:
                self._write_lines()
        return is_readable(self._source)

    def _is_dry(self) -> bool:
        """Return whether the pipe is empty and nothing is being read. End of file counts as input."""
        with self._turn:
            return not self._over and not is_readable(self._source, 0)

    def _read(self) -> bytes:
        with contextlib.suppress(OSError):
            return os.read(self._source, _READ_BYTES)
        return b""

    def _write(self, *, all_of_it: bool) -> None:
        if all_of_it:
            end = len(self._pending)
        else:
            end = self._cut(len(self._pending) - _HELD_BYTES)
        self._put(end)

    def _write_lines(self) -> None:
        """Write the complete lines, except from the start of an unfinished private key."""
        end = self._pending.rfind(b"\n") + 1
        begun = self._open_key(end)
        self._put(end if begun is None else begun)

    def _cut(self, end: int) -> int:
        """Return where the text can be cut: after a line, or at least a word, and not inside a finding."""
        text = self._pending
        cut = max(text.rfind(b"\n", 0, end), 0) + 1
        if cut == 1:
            cut = max(text.rfind(b" ", 0, end), text.rfind(b",", 0, end), 0) + 1
        begun = self._open_key(cut)
        if begun is not None and begun > 0 and len(text) - begun < _KEY_BYTES:
            return begun
        if cut > 1:
            return cut
        return end

    def _open_key(self, end: int) -> int | None:
        """Return the start of a block, such as a private key, that has not ended before `end`."""
        begun = self._pending.rfind(_BEGINS, 0, end)
        if begun < 0 or len(self._pending) - begun >= _KEY_BYTES:
            return None
        is_over = self._pending.find(_ENDS, begun, end) >= 0
        if is_over:
            return None
        return self._pending.rfind(b"\n", 0, begun) + 1

    def _put(self, end: int) -> None:
        if not end:
            return
        text = bytes(self._pending[:end])
        if self._redactor is not None:
            text, end = self._clean(text)
        del self._pending[:end]
        with contextlib.suppress(OSError):  # a full disk costs the log but not the run
            if self._log is None:
                self._log = self._file.open("ab", buffering=0)
            self._log.write(text)

    def _close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _clean(self, text: bytes) -> tuple[bytes, int]:
        """Return the redacted text, and how much of the pending text it covers."""
        assert self._redactor is not None
        end = len(text)
        start = max(end - _SEAM_BYTES, 0)
        rest = bytes(self._pending[end : end + _SEAM_BYTES])
        try:
            # Latin-1 maps each byte to one character, so positions are byte offsets.
            for edit in self._redactor.edits((text[start:] + rest).decode("latin-1")) if rest else ():
                if edit.start < end - start < edit.end:
                    end = start + edit.start or end
                    break
            return self._redactor.raw(text[:end]), end
        except Exception as error:  # noqa: BLE001 (a dead thread would block the program; drop this output instead)
            return f"[{end} bytes left out: they could not be redacted ({type(error).__name__})]\n".encode(), end


def is_readable(source: int, timeout_s: float | None = None) -> bool:
    """Wait until the descriptor is readable or at its end; return whether it is."""
    poll = select.poll()  # select() is limited to the first 1024 descriptors of a process
    poll.register(source, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


class Logs:
    """The logs of one run of a program, and the write ends of their pipes."""

    def __init__(self, workspace: Path, redactor: Redactor | None) -> None:
        self.sinks: list[int] = []
        self._pumps: list[Pump] = []
        for name in LOGS:
            source, sink = os.pipe()
            self.sinks.append(sink)
            (workspace / name).touch()
            self._pumps.append(started(Pump(source, workspace / name, redactor)))

    def let_go(self) -> None:
        """Close the write ends, so that only the program holds them."""
        for sink in self.sinks:
            os.close(sink)

    def settle(self) -> None:
        """Wait until everything printed is in the logs."""
        for pump in self._pumps:
            pump.settle(LATE_S)


def started(pump: Pump) -> Pump:
    """Start a pump and return it."""
    pump.start()
    return pump


class WorkerLogs:
    """Pipes for a worker that runs case after case, each of which has logs of its own.

    They are created once: a pipe and a thread per log and case would take longer than most cases. The worker inherits
    them, because inside its sandbox a named pipe would be a different one.
    """

    def __init__(self, redactor: Redactor | None) -> None:
        self.sinks: tuple[int, ...] = ()
        """The write ends. This process holds them open, so that no pipe ends between two cases."""
        self._pumps: list[Pump] = []
        for _ in LOGS:
            source, sink = os.pipe()
            self.sinks = (*self.sinks, sink)
            self._pumps.append(started(Pump(source, Path(os.devnull), redactor)))

    @contextlib.contextmanager
    def into(self, workspace: Path) -> Iterator[None]:
        """Write what the worker prints during the block to this directory.

        The logs are complete when the block ends.
        """
        for pump, name in zip(self._pumps, LOGS, strict=True):
            pump.turn_to(workspace / name)
        try:
            yield
        finally:
            for pump in self._pumps:
                pump.settle(LATE_S)

    def close(self) -> None:
        """Close the write ends, so that the pipes end with the worker."""
        sinks, self.sinks = self.sinks, ()
        for sink in sinks:
            os.close(sink)


def worker_logs() -> WorkerLogs | None:
    """Return logs for a worker; None where processes cannot inherit pipes."""
    if os.name == "posix":
        return WorkerLogs(file_redactor())
    return None


@contextlib.contextmanager
def in_files(workspace: Path) -> Iterator[tuple[str, str]]:
    """Yield file names for a worker without pipes. With redaction, the files are copied to the logs at the end."""
    redactor = file_redactor()
    if redactor is None:
        yield str(workspace / LOGS[0]), str(workspace / LOGS[1])
        return
    with private_directory() as directory:
        yield str(directory / LOGS[0]), str(directory / LOGS[1])
        for name in LOGS:
            if (directory / name).exists():
                write_clean(workspace / name, (directory / name).read_bytes(), redactor)
