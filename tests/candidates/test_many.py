"""Many replays: the order is kept, and the exit code says what they add up to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import replaykit as rk
from replaykit.candidates.attempt import Attempt
from replaykit.candidates.pool import replay_many
from replaykit.candidates.replay import exit_code
from replaykit.cases.case import ReplayCase
from replaykit.cli import run as cli
from replaykit.errors import ExitCode
from replaykit.model.result import Verdict
from replaykit.model.run import RunStatus, TraceRun

MakeCase = Callable[..., Path]
Runner = Callable[..., str]

ANSWER = Attempt(run=TraceRun(id="r", status=RunStatus.SUCCESS, output_json=msgspec.Raw(b'"fine"')))


class Meeting:
    """A candidate whose runs wait for each other: they end only when all of them are under way."""

    label = "meeting"

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count, timeout=10)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        self.barrier.wait()
        return ANSWER


class LastFirst:
    """A candidate whose runs end in the opposite order: each waits for the one after it."""

    label = "last first"

    def __init__(self, ids: list[str]) -> None:
        self.done = {case_id: threading.Event() for case_id in ids}
        self.next = dict(pairwise(ids))
        self.ended: list[str] = []

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        if case.id in self.next:
            assert self.done[self.next[case.id]].wait(10)
        self.ended.append(case.id)
        self.done[case.id].set()
        return ANSWER


def results(*verdicts: str) -> list[rk.ReplayResult]:
    return [rk.ReplayResult(case_id=f"case-{n}", verdict=Verdict(word)) for n, word in enumerate(verdicts)]


def test_results_come_in_the_order_of_the_cases_whoever_ends_first(make_case: MakeCase) -> None:
    ids = ["a", "b", "c"]
    candidate = LastFirst(ids)

    found = replay_many([rk.load_case(make_case(name)) for name in ids], candidate, jobs=3)

    assert candidate.ended == ["c", "b", "a"]
    assert [result.case_id for result in found] == ids


def test_as_many_run_at_once_as_there_are_jobs(make_case: MakeCase) -> None:
    case = rk.load_case(make_case())

    found = replay_many([case] * 4, Meeting(4), jobs=4)

    assert [result.verdict for result in found] == [Verdict.FIXED] * 4


def test_one_job_runs_one_after_the_other(make_case: MakeCase) -> None:
    class Alone:
        label = "alone"
        inside = 0

        def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
            self.inside += 1
            assert self.inside == 1
            self.inside -= 1
            return ANSWER

    case = rk.load_case(make_case())

    assert len(replay_many([case] * 5, Alone())) == 5


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_end_is_told_once(make_case: MakeCase, jobs: int) -> None:
    done: list[None] = []
    case = rk.load_case(make_case())

    replay_many([case] * 5, Meeting(1), jobs=jobs, on_done=lambda: done.append(None))

    assert len(done) == 5


def test_no_case_gives_no_result() -> None:
    assert replay_many([], Meeting(1), jobs=4) == []


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["fixed"], ExitCode.PASSED),
        (["fixed", "fixed"], ExitCode.PASSED),
        (["reproduced"], ExitCode.FAILED),
        (["broken"], ExitCode.FAILED),
        (["diverged"], ExitCode.FAILED),
        (["flaky"], ExitCode.FAILED),
        (["fixed", "reproduced", "fixed"], ExitCode.FAILED),
        (["inconclusive"], ExitCode.CANNOT),
        (["fixed", "inconclusive"], ExitCode.CANNOT),
        (["reproduced", "inconclusive", "broken"], ExitCode.FAILED),
        ([], ExitCode.NOTHING),
    ],
)
def test_the_exit_code_is_that_of_the_worst(verdicts: list[str], code: ExitCode) -> None:
    assert exit_code(results(*verdicts)) == code


@pytest.mark.parametrize("expected", ["fixed", "reproduced", "broken", "diverged"])
def test_what_is_expected_passes_and_all_else_fails(expected: str) -> None:
    for word in ("fixed", "reproduced", "broken", "diverged", "flaky"):
        wanted = ExitCode.PASSED if word == expected else ExitCode.FAILED
        assert exit_code(results(word), Verdict(expected)) == wanted
    assert exit_code(results(expected, "inconclusive"), Verdict(expected)) == ExitCode.CANNOT


def test_a_directory_of_cases_is_replayed_in_order_side_by_side(
    make_case: MakeCase, runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("b-broken", "a-fixed", "c-crashes"):
        make_case(name)
    command = runner("""
        name = os.environ['REPLAYKIT_CASE_PATH'].split('/')[-2]
        if name == 'c-crashes': sys.exit('no luck')
        tell(status='error' if name == 'b-broken' else 'success', final_output='x')
    """)

    code = cli(["replay", "cases", "--runner-cmd", command, "-j", "3"])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["fixed", "a-fixed"],
        ["reproduced", "b-broken"],
        ["inconclusive", "c-crashes"],
    ]
    assert lines[-1] == "3 replays: 1 reproduced, 1 fixed, 1 inconclusive"
    assert code == 1, "having failed comes before not being able to tell"
