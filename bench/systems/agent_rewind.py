"""agent-rewind: one JSON line a call, flushed when the call returns."""

from __future__ import annotations

from pathlib import Path

import measurements
from measurements import CallRecorder, Numbers

NAME = "agent-rewind"
DISTRIBUTION = "agent-rewind"


def _recorder() -> CallRecorder:
    import rewind

    return CallRecorder(
        wrap=rewind.tool,
        record=lambda home: rewind.record(home / "run.rewind"),
        replay=lambda home: rewind.replay(home / "run.rewind"),
    )


def calls(work: Path, count: int) -> Numbers:
    return measurements.calls(_recorder(), work, count)


def growing_calls(work: Path, count: int) -> Numbers:
    return measurements.growing_calls(_recorder(), work, count)


def first_call(work: Path) -> Numbers:
    session = "rewind.record('first.rewind')"
    statement = measurements.first_call_statement("import rewind", session=session, wrap="rewind.tool")
    return measurements.start_up(statement, work)


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import rewind", work)


def help_time(work: Path) -> Numbers:
    return measurements.start_up(measurements.help_statement("rewind.cli:main", "rewind"), work)
