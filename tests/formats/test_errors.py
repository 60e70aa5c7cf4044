"""Errors of tools, as traces tell of them."""

from __future__ import annotations

import pytest

from replaykit.formats.core.fields import tool_outcome
from replaykit.model.events import ErrorInfo


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("TimeoutError: billing timed out", "TimeoutError"),
        ("TimeoutError('billing timed out')", "TimeoutError"),
        ("TimeoutError: something else", "Error"),
        ("billing timed out", "Error"),
        ("", "Error"),
    ],
)
def test_the_type_that_a_trace_lost_is_the_one_that_the_model_was_told(told: str, expected: str) -> None:
    error, _ = tool_outcome(told, error=ErrorInfo(type="Error", message="billing timed out"))

    assert error is not None
    assert (error.type, error.message) == (expected, "billing timed out")
