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
    tee.join(_LATE_OUTPUT_S)
    return Ran(code=code, printed=tee.printed, interrupted=bool(signals.came))


class _Tee(threading.Thread):
    """Passes on what a program prints, and keeps the end of it."""

    def __init__(self, source: int, out: int) -> None:
        super().__init__(name="replaykit-tee", daemon=True)
        self._source = source
        self._out = out
        self.printed = b""

    def run(self) -> None:
        with contextlib.suppress(OSError):  # a terminal says that nobody writes to it any more by an error
            while data := os.read(self._source, 1 << 16):
                self.printed = (self.printed + data)[-MAX_OUTPUT:]
                self._pass_on(data)
        os.close(self._source)

    def _pass_on(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever read our output has gone; the program is recorded all the same
            while data:
                data = data[os.write(self._out, data) :]


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
    return source, sink
