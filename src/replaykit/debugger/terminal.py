"""The terminal of the stepper: reads keys, writes screens, and restores the terminal's state at the end."""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import sys
import termios
import tty
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from click import style

from replaykit.debugger.lines import ScreenLine
from replaykit.terminal import visible

_KEY = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[@-~]|\x1b|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_NAMES = {
    "\r": "enter", "\n": "enter", "\t": "tab", "\x1b": "esc", "\x04": "ctrl-d", "\x15": "ctrl-u", "\x0c": "resize",
    "\x7f": "backspace", "\x08": "backspace",
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
    "\x1b[H": "home", "\x1b[1~": "home", "\x1b[7~": "home", "\x1bOH": "home",
    "\x1b[F": "end", "\x1b[4~": "end", "\x1b[8~": "end", "\x1bOF": "end",
    "\x1b[5~": "pgup", "\x1b[6~": "pgdn",
}  # fmt: skip
_LOOKS: dict[str, dict[str, Any]] = {"dim": {"dim": True}, "bold": {"bold": True}}
_ESCAPE_WAIT_S = 0.05  # the rest of an arrow key arrives at once; nothing follows a lone Escape
_SCREEN_ON, _SCREEN_OFF = "\x1b[?1049h\x1b[?7l\x1b[?25l", "\x1b[?25h\x1b[?7h\x1b[?1049l"
_NOTICED = (signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP)


class Terminated(KeyboardInterrupt):
    """The process was asked to end. A KeyboardInterrupt, so that agents do not handle it like their own errors."""


def keys_of(text: str) -> list[str]:
    """Return the names of the keys in a terminal's input, without unknown sequences."""
    return [name for name in map(_name, _KEY.findall(text)) if name]


def _name(key: str) -> str:
    return _NAMES.get(key, key if key.isprintable() else "")


class Terminal:
    """The terminal for the length of a `with` block; restored however the block ends."""

    def __init__(self, *, colour: bool) -> None:
        # Duplicates, so that an agent that closes or replaces the standard streams does not affect the terminal.
        self._in, self._out = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
        self._encoding = sys.stdout.encoding or "utf-8"
        self._dumb = os.environ.get("TERM", "dumb") in ("", "dumb")
        self._colour = colour and not self._dumb
        self._keys: deque[str] = deque()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._original: list[Any] | None = None
        self._taken = ExitStack()
        self._wakeup = -1
        self.terminated = False

    def __enter__(self) -> Terminal:
        self._before = signal.signal(signal.SIGTERM, self._terminate) or signal.SIG_DFL
        try:
            self._original = termios.tcgetattr(self._in)
            self._take()
        except BaseException:
            signal.signal(signal.SIGTERM, self._before)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._taken.close()
        signal.signal(signal.SIGTERM, self._before)
        os.close(self._in)
        os.close(self._out)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Restore the terminal for an editor or an agent."""
        self._taken.close()
        try:
            yield
        finally:
            self._take()

    def size(self) -> tuple[int, int]:
        """Return the current columns and rows."""
        with suppress(OSError):
            width, height = os.get_terminal_size(self._out)
            if width > 0 and height > 0:
                return width, height
        return 80, 24

    def show(self, rows: Sequence[ScreenLine], *, cursor: bool = False) -> None:
        """Write a screen; with `cursor`, leave the cursor at the end of the last row."""
        texts = list(map(self._painted, rows))
        if self._dumb:
            self._write("\n".join(["", *texts]) + ("" if cursor else "\n"))
            return
        body = "\r\n".join(f"\x1b[K{text}" for text in texts)
        self._write(f"\x1b[?25l\x1b[H{body}\x1b[J" + ("\x1b[?25h" if cursor else ""))

    def key(self) -> str:
        """Return the name of the next key; `resize` if the screen must be drawn again."""
        while not self._keys:
            ready, _, _ = select.select([self._in, self._wakeup], [], [])
            if self._wakeup in ready:
                return self._noticed(os.read(self._wakeup, 64))
            text = self._read()
            while _UNFINISHED.search(text) and select.select([self._in], [], [], _ESCAPE_WAIT_S)[0]:
                text += self._read()
            self._keys.extend(keys_of(text))
        return self._keys.popleft()

    def _read(self) -> str:
        try:
            data = os.read(self._in, 4096)
        except BlockingIOError:  # an earlier program left the terminal in non-blocking mode
            return ""
        except OSError:  # the terminal is gone
            data = b""
        if data:
            return self._decoder.decode(data)
        return "\x04"

    def _noticed(self, signals: bytes) -> str:
        if signal.SIGTSTP in signals:
            with self.lent():
                os.kill(os.getpid(), signal.SIGTSTP)  # stops here until SIGCONT
        elif signal.SIGCONT in signals:
            with self.lent():
                pass
        return "resize"

    def _take(self) -> None:
        with ExitStack() as stack:
            self._wakeup = stack.enter_context(_wakeup())
            stack.callback(self._give_back)
            tty.setcbreak(self._in, termios.TCSADRAIN)
            if not self._dumb:
                self._write(_SCREEN_ON)
            self._taken = stack.pop_all()

    def _give_back(self) -> None:
        if not self._dumb:
            self._write(_SCREEN_OFF)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._original or [])

    def _terminate(self, *_: object) -> None:
        self.terminated = True
        raise Terminated

    def _painted(self, row: ScreenLine) -> str:
        text = visible(row.text)
        if row.look and self._colour:
            return style(text, **_LOOKS.get(row.look, {"fg": row.look}))
        return text

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # an agent closed the stream, which does not affect our descriptor
            sys.stdout.flush()
        data = text.encode(self._encoding, "replace")
        with suppress(OSError):  # the terminal is gone; reading the next key reports it
            while data:
                select.select([], [self._out], [])  # it may be non-blocking: an earlier program can have left it so
                data = data[os.write(self._out, data) :]


@contextmanager
def _wakeup() -> Iterator[int]:
    """Give a file descriptor that becomes readable when a signal about the terminal arrives."""
    reader, writer = os.pipe()
    before = {}
    try:
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        for number in _NOTICED:
            before[number] = signal.signal(number, lambda *_: None) or signal.SIG_DFL
        old = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(old)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
