"""README, docs, changelog, help and messages stay readable, as `tools/prose` measures it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.guide_pages import load_tool

MOST = {  # words in a sentence; sentences in 100 that are long, and that are passive; odd phrases in 1,000 words
    "README": (14, 11, 12, 0),
    "docs": (16, 10, 15, 0.5),
    "assertions": (16, 10, 16, 0.6),
    "changelog": (15, 6, 15, 0.6),
    "help": (12, 4, 16, 0.8),
    "messages": (10, 2, 16, 0.5),
}


prose = load_tool("prose")


@pytest.fixture(scope="module")
def measured() -> Any:
    return prose.measure(None)


@pytest.mark.parametrize("kind", MOST)
def test_prose_is_within_its_figures(measured: Any, kind: str) -> None:
    per_sentence, long_sentences, passive, odd, _you = measured[kind].figures()

    figures = (per_sentence, long_sentences, passive, odd)
    assert [figure <= most for figure, most in zip(figures, MOST[kind], strict=True)] == [True] * 4, figures


@pytest.mark.parametrize(
    "sentence",
    [
        "60,000 unless said.",
        "Nobody can tell.",
        "Whose a port is, is told by who listens on it.",
        "Take out recorded runs that are past their time.",
        "Correct the key, or take it away.",
    ],
)
def test_a_translated_phrase_counts(sentence: str) -> None:
    assert prose.Prose([sentence]).figures()[3] > 0
