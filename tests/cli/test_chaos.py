"""`replaykit chaos` and `replay --chaos`: what they print, what they leave, how they end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

from replaykit.handlers.chaos.mutations import KINDS
from replaykit.handlers.chaos.profiles import PROFILES

Command = Callable[..., Any]
AGENT = """
import replaykit as rk

@rk.tool
def look(question):
    return {"answer": question}

def naive(question):
    return look(question)["answer"]

def careful(question):
    try:
        return naive(question)
    except Exception:
        return "I cannot tell."
"""
PROJECT = {
    "replaykit": 1,
    "agent": {"type": "python", "endpoint": "chaos_agents:careful"},
    "chaos": {"seed": 3, "tool_faults": [{"tool": "look", "mode": "timeout"}]},
    "contracts": {
        "honest": {"invariants": [{"id": "tells", "type": "contains", "value": "42", "severity": "critical"}]}
    },
}


@pytest.fixture
def agents(own_directory: Path) -> Path:
    file = own_directory / "chaos_agents.py"
    file.write_text(AGENT)
    return file


@pytest.fixture
def project(agents: Path, own_directory: Path) -> Path:
    file = own_directory / "replaykit.yaml"
    file.write_text(json.dumps(PROJECT))
    return file


def test_the_profiles_are_listed(replaykit: Command) -> None:
    assert all(name in replaykit("chaos", "profiles").out for name in PROFILES)
    assert list(replaykit("chaos", "profiles", "--json").json) == list(PROFILES)


def test_an_agent_that_breaks_is_told_with_its_seed_and_saved(agents: Path, replaykit: Command) -> None:
    options = ("--agent", "chaos_agents:naive", "--input", "why?")

    ran = replaykit("chaos", "run", "--profile", "api_outage", *options, "--scaffold", "cases")

    assert ran.code == 1
    assert "✗ api_outage: 0 of 1 run held" in ran.out
    assert "injected: tool.error × 1" in ran.out
    assert "broke api_outage, seed 0: ended with error: ToolError: Service Unavailable" in ran.out
    assert "after tool.error in `look` (event 0)" in ran.out
    assert "saved cases/api_outage-0" in ran.out
    again = replaykit("replay", "cases/api_outage-0", "--agent", "chaos_agents:naive", "--expect", "reproduced")
    assert again.code == 0
    assert replaykit("replay", "cases/api_outage-0", "--agent", "chaos_agents:careful").code == 0


def test_the_projects_agent_and_faults_are_used(project: Path, replaykit: Command) -> None:
    ran = replaykit("chaos", "run", "--input", "42?", "--repeat", 2, "--json", "--contract", kind(project))

    assert ran.code == 0
    told = ran.json
    assert (told["passed"], told["score"], told["agent"]) == (True, 100.0, "chaos_agents:careful")
    assert [run["seed"] for run in told["runs"]] == [3, 4]
    assert told["runs"][0]["faults"] == [{"fault": "tool.timeout", "call": "look", "seq": 0}]


def test_a_profile_is_added_to_the_projects_faults_and_a_seed_goes_first(project: Path, replaykit: Command) -> None:
    ran = replaykit("chaos", "run", "--input", "why?", "--profile", "high_latency", "--seed", 7, "--json")

    (run,) = ran.json["runs"]
    assert (run["scenario"], run["seed"], run["faults"][0]["fault"]) == ("high_latency", 7, "tool.timeout")


def kind(project: Path) -> Path:
    """A contract that asks little."""
    file = project.with_name("kind.yaml")
    file.write_text(json.dumps({"name": "kind", "invariants": [{"id": "answers", "type": "output_not_empty"}]}))
    return file


def test_the_contracts_of_the_project_are_asked_where_none_is_named(project: Path, replaykit: Command) -> None:
    ran = replaykit("chaos", "run", "--input", "why?", "--json")

    assert (ran.code, ran.json["contract"]) == (1, "honest")
    assert "invariant 'tells'" in ran.json["runs"][0]["reason"]


@sampled(("asked", "code"), [("why?", 1), ("42?", 0)], count=1)
def test_ci_and_chaos_run_agree(project: Path, replaykit: Command, asked: str, code: int) -> None:
    faults = [{"tool": "look", "mode": "slow", "delay_ms": 1}]
    project.write_text(json.dumps({**PROJECT, "inputs": [asked], "chaos": {"tool_faults": faults}}))

    chaos = replaykit("chaos", "run")
    ci = replaykit("ci", "--only", "chaos")

    assert (chaos.code, ci.code) == (code, code), (chaos.out, ci.out)


def test_a_run_that_broke_a_contract_is_saved_with_that_as_its_signature(project: Path, replaykit: Command) -> None:
    assert replaykit("chaos", "run", "--input", "why?", "--scaffold", "cases").code == 1

    (case,) = Path("cases").iterdir()
    assert (case / "proof.json").is_file()
    again = replaykit("replay", case, "--agent", "chaos_agents:careful", "--expect", "reproduced")
    assert again.code == 0, again.out


def test_a_contract_decides_where_one_is_named(project: Path, replaykit: Command) -> None:
    ran = replaykit("chaos", "run", "--input", "why?", "--contract", "honest")

    assert ran.code == 1
    assert "invariant 'tells'" in ran.out


def test_faults_that_strike_nothing_are_no_pass(agents: Path, replaykit: Command) -> None:
    ran = replaykit("chaos", "run", "--profile", "degraded_llm", "--agent", "chaos_agents:careful", "--input", "why?")

    assert ran.code == 5
    assert "untested degraded_llm" in ran.out


def test_an_agent_behind_a_url_is_refused_as_faults_would_not_reach_it(replaykit: Command) -> None:
    ran = replaykit("chaos", "run", "--profile", "api_outage", "--endpoint", "http://127.0.0.1:9/agent", "--input", "x")

    assert ran.code == 2
    assert "do not reach an agent behind a URL" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--profile", "api_outag", "--input", "x"], 2, "did you mean 'api_outage'"),
        (["--input", "x"], 5, "no fault is planned"),
        (["--profile", "api_outage"], 5, "no input for the agent"),
        (["--profile", "api_outage", "--input", "x", "--contract", "nope"], 2, "no contract 'nope'"),
        (["--profile", "api_outage", "--case", "nowhere"], 2, "nowhere"),
    ],
)
def test_a_mistake_is_named(agents: Path, replaykit: Command, arguments: list[str], code: int, said: str) -> None:
    ran = replaykit("chaos", "run", "--agent", "chaos_agents:careful", *arguments)

    assert (ran.code, said in ran.err) == (code, True), ran


def test_a_program_is_run_after_two_dashes(agents: Path, replaykit: Command) -> None:
    code = "import chaos_agents; print(chaos_agents.careful('why?'))"

    ran = replaykit(
        "chaos", "run", "--profile", "api_outage", "--input", "x", "--json", "--", sys.executable, "-c", code
    )

    assert ran.code == 0
    assert ran.json["runs"][0]["faults"][0]["fault"] == "tool.error"


def test_a_replay_has_no_chaos_unless_it_is_asked_for(project: Path, replaykit: Command) -> None:
    replaykit("chaos", "run", "--agent", "chaos_agents:naive", "--input", "why?", "--scaffold", "cases")
    case = "cases/chaos-3"
    fixture = json.loads(Path(case, "fixtures", "look.json").read_text())
    answer = {"call": 0, "arguments": {"question": "why?"}, "result": {"answer": "42"}}
    Path(case, "fixtures", "look.json").write_text(json.dumps({**fixture, "calls": [answer]}))
    options = ("replay", case, "--agent", "chaos_agents:naive", "--json")

    assert replaykit(*options).json["results"][0]["run"]["output"] == "42"
    ran = replaykit(*options, "--chaos", "api_outage", "--seed", 1)

    (result,) = ran.json["results"]
    assert result["run"]["events"][0]["faults"] == ["tool.error"]
    assert "Injected: tool.error × 1" in ran.err
    assert replaykit(*options, "--seed", 1).code == 2


def test_a_replay_takes_its_faults_from_a_file(case: Path, agents: Path, replaykit: Command) -> None:
    Path("storm.yaml").write_text("tool_faults:\n  - {mode: timeout}\n")

    ran = replaykit("replay", case, "--agent", "chaos_agents:careful", "--chaos", "storm.yaml", "--json")

    (result,) = ran.json["results"]
    assert [event["faults"] for event in result["run"]["events"]] == [["tool.timeout"]]


def test_mutations_are_printed(replaykit: Command) -> None:
    shown = replaykit("chaos", "mutate", "Where is my order?")
    told = replaykit("chaos", "mutate", "--input", '{"q": "Where?"}', "--kind", "casing", "--count", 2, "--json")

    assert shown.code == told.code == 0
    assert all(kind in shown.out for kind in KINDS)
    assert [one["kind"] for one in told.json["mutations"]] == ["casing"] * 2
    assert all(one["input"]["q"].lower() == "where?" for one in told.json["mutations"])


def test_mutations_are_asked_and_scored(project: Path, replaykit: Command) -> None:
    passed = replaykit("chaos", "mutate", "Is it 42?", "--run", "--kind", "paraphrase", "--count", 3)
    failed = replaykit("chaos", "mutate", "Is it 4?", "--run", "--count", 3, "--json", "--min-score", 50)

    assert (passed.code, "3 mutations: 3 passed; score 100" in passed.out) == (0, True)
    assert (failed.code, failed.json["score"], failed.json["passed"]) == (1, 0.0, False)


def test_nothing_to_say_otherwise_is_a_mistake(replaykit: Command) -> None:
    ran = replaykit("chaos", "mutate")

    assert (ran.code, "no input to vary" in ran.err) == (2, True)
