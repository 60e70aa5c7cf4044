"""What the stepper shows of forks: how one ended, what it asks, and how it stands to its parent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from click import unstyle

from replaykit.model.result import Deviation
from replaykit.report.comparison import comparison_text
from replaykit.report.stepper_text import Line
from replaykit.report.travel import journey_text
from replaykit.travel.compare_result import Comparison
from replaykit.travel.go import Journey

_MARKS = {"~": "yellow", "+": "green", "-": "red", ">": "cyan"}


def compare_page(comparison: Comparison) -> Iterator[Line]:
    """A fork beside its parent."""
    return plain_lines(comparison_text(comparison, "parent", "fork"))


def plain_lines(text: str) -> Iterator[Line]:
    """A report's text without its own colours: a recorded value could bring some as well."""
    for line in unstyle(text).split("\n"):
        yield Line(line, _MARKS.get(line.lstrip()[:1], ""))


def fork_page(journey: Journey, comparison: Comparison) -> Iterator[Line]:
    """How a fork ended, and where it parts from its parent."""
    yield from plain_lines(journey_text(journey))
    yield Line("")
    yield from plain_lines(comparison_text(comparison, "parent", "fork").split("\n\n")[0])


def question_page(question: Deviation, done: Sequence[Deviation]) -> Iterator[Line]:
    """What a fork wants to do for real, and what it has done so far."""
    yield Line(question.text, "yellow")
    yield Line("")
    yield Line("It was stopped there. With your leave it is forked again, and may then call this tool for real.")
    if done:
        yield Line("What this one has done for real is kept, and is not done again:")
        yield from (Line(f"  {each.text.partition(': ')[2]}") for each in done)
