"""Time in a replay: it passes as it passed in the recording, and costs nothing."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
from time import monotonic as bound_monotonic
from time import perf_counter as real_clock
from time import sleep as bound_sleep
from typing import Any

import pytest

import replaykit as rk
from replaykit.model.events import ToolCall
from replaykit.model.matching import MatchRules, OnMiss


@rk.tool
def work(name: str, seconds: float) -> str:
    time.sleep(seconds)
    return name


@rk.tool
async def awork(name: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return name


def outcome(function: Any) -> Any:
    return asyncio.run(function()) if inspect.iscoroutinefunction(function) else function()


WORK_S, PAUSE_S, LIMIT_S = 0.05, 0.03, 0.36
"""Of agents with a deadline. They look at the clock well before it, at 0.32 s, and well after it, at 0.40 s."""
CLEAR_S = 0.015
HELD_UP_S = 0.02
"""What a machine may add to a pause: less than what would count as computing."""
MOST_RECORDINGS = 40


def deadline_by_monotonic() -> int:
    deadline, count = time.monotonic() + LIMIT_S, 0
    while time.monotonic() < deadline:
        work("poll", WORK_S)
        time.sleep(PAUSE_S)
        count += 1
    return count


def deadline_by_date() -> int:
    deadline, count = time.time() + LIMIT_S, 0
    while time.time() < deadline:
        work("poll", WORK_S)
        time.sleep(PAUSE_S)
        count += 1
    return count


def deadline_by_bound_names() -> int:
    deadline, count = bound_monotonic() + LIMIT_S, 0
    while bound_monotonic() < deadline:
        work("poll", WORK_S)
        bound_sleep(PAUSE_S)
        count += 1
    return count


def budget_by_perf_counter() -> int:
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < LIMIT_S:
        work("poll", WORK_S)
        time.sleep(PAUSE_S)
        count += 1
    return count


async def deadline_by_loop_time() -> int:
    loop = asyncio.get_running_loop()
    deadline, count = loop.time() + LIMIT_S, 0
    while loop.time() < deadline:
        await awork("poll", WORK_S)
        await asyncio.sleep(PAUSE_S)
        count += 1
    return count


def recorded_clear_of_its_deadline(agent: Any, store: rk.Store) -> tuple[rk.TraceRun, int]:
    """A recording in which no pause of the agent was held up so long that it decided about the next turn.

    What calls took is recorded, what pauses took is not. Where a busy machine wakes an agent late from its last one,
    a replay cannot know why it went no further. A late start of a call looks like computing, which puts it in doubt.
    """
    for _ in range(MOST_RECORDINGS):
        with rk.record("deadline", store=store) as run:
            count = outcome(agent)
        trace = store.load(run.id)
        spans = [call.span for call in trace.events if isinstance(call, ToolCall)]
        looks = [span.end_s - spans[0].begin_s + PAUSE_S for span in spans]
        pauses = [later.begin_s - earlier.end_s for earlier, later in itertools.pairwise(spans)]
        pauses.append(trace.chance.after_calls_s)
        is_prompt = all(pause < PAUSE_S + HELD_UP_S for pause in pauses)
        is_clear = all(look < LIMIT_S - CLEAR_S for look in looks[:-1]) and looks[-1] > LIMIT_S + CLEAR_S
        if is_prompt and is_clear:
            return trace, count
    raise AssertionError(f"of {MOST_RECORDINGS} recordings none was clear of its deadline: {looks}")


@pytest.mark.parametrize(
    "agent",
    [
        deadline_by_monotonic,
        deadline_by_date,
        deadline_by_bound_names,
        budget_by_perf_counter,
        deadline_by_loop_time,
    ],
)
def test_a_deadline_loop_takes_as_many_turns_as_it_took(agent: Any, store: rk.Store) -> None:
    trace, count = recorded_clear_of_its_deadline(agent, store)

    for _ in range(5):
        with rk.replaying(rk.Tape.of(trace)) as replayer:
            assert outcome(agent) == count
        assert replayer.all_deviations() == []


@pytest.mark.parametrize("name", ["CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_BOOTTIME", "CLOCK_REALTIME"])
def test_system_clocks_are_where_the_recording_was(name: str, store: rk.Store) -> None:
    clock = getattr(time, name, None)
    if clock is None:
        pytest.skip(f"no {name} here")

    def agent() -> tuple[float, float]:
        began, began_ns = time.clock_gettime(clock), time.clock_gettime_ns(clock)
        work("slow", 0.1)
        return time.clock_gettime(clock) - began, (time.clock_gettime_ns(clock) - began_ns) / 1e9

    with rk.record("clocks", store=store) as run:
        agent()

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        took = agent()
    assert min(took) >= 0.1


def test_the_elapsed_time_of_a_process_is_where_the_recording_was(store: rk.Store) -> None:
    def agent() -> float:
        began = os.times()
        work("slow", 0.1)
        now = os.times()
        assert now.user >= began.user
        return now.elapsed - began.elapsed

    with rk.record("times", store=store) as run:
        agent()

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        took_s = agent()
    assert took_s >= 0.09  # it counts in ticks of 10 ms when it is recorded


def test_sleeps_cost_nothing(store: rk.Store) -> None:
    def agent(pause_s: float) -> float:
        began = time.monotonic()
        for name in "abc":
            work(name, 0.01)
            time.sleep(pause_s)
        return time.monotonic() - began

    with rk.record("sleeps", store=store) as run:
        agent(0.01)

    trace = store.load(run.id)
    worked_s = sum(call.span.end_s - call.span.begin_s for call in trace.events if isinstance(call, ToolCall))
    began = real_clock()
    with rk.replaying(rk.Tape.of(trace)):
        assert agent(22) == pytest.approx(66 + worked_s, abs=0.1)
    assert real_clock() - began < 1


def test_sleeps_of_tasks_cost_nothing(store: rk.Store) -> None:
    async def agent(pause_s: float) -> float:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(awork("a", 0.02), asyncio.sleep(pause_s))
        return asyncio.get_running_loop().time() - began

    with rk.record("sleeps", store=store) as run:
        asyncio.run(agent(0.01))

    began = real_clock()
    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert asyncio.run(agent(65)) == pytest.approx(65, abs=0.1)
    assert real_clock() - began < 1


def test_all_clocks_agree(store: rk.Store) -> None:
    def moments() -> list[float]:
        return [
            time.time(),
            dt.datetime.now(dt.UTC).timestamp(),
            time.monotonic(),
            time.perf_counter(),
            time.time_ns() / 1e9,
        ]

    def agent() -> list[float]:
        before = moments()
        work("x", 0.15)
        return [after - first for first, after in zip(before, moments(), strict=True)]

    with rk.record("clocks", store=store) as run:
        agent()
    span = next(iter(store.load(run.id).calls)).span
    assert span is not None

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        passed = agent()
    assert passed == pytest.approx([span.end_s - span.begin_s] * len(passed), abs=0.02)


def test_the_date_is_that_of_the_recording(store: rk.Store) -> None:
    with rk.record("date", store=store) as run:
        work("x", 0.05)
        recorded_at = time.time()
    trace = store.load(run.id)
    time.sleep(0.2)

    with rk.replaying(rk.Tape.of(trace)):
        work("x", 0.05)
        assert time.time() == pytest.approx(recorded_at, abs=0.05)
    assert time.time() > recorded_at + 0.2


def test_time_never_stands_still_nor_goes_back(store: rk.Store) -> None:
    with rk.record("steps", store=store) as run:
        work("x", 0.01)

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        moments = [time.monotonic() for _ in range(100)]
        work("x", 0.01)
        moments += [time.monotonic() for _ in range(100)]
    assert all(a < b for a, b in itertools.pairwise(moments))


def test_an_agent_that_spins_comes_to_its_deadline(store: rk.Store) -> None:
    def agent(seconds: float) -> str:
        work("x", 0.01)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pass
        return work("y", 0.01)

    with rk.record("spin", store=store) as run:
        agent(0.01)

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert agent(0.1) == "y"


def test_a_longer_deadline_polls_more(store: rk.Store) -> None:
    def agent(seconds: float) -> int:
        deadline, count = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            work("poll", 0.05)
            count += 1
        return count

    with rk.record("polls", store=store) as run:
        count = agent(0.2)

    with rk.replaying(rk.Tape.of(store.load(run.id)), MatchRules(on_miss=OnMiss.REPEAT)):
        assert count < agent(0.4) <= 2 * count


def test_a_child_process_has_real_time(store: rk.Store) -> None:
    def agent() -> tuple[int, str]:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.2)"])
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return process.wait(), work("x", 0.05)

    with rk.record("child", store=store) as run:
        found = agent()

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert agent() == found == (0, "x")


def test_threads_of_others_have_real_time(store: rk.Store) -> None:
    with rk.record("others", store=store) as run:
        work("x", 0.01)
    asked, answered, found = threading.Event(), threading.Event(), []

    def other() -> None:
        asked.wait()
        found.append(time.monotonic())
        answered.set()

    thread = threading.Thread(target=other)
    thread.start()
    with rk.replaying(rk.Tape.of(store.load(run.id))):
        work("x", 0.01)
        time.sleep(3600)
        asked.set()
        answered.wait()
    thread.join()
    assert found[0] == pytest.approx(time.monotonic(), abs=60)


def test_everything_is_put_back(store: rk.Store) -> None:
    watched = (
        (time, "sleep monotonic monotonic_ns perf_counter perf_counter_ns"),
        (threading, "Lock RLock _allocate_lock _time"),
        (threading.Thread, "start join"),
        (asyncio.BaseEventLoop, "_run_once call_soon_threadsafe create_task"),
        (subprocess.Popen, "__init__"),
    )
    before = [getattr(owner, name) for owner, names in watched for name in names.split()]
    with rk.record("put back", store=store) as run:
        work("x", 0.01)

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        work("x", 0.01)
        assert bound_sleep is not before[0]
    assert [getattr(owner, name) for owner, names in watched for name in names.split()] == before
    assert bound_sleep is before[0]


@pytest.mark.parametrize("name", ["Lock", "RLock"])
def test_what_makes_locks_can_be_sent_to_another_process(name: str, store: rk.Store) -> None:
    """As managers of `multiprocessing` do, which hold these for their clients."""

    def agent() -> bool:
        work("a", 0.01)
        maker = getattr(threading, name)
        return pickle.loads(pickle.dumps(maker)) is maker

    with rk.record("locks", store=store) as run:
        assert agent()
    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert agent()


def test_trio_jumps_as_well(store: rk.Store) -> None:
    trio = pytest.importorskip("trio")

    @rk.tool(name="slow")
    async def slow() -> str:
        await trio.sleep(0.3)
        return "in time"

    async def main() -> str:
        with trio.move_on_after(0.1):
            return await slow()
        return "late"

    with rk.record("trio", store=store) as run:
        found = trio.run(main)

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert trio.run(main) == found == "late"
