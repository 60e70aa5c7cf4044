"""Threads that go on after calls that ended at nearly the same moment: a fix has to hold in any order of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

import replaykit as rk
from replaykit.candidates.replay import other_orders


@rk.tool
def look(place: str) -> str:
    time.sleep(0.1)
    return f"nothing in {place}"


async def looked_in_threads() -> list[str]:
    """Look in two places at once, and return them in the order in which that ended."""
    ended: list[str] = []

    def one(place: str) -> None:
        look(place)
        ended.append(place)

    await asyncio.gather(asyncio.to_thread(one, "cellar"), asyncio.to_thread(one, "attic"))
    return ended


def failing(_: str) -> str:
    asyncio.run(looked_in_threads())
    raise RuntimeError("it is nowhere")


@pytest.fixture
def recorded_order(store: rk.Store) -> list[str]:
    """The order in which the calls of the case `case` ended, a moment one after the other."""
    with pytest.raises(RuntimeError), rk.record("search", store=store, input="where?") as run:
        failing("where?")
    trace = store.load(run.id)
    calls = [call for call in trace.calls if call.span is not None]
    first_s = min(call.span.end_s or 0.0 for call in calls if call.span)
    close = {call.seq: replace(call.span, end_s=first_s + call.span.end / 10_000) for call in calls if call.span}
    events = tuple(replace(event, span=close.get(event.seq)) if event.seq in close else event for event in trace.events)
    rk.scaffold(replace(trace, events=events), "case")
    return [call.arguments["place"] for call in sorted(calls, key=lambda call: close[call.seq].end or 0)]


def replayed(candidate: Callable[[str], str]) -> rk.ReplayResult:
    return rk.replay("case", candidate)


def test_a_fix_that_holds_in_any_order_is_one(recorded_order: list[str]) -> None:
    orders: list[list[str]] = []

    def fixed(_: str) -> str:
        orders.append(asyncio.run(looked_in_threads()))
        return "in the garden"

    assert replayed(failing).verdict is rk.Verdict.REPRODUCED
    result = replayed(fixed)

    assert (result.verdict, result.reason, result.uncertain) == (rk.Verdict.FIXED, "", ())
    assert orders[:2] == [recorded_order, recorded_order[::-1]]


def test_one_that_passes_in_the_recorded_order_alone_is_none(recorded_order: list[str]) -> None:
    def lucky(_: str) -> str:
        if asyncio.run(looked_in_threads()) != recorded_order:
            raise RuntimeError("it is nowhere")
        return "in the garden"

    result = replayed(lucky)

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "too close to call: two threads" in result.reason
    assert "unordered" in [deviation.kind for deviation in result.deviations]


def test_a_candidate_that_is_broken_in_every_order_is_broken(recorded_order: list[str]) -> None:
    orders: list[list[str]] = []

    def broken(_: str) -> str:
        orders.append(asyncio.run(looked_in_threads()))
        raise ValueError("another failure")

    assert replayed(broken).verdict is rk.Verdict.BROKEN
    assert orders == [recorded_order, recorded_order[::-1]]


def test_an_order_that_leads_off_the_tape_is_not_the_recorded_one(recorded_order: list[str]) -> None:
    def fixed(_: str) -> str:
        if asyncio.run(looked_in_threads()) != recorded_order:
            look("garden")
        return "in the garden"

    assert replayed(fixed).verdict is rk.Verdict.FIXED


def test_a_fix_has_to_hold_whether_sleeps_end_in_one_iteration_or_not(store: rk.Store) -> None:
    async def who_is_first() -> int:
        """Two sleeps end at nearly the same moment; what follows them takes one task more turns of the loop."""

        async def patient() -> None:
            await asyncio.sleep(0.1)
            for _ in range(5):
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(patient()), asyncio.create_task(asyncio.sleep(0.101))]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return min(tasks.index(task) for task in done)

    def failing_late(_: str) -> str:
        look("cellar")
        asyncio.run(who_is_first())
        raise RuntimeError("it is nowhere")

    def lucky(_: str) -> str:
        look("cellar")
        if asyncio.run(who_is_first()) == 1:
            raise RuntimeError("it is nowhere")
        return "in the garden"

    with pytest.raises(RuntimeError), rk.record("search", store=store, input="where?") as run:
        failing_late("where?")
    rk.scaffold(store.load(run.id), "case")

    assert replayed(lucky).verdict is rk.Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("choices", "orders"),
    [
        ((2,), [(1,)]),
        ((2, 2), [(0, 1), (1, 0), (1, 1)]),
        ((3,), [(1,), (2,)]),
    ],
)
def test_few_orders_are_all_tried(choices: tuple[int, ...], orders: list[tuple[int, ...]]) -> None:
    assert other_orders(choices) == (orders, True)


def test_of_many_orders_each_tie_is_decided_the_other_way_once_and_all_of_them_together() -> None:
    orders, is_every_order = other_orders((3,) * 5)

    assert not is_every_order
    assert orders == [
        (1, 0, 0, 0, 0),
        (0, 1, 0, 0, 0),
        (0, 0, 1, 0, 0),
        (0, 0, 0, 1, 0),
        (0, 0, 0, 0, 1),
        (2, 2, 2, 2, 2),
    ]
    assert len(other_orders((2,) * 64)[0]) <= 12
