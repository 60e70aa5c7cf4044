"""Repetitions that do not agree are named."""

from __future__ import annotations

from click import unstyle

from replaykit.model.result import ReplayResult, Verdict
from replaykit.report.replays import results_text


def test_a_case_with_different_verdicts_is_called_flaky() -> None:
    results = [ReplayResult(case_id="a", verdict=verdict) for verdict in (Verdict.FIXED, Verdict.CHANGED)]
    results += [ReplayResult(case_id="b", verdict=Verdict.FIXED)] * 2

    text = unstyle(results_text(results))

    assert "flaky: a was fixed, changed" in text
    assert "b was" not in text
