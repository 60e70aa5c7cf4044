"""An unmodified Python agent with the real SDKs, recorded and replayed from outside."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.integrations.recorded_program import recorded_and_replayed

AGENTS = Path(__file__).parent / "agents"
SAID = [
    "models ['small', 'small', 'small']",
    'tool get_weather {"city": "Paris \\u00e9"}',
    'tool get_time {"zone": "CET"}',
    "openai It is sunny in Paris é and noon CET.",
    'tool get_weather {"city": "Paris \\u00e9"}',
    'tool get_time {"zone": "CET"}',
    "anthropic It is sunny in Paris é and noon CET.",
]


@pytest.fixture
def agent(own_directory: Path) -> list[str]:
    shutil.copy(AGENTS / "agent.py", "agent.py")
    return [sys.executable, "agent.py"]


@pytest.mark.parametrize("how", [(), ("--no-inject",), ("--no-proxy",)])
def test_an_agent_is_recorded_and_replayed_without_a_connection(agent: list[str], how: tuple[str, ...]) -> None:
    told = recorded_and_replayed(agent, record=how, same_addresses="--no-proxy" in how)

    assert told.replayed.splitlines() == told.recorded.splitlines() == SAID
    assert told.verdict == "inconclusive", "nothing failed in the recording"
    assert told.connections == 0
    assert len(told.run.llm_calls) == 4
    assert [call["arguments"] for call in told.run.llm_calls[0].result["tool_calls"]] == [
        {"city": "Paris é"},
        {"zone": "CET"},
    ]
    names = [call.name.partition("/")[2] for call in told.run.calls if call.kind == "exchange"]
    assert len(names) == 3
    assert set(names) <= {"models", "v1/models"}


def test_calls_are_written_down_once_though_they_pass_two_places(agent: list[str]) -> None:
    told = recorded_and_replayed(agent)

    assert len(list(told.run.calls)) == 7


def test_a_child_that_cannot_record_itself_is_recorded_at_the_proxy(agent: list[str]) -> None:
    told = recorded_and_replayed([*agent, "--with-child"])

    assert told.replayed.splitlines() == told.recorded.splitlines() == SAID + SAID
    assert told.verdict == "inconclusive", "nothing failed in the recording"
    assert told.connections == 0
    assert len(told.run.llm_calls) == 8
    assert sum(call.path.startswith("/!proxy") for call in told.run.llm_calls) == 4
