"""The verbs of time travel."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
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

@rk.tool
def post(text):
    with open("posted", "w") as file:
        file.write(text)
    return "posted"

def eager(question):
    docs = search(question)["docs"]
    return [act(doc) for act, doc in zip((send, post), docs)] or "nothing found"

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
    for agent in (module.answer, module.careless, module.eager):
        with rk.record(agent.__name__, input="why?") as started:
            started.output = agent("why?")
    return started


def test_checkpoints_lists_the_steps(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "--steps", "answer"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == ["step", *(f"step_{n}" for n in range(1, 6))]

    assert run(["show", "--steps", "answer", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["checkpoints"]) == 5


def test_a_checkpoint_is_shown_with_its_state_or_what_changed_in_it(
    recorded: object, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["show", "answer", "--event", "0"])
    whole = capsys.readouterr().out
    run(["show", "answer", "--step", "2"])
    change = capsys.readouterr().out

    assert "state      {'tries': 0, 'max_retries': 5}" in whole
    assert "set        {'tries': 2}" in change


def test_show_gives_the_state_after_a_step(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "answer", "--step", "step_3", "--state"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tries": 3, "max_retries": 5}

    assert run(["show", "answer", "--step", "step_3", "--state", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"]["tries"] == 3


def test_fork_sets_a_key_of_the_state_and_goes_on(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["fork", "answer", "--step", "step_2", "--set", "max_retries=3", "--agent", "travelling_agent:answer"])

    shown = capsys.readouterr().out
    assert code == 0
    assert "success  by state" in shown
    assert "gave up after 3" in shown


def test_modify_and_patch_do_the_same(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    for change in (
        ["--modify", '{"max_retries": 3}'],
        ["--patch", '[{"op": "replace", "path": "/max_retries", "value": 3}]'],
    ):
        assert run(["fork", "answer", "--step", "step_2", *change, "--agent", "travelling_agent:answer", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["output"] == "gave up after 3"


def test_a_fork_that_wants_to_act_asks_first(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    fork = [
        "fork",
        "careless",
        "--step",
        "step_1",
        "--result",
        '{"docs": ["x"]}',
        "--agent",
        "travelling_agent:careless",
    ]

    assert run([*fork, "--dry-run"]) == 0
    assert "send(text='x')" in capsys.readouterr().out
    assert run(fork) == 1
    assert "for real: send(text='x')" in capsys.readouterr().out
    assert not Path("sent").exists()
    assert run([*fork, "--live", "send"]) == 0
    assert Path("sent").read_text() == "x"


def test_what_a_stopped_fork_has_done_is_not_done_again(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    fork = [
        "fork",
        "eager",
        "--step",
        "step_1",
        "--result",
        '{"docs": ["x", "y"]}',
        "--agent",
        "travelling_agent:eager",
    ]

    assert run([*fork, "--live", "send", "--json"]) == 1
    attempt = json.loads(capsys.readouterr().out)["run_id"]
    Path("sent").unlink()
    assert run([*fork, "--attempt", attempt]) == 1
    assert f"--live post --attempt {attempt[:4]}" in capsys.readouterr().out
    assert run([*fork, "--live", "post", "--attempt", attempt]) == 0

    assert "done for real in the attempt before: send(text='x')" in capsys.readouterr().out
    assert not Path("sent").exists()
    assert Path("posted").read_text() == "y"


def test_an_attempt_at_something_else_is_refused_and_nothing_is_begun(
    recorded: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        before = len(store.headers())

    for attempt, code in (("answer", 2), ("nobody", 3)):
        resume = [
            "resume",
            "careless",
            "--step",
            "step_1",
            "--agent",
            "travelling_agent:careless",
            "--attempt",
            attempt,
        ]
        assert run(resume) == code
    assert "does not continue from a step of" in capsys.readouterr().err
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        assert len(store.headers()) == before


def test_resume_goes_on_unchanged(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resume", "careless", "--step", "step_1", "--agent", "travelling_agent:careless"]) == 0
    assert "nothing found" in capsys.readouterr().out


def test_tree_shows_the_family(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    run(
        ["fork", "answer", "--step", "step_2", "--set", "max_retries=3", "--agent", "travelling_agent:answer", "--json"]
    )
    fork_id = json.loads(capsys.readouterr().out)["run_id"]
    run(["fork", fork_id, "--step", "step_1", "--set", "max_retries=2", "--agent", "travelling_agent:answer"])
    capsys.readouterr()

    assert run(["show", "--forks", fork_id]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("─ ")[0].count("└") for line in lines] == [0, 1, 1]
    assert "forked at step_2" in lines[1]
    assert run(["show", "--forks", fork_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"]["children"][0]["children"]


def changed(recorded: object, capsys: pytest.CaptureFixture[str], agent: str, *change: str) -> str:
    """What `compare` says of a run and its fork at step_1."""
    run(["fork", agent, "--step", "step_1", *change, "--agent", f"travelling_agent:{agent}", "--live", "send"])
    capsys.readouterr()
    assert run(["compare", agent, f"{agent}@step_1"]) == 1
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("agent", "change", "lines"),
    [
        (
            "answer",
            ("--set", "max_retries=2"),
            [
                "differs at step_1 (event 16): state ($.max_retries)",
                "  changed   $.max_retries: 5 → 2",
                "",
                "= 4 same  - 6 only in answer",
            ],
        ),
        (
            "careless",
            ("--result", '{"docs": ["x"]}'),
            [
                "differs at step_1 (event 0): tool result of search",
                "  careless         search(query='why?') → {'docs': []}",
                "  careless@step_1  search(query='why?') → {'docs': ['x']}",
                "  added     $.result.docs[0]: 'x'",
            ],
        ),
        (
            "careless",
            ("--args", '{"query": "how?"}'),
            [
                "differs at step_1 (event 0): arguments of search",
                "  careless         search(query='why?') → {'docs': []}",
                "  careless@step_1  search(query='how?') → {'docs': []}",
                "  changed   $.query: 'why?' → 'how?'",
            ],
        ),
        (
            "careless",
            ("--input", "how?"),
            [
                "differs at the start: input",
                "  careless         'why?'",
                "  careless@step_1  'how?'",
                "  changed   $: 'why?' → 'how?'",
            ],
        ),
    ],
)
def test_compare_names_what_a_fork_changed_and_where(
    recorded: object, capsys: pytest.CaptureFixture[str], agent: str, change: tuple[str, ...], lines: list[str]
) -> None:
    assert changed(recorded, capsys, agent, *change).splitlines()[: len(lines)] == lines


def test_compare_tells_programs_the_path_the_step_and_both_values(
    recorded: object, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(recorded, capsys, "answer", "--set", "max_retries=2")
    run(["compare", "answer", "answer@step_1", "--json"])

    found = json.loads(capsys.readouterr().out)
    first = {"kind": "changed", "path": "$.max_retries", "old": 5, "new": 2}
    assert (found["first"]["kind"], found["first"]["a_step"], found["first"]["b_step"]) == ("state", "step_1", "step_1")
    assert found["first"]["differences"] == [first]
    assert (found["states"][0]["differences"], found["unknown_states"]) == ([first], 0)


def test_a_change_that_was_not_made_fails_the_fork(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    fork = ["fork", "answer", "--step", "step_1", "--result", '{"docs": []}', "--agent", "travelling_agent:careless"]

    assert run(fork) == 0, "careless makes the same first call"
    assert run([*fork[:3], "step_5", *fork[4:]]) == 1
    assert "unmade   `search` was not changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "--steps", "answer"],
        ["resume", "answer", "--step", "step_1", "--agent", "travelling_agent:answer"],
        ["resume", "answer", "--step", "step_1", "--agent", "travelling_agent:answer", "--dry-run"],
        ["fork", "answer", "--step", "step_1", "--set", "max_retries=2", "--agent", "travelling_agent:answer"],
        ["compare", "answer", "careless"],
        ["show", "--forks", "answer"],
        ["show", "answer", "--step", "step_1", "--state"],
        ["show", "answer", "--step", "step_1", "--state", "--agent", "travelling_agent:answer"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + [word for word in arguments if word.startswith("--")][-1:]),
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_store_of_a_newer_version_is_refused_by_every_verb_and_left_alone(
    recorded: object, capsys: pytest.CaptureFixture[str], arguments: list[str], as_json: bool
) -> None:
    with closing(sqlite3.connect(".replaykit/store.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA user_version = 99")
    before = {path: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}

    assert run([*arguments, *(["--json"] if as_json else [])]) == 3

    said = capsys.readouterr()
    assert "was written by a newer ReplayKit (store format 99" in said.err
    assert said.out == ""
    assert {path: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fork", "nope", "--step", "step_1", "--agent", "travelling_agent:answer"], 3, "no run 'nope'"),
        (["fork", "answer", "--step", "step_9", "--agent", "travelling_agent:answer"], 2, "step_1, step_2"),
        (["fork", "answer", "--step", "step_1", "--agent", "no_such:x"], 2, "cannot be loaded"),
        (["fork", "answer", "--step", "step_1", "--set", "x", "--agent", "travelling_agent:answer"], 2, "KEY=VALUE"),
        (
            ["fork", "answer", "--step", "step_1", "--modify", "[1]", "--agent", "travelling_agent:answer"],
            2,
            "JSON object",
        ),
        (
            ["fork", "answer", "--step", "step_1", "--set", "a.b=1", "--agent", "travelling_agent:answer"],
            2,
            "does not fit the state",
        ),
        (["show", "answer", "--state"], 2, "--state needs --step"),
        (["show", "answer", "--step", "step_1", "--agent", "travelling_agent:answer"], 2, "--agent needs --state"),
        (
            ["fork", "answer", "--step", "step_1", "--response", "no", "--agent", "travelling_agent:answer"],
            2,
            "step_1 makes no call of a model; its calls: tool `search`",
        ),
        (
            [
                "fork",
                "answer",
                "--step",
                "step_1",
                "--result",
                "1",
                "--error",
                "E",
                "--agent",
                "travelling_agent:answer",
            ],
            2,
            "result and error change the same call",
        ),
    ],
)
def test_wrong_input_is_said_and_nothing_is_made(
    recorded: object, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert run(arguments) == code
    assert words in capsys.readouterr().err
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        assert {header.origin.kind for header in store.headers()} == {"recorded"}


TALKATIVE = """
import replaykit as rk

@rk.tool(effects="none")
def search(query):
    return {"docs": []}

def chatty(question):
    print("let me think")
    with rk.record("chatty") as run:
        for number in range(3):
            with run.step(f"step_{number + 1}") as step:
                search(number)
                state = step.done({"seen": {number}, "number": number})
    return sorted(state["seen"])

def idle(question):
    return "nothing to do"
"""


@pytest.fixture
def chatty(own_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    name = f"chatty_{own_directory.name}".replace("-", "_")
    (own_directory / f"{name}.py").write_text(TALKATIVE)
    monkeypatch.syspath_prepend(str(own_directory))
    with rk.record("chatty", input="why?", checkpoint_every=3) as started:
        started.output = __import__(name).chatty("why?")
    capsys.readouterr()
    return name


@pytest.mark.parametrize(
    "verb",
    [
        ["fork", "chatty", "--step", "step_3", "--result", "1"],
        ["resume", "chatty", "--step", "step_2"],
        ["show", "chatty", "--step", "step_2", "--state"],
    ],
    ids=lambda verb: verb[0],
)
def test_what_the_agent_prints_is_no_part_of_the_answer(
    verb: list[str], chatty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*verb, "--agent", f"{chatty}:chatty", "--json"]) == 0

    out, err = capsys.readouterr()
    assert json.loads(out)["replaykit"] == 1
    assert "let me think" in err


def test_a_change_is_written_as_states_are_shown(chatty: str, capsys: pytest.CaptureFixture[str]) -> None:
    fork = ["fork", "chatty", "--step", "step_3", "--agent", f"{chatty}:chatty", "--json"]
    for change in (["--set", 'seen={"$set": [8, 7]}'], ["--modify", '{"seen": {"$set": [8, 7]}}']):
        assert run([*fork, *change]) == 0
        assert json.loads(capsys.readouterr().out)["output"] == [7, 8]


@pytest.mark.parametrize("option", ["--set", "--modify", "--patch", "--args", "--error"])
def test_an_empty_change_is_not_taken_for_none(option: str, chatty: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fork", "chatty", "--step", "step_3", "--agent", f"{chatty}:chatty", option, ""]) == 2
    assert f"{option} '':" in capsys.readouterr().err


def test_not_coming_to_the_step_is_a_failure_also_in_a_dry_run(chatty: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--dry-run"]):
        assert run(["resume", "chatty", "--step", "step_2", "--agent", f"{chatty}:idle", *options]) == 1
        assert "ended before it reached step_2" in capsys.readouterr().out


def test_a_question_is_shown_with_all_that_answers_it(recorded: object, capsys: pytest.CaptureFixture[str]) -> None:
    fork = ["fork", "careless", "--step", "step_1", "--agent", "travelling_agent:careless"]
    assert run([*fork, "--result", json.dumps({"docs": ["a text of some length, " * 4]})]) == 1
    assert "or give its answer as a change." in capsys.readouterr().out
