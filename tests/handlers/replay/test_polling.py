"""Agents that poll without a pause, or compute: the clock must neither wait for them for good, nor hurry."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from time import perf_counter as real_clock
from time import process_time as cpu_clock
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk

WORK_S = 0.2
QUICK_S = 0.02
TOO_LONG_S = 20.0
"""On a busy machine."""


@rk.tool
def work(name: str, seconds: float = WORK_S) -> str:
    time.sleep(seconds)
    return name


@rk.tool
async def awork(name: str, seconds: float = WORK_S) -> str:
    await asyncio.sleep(seconds)
    return name


def compute(seconds: float) -> None:
    until = cpu_clock() + seconds
    while cpu_clock() < until:
        sum(range(1000))


def in_threads(*names: str, seconds: float = WORK_S) -> list[str]:
    """A list to which threads add what their calls return."""
    found: list[str] = []
    for name in names:
        threading.Thread(target=lambda name=name: found.append(work(name, seconds))).start()
    return found


def without_a_pause() -> str:
    found = in_threads("a")
    while not found:
        pass
    return found[0]


def with_empty_sleeps() -> int:
    found = in_threads("a", "b", "c")
    while len(found) < 3:
        time.sleep(0)
    return len(found)


def again_and_again() -> int:
    for number in range(6):
        found = in_threads(str(number))
        while not found:
            time.sleep(0)
    return 6


async def in_a_loop() -> str:
    task = asyncio.create_task(awork("a"))
    while not task.done():
        await asyncio.sleep(0)
    return task.result()


async def in_a_loop_for_a_thread() -> str:
    found = in_threads("a")
    while not found:
        await asyncio.sleep(0)
    return found[0]


def until_a_deadline() -> bool:
    found = in_threads("a")
    deadline = time.monotonic() + 5 * WORK_S
    while not found and time.monotonic() < deadline:
        pass
    return bool(found)


async def in_a_loop_until_a_deadline() -> bool:
    task = asyncio.create_task(awork("a"))
    deadline = time.monotonic() + 5 * WORK_S
    while not task.done() and time.monotonic() < deadline:
        await asyncio.sleep(0)
    return task.done()


def run(agent: Callable[[], Any]) -> Any:
    return asyncio.run(agent()) if inspect.iscoroutinefunction(agent) else agent()


def replayed(agent: Callable[[], Any], store: rk.Store) -> tuple[Any, Any, list[tuple[str, str]]]:
    """What an agent returns when it is recorded and replayed, and what the replay says of it."""
    with rk.record("polls", store=store) as recorded:
        before = run(agent)
    with rk.replaying(rk.Tape.of(store.load(recorded.id))) as replayer:
        after = run(agent)
    return before, after, [(deviation.kind, deviation.text) for deviation in replayer.all_deviations()]


@sampled(
    "agent",
    [
        without_a_pause,
        with_empty_sleeps,
        again_and_again,
        in_a_loop,
        in_a_loop_for_a_thread,
        until_a_deadline,
        in_a_loop_until_a_deadline,
    ],
    count=3,
)
def test_what_is_polled_for_comes_soon_and_is_in_doubt(agent: Callable[[], Any], store: rk.Store) -> None:
    began = real_clock()
    before, after, deviations = replayed(agent, store)

    assert after == before
    assert {kind for kind, _ in deviations} <= {"undecided", "unordered"}
    assert any(kind == "undecided" and "computed" in text for kind, text in deviations)
    assert real_clock() - began < TOO_LONG_S


def test_a_thread_that_computes_for_a_moment_holds_the_clock(store: rk.Store) -> None:
    def agent() -> bool:
        found = in_threads("a", seconds=100 * QUICK_S)  # a busy machine may take ten times as long to compute
        compute(QUICK_S)
        return bool(found)

    before, after, deviations = replayed(agent, store)

    assert after is before is False
    assert not any("computed" in text for _, text in deviations)


def test_computing_alone_is_in_no_doubt(store: rk.Store) -> None:
    def agent() -> str:
        work("a", QUICK_S)
        compute(0.7)
        return work("b", QUICK_S)

    assert replayed(agent, store) == ("b", "b", [])


def test_a_look_after_computing_is_in_doubt_if_a_call_follows(store: rk.Store) -> None:
    def agent() -> None:
        work("a", QUICK_S)
        compute(WORK_S)
        time.monotonic()
        time.sleep(QUICK_S)
        work("b", QUICK_S)

    _, _, deviations = replayed(agent, store)
    assert [kind for kind, _ in deviations] == ["undecided"]
    assert "looked at the clock after a call" in deviations[0][1]


def test_a_look_after_computing_is_in_doubt_after_the_last_call(store: rk.Store) -> None:
    def agent() -> None:
        work("a", QUICK_S)
        compute(WORK_S)
        time.monotonic()

    _, _, deviations = replayed(agent, store)
    assert [kind for kind, _ in deviations] == ["undecided"]
    assert "looked at the clock after a call" in deviations[0][1]


@pytest.mark.parametrize("seconds", [0.0, WORK_S])
def test_a_look_before_the_last_call_and_a_pause_after_it_are_in_no_doubt(seconds: float, store: rk.Store) -> None:
    def agent() -> None:
        work("a", QUICK_S)
        time.monotonic()
        work("b", QUICK_S)
        time.sleep(seconds)

    assert replayed(agent, store)[2] == []


def test_a_run_says_how_long_it_went_on_after_its_last_call(store: rk.Store) -> None:
    with rk.record("goes on", store=store) as goes_on:
        work("a", QUICK_S)
        time.sleep(WORK_S)
    with rk.record("ends", store=store) as ends:
        time.sleep(WORK_S)
        work("a", QUICK_S)

    assert store.load(goes_on.id).chance.after_calls_s == pytest.approx(WORK_S, abs=0.1)
    assert store.load(ends.id).chance.after_calls_s < WORK_S
