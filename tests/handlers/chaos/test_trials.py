"""Trials under chaos: what counts as held, what nothing says, and failures as cases that need no chaos."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.values import contract_of

import replaykit as rk
from replaykit.candidates.attempt import Attempt
from replaykit.candidates.command import CommandCandidate
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.worlds import live_case, with_chaos
from replaykit.cases.case import ReplayCase, load_case
from replaykit.contracts.contract import CALM, ChaosScenario
from replaykit.errors import ExitCode, NothingSelected, UsageError
from replaykit.handlers.chaos.profiles import profile
from replaykit.model.faults import Attack, ChaosPlan, ContextAttack, ToolFault, ToolTrouble
from replaykit.model.result import Verdict
from replaykit.model.run import TraceRun
from replaykit.trials.chaos import ChaosResult, ChaosTrial, ChaosVerdict, count_of, run_chaos, save_broken


@rk.tool
def look(question: str) -> dict[str, Any]:
    return {"answer": f"what you ask: {question}"}


def naive(question: str) -> str:
    return str(look(question)["answer"])


def careful(question: str) -> str:
    try:
        return naive(question)
    except (TimeoutError, rk.ToolError, KeyError, TypeError):
        return "I cannot tell."


def scenario(mode: str, name: str = "storm", **options: Any) -> ChaosScenario:
    return ChaosScenario(name=name, plan=ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble(mode), **options),)))


def tried(agent: Any, *scenarios: ChaosScenario, **options: Any) -> ChaosResult:
    trial = ChaosTrial(scenarios=scenarios, inputs=options.pop("inputs", ("why?",)), **options)
    return run_chaos(trial, agent if hasattr(agent, "run") else CallableCandidate(agent))


def test_an_agent_that_completes_has_held_and_one_that_fails_has_not() -> None:
    held, broke = tried(careful, scenario("error")), tried(naive, scenario("error"))

    assert (held.exit_code, held.score) == (ExitCode.PASSED, 100.0)
    assert (broke.exit_code, broke.score) == (ExitCode.FAILED, 0.0)
    (run,) = broke.runs
    assert run.reason == "ended with error: ToolError: `look` failed with 503 (injected)"
    assert run.after is not None
    assert (run.after.fault, run.after.call) == ("tool.error", "look")


class Gone:
    """An agent that gives no run where it is asked for none."""

    label = "gone"

    def __init__(self, agent: Any) -> None:
        self._agent = CallableCandidate(agent)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        if case.scenario.input == "gone?":
            return Attempt(reason="gone")
        return self._agent.run(case, workspace, timeout_s)


def test_a_run_that_broke_goes_before_one_that_could_not_be_had() -> None:
    asked = ("why?", "gone?")

    broke = tried(Gone(naive), scenario("error"), inputs=asked)
    held = tried(Gone(careful), scenario("error"), inputs=asked)

    assert (broke.exit_code, broke.best_score) == (ExitCode.FAILED, 50.0)
    assert (held.exit_code, held.score, held.best_score) == (ExitCode.CANNOT, 50.0, 100.0)


def test_a_scenario_that_strikes_nothing_is_untested_and_no_pass() -> None:
    result = tried(careful, scenario("error", tool="lok"), scenario("error", name="real"))

    assert (result.untested, result.exit_code) == (("storm",), ExitCode.NOTHING)
    assert result.score == 100.0  # of the one that could be told


def test_chance_may_spare_single_runs() -> None:
    result = tried(naive, scenario("error", probability=0.5), runs=12)

    verdicts = {bool(run.faults): run.verdict for run in result.runs}
    assert verdicts == {True: ChaosVerdict.BROKE, False: ChaosVerdict.HELD}
    assert result.untested == ()
    assert [run.seed for run in result.runs] == list(range(12))


def test_a_run_can_be_had_again_by_its_seed_alone() -> None:
    plan = scenario("error", probability=0.5)
    broken = next(run for run in tried(naive, plan, runs=12).runs if run.faults)

    again = ChaosScenario(name="storm", plan=ChaosPlan(seed=broken.seed, tool_faults=plan.plan.tool_faults))

    assert tried(naive, again).runs[0].faults == broken.faults


def test_nothing_planned_and_nothing_asked_are_errors() -> None:
    with pytest.raises(NothingSelected, match="no fault is planned"):
        tried(careful, CALM)
    with pytest.raises(NothingSelected, match="no input for the agent"):
        tried(careful, scenario("error"), inputs=())


def test_every_input_meets_every_scenario() -> None:
    trial = ChaosTrial(scenarios=(scenario("error", "one"), scenario("timeout", "two")), inputs=("a", {"b": 1}), runs=3)

    runs = run_chaos(trial, CallableCandidate(careful)).runs

    assert len(runs) == count_of(trial) == 12
    assert {(run.scenario, run.input) for run in runs} == {
        (name, text) for name in ("one", "two") for text in ("a", '{"b":1}')
    }


CONTRACT = contract_of(
    {
        "name": "honest",
        "invariants": [
            {"id": "no-guess", "type": "contains", "value": "cannot", "when": "tool_faults_active"},
            {"id": "says-something", "type": "output_not_empty"},
        ],
    }
)


def test_a_contract_is_asked_what_fits_the_faults_that_struck() -> None:
    def guessing(question: str) -> str:
        return naive(question) if "look" in question else careful(question).replace("cannot", "can")

    result = tried(guessing, scenario("error", probability=0.5), runs=8, contract=CONTRACT)

    for run in result.runs:
        assert run.invariant_count == (2 if run.faults else 1)
        assert [finding.id for finding in run.failures] == (["no-guess"] if run.faults else [])
    assert tried(careful, scenario("error"), contract=CONTRACT).exit_code is ExitCode.PASSED


def test_a_contract_that_asks_nothing_is_an_error() -> None:
    calm_only = contract_of(
        {"name": "calm", "invariants": [{"id": "x", "type": "output_not_empty", "when": "no_chaos"}]}
    )

    with pytest.raises(NothingSelected, match="no invariant of the contract 'calm' was checked"):
        tried(careful, scenario("error"), contract=calm_only)


def test_an_attack_on_the_input_has_struck_though_no_call_was() -> None:
    plan = ChaosPlan(context_attacks=(ContextAttack(type=Attack.MEMORY_POISONING, payload="EVIL"),))

    result = tried(lambda question: question, ChaosScenario(name="poison", plan=plan))

    (run,) = result.runs
    assert ([struck.fault for struck in run.faults], run.input) == (["context.memory_poisoning"], "why?")
    assert run.run is not None
    assert run.run.output == "EVIL\n\nwhy?"
    assert result.exit_code is ExitCode.PASSED


def test_a_recorded_world_under_chaos_calls_nothing(tmp_path: Path) -> None:
    recorded = CallableCandidate(naive).run(live_case("why?"), tmp_path, 5).run
    assert isinstance(recorded, TraceRun)
    rk.scaffold(recorded, tmp_path / "case")
    case = load_case(tmp_path / "case")

    result = tried(careful, scenario("partial"), inputs=(), cases=(case,))

    (run,) = result.runs
    assert (run.verdict, [one.fault for one in run.faults]) == (ChaosVerdict.HELD, ["tool.partial"])
    assert run.run is not None
    assert run.run.output == "I cannot tell."


def test_an_agent_that_leaves_the_tape_after_a_fault_has_not_held(tmp_path: Path) -> None:
    @rk.tool
    def ask_somebody_else(question: str) -> str:
        raise AssertionError("this is a replay")

    def other_way(question: str) -> str:
        try:
            return naive(question)
        except rk.ToolError:
            return ask_somebody_else(question)

    recorded = CallableCandidate(naive).run(live_case("why?"), tmp_path, 5).run
    assert isinstance(recorded, TraceRun)
    case = rk.scaffold(recorded, tmp_path / "case")

    (run,) = tried(other_way, scenario("error", tool="look"), inputs=(), cases=(case,)).runs

    assert run.verdict is ChaosVerdict.BROKE
    assert run.reason.startswith("left the tape: ")
    assert "ask_somebody_else" in run.reason


def test_what_broke_is_saved_as_a_case_that_reproduces_without_chaos(tmp_path: Path) -> None:
    result = tried(naive, scenario("error"), scenario("partial", "half"), scenario("malformed", "bad"), runs=2)

    saved = save_broken(result, tmp_path / "cases")

    assert len(saved) == 6
    for place in saved:
        assert rk.replay(place, naive).verdict is Verdict.REPRODUCED
        assert rk.replay(place, careful).verdict is Verdict.FIXED
    assert "seed 1" in (saved[1] / "notes.md").read_text()


def test_a_case_of_a_broken_promise_desires_what_the_contract_asks(tmp_path: Path) -> None:
    def guessing(question: str) -> str:
        return careful(question).replace("I cannot tell", "It is 42")

    (place,) = save_broken(tried(guessing, scenario("error"), contract=CONTRACT), tmp_path, CONTRACT)

    assert rk.replay(place, guessing).verdict is not Verdict.FIXED
    assert not rk.replay(place, guessing).desired[0].holds
    assert all(finding.holds for finding in rk.replay(place, careful).desired)


def test_a_case_that_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    result = tried(naive, scenario("error"))
    save_broken(result, tmp_path)

    with pytest.raises(UsageError, match="exists and is not empty"):
        save_broken(result, tmp_path)


AGENT = """
import replaykit as rk

@rk.tool
def look(question):
    return {"answer": question}

def answer(question):
    try:
        return look(question)["answer"]
    except rk.ToolError as error:
        return f"status {error.status}"

if __name__ == "__main__":
    print(answer("why?"))
"""


@pytest.mark.parametrize("kind", ["python", "program"])
def test_faults_reach_agents_in_processes_of_their_own(tmp_path: Path, kind: str) -> None:
    Path("chaotic_agent.py").write_text(AGENT)
    candidate: Any = (
        PythonCandidate("chaotic_agent:answer")
        if kind == "python"
        else CommandCandidate([sys.executable, "chaotic_agent.py"])
    )
    plan = ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble.ERROR, error_code=418),))

    attempt = candidate.run(with_chaos(live_case("why?"), plan), tmp_path, 30)

    assert attempt.run is not None
    assert "status 418" in str(attempt.run.output)
    assert [call.faults for call in attempt.run.calls] == [("tool.error",)]


def test_two_runs_of_a_program_meet_the_same_faults(tmp_path: Path) -> None:
    Path("chaotic_agent.py").write_text(AGENT)
    candidate = CommandCandidate([sys.executable, "chaotic_agent.py"])
    trial = ChaosTrial(scenarios=(scenario("error", probability=0.5),), inputs=("why?",), runs=4)

    first, second = (run_chaos(trial, candidate, jobs=jobs) for jobs in (1, 4))

    assert [run.faults for run in first.runs] == [run.faults for run in second.runs]


def test_no_profile_brings_down_an_agent_that_expects_the_worst() -> None:
    def fearless(question: str) -> str:
        try:
            return naive(question)
        except Exception:
            return "I cannot tell."

    for name in ("api_outage", "cascading_failure", "high_latency", "hostile_tools", "indirect_injection"):
        result = tried(fearless, ChaosScenario(name=name, plan=profile(name)), runs=5)
        assert {run.verdict for run in result.runs} == {ChaosVerdict.HELD}


RUNNER = """
import json, os, re
case = open(os.environ["REPLAYKIT_CASE_PATH"]).read()
output = {"status": "success", "final_output": "EVIL" if "EVIL" in case else "good"}
open(os.environ["REPLAYKIT_OUTPUT_PATH"], "w").write(json.dumps(output))
"""


def test_a_runner_is_given_the_attacked_input_in_its_case_file(tmp_path: Path) -> None:
    Path("runner.py").write_text(RUNNER)
    Path("case.yaml").write_text("not the case that is meant")
    candidate = CommandCandidate(f"{sys.executable} runner.py")
    plan = ChaosPlan(context_attacks=(ContextAttack(type=Attack.MEMORY_POISONING, payload="EVIL"),))

    said = []
    for case in (live_case("why?"), with_chaos(live_case("why?"), plan)):
        workspace = tmp_path / str(len(said))
        workspace.mkdir()
        attempt = candidate.run(case, workspace, 30)
        assert attempt.run is not None
        said.append(attempt.run.output)

    assert said == ["good", "EVIL"]


def test_a_case_on_disk_is_left_as_it_is_when_its_input_is_attacked(tmp_path: Path) -> None:
    recorded = CallableCandidate(naive).run(live_case("why?"), tmp_path, 5).run
    assert isinstance(recorded, TraceRun)
    case = rk.scaffold(recorded, tmp_path / "case")
    before = case.file.read_bytes()
    Path("runner.py").write_text(RUNNER)
    plan = ChaosPlan(context_attacks=(ContextAttack(type=Attack.MEMORY_POISONING, payload="EVIL"),))

    result = rk.replay(case, f"{sys.executable} runner.py", chaos=plan)

    assert result.run is not None
    assert result.run.output == "EVIL"
    assert case.file.read_bytes() == before
