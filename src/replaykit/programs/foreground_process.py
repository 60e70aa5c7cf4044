"""Run a program in the foreground: its input and output are the user's own, and what it prints is kept as well."""

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
_LATE_OUTPUT_S = 0.5  # for what a program's children may still print when it has ended
_LOOK_S = 0.01
_PIECE = 1 << 16  # what a pipe holds, and what is read of it at once
MAX_INPUT = 1 << 20
"""More than this on its standard input is passed on to a program and not kept: a case is read by people."""


class ProgramExit(Struct, frozen=True, kw_only=True):
    """The end of a program: its exit code, output and input."""

    code: int
    """Its exit code; negative for a signal."""
    printed: bytes = b""
    """The end of what it wrote to its standard output."""
    input_bytes: bytes | None = None
    """The bytes from standard input, if they were kept."""
    lost_input: bool = False
    """Something came there that was not kept: nobody had asked for it, or it was more than `MAX_INPUT`."""
    interrupted: bool = False
    """The user asked it to end."""


def run_in_foreground(
    command: Sequence[str],
    environment: Mapping[str, str],
    out: int,
    *,
    keep_input: bool = False,
    on_start: Callable[[int], None] = lambda _: None,
) -> ProgramExit:
    """Run the command until it ends; what it prints goes to the file descriptor `out`.

    Its input is this process's own; with `keep_input` it comes through a pipe, and is kept. `on_start` is called with
    the number of its process.
    """
    source, sink = _pipe(out)
    feed, left = _InputPump() if keep_input else None, _input_position()
    # Before the program starts: a signal that comes in between would end only this process.
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
    """Passes on what comes on standard input, and keeps it."""

    def __init__(self) -> None:
        super().__init__(name="replaykit-feed", daemon=True)
        self.read_end, self._write_end = os.pipe()
        self.kept_bytes: bytes | None = b""

    def run(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more
            while sys.stdin is not None and (data := os.read(0, _PIECE)):
                if self.kept_bytes is not None:
                    self.kept_bytes += data
                    if len(self.kept_bytes) > MAX_INPUT:
                        self.kept_bytes = None
                while data:
                    data = data[os.write(self._write_end, data) :]
        os.close(self._write_end)


def _input_position() -> int | None:
    """Return the read position of standard input; it changes when somebody reads from it. None if it is unknown.

    A terminal, and a pipe that still has a writer, have no position.
    """
    with contextlib.suppress(OSError):
        mode = 0 if sys.stdin is None else os.fstat(0).st_mode  # where there is none, 0 is some other file
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
    """Passes on what a program prints, and keeps the end of it."""

    def __init__(self, source: int, out: int) -> None:
        super().__init__(name="replaykit-tee", daemon=True)
        self._source = source
        self._out = out
        self._read_bytes = self._passed_bytes = 0
        self.printed = b""

    def run(self) -> None:
        # A terminal says that nobody writes to it any more by an error. Where nobody reads any more, the program is to
        # meet that as it would without us: its output is closed.
        with contextlib.suppress(OSError):
            while data := os.read(self._source, _PIECE):
                self._read_bytes += len(data)
                self.printed = (self.printed + data)[-MAX_OUTPUT:]
                self._pass_on(data)
                self._passed_bytes = self._read_bytes
        os.close(self._source)

    def settle(self) -> None:
        """Wait until what the program has printed is passed on, however slowly it is read. For processes that it has
        left behind, and that hold its output open, nobody waits long."""
        # What the pipe still holds, after a piece that may have been read and not counted yet.
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
            pass  # a full disk, say; the program is recorded all the same


class _SignalForwarder:
    """The program decides what a signal means: those that come are passed on to it, as soon as it is there."""

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
        """The program has started; what came before goes to it now."""
        self._process = process  # from here on they are passed on at once
        while self._waiting:
            process.send_signal(self._waiting.pop(0))

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.came.append(number)
        if self._process is None:
            self._waiting.append(number)
        elif number != signal.SIGINT or not _terminal_signals_program():
            self._process.send_signal(number)


def _terminal_signals_program() -> bool:
    """True when ctrl-c has reached the program already, because a terminal tells all processes in its foreground."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _pipe(out: int) -> tuple[int, int]:
    """Return the ends to read from and to write to: a pseudo-terminal if the user's output is a terminal."""
    if os.name != "posix" or not os.isatty(out):
        return os.pipe()
    import fcntl  # noqa: PLC0415 (not on every system)
    import termios  # noqa: PLC0415

    source, sink = os.openpty()
    with contextlib.suppress(OSError):
        fcntl.ioctl(sink, termios.TIOCSWINSZ, fcntl.ioctl(out, termios.TIOCGWINSZ, b"\0" * 8))
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(sink)
        modes[1] &= ~termios.OPOST  # the ends of lines are made by the user's own terminal
        termios.tcsetattr(sink, termios.TCSANOW, modes)
    return source, sink
