"""agentcassette: one JSON document, kept in memory and written when the session ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import measurements
from measurements import CallRecorder, Numbers

NAME = "agentcassette"
DISTRIBUTION = "agentcassette"


def _recorder() -> CallRecorder:
    import agentcassette

    return CallRecorder(
        wrap=partial(agentcassette.intercept, kind="tool"),
        record=lambda home: agentcassette.record(home / "run.json"),
        replay=lambda home: agentcassette.replay(home / "run.json", strict=True),
    )


def calls(work: Path, count: int) -> Numbers:
    return measurements.calls(_recorder(), work, count)


def growing_calls(work: Path, count: int) -> Numbers:
    return measurements.growing_calls(_recorder(), work, count)


def first_call(work: Path) -> Numbers:
    session = "agentcassette.record('first.json')"
    statement = measurements.first_call_statement(
        "import agentcassette", session=session, wrap="agentcassette.intercept"
    )
    return measurements.start_up(statement, work)


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import agentcassette", work)
