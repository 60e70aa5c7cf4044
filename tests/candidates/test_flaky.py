"""Repetitions that do not agree are named."""

from __future__ import annotations

from click import unstyle

from replaykit.checks.verdict import settled
from replaykit.model.result import ReplayResult, Verdict
from replaykit.report.replays import results_text


def test_a_case_with_different_verdicts_is_called_flaky() -> None:
    results = [ReplayResult(case_id="a", verdict=verdict) for verdict in (Verdict.FIXED, Verdict.BROKEN)]
    results += [ReplayResult(case_id="b", verdict=Verdict.FIXED)] * 2

    judged = settled(results)
    text = unstyle(results_text(judged))

    assert [result.verdict.value for result in judged] == ["flaky", "flaky", "fixed", "fixed"]
    assert "repeated runs disagree: fixed, broken" in text
    assert "4 replays: 2 fixed, 2 flaky" in text
