"""A count on stderr of something whose end is not known."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from replaykit.terminal import ERASE_LINE

REDRAWN_S = 0.1
TOLD_S = 10.0
"""How often a log is told, where nobody looks at a terminal: a short job leaves no line in it."""


class Tally:
    """Counts: on a terminal in one line that goes away at the end, elsewhere with a line now and then."""

    def __init__(self, label: str, *, is_terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = label
        self._is_terminal = is_terminal
        self._clock = clock
        self._number = 0
        self._next = clock() + (0.0 if is_terminal else TOLD_S)

    def advance(self) -> None:
        """One more."""
        self._number += 1
        now = self._clock()
        if now < self._next:
            return
        told = f"{self._label}: {self._number:,}"
        if self._is_terminal:
            click.echo(f"{ERASE_LINE}{told}", nl=False, err=True)
        else:
            click.echo(f"note: {told} so far", err=True)
        self._next = now + (REDRAWN_S if self._is_terminal else TOLD_S)

    def end(self) -> None:
        """Leave nothing on the terminal."""
        if self._is_terminal:
            click.echo(ERASE_LINE, nl=False, err=True)
