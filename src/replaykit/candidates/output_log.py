"""The output of a program on its way into a log: redacted before it is written, a stretch of whole lines at a time.

A thread reads the pipe, so that the program never waits for long. A value may arrive in pieces, and a private key goes
over many lines: the end of what was read is held back until more of it is there, the program ends, or it falls silent.
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

from replaykit.private_directories import private_directory
from replaykit.redaction.files import file_redactor, write_clean

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor


_READ_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 16  # looked at together
_HELD_BYTES = 1 << 12  # of them, what is looked at again with what follows
_SEAM_BYTES = 1 << 11  # on both sides of a cut
_KEY_BYTES = 1 << 15  # no private key is longer
_QUIET_S = 0.25
_STEP_S = 0.002
LATE_S = 30.0  # for a pipe that is full, on a busy machine; one that is empty is not waited for
_BEGINS, _ENDS = b"-----BEGIN ", b"-----END "
_CAN_WAIT = os.name == "posix"  # pipes can be waited for, and looked at without reading


LOGS = ("stdout.log", "stderr.log")
"""The names of the logs: of what a program printed, and of what it said on stderr."""


class Pump(threading.Thread):
    """Reads `source`, a file descriptor that it closes, and writes the file, which is made when something comes.

    As it is when there is no redactor.
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
        """Write what comes from here on into another file."""
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
        """Wait until all that was printed is in the file. Somebody may still hold the pipe: what comes then follows."""
        give_up = time.monotonic() + timeout_s
        while self.is_alive() and time.monotonic() < give_up:
            if _CAN_WAIT and self._is_dry():
                break
            self.join(_STEP_S)
        with self._turn:
            if not self._over:
                self._write(all_of_it=True)

    def _wait(self) -> bool:
        """True when there is something to read; lines are written when nothing comes for a moment."""
        if not _CAN_WAIT:
            return True
        if self._pending and not is_readable(self._source, _QUIET_S):
            with self._turn:
                self._write_lines()
        return is_readable(self._source)

    def _is_dry(self) -> bool:
        """True when nothing waits in the pipe, and nothing is being read. Its end is something that waits."""
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
        """The whole lines, unless a private key has begun in them."""
        end = self._pending.rfind(b"\n") + 1
        begun = self._open_key(end)
        self._put(end if begun is None else begun)

    def _cut(self, end: int) -> int:
        """Return where the text can be parted: behind a line, or at least a word, and inside of no finding."""
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
        """Return where a block such as a private key begins that does not end before `end`."""
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
        with contextlib.suppress(OSError):  # a full disk costs the log, and not the run
            if self._log is None:
                self._log = self._file.open("ab", buffering=0)
            self._log.write(text)

    def _close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _clean(self, text: bytes) -> tuple[bytes, int]:
        """The stretch as it may be written, and how much of what is pending that is."""
        assert self._redactor is not None
        end = len(text)
        start = max(end - _SEAM_BYTES, 0)
        rest = bytes(self._pending[end : end + _SEAM_BYTES])
        try:
            # One byte is one character here, so that places are those of the bytes.
            for edit in self._redactor.edits((text[start:] + rest).decode("latin-1")) if rest else ():
                if edit.start < end - start < edit.end:
                    end = start + edit.start or end
                    break
            return self._redactor.raw(text[:end]), end
        except Exception as error:  # noqa: BLE001 (a thread that dies leaves the program waiting; what it said is dropped)
            return f"[{end} bytes left out: they could not be redacted ({type(error).__name__})]\n".encode(), end


def is_readable(source: int, timeout_s: float | None = None) -> bool:
    """True when there is something to read, or to hear, before the time is up."""
    poll = select.poll()  # select() knows only the first thousand files of a process
    poll.register(source, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


class Logs:
    """The two logs of one run of a program, and the ends of the pipes that it writes to."""

    def __init__(self, workspace: Path, redactor: Redactor | None) -> None:
        self.sinks: list[int] = []
        self._pumps: list[Pump] = []
        for name in LOGS:
            source, sink = os.pipe()
            self.sinks.append(sink)
            (workspace / name).touch()
            self._pumps.append(started(Pump(source, workspace / name, redactor)))

    def let_go(self) -> None:
        """From here on the program alone holds the pipes."""
        for sink in self.sinks:
            os.close(sink)

    def settle(self) -> None:
        """Wait until what was printed is in the logs."""
        for pump in self._pumps:
            pump.settle(LATE_S)


def started(pump: Pump) -> Pump:
    """The pump, at work."""
    pump.start()
    return pump


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
        """Write what the worker prints while the block lasts into this directory; the logs are whole at its end."""
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
