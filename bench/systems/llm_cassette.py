"""llm-cassette: JSON lines, kept in memory and written when the session ends."""

from __future__ import annotations

from pathlib import Path

import measurements
from measurements import CallRecorder, Numbers

NAME = "llm-cassette"
DISTRIBUTION = "llm-cassette"


def _recorder() -> CallRecorder:
    import llm_cassette

    return CallRecorder(
        wrap=llm_cassette.tool,
        record=lambda home: llm_cassette.cassette(home / "run.jsonl", mode="record"),
        replay=lambda home: llm_cassette.cassette(home / "run.jsonl", mode="replay"),
    )


def calls(work: Path, count: int) -> Numbers:
    return measurements.calls(_recorder(), work, count)


def growing_calls(work: Path, count: int) -> Numbers:
    return measurements.growing_calls(_recorder(), work, count)


def first_call(work: Path) -> Numbers:
    session = "llm_cassette.cassette('first.jsonl', mode='record')"
    statement = measurements.first_call_statement("import llm_cassette", session=session, wrap="llm_cassette.tool")
    return measurements.start_up(statement, work)


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import llm_cassette", work)


def help_time(work: Path) -> Numbers:
    return measurements.start_up(measurements.help_statement("llm_cassette.cli:main", "llm-cassette"), work)
