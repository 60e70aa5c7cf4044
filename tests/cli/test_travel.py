"""The verbs of time travel."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.cli import run

AGENT = """
import replaykit as rk

@rk.tool(effects="none")
def search(query):
    return {"docs": []}

@rk.tool
def send(text):
    with open("sent", "w") as file:
        file.write(text)
    return "sent"

def answer(question, state=None):
    with rk.record("loop") as run:
        state = state or {"tries": 0, "max_retries": 5}
        while state["tries"] < state["max_retries"]:
            with run.step(f"step_{state['tries'] + 1}", state=state) as step:
                step.decide("search")
                search(question)
                state = step.done({**state, "tries": state["tries"] + 1})
        return f"gave up after {state['tries']}"

def careless(question):
    found = search(question)
    if found["docs"]:
        return send(found["docs"][0])
    return "nothing found"
"""


@pytest.fixture
def recorded(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> rk.Store:
    name = f"agent_{own_directory.name}".replace("-", "_")
    (own_directory / f"{name}.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(own_directory))
    module = __import__(name)
    sys.modules["travelling_agent"] = module
    for agent in (module.answer, module.careless):
        with rk.record(agent.__name__, input="why?") as started:
            started.output = agent("why?")
    return started


def test_checkpoints_lists_the_steps(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checkpoints", "answer"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == ["step", *(f"step_{n}" for n in range(1, 6))]

    assert run(["checkpoints", "answer", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["checkpoints"]) == 5


def test_show_gives_the_state_after_a_step(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "answer", "--step", "step_3", "--state"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tries": 3, "max_retries": 5}

    assert run(["show", "answer", "--step", "step_3", "--state", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"]["tries"] == 3


def test_fork_sets_a_key_of_the_state_and_goes_on(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["fork", "answer", "--at", "step_2", "--set", "max_retries=3", "--agent", "travelling_agent:answer"])

    shown = capsys.readouterr().out
    assert code == 0
    assert "success  by state" in shown
    assert "gave up after 3" in shown


def test_modify_and_patch_do_the_same(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    for change in (
        ["--modify", '{"max_retries": 3}'],
        ["--patch", '[{"op": "replace", "path": "/max_retries", "value": 3}]'],
    ):
        assert run(["fork", "answer", "--at", "step_2", *change, "--agent", "travelling_agent:answer", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["output"] == "gave up after 3"


def test_a_fork_that_wants_to_act_asks_first(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    fork = ["fork", "careless", "--at", "step_1", "--result", '{"docs": ["x"]}', "--agent", "travelling_agent:careless"]

    assert run([*fork, "--dry-run"]) == 0
    assert "send(text='x')" in capsys.readouterr().out
    assert run(fork) == 1
    assert "for real: send(text='x')" in capsys.readouterr().out
    assert not Path("sent").exists()
    assert run([*fork, "--live", "send"]) == 0
    assert Path("sent").read_text() == "x"


def test_resume_goes_on_unchanged(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resume", "careless", "--at", "step_1", "--agent", "travelling_agent:careless"]) == 0
    assert "nothing found" in capsys.readouterr().out


def test_tree_shows_the_family(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    run(["fork", "answer", "--at", "step_2", "--set", "max_retries=3", "--agent", "travelling_agent:answer", "--json"])
    fork_id = json.loads(capsys.readouterr().out)["run_id"]
    run(["fork", fork_id, "--at", "step_1", "--set", "max_retries=2", "--agent", "travelling_agent:answer"])
    capsys.readouterr()

    assert run(["tree", fork_id]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("─ ")[0].count("└") for line in lines] == [0, 1, 1]
    assert "forked at step_2" in lines[1]
    assert run(["tree", fork_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"]["children"][0]["children"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fork", "nope", "--at", "step_1", "--agent", "travelling_agent:answer"], 3, "no run 'nope'"),
        (["fork", "answer", "--at", "step_9", "--agent", "travelling_agent:answer"], 2, "step_1, step_2"),
        (["fork", "answer", "--at", "step_1", "--agent", "no_such:x"], 2, "cannot be loaded"),
        (["fork", "answer", "--at", "step_1", "--set", "x", "--agent", "travelling_agent:answer"], 2, "KEY=VALUE"),
        (
            ["fork", "answer", "--at", "step_1", "--modify", "[1]", "--agent", "travelling_agent:answer"],
            2,
            "JSON object",
        ),
        (
            ["fork", "answer", "--at", "step_1", "--set", "a.b=1", "--agent", "travelling_agent:answer"],
            2,
            "does not fit the state",
        ),
        (["show", "answer", "--state"], 2, "--state goes with --step"),
    ],
)
def test_wrong_input_is_said_and_nothing_is_made(
    recorded: object, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert run(arguments) == code
    assert words in capsys.readouterr().err
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        assert len(store.headers()) == 2
