"""Verdicts: which scores say that a run failed."""

from __future__ import annotations

from typing import Any

import pytest

from replaykit.formats.core.labels import says_failure


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("correctness", 0),
        ("correctness", False),
        ("user_feedback", -1),
        ("Correctness", "Incorrect"),
        ("rating", "thumbs down"),
        ("hallucination", 1),
        ("hallucination", 0.5),
        ("hallucinationDetected", True),
        ("toxicity", "high"),
        ("has_errors", True),
        ("pii", "yes"),
        ("sentiment", "negative"),
    ],
)
def test_a_failure(name: str, value: Any) -> None:
    assert says_failure(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("correctness", 0.1),
        ("correctness", True),
        ("correctness", "partly"),
        ("correctness", None),
        ("correctness", ["wrong"]),
        ("hallucination", 0),
        ("hallucination", False),
        ("hallucination", "no"),
        ("no_hallucination", 1),
        ("hallucination_free", True),
        ("latency_ms", 0),
        ("tokenCount", 0),
        ("harmlessness", 1),
        ("sentiment", 0.2),
    ],
)
def test_no_failure(name: str, value: Any) -> None:
    assert not says_failure(name, value)
