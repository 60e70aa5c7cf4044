"""Run a program in the foreground: on the user's own input and output, with a copy of its output."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from msgspec import Struct

from replaykit.errors import ReplayKitError
from replaykit.programs.command import MAX_OUTPUT, resolved

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_LATE_OUTPUT_S = 0.5  # for output of a program's children after its end
_LOOK_S = 0.01
_PIECE = 1 << 16  # the capacity of a pipe, and the size of a read
MAX_INPUT = 1 << 20
"""Longer input is passed on to the program but not stored: people should be able to read a case."""


class ProgramExit(Struct, frozen=True, kw_only=True):
    """The end of a program: its exit code, output and input."""

    code: int
    """Its exit code; negative for a signal."""
    printed: bytes = b""
    """The end of its standard output."""
    input_bytes: bytes | None = None
    """The bytes from standard input, if they were kept."""
    lost_input: bool = False
    """True if input was read and not stored, because nobody asked for it or it exceeds `MAX_INPUT`."""
    interrupted: bool = False
    """True if the user asked it to end."""


def run_in_foreground(
    command: Sequence[str],
    environment: Mapping[str, str],
    out: int,
    *,
    keep_input: bool = False,
    on_start: Callable[[int], None] = lambda _: None,
) -> ProgramExit:
    """Run the command until it ends; its output goes to the file descriptor `out`.

    It reads this process's own input, or with `keep_input` a pipe, so that the input can be stored. `on_start` is
    called with the process number.
    """
    source, sink = _pipe(out)
    feed, left = _InputPump() if keep_input else None, _input_position()
    # Signals are caught before the program starts: one that came in between would end only this process.
    with _SignalForwarder() as signals:
        try:
            process = subprocess.Popen(
                resolved(command), env=dict(environment), stdin=None if feed is None else feed.read_end, stdout=sink
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL byte in the command
            os.close(source)
            why = getattr(error, "strerror", None) or error
            raise ReplayKitError(f"{command[0]!r} cannot be started: {why}") from None
        finally:
            os.close(sink)
            if feed is not None:
                os.close(feed.read_end)
        on_start(process.pid)
        tee = _OutputTee(source, out)
        tee.start()
        if feed is not None:
            feed.start()
        signals.go_to(process)
        code = process.wait()
    tee.settle()
    input_bytes = None if feed is None else feed.kept_bytes
    return ProgramExit(
        code=code,
        printed=tee.printed,
        input_bytes=input_bytes,
        lost_input=input_bytes is None and _input_position() not in (left, None),
        interrupted=bool(signals.came),
    )


class _InputPump(threading.Thread):
    """Passes standard input on, and stores it."""

    def __init__(self) -> None:
        super().__init__(name="replaykit-feed", daemon=True)
        self.read_end, self._write_end = os.pipe()
        self.kept_bytes: bytes | None = b""

    def run(self) -> None:
        with contextlib.suppress(OSError):  # the program has closed its input
            while sys.stdin is not None and (data := os.read(0, _PIECE)):
                if self.kept_bytes is not None:
                    self.kept_bytes += data
                    if len(self.kept_bytes) > MAX_INPUT:
                        self.kept_bytes = None
                while data:
                    data = data[os.write(self._write_end, data) :]
        os.close(self._write_end)


def _input_position() -> int | None:
    """Return the read position of standard input, which shows whether somebody reads it; None if it is unknown.

    A terminal, and a pipe that still has a writer, have no position.
    """
    with contextlib.suppress(OSError):
        mode = 0 if sys.stdin is None else os.fstat(0).st_mode  # without standard input, 0 may be any file
        if stat.S_ISREG(mode):
            return os.lseek(0, 0, os.SEEK_CUR)
        if stat.S_ISFIFO(mode) and hasattr(select, "poll"):
            pipe = select.poll()
            pipe.register(0, select.POLLIN)
            events = dict(pipe.poll(0)).get(0, 0)
            if events & select.POLLHUP:
                return events & select.POLLIN
    return None


class _OutputTee(threading.Thread):
    """Passes a program's output on, and stores its end."""

    def __init__(self, source: int, out: int) -> None:
        super().__init__(name="replaykit-tee", daemon=True)
        self._source = source
        self._out = out
        self._read_bytes = self._passed_bytes = 0
        self.printed = b""

    def run(self) -> None:
        # A pseudo-terminal reports the last writer's end as an error. If our reader is gone, the program must notice it
        # as it would without us, so its output is closed.
        with contextlib.suppress(OSError):
            while data := os.read(self._source, _PIECE):
                self._read_bytes += len(data)
                self.printed = (self.printed + data)[-MAX_OUTPUT:]
                self._pass_on(data)
                self._passed_bytes = self._read_bytes
        os.close(self._source)

    def settle(self) -> None:
        """Wait until the program's output is passed on, however slowly it is read; only briefly for processes that it
        left behind and that hold its output open."""
        # What the pipe may still hold, and a piece that was read but not yet counted.
        all_bytes, left_s = self._read_bytes + 2 * _PIECE, _LATE_OUTPUT_S
        while self.is_alive() and left_s > 0 and self._passed_bytes < all_bytes:
            if self._passed_bytes == self._read_bytes:
                left_s -= _LOOK_S
            self.join(_LOOK_S)

    def _pass_on(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            raise
        except OSError:
            pass  # such as a full disk; the program is recorded anyway


class _SignalForwarder:
    """Forwards signals to the program, which decides what they mean; those that come early wait for its start."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self._waiting: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._before: dict[str, Any] = {}

    def __enter__(self) -> _SignalForwarder:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", *_FORWARDED):
                if hasattr(signal, name):
                    self._before[name] = signal.signal(getattr(signal, name), self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(getattr(signal, name), handler)

    def go_to(self, process: subprocess.Popen[bytes]) -> None:
        """Forward signals to this process from now on, and those that have come so far."""
        self._process = process  # from here on signals are forwarded at once
        while self._waiting:
            process.send_signal(self._waiting.pop(0))

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.came.append(number)
        if self._process is None:
            self._waiting.append(number)
        elif number != signal.SIGINT or not _terminal_signals_program():
            self._process.send_signal(number)


def _terminal_signals_program() -> bool:
    """True if the terminal has sent ctrl-c to the program too, as to all processes in its foreground."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _pipe(out: int) -> tuple[int, int]:
    """Return the ends to read from and to write to: a pseudo-terminal if the user's output is a terminal."""
    if os.name != "posix" or not os.isatty(out):
        return os.pipe()
    import fcntl  # noqa: PLC0415 (not available on Windows)
    import termios  # noqa: PLC0415

    source, sink = os.openpty()
    with contextlib.suppress(OSError):
        fcntl.ioctl(sink, termios.TIOCSWINSZ, fcntl.ioctl(out, termios.TIOCGWINSZ, b"\0" * 8))
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(sink)
        modes[1] &= ~termios.OPOST  # line ends are up to the user's own terminal
        termios.tcsetattr(sink, termios.TCSANOW, modes)
    return source, sink
