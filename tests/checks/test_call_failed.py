"""When a call counts as failed."""

from __future__ import annotations

import pytest

from replaykit.checks.failures import call_failed
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.values import raw


def call(result) -> ToolCall:
    return ToolCall(seq=0, name="t", result_json=raw(result))


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("Error: billing service timeout", "Error: billing service timeout"),
        ("error: no such file", "error: no such file"),
        ("  Exception in thread", "Exception in thread"),
        ("Traceback (most recent call last):\n  ...", "Traceback (most recent call last): ..."),
        ("TimeoutError: 30 s", "TimeoutError: 30 s"),
        ({"error": "not found"}, "not found"),
        ({"error": {"type": "x", "message": "card declined"}}, "card declined"),
        ({"errors": ["a", "b"]}, "['a', 'b']"),
        ({"is_error": True, "content": "no"}, "is_error: no"),
        ({"status": 504, "message": "upstream timed out"}, "status 504: upstream timed out"),
        ({"status_code": 400}, "status_code 400"),
        ({"code": 599}, "code 599"),
    ],
)
def test_a_result_that_looks_like_an_error_is_a_failure(result, reason):
    assert call_failed(call(result)) == reason


@pytest.mark.parametrize(
    "result",
    [
        None,
        "All good",
        "Errors were not found",
        "no error: fine",
        {},
        {"error": None, "errors": [], "is_error": False},
        {"status": 200},
        {"status": "shipped"},
        {"code": 90210},
        {"status": True},
        ["Error: in a list"],
        404,
    ],
)
def test_other_results_are_not(result):
    assert call_failed(call(result)) is None


def test_a_call_that_raised_failed():
    failed = ToolCall(seq=0, name="t", error=ErrorInfo(type="TimeoutError", message="30 s"))

    assert call_failed(failed) == "TimeoutError: 30 s"


def test_a_call_without_an_outcome_did_not_fail():
    assert call_failed(ToolCall(seq=0, name="t")) is None


def test_a_reason_is_one_line_of_bounded_length():
    reason = call_failed(call("Error: " + "x\n" * 5000))

    assert reason is not None
    assert len(reason) <= 200
    assert "\n" not in reason
