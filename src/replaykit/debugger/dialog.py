"""Dialogs of the stepper: a line to type, and a page that waits for one of several keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from replaykit.debugger.lines import ScreenLine, rows_of
from replaykit.debugger.navigation import ON_A_PAGE, SCROLLING, Action, DebuggerView, scrolled
from replaykit.debugger.screen import body_height, page_screen, prompt_screen
from replaykit.debugger.terminal import Terminal, Terminated


class Dialog:
    """Shows screens on a terminal, and asks questions there."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._rows: Sequence[ScreenLine] = ()

    def show(self, rows: Sequence[ScreenLine]) -> None:
        """Write a screen."""
        self._rows = rows
        self.terminal.show(rows)

    def ask(self, question: str) -> str | None:
        """Ask for a line of text; None if the user pressed Escape or ctrl-c."""
        answer = ""
        while True:
            width, height = self.terminal.size()
            self.terminal.show(prompt_screen(self._rows, question, answer, width, height), cursor=True)
            key = self._key()
            if key in ("esc", "ctrl-d"):
                return None
            if key == "enter":
                return answer.strip()
            answer = typed(answer, key)

    def read(self, title: str, lines: Iterable[ScreenLine], *, words: str, keys: Collection[str]) -> str:
        """Show a page and return the pressed key out of `keys`; empty if the user left the page."""
        content, view = list(lines), DebuggerView()
        while True:
            width, height = self.terminal.size()
            rows = rows_of(content, width)
            self.show(page_screen(title, rows, view, width, height, words))
            key = self._key()
            if key in keys:
                return key
            if key in ("q", "esc", "ctrl-d"):
                return ""
            action = ON_A_PAGE.get(key)
            if isinstance(action, Action) and action in SCROLLING:
                view = scrolled(view, action, rows=len(rows), height=body_height(height))

    def _key(self) -> str:
        try:
            return self.terminal.key()
        except Terminated:
            raise
        except KeyboardInterrupt:
            return "esc"


def typed(answer: str, key: str) -> str:
    """Return the typed text after one more key."""
    if key == "backspace":
        return answer[:-1]
    if key == "ctrl-u":
        return ""
    if len(key) == 1:
        return answer + key
    return answer
