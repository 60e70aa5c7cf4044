"""Promises about several runs, and promises that are judged, in every trial: contracts, chaos, mutations and `ci`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.values import contract_of

import replaykit as rk
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.checks.questions import KnownAnswer, Question
from replaykit.cli import run as cli
from replaykit.contracts.contract import ChaosScenario, Contract
from replaykit.errors import ExitCode
from replaykit.handlers.chaos.mutations import Seeded
from replaykit.model.faults import ChaosPlan, ToolFault, ToolTrouble
from replaykit.trials.chaos import ChaosTrial, ChaosVerdict, run_chaos
from replaykit.trials.contract import ContractTrial, run_contract
from replaykit.trials.mutation import MutationTrial, run_mutations
from replaykit.trials.trial_runs import EvidenceFiles

OFTEN = {"type": "repeat", "value": {"times": 3, "at_least": 2, "of": {"output.contains": "yes"}}}
POLITE = {"type": "judge.rubric", "value": "It is polite"}
STORM = ChaosScenario(
    name="storm", plan=ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble.ERROR, tool="look"),), seed=3)
)


@rk.tool
def look() -> str:
    return "seen"


class Moody:
    """An agent that answers well, but for some of the times it is asked."""

    def __init__(self, *bad: int) -> None:
        self.bad = bad
        self.asked = 0

    def __call__(self, text: Any) -> str:
        self.asked += 1
        try:
            look()
        except rk.ToolError:
            pass
        return "no" if self.asked in self.bad else "yes"


class Says:
    hint = "Ask somebody."

    def __init__(self, status: str) -> None:
        self._status = status

    def look_up(self, question: Question) -> KnownAnswer:
        return KnownAnswer(status=self._status, by="ana")


def promise(*invariants: dict[str, Any]) -> Contract:
    return contract_of({"name": "manners", "invariants": [{"id": "often", **invariant} for invariant in invariants]})


@pytest.mark.parametrize(("bad", "verdict"), [((2,), ChaosVerdict.HELD), ((2, 3), ChaosVerdict.BROKE)])
def test_under_chaos_every_run_has_the_same_faults(bad: tuple[int, ...], verdict: ChaosVerdict, tmp_path: Path) -> None:
    agent = Moody(*bad)
    trial = ChaosTrial(scenarios=(STORM,), inputs=("why?",), contract=promise(OFTEN))

    result = run_chaos(trial, CallableCandidate(agent), evidence=EvidenceFiles(root=tmp_path, of_passed=True))

    (run,) = result.runs
    assert (run.verdict, agent.asked) == (verdict, 3)
    kept = json.loads((Path(run.evidence) / "result.json").read_text())
    assert [[event["faults"] for event in one["events"] if "faults" in event] for one in kept["more"]] == [
        [["tool.error"]],
        [["tool.error"]],
    ]


@pytest.mark.parametrize(("bad", "passed"), [((2,), True), ((2, 3), False)])
def test_a_mutation_is_asked_several_times(bad: tuple[int, ...], passed: bool) -> None:
    agent = Moody(*bad)
    trial = MutationTrial(mutator=Seeded(("casing",)), count=1, inputs=("why?",), contract=promise(OFTEN))

    result = run_mutations(trial, CallableCandidate(agent))

    assert ([run.passed for run in result.runs], agent.asked) == ([passed], 3)


def test_the_runs_of_a_contract_are_made_before_a_cell_counts_as_done() -> None:
    agent = Moody()
    asked_at_end: list[int] = []
    trial = ContractTrial(contract=promise(OFTEN), inputs=("a", "b"))

    run_contract(trial, CallableCandidate(agent), on_done=lambda: asked_at_end.append(agent.asked))

    assert asked_at_end == [3, 6]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("pass", ExitCode.PASSED),
        ("fail", ExitCode.FAILED),
        ("unjudged", ExitCode.CANNOT),
        ("needs_human", ExitCode.CANNOT),
    ],
)
def test_a_judged_promise_holds_only_with_a_good_answer(status: str, code: ExitCode) -> None:
    candidate, promised, answers = CallableCandidate(Moody()), promise(POLITE), Says(status)
    stormy = ChaosTrial(scenarios=(STORM,), inputs=("why?",), contract=promised, answers=answers)
    mutated = MutationTrial(mutator=Seeded(), count=1, inputs=("why?",), contract=promised, answers=answers)
    tried = ContractTrial(contract=promised, inputs=("why?",), answers=answers)

    assert run_chaos(stormy, candidate).exit_code is code
    assert run_mutations(mutated, candidate).exit_code() is code
    assert run_contract(tried, candidate).exit_code is code


@pytest.mark.parametrize("order", [1, -1])
def test_a_promise_that_is_broken_is_broken_whatever_nobody_has_judged(order: int) -> None:
    never = {"id": "never", "type": "contains", "value": "never said"}
    promised = promise(*[POLITE, never][::order])
    candidate, answers = CallableCandidate(Moody()), Says("unjudged")
    stormy = ChaosTrial(scenarios=(STORM,), inputs=("why?",), contract=promised, answers=answers)
    mutated = MutationTrial(mutator=Seeded(), count=1, inputs=("why?",), contract=promised, answers=answers)
    tried = ContractTrial(contract=promised, inputs=("why?",), answers=answers)

    stormed, asked = run_chaos(stormy, candidate), run_mutations(mutated, candidate)

    assert [stormed.exit_code, asked.exit_code(), run_contract(tried, candidate).exit_code] == [ExitCode.FAILED] * 3
    assert [finding.id for finding in (*stormed.runs[0].failures, *asked.runs[0].failures)] == ["never", "never"]


CONFIG = """\
replaykit: 1
agent: {type: python, endpoint: "counting:answer"}
inputs: ["Why?"]
contract:
  name: manners
  invariants:
    - {id: often, type: repeat, value: {times: 4, at_least: LEAST, of: {output.contains: yes}}}
"""
AGENT = """\
import pathlib
def answer(text):
    count = pathlib.Path("count")
    number = len(count.read_text()) if count.exists() else 0
    count.write_text("x" * (number + 1))
    return "no" if number % 4 == 2 else "yes"
"""


@pytest.mark.parametrize(("least", "code"), [(3, 0), (4, 1)])
def test_ci_keeps_a_promise_about_several_runs(
    least: int, code: int, own_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("counting.py").write_text(AGENT)
    Path("replaykit.yaml").write_text(CONFIG.replace("LEAST", str(least)).replace("yes}", '"yes"}'))

    assert cli(["ci", "--json", "-j", "1"]) == code

    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert Path("count").read_text() == "xxxx"
    assert item["output"] == "yes", "of the first run"
    if code:
        assert item["failures"][0]["actual"] == "3 of 4 runs; first not in run 3: output 'no'"
        assert item["failures"][0]["run"] == 3
