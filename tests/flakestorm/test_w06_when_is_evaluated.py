"""An invariant is asked only under its conditions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaykit.cli import run

AGENT = """\
import replaykit as rk

@rk.tool
def market_data_api(symbol):
    return {"price": 190.5}

def answer(text):
    try:
        return f"AAPL is at {market_data_api('AAPL')['price']}"
    except Exception:
        return "The market data is unavailable."
"""
CONFIG = """\
version: "2.0"
agent: {endpoint: "w06agent:answer", type: python}
golden_prompts: ["What is AAPL worth?"]
contract:
  name: Finance Agent Contract
  invariants:
    - {id: admits-outage, type: contains, value: unavailable, when: tool_faults_active, severity: critical}
    - {id: no-price-made-up, type: regex, pattern: '\\d+\\.\\d', negate: true, when: any_chaos_active}
    - {id: gives-price, type: regex, pattern: '\\d+\\.\\d', when: no_chaos}
    - {id: model-faults, type: completes, when: llm_faults_active}
  chaos_matrix:
    - name: no-chaos
    - name: api-outage
      tool_faults: [{tool: market_data_api, mode: error, error_code: 503}]
"""


@pytest.fixture
def result(own_directory: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    Path("w06agent.py").write_text(AGENT)
    Path("flakestorm.yaml").write_text(CONFIG)
    assert run(["contract", "run", "-c", "flakestorm.yaml", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_invariant_for_tool_faults_is_not_asked_in_a_healthy_world(result: dict[str, Any]) -> None:
    asked = {(check["scenario"], check["invariant"]) for check in result["checks"] if "holds" in check}

    assert asked == {
        ("no-chaos", "gives-price"),
        ("api-outage", "admits-outage"),
        ("api-outage", "no-price-made-up"),
    }
    assert (result["score"], result["passed"]) == (100.0, True)


def test_what_was_not_asked_says_why(result: dict[str, Any]) -> None:
    skipped = [check for check in result["checks"] if check["invariant"] == "model-faults"]

    assert [check["skipped"] for check in skipped] == [
        "when: llm_faults_active, and no fault is active",
        "when: llm_faults_active, and active faults: tool",
    ]


def session(status: int) -> str:
    answer = {"tool": "market_data_api", "status": status, "response": {"price": 190.5}}
    return json.dumps({"id": "s", "input": "AAPL?", "contract": "Finance Agent Contract", "tool_responses": [answer]})


@pytest.mark.parametrize(("status", "asked"), [(504, ["admits-outage", "no-price-made-up"]), (200, ["gives-price"])])
def test_a_session_is_asked_what_its_answers_call_for(
    status: int, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("w06agent.py").write_text(AGENT)
    Path("flakestorm.yaml").write_text(CONFIG)
    Path("s.json").write_text(session(status))

    assert run(["replay", "s.json", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert [finding["id"] for finding in found["desired"]] == asked


def test_a_session_that_calls_for_nothing_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    Path("w06agent.py").write_text(AGENT)
    only_faults = CONFIG.replace("when: no_chaos", "when: tool_faults_active")
    Path("flakestorm.yaml").write_text(only_faults)
    Path("s.json").write_text(session(200))

    assert run(["replay", "s.json"]) == 2
    captured = capsys.readouterr()
    assert "no invariant of the contract 'Finance Agent Contract' applies" in captured.out + captured.err
