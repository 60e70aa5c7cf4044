"""A clock that is set back while a run is recorded."""

from __future__ import annotations

import time

import pytest

import replaykit as rk
from replaykit.model.events import Note
from replaykit.model.run import RunHeader
from replaykit.report.runs import event_line


@rk.tool
def look() -> str:
    return "here"


def test_a_run_takes_no_less_than_no_time_when_the_clock_goes_back(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rk.record("billing", input="why?", store=store) as run:
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now - 3600)
        look()

    recorded = store.load(run.id)
    assert recorded.duration_s is not None
    assert 0 <= recorded.duration_s < 60
    assert recorded.ended_at is not None
    assert recorded.ended_at >= recorded.started_at
    assert "-" not in event_line(recorded.events[0], recorded.started_at)


def test_an_older_recording_that_ended_before_it_began_took_no_time() -> None:
    assert RunHeader(id="r1", started_at=100.0, ended_at=40.0).duration_s == 0.0
    assert "+0.000s" in event_line(Note(seq=0, at=40.0, name="x"), 100.0).replace(" ", "")
