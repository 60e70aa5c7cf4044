"""A tool that keeps a memo, a count or a log does not keep a fix from being called `fixed`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.candidates.honest_fixes import AGENTS, CALLS, Refused, report
from tests.matrix import sampled

import replaykit as rk


@sampled("agent", AGENTS, count=5)
def test_a_fix_is_fixed_and_the_failure_is_reproduced(
    agent: Callable[[bool], str], store: rk.Store, tmp_path: Path
) -> None:
    with pytest.raises(Refused), rk.record("shop", input="desk", store=store) as run:
        run.output = agent(False)
    assert report()
    assert isinstance(CALLS, list)
    case = rk.scaffold(store.load(run.id), tmp_path / "case")

    assert rk.replay(case, lambda _: agent(False)).verdict.value == "reproduced"
    fixed = rk.replay(case, lambda _: agent(True))
    assert fixed.verdict.value == "fixed", fixed.reason
