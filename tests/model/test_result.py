"""Results: the words of older versions are still read, and every kind of deviation has one effect."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from replaykit.checks.replays import Kind
from replaykit.errors import FormatTooNew
from replaykit.model.result import (
    EFFECTS,
    Effect,
    Evidence,
    EvidenceSource,
    Finding,
    ReplayResult,
    Verdict,
    effect_of,
    read_result,
)

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"


def first_version(verdict: str, *kinds: str) -> bytes:
    """A `result.json` as the first version of the form wrote it."""
    value: dict[str, Any] = {
        "replaykit": 1,
        "case_id": "billing",
        "verdict": verdict,
        "reproduced": False,
        "deviations": [{"kind": kind, "text": "x"} for kind in kinds],
        "evidence": ".replaykit/runs/20240312-143200-billing",
    }
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("word", "kinds", "verdict"),
    [
        ("reproduced", (), Verdict.REPRODUCED),
        ("fixed", ("moved",), Verdict.FIXED),
        ("changed", (), Verdict.BROKEN),
        ("changed", ("unused", "moved"), Verdict.BROKEN),
        ("changed", ("moved", "missing"), Verdict.DIVERGED),
        ("error", ("missing",), Verdict.INCONCLUSIVE),
    ],
)
def test_a_result_of_the_first_version_is_read_in_the_words_of_today(
    word: str, kinds: tuple[str, ...], verdict: Verdict
) -> None:
    result = read_result(first_version(word, *kinds))

    assert result.verdict is verdict
    assert result.directory == ".replaykit/runs/20240312-143200-billing"
    assert result.evidence == Evidence()
    assert [deviation.kind for deviation in result.deviations] == list(kinds)


def test_a_result_is_read_as_it_was_written() -> None:
    used = Evidence(used=1, recorded=2, how=EvidenceSource.REPORTED)
    result = ReplayResult(case_id="c", verdict=Verdict.FLAKY, evidence=used, reason="they disagree", offline=False)

    assert read_result(msgspec.json.encode(result)) == result


def test_a_result_of_a_newer_version_is_refused() -> None:
    with pytest.raises(FormatTooNew, match="version 99"):
        read_result(b'{"replaykit": 99, "case_id": "c", "verdict": "sparkling"}')


def test_a_deviation_that_nobody_here_knows_decides_nothing_in_favour_of_the_candidate() -> None:
    assert effect_of("of the future") is Effect.INCONCLUSIVE


def test_assertions_can_name_every_kind_of_deviation() -> None:
    assert set(get_args(Kind)) == set(EFFECTS)


def test_the_page_has_every_kind_of_deviation_with_its_effect() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| ([^|]*) \|$", FORMATS.read_text(encoding="utf-8"), re.MULTILINE))
    words = {Effect.STANDS: "stands", Effect.LIVE: "stands", Effect.DIVERGED: "`diverged`"}

    for kind, effect in EFFECTS.items():
        assert rows[kind].startswith(words.get(effect, "`inconclusive`")), kind


def test_the_text_of_a_result_says_why_it_does_not_pass() -> None:
    failed = Finding(
        kind="max_tool_calls", holds=False, text="5 calls", expected="at most 3 tool calls", actual="5 calls"
    )
    result = ReplayResult(
        case_id="billing", verdict=Verdict.BROKEN, desired=(failed,), reason="the run ended \x1b[31mbadly"
    )

    assert result.text.splitlines() == [
        "case billing: broken, expected fixed",
        "  the run ended \\x1b[31mbadly",
        "  ✗ max_tool_calls: expected at most 3 tool calls, got 5 calls",
    ]


def test_the_text_of_a_result_that_passes_is_its_verdict() -> None:
    assert ReplayResult(case_id="billing", verdict=Verdict.FIXED).text == "case billing: fixed"
