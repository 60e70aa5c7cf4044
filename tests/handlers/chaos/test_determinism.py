"""The same seed strikes the same calls, whatever comes first."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples, sampled

import replaykit as rk
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.candidates.worker_protocol import WorkerJob
from replaykit.candidates.workers import WorkerCandidate
from replaykit.contracts.contract import ChaosScenario
from replaykit.handlers.chaos.chance import draw, number_in
from replaykit.model.faults import ChaosPlan, ToolFault, ToolTrouble
from replaykit.trials.chaos import ChaosResult, ChaosTrial, run_chaos

PLAN = ChaosPlan(
    tool_faults=(
        ToolFault(mode=ToolTrouble.TIMEOUT, tool="fetch", probability=0.3),
        ToolFault(mode=ToolTrouble.ERROR, tool="fetch", probability=0.5, after_calls=2),
        ToolFault(mode=ToolTrouble.EMPTY, tool="store", probability=0.4),
    )
)


@rk.tool
def fetch(number: int) -> str:
    return f"page {number}"


@rk.tool
def store(number: int) -> str:
    return "stored"


@rk.tool
async def afetch(number: int) -> str:
    return f"page {number}"


def _tried(number: int) -> str:
    try:
        return fetch(number)
    except (TimeoutError, rk.ToolError):
        return "no page"


def struck(run: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    """What was injected, by where: the order in which it happened is the scheduler's business."""
    return sorted((call.path, call.name, call.faults) for call in run.calls)


def threaded(workers: int, calls: int, jitter: random.Random) -> Any:
    """An agent whose threads come to their calls in another order each time."""

    def agent(_: str) -> int:
        def work() -> None:
            for number in range(calls):
                if jitter.random() < 0.3:
                    time.sleep(0)  # lets another thread go first
                _tried(number)
                store(number)

        threads = [threading.Thread(target=work) for _ in range(workers)]
        jitter.shuffle(order := list(threads))
        for thread in threads:
            thread.start()
        for thread in order:
            thread.join()
        return workers

    return agent


@given(st.integers(0, 2**53), st.integers(1, 4), st.integers(1, 4), st.integers())
@settings(max_examples=examples(25))
def test_threads_in_any_order_meet_the_same_faults(
    worlds: Any, seed: int, workers: int, calls: int, chance: int
) -> None:
    plan = ChaosPlan(seed=seed, tool_faults=PLAN.tool_faults)

    first = worlds.live(threaded(workers, calls, random.Random(chance)), plan)
    second = worlds.live(threaded(workers, calls, random.Random(chance + 1)), plan)

    assert struck(first) == struck(second)


@given(st.integers(0, 2**53), st.permutations(range(5)))
@settings(max_examples=examples(25))
def test_gathered_tasks_that_end_in_any_order_meet_the_same_faults(worlds: Any, seed: int, order: list[int]) -> None:
    async def agent(_: str, turns: list[int]) -> list[Any]:
        async def one(number: int) -> Any:
            for _ in range(turns[number]):
                await asyncio.sleep(0)
            await afetch(number)
            return await afetch(number + 10)

        return await asyncio.gather(*(one(number) for number in range(5)), return_exceptions=True)

    plan = ChaosPlan(seed=seed, tool_faults=(ToolFault(mode=ToolTrouble.TIMEOUT, probability=0.4),))

    runs = [worlds.live(lambda q, turns=turns: agent(q, turns), plan) for turns in ([0] * 5, list(order))]

    assert struck(runs[0]) == struck(runs[1])
    assert [type(one) for one in runs[0].output or ()] == [type(one) for one in runs[1].output or ()]


def test_a_pool_of_any_size_meets_the_same_faults(worlds: Any) -> None:
    def agent(workers: int) -> Any:
        def run(_: str) -> list[str]:
            with ThreadPoolExecutor(workers) as pool:
                return list(pool.map(_tried, range(12)))

        return run

    runs = [worlds.live(agent(workers), PLAN) for workers in (1, 3, 12)]

    assert runs[0].output == runs[1].output == runs[2].output
    assert "no page" in runs[0].output


@given(st.floats(0, 1), st.integers())
def test_a_probability_of_nought_never_strikes_and_one_always_does(share: float, seed: int) -> None:
    chance = draw(seed, "anything")

    assert not chance.strikes(0.0)
    assert chance.strikes(1.0)
    assert not chance.strikes(share) or chance.strikes(min(1.0, share + 0.1))


def test_a_probability_is_kept_over_many_calls() -> None:
    strikes = sum(draw(1, "fault", number).strikes(0.3) for number in range(20_000))

    assert 5_700 < strikes < 6_300


def test_other_seeds_faults_and_places_are_other_chances() -> None:
    drawn = {
        draw(seed, place, fault, path).drawn
        for seed in range(3)
        for place in ("", "proxy")
        for fault in range(3)
        for path in ("", "/a#0", "/a#1")
    }

    assert len(drawn) == 3 * 2 * 3 * 3


@pytest.mark.parametrize(
    ("path", "number"),
    [("", 0), ("/search#3", 3), ("/~worker#2/GET host/a#b/c#1", 3), ("/a#0/b#0", 0), ("/x#y", 0)],
)
def test_the_number_in_a_path_is_what_began_before(path: str, number: int) -> None:
    assert number_in(path) == number


def test_workers_count_those_that_were_started_before_them(worlds: Any) -> None:
    def agent(_: str) -> list[str]:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(_tried, range(6)))

    plan = ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble.ERROR, after_calls=2),))

    assert worlds.live(agent, plan).output == ["page 0", "page 1", *["no page"] * 4]


def sequences(result: ChaosResult) -> list[Any]:
    return [
        (run.seed, run.verdict, run.reason, [(one.fault, one.call, one.path) for one in run.faults])
        for run in result.runs
    ]


def _trial(runs: int) -> ChaosTrial:
    return ChaosTrial(scenarios=(ChaosScenario(name="storm", plan=PLAN),), inputs=("q",), runs=runs)


def _agent(_: str) -> int:
    pages: list[str] = []

    def work(first: int) -> None:
        for number in range(first, first + 2):
            pages.append(_tried(number))

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not store(len(pages)):
        raise RuntimeError("not stored")
    return len(pages)


WORKER = """
import replaykit as rk

@rk.tool
def fetch(number):
    return f"page {number}"

def answer(_):
    return [fetch(number) for number in range(4)]
"""


@pytest.mark.exhaustive
@sampled("runs", [20, 100], count=1)
def test_workers_that_are_processes_meet_the_same_faults_however_many_there_are(own_directory: Path, runs: int) -> None:
    Path("chaos_worker.py").write_text(WORKER)
    job = WorkerJob(spec="chaos_worker:answer", sort="python", directories=(str(own_directory),))

    with WorkerCandidate(job) as candidate:
        first, other = (sequences(run_chaos(_trial(runs), candidate, jobs=jobs)) for jobs in (1, 4))

    assert other == first
    assert {verdict for _, verdict, _, _ in first} == {"held", "broke"}


@sampled("runs", [120, 1000], count=1)
def test_seeded_runs_are_the_same_twice_on_one_worker_and_twice_on_four(runs: int) -> None:
    results = [run_chaos(_trial(runs), CallableCandidate(_agent), jobs=jobs) for jobs in (1, 1, 4, 4)]
    first, *others = map(sequences, results)

    assert others == [first] * 3
    assert len(first) == runs
    assert {verdict for _, verdict, _, _ in first} == {"held", "broke"}
    assert len({tuple(faults) for *_, faults in first}) > min(100, runs // 2)  # seeds differ from each other
