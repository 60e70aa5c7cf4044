"""Keys out of bytes, lines out of keys, and nothing but text on the screen."""

from __future__ import annotations

import os
import pty
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.debugger.dialog import typed
from replaykit.debugger.lines import ScreenLine
from replaykit.debugger.terminal import Terminal, keys_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nb", ["n", "b"]),
        ("\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        ("\x1bOA\x1bOH\x1bOF", ["up", "home", "end"]),
        ("\x1b[5~\x1b[6~\x1b[1~\x1b[4~", ["pgup", "pgdn", "home", "end"]),
        ("\r\n\x7f\x08\x15\x04", ["enter", "enter", "backspace", "backspace", "ctrl-u", "ctrl-d"]),
        ("\x1b", ["esc"]),
        ("日é ", ["日", "é", " "]),
        ("\x1b[200~q\x1b[<0;10;10Mn", ["q", "n"]),
        ("\x1b[1;5C\x00\x01", []),
    ],
)
def test_input_is_read_as_keys(text: str, names: list[str]) -> None:
    assert keys_of(text) == names


@given(st.text())
def test_no_input_is_a_key_that_a_terminal_would_obey(text: str) -> None:
    assert all(name.isprintable() for name in keys_of(text))


@pytest.mark.parametrize(
    ("answer", "key", "after"),
    [("ab", "c", "abc"), ("ab", "backspace", "a"), ("", "backspace", ""), ("ab", "ctrl-u", ""), ("ab", "left", "ab")],
)
def test_a_line_is_typed_key_by_key(answer: str, key: str, after: str) -> None:
    assert typed(answer, key) == after


@contextmanager
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """This process on a terminal; gives its other end."""
    keyboard, line = pty.openpty()
    with open(line, "r+b", buffering=0) as device, open(os.ttyname(line), "w", encoding="ascii") as stream:
        with monkeypatch.context() as patched:
            patched.setenv("TERM", "xterm")
            patched.setattr(sys, "stdin", device)
            patched.setattr(sys, "stdout", stream)
            yield keyboard
    os.close(keyboard)


def test_a_key_that_comes_in_pieces_is_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = iter(["\x1b", "[", "C"])
    with on_a_terminal(monkeypatch) as keyboard, Terminal(colour=True) as terminal:
        monkeypatch.setattr(terminal, "_read", lambda: next(pieces))
        os.write(keyboard, b"there is something to read")

        assert terminal.key() == "right"


def test_whatever_is_shown_the_terminal_is_given_no_control_character(monkeypatch: pytest.MonkeyPatch) -> None:
    written = ""
    with on_a_terminal(monkeypatch) as keyboard:
        with Terminal(colour=True) as terminal:
            terminal.show([ScreenLine("\x1b]0;owned\x07 日", "red")])
            sys.stdout.close()  # as an agent might
        while "\x1b[?1049l" not in written and select.select([keyboard], [], [], 10)[0]:
            written += os.read(keyboard, 4096).decode()

    assert r"\x1b]0;owned\x07 ?" in written
    assert "\x1b]" not in written
    assert written.endswith("\x1b[?1049l")
