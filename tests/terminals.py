"""Terminals for tests: one in this process, and one that a process of its own writes to."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class FakeTerminal(io.StringIO):
    """A stream that calls itself a terminal, and keeps what a terminal would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self._has_grown = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._has_grown:
            self._has_grown.notify_all()
            return super().write(text)

    def wait_for(self, text: str, timeout_s: float = 30) -> None:
        """Return when this text was written; another thread writes it."""
        with self._has_grown:
            assert self._has_grown.wait_for(lambda: text in self.getvalue(), timeout_s), self.getvalue()


def use_terminal(monkeypatch: pytest.MonkeyPatch, width: int = 80) -> FakeTerminal:
    """Make standard output and standard error of this process one terminal, so wide."""
    terminal = FakeTerminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def screen_of(written: str) -> list[str]:
    """Return the lines that stay on a terminal to which this was written."""
    lines = [""]
    place = 0
    while written:
        char, written = written[0], written[1:]
        if char == "\n":
            lines.append("")
            place = 0
        elif char == "\r":
            place = 0
        elif char == "\x1b":
            code, letter, written = _sequence(written)
            if letter == "K":
                assert code == ""
                lines[-1] = lines[-1][:place]
        else:
            lines[-1] = lines[-1][:place] + char + lines[-1][place + 1 :]
            place += 1
    return lines


def _sequence(text: str) -> tuple[str, str, str]:
    """Return the parameters and the letter of a control sequence, and what follows it."""
    end = next(place for place, char in enumerate(text) if char.isalpha())
    return text[1:end], text[end], text[end + 1 :]


@contextmanager
def on_terminal(*words: str, width: int = 80, stdin: int = subprocess.DEVNULL) -> Iterator[TerminalProcess]:
    """Start a command whose output is a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(words, stdin=stdin, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm"}) as process:
        os.close(theirs)
        yield TerminalProcess(process, ours)
    os.close(ours)


class TerminalProcess:
    """A process and what it has written to its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self._written = b""

    @property
    def written(self) -> str:
        return self._written.decode().replace("\r\n", "\n")

    def read_until(self, text: str) -> None:
        """Read until this text was written."""
        while text not in self.written:
            assert self._read(), f"{text!r} is not in {self.written!r}"

    def read_all(self) -> str:
        """Read until nobody writes any more, and return all of it."""
        while self._read():
            pass
        return self.written

    def _read(self) -> bytes:
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side has closed
            return b""
        self._written += part
        return part
