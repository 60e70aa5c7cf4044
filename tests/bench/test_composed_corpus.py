"""Composed values and hard negatives: the same everywhere, and what redaction makes of them."""

from __future__ import annotations

import pytest
from bench.redaction import figures
from bench.redaction.composed import CARRIERS, ENCODINGS, composed
from bench.redaction.corpus import HALVES, HELD_OUT, TUNING
from bench.redaction.hard_negatives import COUNT, MAKERS, hard_negatives

from replaykit.redaction import Redactor

REDACTOR = Redactor(b"a key for tests, thirty-two long")


def test_samples_are_many_and_in_one_half_each() -> None:
    tuning, held_out = ({sample.template for sample in composed(half)} for half in HALVES)

    assert min(len(tuning), len(held_out)) > 700
    assert not tuning & held_out
    assert len(CARRIERS) >= 12
    assert len(ENCODINGS) >= 8
    assert len({text for _, text in hard_negatives()}) == COUNT
    assert len(MAKERS) > 30


@pytest.mark.parametrize("half", HALVES)
def test_a_redactor_that_does_nothing_leaves_everything(half: str) -> None:
    assert all(sample.left_by(lambda raw: raw) for sample in composed(half))


def test_nothing_of_a_composed_value_can_be_read() -> None:
    samples = composed(HELD_OUT)

    gone = sum(not sample.left_by(REDACTOR.raw) for sample in samples)

    assert gone / len(samples) >= 0.97


def test_hard_negatives_are_left_alone() -> None:
    texts = hard_negatives()

    quiet = sum(REDACTOR.is_clean(text) for _, text in texts)

    assert quiet / len(texts) >= 0.97


def test_the_command_prints_both_figures() -> None:
    options = figures.parse_arguments(["--half", TUNING, "--composed"])

    report = figures.report(lambda text: [], options)

    assert "= all" in report
    assert report.endswith("left alone")
