"""Stale answers: an earlier one to the same question, else of the same tool, and the same one in every execution."""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

import replaykit as rk
from replaykit.handlers.chaos.handler import strand_of
from replaykit.model.events import Call
from replaykit.model.faults import ChaosPlan, ToolFault, ToolTrouble
from replaykit.model.run import TraceRun

STALE = ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble.STALE, tool="price"),))
numbers = itertools.count(1)


@rk.tool
def price(item: str) -> str:
    return f"{item} {next(numbers)}"


@rk.tool
def shop(items: list[str]) -> list[str]:
    return [price(item) for item in items]


@pytest.fixture(autouse=True)
def from_one() -> None:
    global numbers
    numbers = itertools.count(1)


def struck(run: TraceRun) -> list[tuple[str, ...]]:
    return [call.faults for call in run.calls if call.name == "price"]


def test_the_same_question_is_answered_as_it_was_before(worlds: Any) -> None:
    run = worlds.live(lambda _: [price(item) for item in ("tea", "milk", "tea", "milk", "rum")], STALE)

    # The second is a first question: what the tool said last. The true answers go on all the while.
    assert run.output == ["tea 1", "tea 1", "tea 1", "milk 2", "milk 4"]
    assert struck(run) == [(), *[("tool.stale",)] * 4]


def test_calls_inside_of_others_are_of_the_same_strand(worlds: Any) -> None:
    run = worlds.live(lambda _: [shop(["tea", "milk"]), shop(["tea"]), price("milk")], STALE)

    assert run.output == [["tea 1", "tea 1"], ["tea 1"], "milk 2"]


def test_what_failed_is_no_earlier_answer(worlds: Any) -> None:
    @rk.tool(name="price")
    def shaky(item: str) -> str:
        if next(numbers) == 1:
            raise ValueError("closed")
        return "open"

    def agent(_: str) -> list[str]:
        said = []
        for _ in range(3):
            try:
                said.append(shaky("tea"))
            except ValueError as error:
                said.append(str(error))
        return said

    run = worlds.live(agent, STALE)

    assert run.output == ["closed", "open", "open"]
    assert struck(run) == [(), (), ("tool.stale",)]


def threads(_: str) -> list[Any]:
    """Each thread asks twice, and they wait for each other in between."""
    said: dict[int, list[str]] = {}
    meeting = threading.Barrier(3)

    def work(number: int) -> None:
        first = price("tea")
        meeting.wait(20)
        said[number] = [first, price("tea")]

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [said[number] for number in range(3)]


def test_threads_know_nothing_of_each_others_answers(worlds: Any) -> None:
    run = worlds.live(threads, STALE)

    assert all(first == second for first, second in run.output)
    assert len({first for first, _ in run.output}) == 3


def pool(_: str) -> list[str]:
    with ThreadPoolExecutor(3) as workers:
        return list(workers.map(price, ["tea"] * 6))


def test_where_nobody_knows_what_came_first_nothing_is_stale(worlds: Any) -> None:
    run = worlds.live(pool, STALE)

    assert struck(run) == [()] * 6


async def turns(_: str) -> list[str]:
    """As many frameworks do it: each call in a task of its own, one after the other."""

    async def one(item: str) -> str:
        return price(item)

    return [await asyncio.create_task(one(item)) for item in ("tea", "milk", "tea")]


def test_a_tape_says_what_came_first_in_other_strands_too(worlds: Any) -> None:
    calm = worlds.live(turns)
    assert calm.output == ["tea 1", "milk 2", "tea 3"]

    assert struck(worlds.live(turns, STALE)) == [(), (), ()]
    for _ in range(3):
        taped = worlds.taped(turns, calm.events, STALE)
        assert taped.output == ["tea 1", "tea 1", "tea 1"]
        assert struck(taped) == [(), ("tool.stale",), ("tool.stale",)]


def test_what_ran_side_by_side_on_the_tape_is_not_earlier(worlds: Any, store: rk.Store) -> None:
    meeting = threading.Barrier(2)

    @rk.tool(name="price")
    def together(item: str) -> str:
        meeting.wait(20)
        return item

    def agent(_: str) -> list[str]:
        with ThreadPoolExecutor(2) as workers:
            return list(workers.map(together, ["tea", "milk"]))

    with rk.record("calm", store=store) as run:
        agent("")
    calm = store.load(run.id)
    at_once = [replace(event, duration_s=0.0) if isinstance(event, Call) else event for event in calm.events]

    assert worlds.taped(agent, calm.events, STALE).output == ["tea", "milk"]
    assert worlds.taped(agent, at_once, STALE).output == ["tea", "milk"], "positions tell, not times"


@pytest.mark.parametrize(
    ("path", "strand"),
    [
        ("", ""),
        ("/shop#0/price#3", ""),
        ("/~work#1", "/~work#1"),
        ("/~work#1/shop#0", "/~work#1"),
        ("/shop#2/~work#0/a#1/~Thread-1#12/b#0", "/shop#2/~work#0/a#1/~Thread-1#12"),
        ("/GET host/~home#x", ""),
    ],
)
def test_a_strand_is_the_innermost_job_of_a_path(path: str, strand: str) -> None:
    assert strand_of(path) == strand
