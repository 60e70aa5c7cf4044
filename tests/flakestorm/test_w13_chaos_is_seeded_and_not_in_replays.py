"""Chaos is off in a replay, and with a seed it is the same every time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

CODE = """
    @rk.tool
    def quote(symbol):
        return {"price": 3}

    def trader(question):
        return f"unavailable at {quote('ACME').get('price')}"
"""
CHAOS = {"tool_faults": [{"tool": "quote", "mode": "empty", "probability": 0.5}]}


def test_a_session_is_replayed_without_the_configurations_chaos(files: Any, replaykit: Callable[..., Any]) -> None:
    files.agents(CODE)
    files.config("agents:trader", chaos={"tool_faults": [{"tool": "*", "mode": "timeout"}]})
    session = files.session(tool_responses=[{"tool": "quote", "response": {"price": 5}, "status": 200}])

    ran = replaykit("replay", session, "--json")

    assert (ran.code, ran.result["run"]["output"]) == (0, "unavailable at 5")
    assert "faults" not in ran.result["run"]["events"][0]


@pytest.mark.exhaustive
def test_the_same_seed_gives_the_same_faults_every_time(files: Any, replaykit: Callable[..., Any]) -> None:
    files.agents(CODE)
    files.config("agents:trader", chaos=CHAOS, advanced={"seed": 42})

    told = [
        json.loads(replaykit("chaos", "run", "--input", "x", "--repeat", 10, "-j", jobs, "--json").out)
        for jobs in (1, 4)
    ]

    struck = [[(run["seed"], run.get("faults", [])) for run in one["runs"]] for one in told]
    assert struck[0] == struck[1]
    assert [seed for seed, _ in struck[0]] == list(range(42, 52))
    assert 1 < sum(bool(faults) for _, faults in struck[0]) < 9
