"""Run a program in the foreground: its input and output are the user's own, and what it prints is kept as well."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

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
    with _signals_go_to(process) as asked:
        code = process.wait()
    tee.join(_LATE_OUTPUT_S)
    return Ran(code=code, printed=tee.printed, interrupted=bool(asked))


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


@contextlib.contextmanager
def _signals_go_to(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """The program decides what a signal means; the list is of those that asked it to end."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def forward(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if number != signal.SIGINT or not _terminal_tells():
            process.send_signal(number)

    names = [name for name in ("SIGINT", *_FORWARDED) if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), forward) for name in names}
    try:
        yield asked
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


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
