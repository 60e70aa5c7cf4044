"""A count on stderr of something whose end is not known."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from replaykit.terminal import ERASE_LINE

REDRAW_INTERVAL_S = 0.1
LOG_INTERVAL_S = 10.0
"""Seconds between lines in a log that no terminal shows; a short job writes none."""


class ProgressCounter:
    """Counts: on a terminal in one line that goes away at the end, elsewhere with a line now and then."""

    def __init__(self, label: str, *, is_terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = label
        self._is_terminal = is_terminal
        self._clock = clock
        self._number = 0
        self._next = clock() + (0.0 if is_terminal else LOG_INTERVAL_S)

    def advance(self) -> None:
        """One more."""
        self._number += 1
        now = self._clock()
        if now < self._next:
            return
        text = f"{self._label}: {self._number:,}"
        if self._is_terminal:
            click.echo(f"{ERASE_LINE}{text}", nl=False, err=True)
        else:
            click.echo(f"note: {text} so far", err=True)
        self._next = now + (REDRAW_INTERVAL_S if self._is_terminal else LOG_INTERVAL_S)

    def end(self) -> None:
        """Leave nothing on the terminal."""
        if self._is_terminal:
            click.echo(ERASE_LINE, nl=False, err=True)


@contextmanager
def counting(label: str, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Return a function that counts one more on stderr; it counts nothing if `quiet`."""
    if quiet:
        yield lambda: None
        return
    counter = ProgressCounter(label, is_terminal=sys.stderr.isatty())
    try:
        yield counter.advance
    finally:
        counter.end()
