"""The result of `ci` as Markdown, for a pull request or the summary of a job, and as annotations for GitHub Actions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from replaykit.report.ci import head_of, item_lines, notes_of, place_text, score_text
from replaykit.report.layout import short
from replaykit.trials.ci_causes import by_cause
from replaykit.trials.ci_result import CiItem, CiOutcome, CiResult

_SHOWN_FAILURES = 50
_SHOWN_PLACES = 50
_SHOWN_CHARS = 1000  # with the number of failures, well below the megabyte that a job's summary may have
_MARKS = {CiOutcome.PASSED: "✅", CiOutcome.FAILED: "❌", CiOutcome.ERROR: "⚠️", CiOutcome.UNTESTED: "❔"}


def ci_markdown(result: CiResult) -> str:
    """The verdict, the parts, and each cause of what did not pass. What an agent said is code: shown, not obeyed."""
    mark = _MARKS[CiOutcome.PASSED if result.passed else CiOutcome.FAILED]
    lines = [f"## {mark} replaykit ci", "", result.verdict, "", *_parts(result), ""]
    for note in notes_of(result):
        lines += [code(note), ""]
    causes = by_cause(result.failures)
    for items in causes[:_SHOWN_FAILURES]:
        lines += [*_cause(*items), ""]
    if len(causes) > _SHOWN_FAILURES:
        lines += [f"… and {sum(map(len, causes[_SHOWN_FAILURES:]))} more.", ""]
    return "\n".join(lines)


def _parts(result: CiResult) -> Iterator[str]:
    yield "| score of | passed | weight | score |"
    yield "|---|---:|---:|---:|"
    for part in result.parts:
        yield f"| {part.name} | {part.passed} of {part.total} | {part.weight:g} | {score_text(part)} |"


def _cause(item: CiItem, *others: CiItem) -> Iterator[str]:
    yield f"### {_MARKS[item.outcome]} {item.part.value} {item.verdict}: {code(item.id)}"
    yield ""
    for word, text in item_lines(item):
        if text:
            yield f"- {word}: {code(text)}"
    if others:
        yield f"- also: {len(others)} more with the same cause"
        for other in others[:_SHOWN_PLACES]:
            yield f"  - {code(place_text(other))}"
        if len(others) > _SHOWN_PLACES:
            yield f"  - … and {len(others) - _SHOWN_PLACES} more"


def code(text: str) -> str:
    """A text on one line as code, whatever is in it."""
    line = short(text, _SHOWN_CHARS)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    # One blank on each side is taken away again; it is needed beside a backtick.
    if line.startswith("`") or line.endswith("`"):
        return f"{fence} {line} {fence}"
    return f"{fence}{line}{fence}"


_SHOWN = 50
_TOLD_CHARS = 500


def is_github(environment: Mapping[str, str] = os.environ) -> bool:
    """True in a job of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def tell_github(result: CiResult, say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> None:
    """Annotate what did not pass, where this is a job of GitHub Actions; append to the job's summary, if it has one."""
    if is_github(environment):
        for line in commands(result, environment.get("GITHUB_WORKSPACE", "")):
            say(line)
    summary = environment.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8") as stream:
                stream.write(ci_markdown(result) + "\n")
        except OSError as error:
            say(f"note: the job's summary cannot be written: {error.strerror}")


def commands(result: CiResult, workspace: str = "") -> Iterator[str]:
    """An annotation for each thing that did not pass: an error, or a warning where the result passes all the same.

    `workspace` is where the repository lies: GitHub finds files by their paths in there, wherever the job works.
    """
    for item in result.failures[:_SHOWN]:
        is_warning = result.passed or item.outcome is CiOutcome.UNTESTED
        yield f"::{'warning' if is_warning else 'error'} {_properties(item, workspace)}::{_data(_message(item))}"


def harmless(text: str) -> str:
    """A text of which no part is a command to whoever reads the log of a job."""
    return text.replace("##[", "# #[")


def _properties(item: CiItem, workspace: str) -> str:
    file = _in_repository(item.file, workspace)
    line = str(item.line or 1)
    if not item.file:
        line = ""
    properties = {"file": file, "line": line, "title": short(head_of(item), 120)}
    return ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)


def _in_repository(file: str, workspace: str) -> str:
    whole, root = Path(file).resolve(), Path(workspace).resolve()
    if file and workspace and whole.is_relative_to(root):
        return whole.relative_to(root).as_posix()
    return file


def _message(item: CiItem) -> str:
    lines = [f"{word}: {short(text, _TOLD_CHARS)}" for word, text in item_lines(item) if text and word != "where"]
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
