"""A Node agent, recorded and replayed with nothing changed in it.

Runs where REPLAYKIT_NODE_MODULES names a directory `node_modules` with `openai` and `@anthropic-ai/sdk`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.integrations.recorded_program import recorded_and_replayed

AGENT = Path(__file__).parent / "agents" / "agent.mjs"


@pytest.fixture
def agent(own_directory: Path) -> list[str]:
    shutil.copy(AGENT, "agent.mjs")
    Path("node_modules").symlink_to(os.environ["REPLAYKIT_NODE_MODULES"])
    return ["node", "agent.mjs"]


def test_a_node_agent_is_recorded_and_replayed_without_a_connection(agent: list[str]) -> None:
    told = recorded_and_replayed(agent)

    assert (
        told.replayed.splitlines()
        == told.recorded.splitlines()
        == [
            "models small",
            'tool get_weather {"city": "Paris é"}',
            'tool get_time {"zone": "CET"}',
            "openai It is sunny in Paris é and noon CET.",
            'tool get_weather {"city":"Paris é"}',
            'tool get_time {"zone":"CET"}',
            "anthropic It is sunny in Paris é and noon CET.",
        ]
    )
    assert [call.name for call in told.run.calls] == ["GET openai/models", "small", "small", "claude", "claude"]
    assert {call.path for call in told.run.calls} == {"/!proxy"}
    assert [call["name"] for call in told.run.llm_calls[0].result["tool_calls"]] == ["get_weather", "get_time"]
    assert told.connections == 0


def test_a_node_agent_that_asks_something_else_is_told_at_once(agent: list[str]) -> None:
    def change() -> None:
        text = Path("agent.mjs").read_text(encoding="utf-8")
        Path("agent.mjs").write_text(text.replace("weather in Paris", "weather in Rome"), encoding="utf-8")

    told = recorded_and_replayed(agent, before_replay=change)

    assert told.verdict == "diverged"
    assert told.connections == 0
    assert "left its recording" in told.stderr
    assert "409" in told.stderr
    assert told.seconds < 20, "the SDK did not try again and again"
