"""Run a program in the foreground: its input and output are the user's own, and what it prints is kept as well."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from msgspec import Struct

from replaykit.errors import ReplayKitError
from replaykit.programs.command import resolved
from replaykit.programs.ending import MAX_OUTPUT

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_LATE_OUTPUT_S = 0.5  # for what a program's children may still print when it has ended
_LOOK_S = 0.01
_PIECE = 1 << 16  # what a pipe holds, and what is read of it at once


class Ran(Struct, frozen=True, kw_only=True):
    """How a program ended."""

    code: int
    """Its exit code; negative for a signal."""
    printed: bytes = b""
    """The end of what it wrote to its standard output."""
    interrupted: bool = False
    """The user asked it to end."""


def run_through(command: Sequence[str], environment: Mapping[str, str], out: int) -> Ran:
    """Run the command until it ends; what it prints goes to the file descriptor `out`."""
    source, sink = _pipe(out)
    with _Signals() as signals:  # before the program starts: one that comes in between would end only this process
        try:
            process = subprocess.Popen(resolved(command), env=dict(environment), stdout=sink)
        except (OSError, ValueError) as error:  # ValueError: a NUL byte in the command
            os.close(source)
            why = getattr(error, "strerror", None) or error
            raise ReplayKitError(f"{command[0]!r} cannot be started: {why}") from None
        finally:
            os.close(sink)
        tee = _Tee(source, out)
        tee.start()
        signals.go_to(process)
        code = process.wait()
    tee.settle()
    return Ran(code=code, printed=tee.printed, interrupted=bool(signals.came))


class _Tee(threading.Thread):
    """Passes on what a program prints, and keeps the end of it."""

    def __init__(self, source: int, out: int) -> None:
        super().__init__(name="replaykit-tee", daemon=True)
        self._source = source
        self._out = out
        self._taken = self._passed = 0
        self.printed = b""

    def run(self) -> None:
        # A terminal says that nobody writes to it any more by an error. Where nobody reads any more, the program is to
        # meet that as it would without us: its output is closed.
        with contextlib.suppress(OSError):
            while data := os.read(self._source, _PIECE):
                self._taken += len(data)
                self.printed = (self.printed + data)[-MAX_OUTPUT:]
                self._pass_on(data)
                self._passed = self._taken
        os.close(self._source)

    def settle(self) -> None:
        """Wait until what the program has printed is passed on, however slowly it is read. For processes that it has
        left behind, and that hold its output open, nobody waits long."""
        all_of_it, left_s = self._taken + _PIECE, _LATE_OUTPUT_S
        while self.is_alive() and left_s > 0 and self._passed < all_of_it:
            if self._passed == self._taken:
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


class _Signals:
    """The program decides what a signal means: those that come are passed on to it, as soon as it is there."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self._waiting: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._before: dict[str, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            names = [name for name in ("SIGINT", *_FORWARDED) if hasattr(signal, name)]
            self._before = {name: signal.signal(getattr(signal, name), self._pass_on) for name in names}
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
        elif number != signal.SIGINT or not _terminal_tells():
            self._process.send_signal(number)


def _terminal_tells() -> bool:
    """True when ctrl-c has reached the program already, because a terminal tells all processes in its foreground."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _pipe(out: int) -> tuple[int, int]:
    """Where to read from and where the program writes to: a terminal, where the user's output is one."""
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
