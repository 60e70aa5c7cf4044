"""`replaykit golden`: a recorded run becomes a file that pytest runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.cases.golden import read_golden
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import ABSENT

Verb = Callable[..., Any]
OUT = Path("fixtures/golden_traces")
AGENT = """
import replaykit as rk

@rk.tool
def lookup(user): raise AssertionError("live")

def same(_):
    print("the agent speaks")
    with rk.record("checkout") as run:
        with run.step("plan"): pass
        with run.step("act"): lookup("u1")
        return "bought"

def other(_):
    lookup("u2")

tools = {"same": 1}
"""


@pytest.fixture(autouse=True)
def agents(own_directory: Path, recorded: Path, request: pytest.FixtureRequest) -> str:
    """A module with agents, under a name that no other test has imported."""
    name = f"agents_{abs(hash(request.node.nodeid))}"
    (own_directory / f"{name}.py").write_text(AGENT)
    return name


@pytest.mark.usefixtures("recorded")
def test_a_run_becomes_a_file_and_the_next_step_is_named(replaykit: Verb) -> None:
    made = replaykit("golden", "checkout")

    golden = read_golden(OUT / "checkout.golden.json")
    assert made.code == 0
    assert made.err == ""
    assert made.out.startswith(
        "Wrote fixtures/golden_traces/checkout.golden.json\n  asserts  1 call, 0 states, the outcome"
    )
    assert made.out.endswith("Next: pytest fixtures/golden_traces\n")
    assert (golden.name, golden.agent, golden.run.output) == ("checkout", "checkout", "bought")


def test_the_line_for_the_configuration_is_toml(replaykit: Verb) -> None:
    made = replaykit("golden", "checkout", "--name", 'say "hi"')

    lines = [line.strip() for line in made.out.splitlines() if line.startswith("  ") and "sserts" not in line]
    assert tomllib.loads("\n".join(lines)) == {
        "tool": {"pytest": {"ini_options": {"replaykit_agents": ["checkout = MODULE:FUNCTION"]}}}
    }


def test_a_run_is_found_by_its_id_or_the_beginning_of_one(replaykit: Verb, recorded: Path) -> None:
    with rk.Store.open(recorded, read_only=True) as store:
        run_id = store.header("checkout").id

    made = replaykit("golden", run_id[:-1], "--out", "elsewhere", "--name", "mine", "--json", "--store", recorded)

    assert made.json == {
        "replaykit": 1,
        "file": "elsewhere/mine.golden.json",
        "name": "mine",
        "agent": "checkout",
        "run": run_id,
        "asserts": ["calls", "states", "outcome"],
        "ignore": [],
        "passed": None,
        "failed": [],
        "first": None,
    }
    assert read_golden("elsewhere/mine.golden.json").run.id == run_id


def test_a_file_that_is_there_is_replaced_only_with_force(replaykit: Verb) -> None:
    replaykit("golden", "checkout")
    before = (OUT / "checkout.golden.json").read_bytes()

    refused = replaykit("golden", "checkout", "--ignore", "$.id")
    forced = replaykit("golden", "checkout", "--ignore", "$.id", "--ignore", "lookup:$..at", "--force")

    assert refused.code == 2
    assert "already exists\nGive it another name with --name, or replace it with --force" in refused.err
    assert forced.code == 0
    assert "  ignores  $.id, lookup:$..at\n" in forced.out
    assert (OUT / "checkout.golden.json").read_bytes() != before
    assert read_golden(OUT / "checkout.golden.json").ignore == ("$.id", "lookup:$..at")


def test_with_an_agent_it_is_written_only_if_the_agent_does_the_same(replaykit: Verb, agents: str) -> None:
    wrong = replaykit("golden", "checkout", "--agent", f"{agents}:other")
    assert wrong.code == 1
    assert wrong.out.splitlines()[0] == "golden trace checkout differs at step_1 (event 0): arguments of lookup"
    assert "changed   $.user: 'u1' → 'u2'" in wrong.out
    assert wrong.out.endswith("Nothing was written.\n")
    assert not OUT.exists()

    right = replaykit("golden", "checkout", "--agent", f"{agents}:same")
    assert right.code == 0
    assert f"  checked  {agents}:same does the same\n" in right.out
    assert f'replaykit_agents = ["checkout = {agents}:same"]' in right.out


def test_a_divergence_in_json_names_no_file(replaykit: Verb, agents: str) -> None:
    wrong = replaykit("golden", "checkout", "--agent", f"{agents}:other", "--json")

    assert wrong.code == 1
    assert wrong.json["file"] is None
    assert wrong.json["passed"] is False
    assert wrong.json["failed"] == ["calls", "outcome"]
    assert wrong.json["first"]["kind"] == "tool_arguments"
    assert not OUT.exists()


def test_what_the_agent_prints_is_no_part_of_the_json(replaykit: Verb, agents: str) -> None:
    made = replaykit("golden", "checkout", "--agent", f"{agents}:same", "--json")

    assert made.json["passed"] is True
    assert made.err == "the agent speaks\n"


def test_a_run_that_failed_is_a_golden_trace_as_well(replaykit: Verb) -> None:
    made = replaykit("golden", "billing")

    assert made.code == 0
    assert "the outcome (error)" in made.out
    assert read_golden(OUT / "billing.golden.json").run.error.message == "out of luck"  # type: ignore[union-attr]


REFUSED = {
    "a run that is not there": (["nobody"], 3, "nobody"),
    "a path that is none": (["checkout", "--ignore", "id"], 2, "bad JSON path 'id'"),
    "an agent that is none": (["checkout", "--agent", "x"], 2, "'x' does not name an agent"),
    "an agent that cannot be called": (
        ["checkout", "--agent", "{agents}:tools"],
        2,
        "is of type dict, which is not callable",
    ),
    "a directory that is a file": (["checkout", "--out", "taken"], 2, "is a file"),
    "a run that runs": (["running"], 2, "has not ended"),
    "a call without an answer": (["cut"], 3, "was stopped by ReplayKit"),
    "a store that is not there": (["checkout", "--store", "none.db"], 3, "none.db"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_says_why_and_writes_nothing(
    replaykit: Verb, recorded: Path, agents: str, case: str
) -> None:
    arguments, code, said = REFUSED[case]
    Path("taken").write_text("")
    with rk.Store.open(recorded) as store:
        store.begin(RunHeader(id="running"))
        stopped = ErrorInfo(type="Undecided", module="replaykit.errors", message="may it?")
        call = ToolCall(seq=0, name="pay", result_json=ABSENT, error=stopped)
        store.add(TraceRun(id="cut", status=RunStatus.ERROR, events=(call,)))

    made = replaykit("golden", *(argument.format(agents=agents) for argument in arguments))

    assert made.code == code, made.err
    assert said in made.err
    assert not OUT.exists()
