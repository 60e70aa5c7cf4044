"""The result of `ci` as Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.report.ci import item_lines, notes_of
from replaykit.report.layout import short
from replaykit.trials.ci_result import CiItem, CiOutcome, CiResult

_SHOWN_FAILURES = 50
_SHOWN_CHARS = 1000  # with the number of failures, well below the megabyte that a job's summary may have
_MARKS = {CiOutcome.PASSED: "✅", CiOutcome.FAILED: "❌", CiOutcome.ERROR: "⚠️", CiOutcome.UNTESTED: "❔"}


def ci_markdown(result: CiResult) -> str:
    """The verdict, the parts, and what did not pass. What an agent said stands in code: it is shown, not obeyed."""
    mark = _MARKS[CiOutcome.PASSED if result.passed else CiOutcome.FAILED]
    lines = [f"## {mark} replaykit ci", "", result.verdict, "", *_parts(result), ""]
    lines += [part for note in notes_of(result) for part in (code(note), "")]
    failures = result.failures
    for item in failures[:_SHOWN_FAILURES]:
        lines += [*_item(item), ""]
    if len(failures) > _SHOWN_FAILURES:
        lines += [f"… and {len(failures) - _SHOWN_FAILURES} more.", ""]
    return "\n".join(lines)


def _parts(result: CiResult) -> Iterator[str]:
    yield "| score of | passed | weight | score |"
    yield "|---|---:|---:|---:|"
    for part in result.parts:
        score = "–" if part.score is None else f"{part.score:g}"
        yield f"| {part.name} | {part.passed} of {part.total} | {part.weight:g} | {score} |"


def _item(item: CiItem) -> Iterator[str]:
    yield f"### {_MARKS[item.outcome]} {item.part.value} {item.verdict}: {code(item.id)}"
    yield ""
    for word, text in item_lines(item):
        if text:
            yield f"- {word}: {code(text)}"


def code(text: str) -> str:
    """A text on one line as code, whatever is in it."""
    line = short(text, _SHOWN_CHARS)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    # One blank on each side is taken away again; it is needed beside a backtick.
    if line.startswith("`") or line.endswith("`"):
        return f"{fence} {line} {fence}"
    return f"{fence}{line}{fence}"
