"""Progress of a job that may take long: one line at the bottom of a terminal, which goes away at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from replaykit.cli.verbosity import is_quiet
from replaykit.terminal import StatusLine, status_line

DELAY_S = 0.4
"""Seconds until the line is drawn: a job that ends sooner needs none, and does without importing rich."""
REDRAW_INTERVAL_S = 0.1
LOG_INTERVAL_S = 10.0
"""Seconds between notes in a log that no terminal shows."""


class Progress:
    """The progress of a job. Workers in several threads may report at once."""

    def __init__(self, label: str, total: int | None = None) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._lock = threading.Lock()

    def advance(self) -> None:
        """Count one more."""
        with self._lock:
            self.done += 1

    def expect(self, count: int) -> None:
        """Add to what there is to do."""
        self.total = (self.total or 0) + count

    def set(self, done: int, total: int) -> None:
        """Report how much is done, and of how much: an `OnProgress` of the store."""
        self.done, self.total = done, total


@contextmanager
def progress(
    label: str, total: int | None = None, *, quiet: bool = False, is_logged: bool = False
) -> Iterator[Progress]:
    """Show how far a job is while the block runs: on a terminal only, and nothing if `quiet` or with `--quiet`.

    One that `is_logged` writes a note now and then where there is no terminal.
    """
    job = Progress(label, total)
    if quiet or is_quiet() or total == 0:
        yield job
        return
    with status_line() as line:
        if line is not None:
            with _drawing(line, job):
                yield job
        elif is_logged:
            yield LoggedProgress(label)
        else:
            yield job


class LoggedProgress(Progress):
    """Progress in a log: a note now and then, and none of a short job."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(label)
        self._clock = clock
        self._next = clock() + LOG_INTERVAL_S

    def advance(self) -> None:
        super().advance()
        now = self._clock()
        if now >= self._next:
            click.echo(f"note: {self.label}: {self.done:,} so far", err=True)
            self._next = now + LOG_INTERVAL_S


@contextmanager
def _drawing(line: StatusLine, job: Progress) -> Iterator[None]:
    """Draw the job again and again, in a thread of its own: a single step may take minutes."""
    is_over = threading.Event()
    thread = threading.Thread(target=_draw, args=(line, job, is_over), name="replaykit-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _draw(line: StatusLine, job: Progress, is_over: threading.Event) -> None:
    if is_over.wait(DELAY_S):
        return
    from replaykit.report.layout import screen_width
    from replaykit.report.rich_layout import ProgressLine

    shown = ProgressLine(job.label)
    while not is_over.wait(REDRAW_INTERVAL_S):
        try:
            line.draw(shown.text(job.done, job.total, screen_width() - 1))
        except OSError:  # the terminal has gone; the job goes on
            return
