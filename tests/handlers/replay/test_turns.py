"""Tools that ran side by side end in their recorded order, whoever waits for them."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.cases.fixtures import read_fixtures, write_fixtures
from replaykit.handlers.replay.completion_order import ended_before, turns_of

NAMES = ("slow", "middle", "quick")


class Race:
    """Three tools that end in the opposite order of their beginning: each waits until the job of the next is done."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.ended = {name: threading.Semaphore(0) for name in NAMES}

    def run(self, name: str) -> str:
        after = dict(itertools.pairwise(NAMES)).get(name)
        if after is not None:
            assert self.ended[after].acquire(timeout=10)
        self.ran.append(name)
        return name.upper()

    def done(self, name: str) -> Callable[[object], None]:
        """Return a callback for the future of a tool: by then, the end of the call is recorded."""
        return lambda _: self.ended[name].release()

    async def arun(self, name: str) -> str:
        return await asyncio.to_thread(self.run, name)


def in_threads(race: Race) -> list[str]:
    @rk.tool(name="work")
    def work(name: str) -> str:
        return race.run(name)

    with ThreadPoolExecutor(3) as pool:
        jobs = {name: pool.submit(work, name) for name in NAMES}
        for name, job in jobs.items():
            job.add_done_callback(race.done(name))
        return [job.result() for job in as_completed(jobs.values())]


def in_tasks(race: Race) -> list[str]:
    @rk.tool(name="work")
    async def work(name: str) -> str:
        return await race.arun(name)

    async def all_of_them() -> list[str]:
        tasks = {name: asyncio.ensure_future(work(name)) for name in NAMES}  # as_completed begins them in any order
        for name, task in tasks.items():
            task.add_done_callback(race.done(name))
        return [await task for task in asyncio.as_completed(tasks.values())]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("agent", [in_threads, in_tasks])
def test_results_come_in_the_order_they_came_in(agent, store: rk.Store) -> None:
    race = Race()
    with rk.record("race", store=store) as run:
        seen = agent(race)
    trace = store.load(run.id)

    assert seen == ["QUICK", "MIDDLE", "SLOW"]
    for _ in range(5):
        with rk.replaying(rk.Tape.of(trace)) as replayer:
            assert agent(race) == seen
        assert [d for d in replayer.all_deviations() if d.kind not in ("undecided", "unordered")] == []
    assert len(race.ran) == 3


def test_a_case_says_who_ended_before_whom(store: rk.Store) -> None:
    with rk.record("race", store=store) as run:
        in_threads(Race())
    calls = list(store.load(run.id).calls)
    write_fixtures(Path("case"), calls)
    kept = read_fixtures("case")

    numbers = {call.arguments["name"]: call.seq for call in calls}
    expected = {numbers["slow"]: numbers["middle"], numbers["middle"]: numbers["quick"]}
    assert {call.seq: call.after for call in kept if call.after is not None} == ended_before(calls) == expected
    with rk.replaying(rk.Tape(kept)):
        assert in_threads(Race()) == ["QUICK", "MIDDLE", "SLOW"]


def test_who_waits_for_a_call_that_is_not_made_any_more_waits_for_a_moment_only(store: rk.Store) -> None:
    with rk.record("race", store=store) as run:
        in_threads(Race())

    @rk.tool(name="work")
    def work(name: str) -> str:
        raise AssertionError(name)

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert work("slow") == "SLOW"


def test_one_after_the_other_nobody_waits(store: rk.Store) -> None:
    @rk.tool
    def add(a: int) -> int:
        return a + 1

    with rk.record("line", store=store) as run:
        assert [add(n) for n in range(20)] == list(range(1, 21))

    assert turns_of(list(store.load(run.id).calls)) is None
