"""`repeat` in a replay: the candidate is really run again, each time in a fresh world with the whole tape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.candidates.attempt import Attempt
from replaykit.cli import run as cli
from replaykit.model.events import ToolCall
from replaykit.model.result import Deviation, Evidence, EvidenceSource, ReplayResult
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

MakeCase = Callable[..., Path]
OK = {"output.contains": "ok"}
USED = Evidence(used=2, recorded=2, how=EvidenceSource.SERVED)


@rk.tool
def lookup(user: str) -> str:
    raise AssertionError("the tool was called live")


class Moody:
    """An agent that answers something else each time."""

    def __init__(self, *moods: str) -> None:
        self.moods = iter(moods)
        self.asked = 0

    def __call__(self, question: str) -> str:
        self.asked += 1
        return f"{lookup('u1')} {lookup('u1')} {next(self.moods)}"


@pytest.fixture
def case(make_case: MakeCase, frozen: Callable[..., ToolCall]) -> Callable[..., Path]:
    """A case whose two recorded calls every run needs."""

    def make(*desired: Any, observed: Iterable[Any] = ({"status_is": "error"},)) -> Path:
        calls = [frozen(number, "lookup", f"answer {number}", user="u1") for number in range(2)]
        return make_case(calls=calls, observed=list(observed), desired=list(desired))

    return make


def repeat(times: int, at_least: int, of: Any = OK) -> dict[str, Any]:
    return {"repeat": {"times": times, "at_least": at_least, "of": of}}


def test_the_candidate_runs_as_often_as_it_says_each_time_with_the_whole_tape(case: Callable[..., Path]) -> None:
    agent = Moody("ok", "bad", "ok", "ok")

    result = rk.replay(case(repeat(4, 3)), agent)

    assert (result.verdict, agent.asked) == ("fixed", 4)
    assert result.run is not None
    assert [run.output for run in (result.run, *result.more)] == [
        f"answer 0 answer 1 {mood}" for mood in ("ok", "bad", "ok", "ok")
    ]
    assert result.deviations == ()


def test_too_few_runs_that_hold_change_the_verdict_and_are_told(case: Callable[..., Path]) -> None:
    result = rk.replay(case(repeat(3, 3)), Moody("ok", "bad", "ok"))

    assert result.verdict == "broken"
    assert "2 of 3 runs; first not in run 2: output 'answer 0 answer 1 bad'" in result.reason
    assert result.desired[0].run == 2


def test_what_shows_in_most_runs_is_reproduced(case: Callable[..., Path]) -> None:
    signature = repeat(3, 2, {"output.contains": "bad"})

    assert rk.replay(case(repeat(3, 3), observed=[signature]), Moody("ok", "bad", "bad")).verdict == "reproduced"


def test_assertions_share_their_runs(case: Callable[..., Path]) -> None:
    agent = Moody(*["ok"] * 9)

    result = rk.replay(case(repeat(3, 1), {"all": [repeat(5, 2), OK]}, repeat(2, 1)), agent)

    assert (result.verdict, agent.asked, len(result.more)) == ("fixed", 5, 4)


def test_without_a_repeat_there_is_one_run(case: Callable[..., Path]) -> None:
    agent = Moody("ok")

    assert rk.replay(case(OK), agent).more == ()
    assert agent.asked == 1


class Scripted:
    """A candidate that leaves these attempts, one after the other."""

    label = "scripted"

    def __init__(self, *attempts: Attempt) -> None:
        self._attempts = iter(attempts)
        self.workspaces: list[Path] = []

    def run(self, case: Any, workspace: Path, timeout_s: float) -> Attempt:
        assert list(workspace.iterdir()) == [] or workspace == self.workspaces[0]
        self.workspaces.append(workspace)
        return next(self._attempts)


def answered(text: str, *deviations: Deviation) -> Attempt:
    run = TraceRun(id=text, status=RunStatus.SUCCESS, output_json=raw(text))
    return Attempt(run=run, deviations=deviations, evidence=USED)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (Attempt(reason="it crashed"), "run 2: it crashed"),
        (answered("ok", Deviation(kind="unanswerable", text="nobody knows")), "run 2: nobody knows"),
    ],
)
def test_a_run_that_cannot_be_had_is_an_error_and_not_a_failure(
    second: Attempt, why: str, case: Callable[..., Path]
) -> None:
    result = rk.replay(case(repeat(3, 1)), Scripted(answered("ok"), second, answered("ok")))

    assert (result.verdict, result.reason) == ("inconclusive", why)


def test_a_first_run_that_is_not_there_asks_for_no_other(case: Callable[..., Path]) -> None:
    scripted = Scripted(Attempt(reason="it crashed"))

    assert rk.replay(case(repeat(3, 1)), scripted).reason == "it crashed"
    assert len(scripted.workspaces) == 1


def test_a_run_that_used_nothing_of_the_tape_counts_for_nothing(case: Callable[..., Path]) -> None:
    idle = msgspec.structs.replace(answered("ok"), evidence=Evidence(recorded=2))

    result = rk.replay(case(repeat(3, 3)), Scripted(answered("ok"), idle, answered("ok")))

    assert result.verdict == "broken"
    assert "first not in run 2: used none of the 2 recorded answers" in result.reason


def test_a_doubt_about_any_run_is_a_doubt_about_the_verdict(case: Callable[..., Path]) -> None:
    close = msgspec.structs.replace(answered("ok"), uncertain=("too close to call: a and b ended at once",))

    result = rk.replay(case(repeat(2, 2)), Scripted(answered("ok"), close))

    assert (result.verdict, result.reason) == ("inconclusive", "too close to call: a and b ended at once")


def test_nobody_watched_stays_so_in_every_run(case: Callable[..., Path]) -> None:
    attempts = [msgspec.structs.replace(answered("ok"), watched=False) for _ in range(2)]

    result = rk.replay(case(repeat(2, 1, {"replay.no_divergence": True})), Scripted(*attempts))

    assert result.verdict == "inconclusive"
    assert "need a replay: this run is not from one" in result.reason


def test_every_run_leaves_its_files_in_a_directory_of_its_own(case: Callable[..., Path], own_directory: Path) -> None:
    agent = own_directory / "moody_agent.py"
    agent.write_text(
        "import os, pathlib, replaykit as rk\n"
        "@rk.tool\n"
        "def lookup(user): ...\n"
        "def answer(question):\n"
        "    lookup('u1')\n"
        "    count = pathlib.Path('count')\n"
        "    number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "    count.write_text(str(number))\n"
        "    print('run', number)\n"
        "    return 'ok' if number != 2 else 'bad'\n"
    )
    directory = case(repeat(3, 2))

    assert cli(["replay", str(directory), "--agent", "moody_agent:answer", "--evidence", "kept"]) == 0

    (kept,) = Path("kept").iterdir()
    said = [(kept / name / "stdout.log").read_text() for name in ("", "run-2", "run-3")]
    result = msgspec.json.decode((kept / "result.json").read_bytes(), type=ReplayResult)
    assert said == ["run 1\n", "run 2\n", "run 3\n"]
    assert [run.output for run in result.more] == ["bad", "ok"]
    assert json.loads((kept / "result.json").read_bytes())["desired"][0]["run"] == 1
