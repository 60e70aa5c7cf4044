"""Where the matrix stands, and that an empty one is a test and not a hundred percent of nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

from replaykit.cli import run

CONFIG = """\
version: "2.0"
agent: {endpoint: "w20agent:answer", type: python}
golden_prompts: [hello]
contract:
  name: c
  invariants:
    - {id: greets, type: contains, value: hello}
"""
AGENT = "import replaykit as rk\n\n@rk.tool\ndef look():\n    return 'hello'\n\ndef answer(text):\n    return look()\n"


def checks(capsys: pytest.CaptureFixture[str], code: int) -> list[dict[str, Any]]:
    assert run(["contract", "run", "--json"]) == code
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["checks"]
    return found


@sampled("matrix", ["", "chaos_matrix: []\n", "chaos_matrix:\n"], count=1, start=2)
def test_without_a_scenario_the_agent_is_asked_in_one_world_without_chaos(
    matrix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("flakestorm.yaml").write_text(CONFIG + matrix)
    Path("w20agent.py").write_text(AGENT)

    (check,) = checks(capsys, 0)

    assert (check["scenario"], check["holds"]) == ("no chaos", True)


def test_an_agent_that_fails_there_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flakestorm.yaml").write_text(CONFIG + "chaos_matrix: []\n")
    Path("w20agent.py").write_text("def answer(text):\n    return 'goodbye'\n")

    (check,) = checks(capsys, 1)

    assert check["holds"] is False


def test_a_matrix_beside_the_contract_is_its_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    matrix = "chaos_matrix:\n  - name: calm\n  - name: broken\n    tool_faults: [{tool: look, mode: timeout}]\n"
    Path("flakestorm.yaml").write_text(CONFIG + matrix)
    Path("w20agent.py").write_text(AGENT)

    found = checks(capsys, 1)

    assert [(check["scenario"], check["holds"]) for check in found] == [("calm", True), ("broken", False)]
    assert found[1]["error"].startswith("TimeoutError")


def test_nothing_to_ask_is_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flakestorm.yaml").write_text(CONFIG.replace("golden_prompts: [hello]\n", ""))
    Path("w20agent.py").write_text(AGENT)

    assert run(["contract", "run"]) == 5
    captured = capsys.readouterr()
    assert "no probe, and no input was given" in captured.err
    assert captured.out == ""
