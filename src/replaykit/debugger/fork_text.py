"""Pages about forks: the result of one, its questions, and the comparison with its parent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from click import unstyle

from replaykit.debugger.lines import ScreenLine
from replaykit.model.result import Deviation
from replaykit.report.comparison import comparison_text
from replaykit.report.forks import fork_text
from replaykit.travel.compare_result import Comparison
from replaykit.travel.fork import ForkResult

_MARKS = {"~": "yellow", "+": "green", "-": "red", ">": "cyan"}


def compare_page(comparison: Comparison) -> Iterator[ScreenLine]:
    """A fork beside its parent."""
    return plain_lines(comparison_text(comparison, "parent", "fork"))


def plain_lines(text: str) -> Iterator[ScreenLine]:
    """A report's text without its own colours: a recorded value could bring some as well."""
    for line in unstyle(text).split("\n"):
        yield ScreenLine(line, _MARKS.get(line.lstrip()[:1], ""))


def fork_page(result: ForkResult, comparison: Comparison) -> Iterator[ScreenLine]:
    """Yield how a fork ended, and where it diverges from its parent."""
    yield from plain_lines(fork_text(result))
    yield ScreenLine("")
    yield from plain_lines(comparison_text(comparison, "parent", "fork").split("\n\n")[0])


def question_page(question: Deviation, done: Sequence[Deviation]) -> Iterator[ScreenLine]:
    """Yield what a fork wants to do for real, and what it has done so far."""
    yield ScreenLine(question.text, "yellow")
    yield ScreenLine("")
    yield ScreenLine("It was stopped there. With your leave it is forked again, and may then call this tool for real.")
    if done:
        yield ScreenLine("What this one has done for real is kept, and is not done again:")
        yield from (ScreenLine(f"  {deviation.text.partition(': ')[2]}") for deviation in done)
