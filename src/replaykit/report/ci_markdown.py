"""What `ci` found as Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.report.ci import notes_of, told
from replaykit.report.panel import short
from replaykit.trials.ci_result import CiItem, CiResult, Outcome

_SHOWN_FAILURES = 50
_SHOWN_CHARS = 1000  # with the number of failures, well below the megabyte that a job's summary may have
_MARKS = {Outcome.PASSED: "✅", Outcome.FAILED: "❌", Outcome.ERROR: "⚠️", Outcome.UNTESTED: "❔"}


def ci_markdown(result: CiResult) -> str:
    """The verdict, the parts, and what did not pass. What an agent said stands in code: it is shown, not obeyed."""
    mark = _MARKS[Outcome.PASSED if result.passed else Outcome.FAILED]
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
    for word, text in told(item):
        if text:
            yield f"- {word}: {code(text)}"


def code(text: str) -> str:
    """A text on one line as code, whatever is in it."""
    line = short(text, _SHOWN_CHARS)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    # One blank on each side is taken away again; it is needed beside a backtick.
    return f"{fence} {line} {fence}" if line.startswith("`") or line.endswith("`") else f"{fence}{line}{fence}"
