"""A RUN and a STEP are named in the same ways wherever one is taken: by every command, and by every function."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_flags import COMMANDS
from tests.commands import Ran
from tests.matrix import sampled

import replaykit as rk

Command = Callable[..., Ran]
AGENT = """
import replaykit as rk


@rk.tool(effects="none")
def look(at: str) -> str:
    return at


def answer(question: str) -> str:
    look("a")
    look("b")
    look("c")
    if question == "fail":
        raise ValueError("no")
    return "done"
"""
LINES = {
    "compare A B": "compare RUN RUN",
    "debug RUN": "",
    "debug --step": "",
    "export RUN": "export RUN",
    "fork RUN": "fork RUN --step step_2 --result '\"x\"' --agent walker:answer --dry-run",
    "fork --attempt": "fork RUN --step step_2 --agent walker:answer --dry-run --attempt ATTEMPT",
    "fork --step": "fork last-failed --step STEP --result '\"x\"' --agent walker:answer --dry-run",
    "golden RUN": "golden RUN -o golden --force",
    "mcp --replay": "",
    "redact RUN": "redact RUN --dry-run",
    "resume RUN": "resume RUN --step step_2 --agent walker:answer --dry-run",
    "resume --attempt": "resume RUN --step step_2 --agent walker:answer --dry-run --attempt ATTEMPT",
    "resume --step": "resume last-failed --step STEP --agent walker:answer --dry-run",
    "retape --from-run": "retape cases/walk --from-run RUN --dry-run",
    "scaffold RUN": "scaffold RUN --out cases/new --force --no-check",
    "scaffold --select": "scaffold two.jsonl --select RUN --out cases/new --force --no-check",
    "show RUN": "show RUN",
    "show --step": "show last-failed --step STEP",
    "store keep RUN": "store keep RUN",
}
"""Every parameter that takes a run or a step, with a command line that uses it; RUN and STEP are filled in.

Nothing for those that need a terminal or a server: the debugger finds runs and steps by the same two functions, and
`mcp --replay` by the first of them.
"""
STEPS = ("step_2", "2", "-2")


def test_every_parameter_that_takes_a_run_or_a_step_is_tried() -> None:
    found = set()
    for path, context in COMMANDS.items():
        for parameter in context.command.params:
            words = re.split(r"\W+", (parameter.metavar or "").replace("RUN_ID", ""))
            name = parameter.opts[0] if parameter.opts[0].startswith("-") else "RUN"
            if {"RUN", "STEP"} & set(words):
                found.add(f"{path.removeprefix('replaykit ')} {name}")
    assert found | {"compare A B"} == LINES.keys()


@pytest.fixture
def project(replaykit: Command, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Two runs: one that failed, with three steps, and a newer one that did not. The words for each of them."""
    Path("walker.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    answer = __import__("walker").answer
    runs = []
    for name, question in (("sad", "fail"), ("glad", "")):
        with rk.Store.open(".replaykit/store.db") as store:
            try:
                with rk.record(name, input=question, store=store) as run:
                    run.output = answer(question)
            except ValueError:
                pass
        runs.append(run.id)
    assert replaykit("scaffold", runs[0], "--out", "cases/walk", "--no-check").code == 0
    lines = [replaykit("export", run_id).out.replace("\n", "") for run_id in runs]
    Path("two.jsonl").write_text("\n".join(lines))
    return {"id": runs[0], "beginning": runs[0][:-2], "name": "sad", "last-failed": "last-failed", "newest": runs[1]}


@sampled("parameter", [name for name, line in LINES.items() if "RUN" in line and "ATTEMPT" not in line], count=4)
def test_a_run_is_found_by_its_id_its_beginning_its_name_and_as_the_last(
    project: dict[str, str], replaykit: Command, parameter: str
) -> None:
    def ran(word: str) -> Ran:
        return replaykit(*shlex.split(re.sub(r"\bRUN\b", word, LINES[parameter])))

    by_id = ran(project["id"])
    assert by_id.code in (0, 1), by_id.err
    words = [project["beginning"], "last-failed"]
    if parameter != "scaffold --select":  # a trace has no newest run of a name
        words.append("sad")
    for word in words:
        found = ran(word)
        assert (found.code, shape(found)) == (by_id.code, shape(by_id)), word
    assert shape(ran("last")) == shape(ran(project["newest"]))


@sampled("verb", ["fork", "resume"], count=1)
def test_an_attempt_is_found_by_its_id_its_beginning_its_name_and_as_the_last(
    project: dict[str, str], replaykit: Command, verb: str
) -> None:
    replaykit(*shlex.split(LINES["fork RUN"].replace("RUN", project["id"]).removesuffix(" --dry-run")))
    [attempt] = [run for run in replaykit("show", project["id"], "--forks", "-q").out.split() if run != project["id"]]
    line = LINES[f"{verb} --attempt"].replace("RUN", project["id"])

    ended = []
    for word in (attempt, attempt[:-2], "sad@step_2", "last"):
        ended.append(replaykit(*shlex.split(line.replace("ATTEMPT", word))))

    assert ended[0].code == 0, ended[0].err
    assert {shape(one) for one in ended} == {shape(ended[0])}


def shape(ran: Ran) -> str:
    """The output without ids that are made anew, without times, and without the width of its columns."""
    plain = re.sub(r"\d{8}-\d{6}-\w+(@\w+)?|\blast(-failed)?\b|\d\d:\d\d:\d\d[.\d]*|\d+\.\d+ ?s", "…", ran.out)
    return " ".join(plain.replace("sad", "…").split())


@sampled("parameter", [name for name, line in LINES.items() if "STEP" in line], count=2)
def test_a_step_is_found_by_its_name_and_its_number_from_either_end(
    project: dict[str, str], replaykit: Command, parameter: str
) -> None:
    ended = [replaykit(*shlex.split(LINES[parameter].replace("STEP", word))) for word in STEPS]

    assert ended[0].code == 0, ended[0].err
    assert {shape(one) for one in ended} == {shape(ended[0])}


@sampled("parameter", [name for name, line in LINES.items() if line], count=4)
def test_a_run_or_a_step_that_is_not_there_is_answered_with_the_nearest(
    project: dict[str, str], replaykit: Command, parameter: str
) -> None:
    wrong_run = project["id"][:-1] + "~"
    line = LINES[parameter].replace("STEP", "stpe_2").replace("ATTEMPT", wrong_run)

    ran = replaykit(*shlex.split(re.sub(r"\bRUN\b", wrong_run, line)))

    assert ran.code in (2, 3)
    if "STEP" in LINES[parameter]:
        assert "has no step 'stpe_2'; did you mean 'step_2'?" in ran.err
    elif parameter == "scaffold --select":
        assert f"two.jsonl holds no run '{wrong_run}'" in ran.err
        assert project["id"] in ran.err
    else:
        assert f"no run '{wrong_run}'" in ran.err
        assert f"did you mean '{project['id']}'?" in ran.err


@pytest.mark.parametrize("word", ["0", "4", "-4", "1.5", ""])
def test_a_number_that_no_step_has_is_answered_with_the_steps(
    project: dict[str, str], replaykit: Command, word: str
) -> None:
    ran = replaykit("show", "last-failed", "--step", word)

    assert ran.code == 2
    assert "steps step_1, step_2, step_3" in ran.err


def test_a_beginning_of_several_runs_is_answered_with_them(project: dict[str, str], replaykit: Command) -> None:
    ran = replaykit("show", project["id"][:4])

    assert ran.code == 3
    assert f"several runs begin with '{project['id'][:4]}'" in ran.err


def agent(question: str) -> str:
    answer: Callable[[str], str] = __import__("walker").answer
    return answer(question)


FUNCTIONS: dict[str, Callable[[str, Any], object]] = {
    "fork": lambda run, step: rk.fork(run, step, rk.Edits(result="x"), agent=agent, dry_run=True)[1].way,
    "fork_run": lambda run, step: rk.fork_run(run, step, rk.Edits(result="x"), agent=agent, dry_run=True)[1].way,
    "resume": lambda run, step: rk.resume(run, step, agent=agent, dry_run=True).way,
    "resume_from_checkpoint": lambda run, step: rk.resume_from_checkpoint(run, step, agent=agent, dry_run=True).way,
    "state_at": lambda run, step: rk.state_at(run, step, agent=agent),
    "compare": lambda run, _: rk.compare(run, run).identical,
    "compare_runs": lambda run, _: rk.compare_runs(run, run).identical,
    "CheckpointStore": lambda run, step: rk.CheckpointStore().load_checkpoint(run, step).step_id,
}
"""Every public function that takes a run or a step by a word."""


def test_every_function_that_takes_a_run_or_a_step_is_tried() -> None:
    found = set()
    for name in rk.__all__:
        value = getattr(rk, name)
        if inspect.isfunction(value) and {"run_id", "step", "step_id"} & inspect.signature(value).parameters.keys():
            found.add(name)
    by_other_names = {"compare", "compare_runs", "CheckpointStore"}
    assert found | by_other_names == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_finds_a_run_and_a_step_as_commands_do(project: dict[str, str], name: str) -> None:
    call = FUNCTIONS[name]
    expected = call(project["id"], "step_2")

    for run in (project["beginning"], "sad", "last-failed"):
        assert call(run, "step_2") == expected, run
    for step in ("2", "-2", 2, -2):
        assert call(project["id"], step) == expected, step
    with pytest.raises(rk.ReplayKitError, match="no run 'no-such-run'"):
        call("no-such-run", "step_2")
