"""Exported runs and failures as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.report.layout import JsonResult, indented, to_json
from replaykit.trials.failure_sessions import Exported


class ExportedRun(JsonResult, frozen=True, kw_only=True):
    """A run that was written to a file."""

    run: str
    """The id of the run."""
    format: str
    """The form of the file: `run_log`, `replaykit`, `otlp`, or an installed one."""
    file: str
    """The file that was written."""


class ExportedFailures(JsonResult, frozen=True, kw_only=True):
    """The failures of a report that were written as sessions."""

    written: Sequence[str]
    """The session files that were written."""
    unchanged: Sequence[str]
    """Session files that said the same already."""
    notices: Sequence[str]
    """Failures that could not be written as sessions, and other notices."""


def failures_text(exported: Exported) -> str:
    """The session files, a line each."""
    written = indented(map(str, exported.written), "wrote ")
    return "\n".join([*written, *indented(map(str, exported.unchanged), "unchanged ")])


def written_files(exported: Exported) -> str:
    """The session files that were written, a line each."""
    return "\n".join(map(str, exported.written))


def failures_json(exported: Exported) -> str:
    """The session files for programs."""
    return to_json(
        ExportedFailures(
            written=list(map(str, exported.written)),
            unchanged=list(map(str, exported.unchanged)),
            notices=exported.notices,
        )
    )
