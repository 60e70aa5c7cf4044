"""What was wrong is the same to all who ask a contract: `chaos run`, `contract run`, `ci` and `replay --chaos`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.values import contract_of
from tests.matrix import matrix

import replaykit as rk
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.candidates.worlds import live_case
from replaykit.cases.case import load_case
from replaykit.cli import run
from replaykit.contracts.contract import ChaosScenario, Conditions, When, conditions_of
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.faults import ChaosPlan, ToolFault, ToolTrouble
from replaykit.trials.chaos import ChaosTrial, run_chaos, save_broken

AGENT = """
import os
import httpx
import replaykit as rk

@rk.tool
def look(question):
    return {"answer": question}

def model():
    try:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        httpx.post(os.environ["MODEL"] + "/v1/chat/completions", json=body)
    except Exception:
        pass

def answer(question):
    model()
    try:
        look(question="q")
    except Exception:
        pass
    return "well"
"""
FAULTS: dict[str, Any] = {
    "tool": {"tool_faults": [{"mode": "error", "tool": "look"}]},
    "model": {"llm_faults": [{"mode": "rate_limit"}]},
    "input": {"context_attacks": [{"type": "memory_poisoning", "payload": "EVIL"}]},
    "answer": {"context_attacks": [{"type": "indirect_injection", "payload": "EVIL"}]},
    "nothing": {"tool_faults": [{"mode": "error", "tool": "look", "probability": 0}]},
    "both": {"tool_faults": [{"mode": "slow", "tool": "look"}], "llm_faults": [{"mode": "timeout"}]},
}
ASKED = {
    "tool": {"always", "tool_faults_active", "any_chaos_active"},
    "model": {"always", "llm_faults_active", "any_chaos_active"},
    "input": {"always", "any_chaos_active"},
    "answer": {"always", "any_chaos_active"},
    "nothing": {"always", "no_chaos"},
    "both": {"always", "tool_faults_active", "llm_faults_active", "any_chaos_active"},
}
INVARIANTS = [{"id": when.value, "type": "contains", "value": "never said", "when": when.value} for when in When]
"""None of them holds, so each that was asked is named."""


class Project:
    """A project whose agent meets one sort of fault; each way to try it tells which invariants were asked."""

    def __init__(self, faults: Any, output: Callable[[], str]) -> None:
        Path("asked_agent.py").write_text(AGENT)
        self._output = output
        self._faults = faults
        Path("faults.json").write_text(json.dumps(faults))

    def _written(self, **parts: Any) -> None:
        agent = {"type": "python", "endpoint": "asked_agent:answer", "timeout": 20000}
        contract = {"name": "all", "invariants": INVARIANTS, **parts.pop("contract", {})}
        Path("replaykit.yaml").write_text(json.dumps({"replaykit": 1, "agent": agent, "contract": contract, **parts}))

    def _told(self, *arguments: str) -> Any:
        self._output()
        run([*arguments, "--json"])
        return json.loads(self._output())

    def chaos_run(self) -> set[str]:
        self._written(chaos=self._faults)
        (one,) = self._told("chaos", "run", "--contract", "all", "--input", "q")["runs"]
        return {finding["id"] for finding in one["failures"]}

    def contract_run(self) -> set[str]:
        self._written(contract={"chaos_matrix": [{"name": "world", **self._faults}]})
        checks = self._told("contract", "run", "all", "--input", "q")["checks"]
        return {check["invariant"] for check in checks if check.get("holds") is False}

    def ci_chaos(self) -> set[str]:
        self._written(chaos=self._faults, inputs=["q"])
        (item,) = self._told("ci", "--only", "chaos")["items"]
        return {finding["id"] for finding in item["failures"]}

    def ci_contract(self) -> set[str]:
        self._written(contract={"chaos_matrix": [{"name": "world", **self._faults}]}, inputs=["q"])
        (item,) = self._told("ci", "--only", "contract")["items"]
        return {finding["id"] for finding in item["failures"]}

    def replay(self) -> set[str]:
        self._written()
        answers = [{"tool": "look", "response": {"answer": "q"}}]
        session = {"id": "s", "input": "q", "contract": "all", "tool_responses": answers}
        Path("s.json").write_text(json.dumps(session))
        (result,) = self._told("replay", "s.json", "--chaos", "faults.json")["results"]
        return {finding["id"] for finding in result["desired"]}


WAYS = ("chaos_run", "contract_run", "ci_chaos", "ci_contract", "replay")


@matrix(way=WAYS, sort=FAULTS)
def test_the_same_is_asked_however_the_agent_is_tried(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sort: str, way: str
) -> None:
    monkeypatch.setenv("MODEL", model)
    project = Project(FAULTS[sort], lambda: capsys.readouterr().out)

    assert getattr(project, way)() == ASKED[sort]


def test_faults_that_struck_and_calls_that_had_failed_add_up() -> None:
    failed = ToolCall(seq=0, name="t", error=ErrorInfo(type="ToolError"))

    assert conditions_of() == Conditions()
    assert conditions_of(["model.timeout"], [failed]) == Conditions(tool_faults=True, llm_faults=True)
    assert conditions_of(["context.overflow"]) == Conditions(context_faults=True)


def test_what_is_saved_asks_what_the_trial_asked_though_only_the_tape_had_failed(tmp_path: Path) -> None:
    @rk.tool
    def look(question: str) -> str:
        raise ValueError("down")

    def agent(question: str) -> str:
        try:
            return look(question)
        except ValueError:
            return "well"

    contract = contract_of({"name": "all", "invariants": INVARIANTS})
    case = rk.scaffold(CallableCandidate(agent).run(live_case("q"), tmp_path, 5).run, tmp_path / "case")
    plan = ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble.TIMEOUT, probability=0.0),))
    trial = ChaosTrial(scenarios=(ChaosScenario(name="calm", plan=plan),), cases=(case,), contract=contract)

    result = run_chaos(trial, CallableCandidate(agent))
    (place,) = save_broken(result, tmp_path / "saved", contract)

    asked = {finding.id for finding in result.runs[0].failures}
    assert asked == {"always", "tool_faults_active", "any_chaos_active"}
    assert len(load_case(place).desired) == len(asked)


def test_a_session_of_whose_contract_nothing_is_asked_after_a_fault_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("asked_agent.py").write_text("def answer(question):\n    return question\n")
    calm = {"id": "calm", "type": "output_not_empty", "when": "no_chaos"}
    config = {"replaykit": 1, "agent": {"type": "python", "endpoint": "asked_agent:answer"}}
    Path("replaykit.yaml").write_text(json.dumps({**config, "contract": {"name": "all", "invariants": [calm]}}))
    Path("s.json").write_text(json.dumps({"id": "s", "input": "q", "contract": "all", "tool_responses": []}))
    Path("faults.json").write_text(json.dumps(FAULTS["input"]))

    assert run(["replay", "s.json"]) == 0
    assert run(["replay", "s.json", "--chaos", "faults.json"]) == 2

    assert "no invariant of the contract 'all' applies: active faults: context" in capsys.readouterr().err
