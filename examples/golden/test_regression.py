"""The same check written by hand, where more is to be said about a run than that it comes out again."""

from __future__ import annotations

from pathlib import Path

import pytest
import refunds

import replaykit as rk

TRACES = sorted(Path(__file__).parent.glob("golden_traces/*.golden.json"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_the_agent_does_what_it_did(path: Path) -> None:
    result = rk.check_golden(path, refunds.agent)

    assert result.passed, result.text
    assert [call.name for call in result.run.tool_calls].count("refund") <= 1
