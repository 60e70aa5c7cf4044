"""The result of `ci` for GitHub Actions: annotations at the lines, and the summary of the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from replaykit.report.ci import head_of, item_lines
from replaykit.report.ci_markdown import ci_markdown
from replaykit.report.layout import short
from replaykit.trials.ci_result import CiItem, CiOutcome, CiResult

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
    properties = {"file": file, "line": str(item.line or 1) if item.file else "", "title": short(head_of(item), 120)}
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
