"""Threads and tasks that outlive a replayed run: they end with it, and nothing they would do happens."""

from __future__ import annotations

import _thread
import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import replaykit as rk

bodies: list[str] = []
"""Tools that ran for real."""


@rk.tool
def work(name: str, seconds: float = 0.0) -> str:
    bodies.append(name)
    time.sleep(seconds)
    return name


@rk.tool
async def awork(name: str) -> str:
    bodies.append(name)
    return name


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    bodies.clear()


def join_all_but(before: set[threading.Thread]) -> None:
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.002)


def recorded(function: Callable[[], Any], store: rk.Store) -> rk.TraceRun:
    before = set(threading.enumerate())
    with rk.record("left", store=store) as run:
        function()
    join_all_but(before)
    bodies.clear()
    return store.load(run.id)


def in_a_pool(function: Callable[..., Any], *args: Any) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function, *args)
    pool.shutdown(wait=False)
    return future


def in_a_daemon(function: Callable[..., Any], *args: Any) -> None:
    threading.Thread(target=function, args=args, daemon=True).start()


@pytest.mark.parametrize("start", [in_a_pool, in_a_daemon])
def test_a_thread_that_sleeps_at_the_end_of_a_run_makes_no_further_call(start: Any, store: rk.Store) -> None:
    def poll() -> None:
        for _ in range(3):
            work("poll")
            time.sleep(0.3)

    def agent() -> None:
        start(poll)
        time.sleep(0.1)
        work("main")

    trace = recorded(agent, store)
    before = set(threading.enumerate())

    with rk.replaying(rk.Tape.of(trace)) as replayer:
        agent()
    join_all_but(before)

    assert bodies == []
    assert [event.arguments["name"] for event in replayer.events()] == ["poll", "main"]
    # A machine that holds up the recording leaves a doubt about the timer.
    assert [one for one in replayer.all_deviations() if one.kind != "undecided"] == []


def test_what_a_left_thread_starts_is_stopped_as_well(store: rk.Store) -> None:
    begun = threading.Event()

    def fan_out() -> None:
        begun.set()
        while not bodies and time.process_time() < until[0]:
            pass  # it is busy when the run ends
        in_a_pool(work, "child").exception()
        bodies.append("went on")

    def agent() -> None:
        until.append(time.process_time() + 0.2)
        in_a_pool(fan_out)
        begun.wait()
        work("main")

    until: list[float] = []
    trace = recorded(agent, store)
    until.clear()
    before = set(threading.enumerate())

    with rk.replaying(rk.Tape.of(trace)):
        agent()
    join_all_but(before)

    assert "child" not in bodies


def test_a_job_that_nobody_has_begun_when_the_run_ends_is_not_done(store: rk.Store) -> None:
    def agent() -> ThreadPoolExecutor:
        pool = ThreadPoolExecutor(1)
        pool.submit(out_of_sight.acquire)
        pool.submit(lambda: in_a_pool(work, "late").result())
        work("main")
        return pool

    out_of_sight = _thread.allocate_lock()  # a lock that no clock knows
    out_of_sight.acquire()
    with rk.record("left", store=store) as run:
        pool = agent()
    out_of_sight.release()
    pool.shutdown()
    bodies.clear()

    with rk.replaying(rk.Tape.of(store.load(run.id))):
        pool = agent()
    out_of_sight.release()
    pool.shutdown()
    assert bodies == []


def test_a_thread_that_waits_for_another_one_ends_with_the_run(store: rk.Store) -> None:
    never: queue.Queue[str] = queue.Queue()

    def agent() -> None:
        in_a_pool(lambda: never.get(timeout=0.2))
        threading.Thread(target=threading.Event().wait, args=(0.2,)).start()
        work("main")

    trace = recorded(agent, store)
    before = set(threading.enumerate())

    with rk.replaying(rk.Tape.of(trace)):
        agent()

    assert set(threading.enumerate()) <= before


def test_a_worker_that_a_replay_has_started_works_for_the_next_one(store: rk.Store) -> None:
    jobs: queue.Queue[str] = queue.Queue()
    answers: queue.Queue[str] = queue.Queue()
    workers: list[threading.Thread] = []

    def serve() -> None:
        while name := jobs.get():
            answers.put(work(name, 0.05))

    def agent() -> list[str]:
        if not workers:
            workers.append(threading.Thread(target=serve, daemon=True))
            workers[0].start()
        jobs.put("a")
        jobs.put("b")
        return [answers.get(), answers.get()]

    trace = recorded_with(agent, store, lambda: (jobs.put(""), workers.pop().join()))

    for _ in range(3):
        with rk.replaying(rk.Tape.of(trace)) as replayer:
            assert agent() == ["a", "b"]
        assert not {"missing", "live"} & {deviation.kind for deviation in replayer.all_deviations()}
    assert bodies == []
    jobs.put("")
    workers[0].join(5)


def recorded_with(function: Callable[[], Any], store: rk.Store, finish: Callable[[], Any]) -> rk.TraceRun:
    with rk.record("left", store=store) as run:
        function()
    finish()
    bodies.clear()
    return store.load(run.id)


def test_a_task_that_outlives_the_replay_is_cancelled_at_its_next_call(store: rk.Store) -> None:
    async def agent() -> asyncio.Task[Any]:
        async def later() -> None:
            await asyncio.sleep(0.01)
            await awork("later")

        task = asyncio.create_task(later())
        await awork("main")
        return task

    async def record() -> rk.TraceRun:
        with rk.record("left", store=store) as run:
            task = await agent()
        await task
        return store.load(run.id)

    async def replay(trace: rk.TraceRun) -> asyncio.Task[Any]:
        with rk.replaying(rk.Tape.of(trace)):
            task = await agent()
        await asyncio.wait([task])
        return task

    trace = asyncio.run(record())
    bodies.clear()

    assert asyncio.run(replay(trace)).cancelled()
    assert bodies == []


def test_what_a_thread_starts_after_the_run_does_not_run_for_real(store: rk.Store) -> None:
    run = recorded(lambda: work("first"), store)
    source, sink = os.pipe()
    started: list[Future[Any]] = []

    def late() -> None:
        os.read(source, 1)  # nobody sees that it waits
        started.append(in_a_pool(work, "late"))

    thread = threading.Thread(target=late, daemon=True)

    def agent() -> None:
        thread.start()
        work("first")
        time.sleep(1.0)

    with rk.replaying(rk.Tape.of(run)):
        agent()
    os.write(sink, b".")
    thread.join(5)
    os.close(source)
    os.close(sink)

    assert not thread.is_alive()
    assert started == []
    assert bodies == []
