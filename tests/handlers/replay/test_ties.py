"""Moments that were too close to call: a replay says so, and is quiet about those that were not."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.model.events import CallSpan
from replaykit.model.matching import MatchRules, OnMiss


@rk.tool
def work(name: str, seconds: float = 0.0) -> str:
    time.sleep(seconds)
    return name


@rk.tool
async def awork(name: str, seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    return name


def in_a_pool(*jobs: Callable[[], Any]) -> list[Future[Any]]:
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(job) for job in jobs]
    pool.shutdown(wait=False)
    return futures


def sleeping(seconds: float) -> Callable[[], None]:
    return lambda: time.sleep(seconds)


def as_completed_of_sleeps(first_s: float, second_s: float) -> None:
    for future in as_completed(in_a_pool(sleeping(first_s), sleeping(second_s))):
        future.result()


def limit_of_a_future(sleep_s: float, limit_s: float) -> None:
    (future,) = in_a_pool(sleeping(sleep_s))
    with suppress(FutureTimeout):
        future.result(timeout=limit_s)
    future.result()


def limit_of_a_join(sleep_s: float, limit_s: float) -> None:
    thread = threading.Thread(target=sleeping(sleep_s))
    thread.start()
    thread.join(limit_s)
    thread.join()


def limit_of_a_queue(sleep_s: float, limit_s: float) -> None:
    answers: queue.Queue[None] = queue.Queue()
    in_a_pool(lambda: answers.put(time.sleep(sleep_s)))
    with suppress(queue.Empty):
        answers.get(timeout=limit_s)
        return
    answers.get()


def first_of_sleeps(first_s: float, second_s: float) -> None:
    wait(in_a_pool(sleeping(first_s), sleeping(second_s)), return_when=FIRST_COMPLETED)


def first_of_sleeps_long_before_the_end(first_s: float, second_s: float) -> None:
    wait(in_a_pool(sleeping(first_s), sleeping(second_s)), return_when=FIRST_COMPLETED)
    time.sleep(1)


def limit_of_a_task(sleep_s: float, limit_s: float) -> None:
    async def run() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(sleep_s), limit_s)

    asyncio.run(run())


def limit_of_a_job_of_a_loop(sleep_s: float, limit_s: float) -> None:
    async def run() -> None:
        job = asyncio.ensure_future(asyncio.to_thread(time.sleep, sleep_s))
        await asyncio.wait([job], timeout=limit_s)
        await job

    asyncio.run(run())


DECIDING = (
    as_completed_of_sleeps,
    limit_of_a_future,
    limit_of_a_join,
    limit_of_a_queue,
    first_of_sleeps,
    first_of_sleeps_long_before_the_end,
    limit_of_a_task,
    limit_of_a_job_of_a_loop,
)


def ties(agent: Callable[[], Any], store: rk.Store, held_up_s: float = 0.0) -> list[str]:
    """The kinds of what a replay of the unchanged agent notes, after a recording that was held up for so long."""
    before = set(threading.enumerate())
    with rk.record("ties", store=store) as run:
        agent()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    tape = rk.Tape.of(store.load(run.id))
    tape.held_up_s = held_up_s  # and not what the machine of these tests did
    with rk.replaying(tape) as replayer:
        agent()
    return [deviation.kind for deviation in replayer.all_deviations()]


@pytest.mark.parametrize("decide", DECIDING)
@pytest.mark.parametrize(("one_s", "other_s"), [(0.1, 0.12), (0.12, 0.1), (0.1, 0.1)])
def test_timers_that_decide_something_are_too_close_within_50_ms(
    decide: Any, one_s: float, other_s: float, store: rk.Store
) -> None:
    def agent() -> None:
        work("first")
        decide(one_s, other_s)

    assert set(ties(agent, store)) == {"undecided"}


@pytest.mark.parametrize("decide", DECIDING)
@pytest.mark.parametrize(("one_s", "other_s"), [(0.05, 0.15), (0.15, 0.05)])
def test_timers_that_are_far_apart_are_not_too_close(
    decide: Any, one_s: float, other_s: float, store: rk.Store
) -> None:
    def agent() -> None:
        work("first")
        decide(one_s, other_s)

    assert ties(agent, store) == []


@pytest.mark.parametrize("decide", DECIDING)
@pytest.mark.parametrize(("one_s", "other_s"), [(0.05, 0.15), (0.15, 0.05)])
def test_timers_that_are_far_apart_are_too_close_where_the_recording_was_held_up(
    decide: Any, one_s: float, other_s: float, store: rk.Store
) -> None:
    def agent() -> None:
        work("first")
        decide(one_s, other_s)

    assert set(ties(agent, store, held_up_s=0.2)) == {"undecided"}


@pytest.mark.parametrize(("held_up_s", "verdict"), [(0.0, "fixed"), (0.08, "inconclusive")])
def test_a_loop_that_was_held_up_past_a_limit_makes_no_green(held_up_s: float, verdict: str, store: rk.Store) -> None:
    answers: list[str] = []

    async def hurry() -> None:
        done, _ = await asyncio.wait([asyncio.ensure_future(awork("a", 0.01))], timeout=0.1)
        answers.append("in time" if done else "too late")

    def agent(_input: object = None) -> str:
        asyncio.run(hurry())
        if answers[-1] == answers[0]:
            raise LookupError("the way of the recording")
        return "another way"

    with suppress(LookupError), rk.record("held up", store=store) as run:
        agent()
    trace = store.load(run.id)
    # The loop stood still, and found the answer and the limit at once when it went on.
    (call,) = trace.calls
    late = msgspec.structs.replace(call, span=msgspec.structs.replace(call.span, begin_s=0, end_s=0.17))
    chance = msgspec.structs.replace(trace.chance, held_up_s=held_up_s)

    result = rk.replay(msgspec.structs.replace(trace, events=(late,), chance=chance), agent)

    assert answers[:2] == ["in time", "too late"]
    assert result.verdict.value == verdict


@pytest.mark.parametrize(("held_up_s", "expected"), [(0.0, []), (0.08, ["undecided"])])
def test_a_call_that_ended_before_a_limit_is_too_close_where_the_recording_was_held_up(
    held_up_s: float, expected: list[str], store: rk.Store
) -> None:
    async def hurry() -> None:
        await asyncio.wait_for(awork("a", 0.01), 0.12)

    assert ties(lambda: asyncio.run(hurry()), store, held_up_s) == expected


@pytest.mark.parametrize(("held_up_s", "order"), [(0.0, ["b", "a"]), (0.35, ["a", "b"])])
def test_a_task_that_was_held_up_before_its_call_is_not_taken_for_an_edited_one(
    held_up_s: float, order: list[str], store: rk.Store
) -> None:
    ended: list[str] = []

    async def one(name: str, seconds: float) -> None:
        await awork(name, seconds)
        ended.append(name)

    async def both() -> None:
        await asyncio.gather(one("a", 0.15), one("b", 0.01))

    with rk.record("held up", store=store) as run:
        asyncio.run(both())
    # The loop stood still between the begins of the two.
    spans = {
        "a": CallSpan(begin=0, begin_s=0, end=2, end_s=0.35, loop=(1, 0)),
        "b": CallSpan(begin=1, begin_s=0.34, end=3, end_s=0.36, loop=(2, 0)),
    }
    tape = edited_trace(store.load(run.id), **spans)
    tape.held_up_s = held_up_s
    ended.clear()

    with rk.replaying(tape):
        asyncio.run(both())
    assert ended == order


def test_sleeps_beside_each_other_that_decide_nothing_are_not_too_close(store: rk.Store) -> None:
    def agent() -> None:
        work("first")
        for future in in_a_pool(sleeping(0.02), sleeping(0.02), sleeping(0.03)):
            future.result()

    assert ties(agent, store) == []


def test_sleeps_of_one_loop_may_end_in_one_iteration_or_in_several(store: rk.Store) -> None:
    def agent(*seconds: float) -> None:
        async def sleep_together() -> None:
            await asyncio.gather(*map(asyncio.sleep, seconds))

        work("first")
        asyncio.run(sleep_together())

    assert ties(lambda: agent(0.02, 0.1), store) == []
    assert ties(lambda: agent(0.02, 0.03), store) == ["unordered"]


def test_calls_that_were_moved_to_threads_may_come_in_either_order(store: rk.Store) -> None:
    with rk.record("ties", store=store) as run:
        work("a")
        work("b")
    # As on a machine that holds nothing up.
    spans = [CallSpan(begin=0, begin_s=0, end=1, end_s=0.001), CallSpan(begin=2, begin_s=0.002, end=3, end_s=0.003)]
    recorded = zip(store.load(run.id).calls, spans, strict=True)
    calls = [msgspec.structs.replace(call, span=span) for call, span in recorded]

    with rk.replaying(rk.Tape(calls)) as replayer:
        results = [future.result() for future in in_a_pool(lambda: work("a"), lambda: work("b"))]
    assert results == ["a", "b"]
    kinds = [deviation.kind for deviation in replayer.all_deviations() if deviation.kind != "moved"]
    assert kinds == ["unordered"], "there is no timer"


@pytest.mark.parametrize(("apart_s", "expected"), [(0.06, []), (0.02, ["unordered"])])
def test_calls_are_too_close_when_their_threads_may_have_overtaken_each_other(
    apart_s: float, expected: list[str], store: rk.Store
) -> None:
    def agent() -> None:
        for future in as_completed(in_a_pool(lambda: work("a", 0.1), lambda: work("b", 0.1))):
            future.result()

    with rk.record("ties", store=store) as run:
        agent()
    trace = store.load(run.id)
    spans = {
        "a": CallSpan(begin=0, begin_s=0, end=2, end_s=0.1),
        "b": CallSpan(begin=1, begin_s=0, end=3, end_s=0.1 + apart_s),
    }
    calls = [msgspec.structs.replace(call, span=spans[call.arguments["name"]]) for call in trace.calls]

    with rk.replaying(rk.Tape(calls)) as replayer:
        agent()
    assert [deviation.kind for deviation in replayer.all_deviations()] == expected


def test_one_call_more_after_a_look_at_the_clock_is_too_close(store: rk.Store) -> None:
    def poll_until(seconds: float) -> float:
        """Return how late the last look at the clock was."""
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            work("poll", 0.01)
            time.sleep(0.09)
        return now - began

    def replayed(seconds: float) -> tuple[float, set[str]]:
        with rk.replaying(rk.Tape.of(trace), MatchRules(on_miss=OnMiss.REPEAT)) as replayer:
            last_look_s = poll_until(seconds)
        return last_look_s, {deviation.kind for deviation in replayer.all_deviations()}

    with rk.record("polls", store=store) as run:
        poll_until(0.25)
    trace = store.load(run.id)

    last_look_s, kinds = replayed(0.25)  # later than 0.3 s where the machine held the recording up
    assert kinds == set()
    assert replayed(last_look_s + 0.045)[1] == {"repeated", "undecided"}
    assert replayed(last_look_s + 0.65)[1] == {"repeated"}


class Polling:
    """An agent that polls every 50 ms until a deadline, and a recording of it."""

    def __init__(self, store: rk.Store, clock: str = "monotonic") -> None:
        self._clock = clock
        with rk.record("polls", store=store) as run:
            work("first", 0.0)
            work("poll", 0.0)
        self._calls = list(store.load(run.id).calls)

    def tape(self, polls: int, held_up_s: float) -> rk.Tape:
        """A tape of so many polls; the recorded run was held up before it set the deadline."""
        first, poll = self._calls
        calls = [msgspec.structs.replace(first, span=CallSpan(begin=0, begin_s=0, end=1, end_s=0.01))]
        for number in range(polls):
            begin_s = 0.01 + held_up_s + 0.05 * number
            span = CallSpan(begin=2 + 2 * number, begin_s=begin_s, end=3 + 2 * number, end_s=begin_s + 0.01)
            calls.append(msgspec.structs.replace(poll, seq=poll.seq + number, span=span))
        return rk.Tape(calls)

    def replay(self, tape: rk.Tape, *, limit_s: float, most: int = 100) -> set[str]:
        """Replay the agent, and return the kinds of what is noted."""
        with rk.replaying(tape) as replayer:
            work("first", 0.0)
            clock = getattr(time, self._clock)
            deadline = clock() + limit_s
            polls = 0
            while polls < most and clock() < deadline:
                work("poll", 0.0)
                time.sleep(0.04)
                polls += 1
        return {deviation.kind for deviation in replayer.all_deviations()}


@pytest.mark.parametrize("clock", ["monotonic", "time"])
@pytest.mark.parametrize("held_up_s", [0.08, 0.12])
def test_calls_fewer_after_a_look_at_the_clock_are_too_close_where_the_recording_was_held_up(
    held_up_s: float, clock: str, store: rk.Store
) -> None:
    polling = Polling(store, clock)

    # The deadline was set after the pause, and is set before it now; it came 10 ms after the sixth poll began.
    assert polling.replay(polling.tape(6, held_up_s), limit_s=0.26) == {"unused", "undecided"}
    assert polling.replay(polling.tape(6, 0.0), limit_s=0.26) == set()
    assert polling.replay(polling.tape(6, 0.0), limit_s=0.26 - held_up_s) == {"unused"}


def test_a_loop_that_ends_much_earlier_was_edited_though_the_recording_was_held_up(store: rk.Store) -> None:
    polling = Polling(store)

    assert polling.replay(polling.tape(10, 0.04), limit_s=0.26) == {"unused"}


def test_a_loop_that_stops_for_another_reason_was_edited_though_the_recording_was_held_up(store: rk.Store) -> None:
    polling = Polling(store)

    assert polling.replay(polling.tape(6, 0.03), limit_s=5.0, most=5) == {"unused"}


def test_another_argument_is_not_one_call_more(store: rk.Store) -> None:
    def agent(name: str) -> None:
        work(f"{name} at {time.monotonic() > 0}")

    with rk.record("arguments", store=store) as run:
        agent("a")

    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer, suppress(rk.Divergence):
        agent("b")
    assert [deviation.kind for deviation in replayer.all_deviations()] == ["missing", "unused"]


def edited_trace(trace: rk.TraceRun, **spans: CallSpan | None) -> rk.Tape:
    """A tape of the run with other spans, and without the calls that have none."""
    calls = [call for call in trace.calls if spans[call.arguments["name"]] is not None]
    return rk.Tape([msgspec.structs.replace(call, span=spans[call.arguments["name"]]) for call in calls])


def race_that_leaves_a_thread_behind() -> str:
    def slow() -> str:
        time.sleep(0.01)
        return work("late", 0.3)

    futures = in_a_pool(lambda: work("quick", 0.02), slow)
    wait(futures, return_when=FIRST_COMPLETED)
    return "quick" if futures[0].done() else "late"


def test_a_call_that_came_after_the_end_of_the_recorded_run_is_held_until_the_replay_ends(store: rk.Store) -> None:
    with rk.record("late", store=store) as run:
        race_that_leaves_a_thread_behind()
    tape = edited_trace(store.load(run.id), quick=CallSpan(begin=0, begin_s=0, end=1, end_s=0.02), late=None)

    with rk.replaying(tape) as replayer:
        assert race_that_leaves_a_thread_behind() == "quick"
    assert {deviation.kind for deviation in replayer.all_deviations()} == {"undecided", "unordered"}


def test_a_call_that_came_before_the_end_of_the_recorded_run_and_is_not_made_is_too_close(store: rk.Store) -> None:
    def agent(pause_s: float) -> None:
        in_a_pool(lambda: (time.sleep(pause_s), work("left", 0.3)))
        work("main", 0.1)

    with rk.record("late", store=store) as run:
        agent(0.01)
    spans = {"main": CallSpan(begin=0, begin_s=0, end=2, end_s=0.1), "left": CallSpan(begin=1, begin_s=0.08)}
    trace = store.load(run.id)

    with rk.replaying(edited_trace(trace, **spans)) as replayer:
        agent(0.2)
    assert [deviation.kind for deviation in replayer.all_deviations()] == ["unused", "undecided"]


@pytest.mark.parametrize(("seconds", "expected"), [(0.18, {"undecided"}), (0.22, {"undecided"}), (0.02, set())])
def test_what_comes_close_to_the_limit_of_a_wait_for_several_is_too_close(
    seconds: float, expected: set[str], store: rk.Store
) -> None:
    def agent() -> None:
        work("first")
        wait(in_a_pool(sleeping(seconds), sleeping(0.7)), timeout=0.2)
        time.sleep(0.2)

    assert set(ties(agent, store)) == expected
