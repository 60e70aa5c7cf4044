"""A recording says how long a busy machine held up its threads, once something else goes on beside them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.thread import _WorkItem
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.cases.case import load_case
from replaykit.cases.scaffold import scaffold
from replaykit.seam import scheduling_delays

COUNTER = Path("/proc/thread-self/schedstat")
ENOUGH_S = 0.06
LIMIT_S = 30
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n sum(range(20_000))"

pytestmark = pytest.mark.skipif(not COUNTER.exists(), reason="the kernel does not say how long a thread waits")


@rk.tool
def look_up(name: str) -> str:
    return name


@rk.tool
async def await_answer(name: str) -> str:
    await asyncio.sleep(0)
    return name


@pytest.fixture
def busy_core() -> Iterator[int]:
    """A core with a program that never rests."""
    core = max(os.sched_getaffinity(0))
    busy = subprocess.Popen([sys.executable, "-S", "-c", BUSY], preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    yield core
    busy.kill()
    busy.wait()


def waited_s() -> float:
    return int(COUNTER.read_text(encoding="ascii").split()[1]) / 1e9


def be_held_up(core: int, enough_s: float = ENOUGH_S) -> None:
    """Compute beside another program until this thread has waited long enough for its turns."""
    everywhere = os.sched_getaffinity(0)
    before_s, until = waited_s(), time.monotonic() + LIMIT_S
    os.sched_setaffinity(0, {core})
    try:
        while waited_s() - before_s < enough_s and time.monotonic() < until:
            sum(range(10_000))
    finally:
        os.sched_setaffinity(0, everywhere)


def in_a_job_without_calls(core: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(be_held_up, core).result()


def in_a_job_before_its_call(core: int) -> None:
    def job() -> None:
        be_held_up(core)
        look_up("job")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(job).result()


def in_a_thread(core: int) -> None:
    thread = threading.Thread(target=be_held_up, args=(core,))
    thread.start()
    thread.join()


def in_the_main_thread_after_the_last_call(core: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(look_up, "job").result()
    be_held_up(core)


def in_a_thread_of_a_loop(core: int) -> None:
    asyncio.run(asyncio.to_thread(be_held_up, core))  # type: ignore[arg-type]


def in_a_loop_under_a_limit(core: int) -> None:
    async def agent() -> None:
        async with asyncio.timeout(60):
            await await_answer("first")
            be_held_up(core)
            await await_answer("second")

    asyncio.run(agent())


def open_counters(name: str = "/schedstat") -> list[int]:
    """The open files of that name."""
    found = []
    for file in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that the directory was read with
            if os.readlink(f"/proc/self/fd/{file}").endswith(name):
                found.append(int(file))
    return found


def recorded(agent: Callable[[], Any], store: rk.Store) -> rk.TraceRun:
    with rk.record("agent", store=store) as run:
        look_up("first")
        agent()
    return store.load(run.id)


@sampled(
    "agent",
    [
        in_a_job_without_calls,
        in_a_job_before_its_call,
        in_a_thread,
        in_the_main_thread_after_the_last_call,
        in_a_thread_of_a_loop,
        in_a_loop_under_a_limit,
    ],
    count=3,
    start=1,
)
def test_a_thread_that_the_machine_held_up_is_noted(
    agent: Callable[[int], None], busy_core: int, store: rk.Store
) -> None:
    run = recorded(lambda: agent(busy_core), store)

    assert run.chance.held_up_s >= ENOUGH_S - 0.001


def test_a_thread_that_was_held_up_and_has_not_ended_is_noted(busy_core: int, store: rk.Store) -> None:
    was_held_up, is_over = threading.Event(), threading.Event()

    def job() -> None:
        look_up("job")
        be_held_up(busy_core)
        was_held_up.set()
        is_over.wait(LIMIT_S)

    with ThreadPoolExecutor(1) as pool:
        run = recorded(lambda: pool.submit(job) and was_held_up.wait(LIMIT_S), store)
        is_over.set()

    assert run.chance.held_up_s >= ENOUGH_S - 0.001


def late(original: Callable[..., Any], seconds: float = ENOUGH_S) -> Callable[..., Any]:
    """A method that is held up by something the kernel does not count."""

    def method(*args: Any) -> Any:
        time.sleep(seconds)
        return original(*args)

    return method


def test_a_job_that_begins_late_in_a_pool_with_room_was_held_up(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_WorkItem, "run", late(_WorkItem.run))

    with ThreadPoolExecutor(1) as pool:
        run = recorded(lambda: pool.submit(look_up, "job").result(), store)

    assert run.chance.held_up_s >= ENOUGH_S


def test_a_job_that_waits_for_its_turn_in_a_full_pool_was_not_held_up(store: rk.Store) -> None:
    with ThreadPoolExecutor(1) as pool:
        run = recorded(lambda: list(pool.map(time.sleep, [0.4, 0])), store)

    assert run.chance.held_up_s < 0.4


def test_jobs_that_were_cancelled_leave_room_in_their_pool(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def agent() -> None:
        with ThreadPoolExecutor(1) as pool:
            first, second = pool.submit(time.sleep, 0.05), pool.submit(look_up, "never")
            second.cancel()
            first.result()
            monkeypatch.setattr(_WorkItem, "run", late(_WorkItem.run, 0.4))
            pool.submit(look_up, "job").result()

    run = recorded(agent, store)

    assert run.chance.held_up_s >= 0.4


def test_a_job_whose_end_is_heard_of_late_was_held_up(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Future, "set_result", late(Future.set_result))

    with ThreadPoolExecutor(1) as pool:
        run = recorded(lambda: pool.submit(look_up, "job").result(), store)

    assert run.chance.held_up_s >= ENOUGH_S


def test_a_job_whose_end_the_run_never_hears_of_was_held_up(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_ended = threading.Event()
    set_result = Future.set_result

    def set_result_after_the_run(*args: Any) -> None:
        run_ended.wait(LIMIT_S)
        set_result(*args)

    monkeypatch.setattr(Future, "set_result", set_result_after_the_run)

    with ThreadPoolExecutor(1) as pool:
        before = time.monotonic()
        run = recorded(lambda: (pool.submit(look_up, "job"), time.sleep(0.5)), store)
        took_s = time.monotonic() - before
        run_ended.set()

    assert 0.3 < run.chance.held_up_s < 2 * took_s  # of the job, and what a busy machine adds of the other thread


def test_the_hold_ups_of_two_threads_add_up() -> None:
    hold_ups = scheduling_delays.HoldUps()

    for thread, held_up_s in ((1, 0.03), (2, 0.2), (2, 0.1), (3, 0.04)):
        hold_ups._note_of(thread, held_up_s)

    assert hold_ups.held_up_s == 0.24


def test_an_agent_with_nothing_beside_it_is_not_looked_at(
    busy_core: int, store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    monkeypatch.setattr(scheduling_delays._Thread, "read", lambda _, now: looks.append(now) or 0.0)

    def agent() -> None:
        be_held_up(busy_core)
        look_up("second")

    assert recorded(agent, store).chance.held_up_s == 0
    assert not looks


def test_what_a_thread_waited_before_the_run_is_no_part_of_it(busy_core: int, store: rk.Store) -> None:
    long_s = 8 * ENOUGH_S  # a busy machine holds up the run as well, but not for so long
    with ThreadPoolExecutor(1) as pool:
        pool.submit(be_held_up, busy_core, long_s).result()
        be_held_up(busy_core, long_s)

        run = recorded(lambda: pool.submit(look_up, "job").result(), store)

    assert run.chance.held_up_s < long_s


def test_a_machine_that_does_not_count_is_no_reason_to_fail(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_delays, "_COUNTER", "/proc/no such file")
    monkeypatch.setattr(scheduling_delays, "_NOTED_S", float(LIMIT_S))  # the clock alone says that a thread began late

    run = recorded(lambda: in_a_thread(0), store)

    assert run.chance.held_up_s == 0


def test_a_counter_that_the_agent_has_closed_is_no_reason_to_fail(
    store: rk.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling_delays, "_NOTED_S", 0.0)
    files: list[int] = []
    (tmp_path / "notes.txt").touch()

    def close_counter() -> None:
        look_up("in the job")
        files.extend(open_counters(f"/task/{threading.get_native_id()}/schedstat"))
        os.close(files[0])
        files.append(os.open(tmp_path / "notes.txt", os.O_WRONLY))
        look_up("again")

    with ThreadPoolExecutor(1) as pool:
        run = recorded(lambda: pool.submit(close_counter).result(), store)

    assert files[0] == files[1]
    os.write(files[1], b"still open")
    os.close(files[1])
    assert [call.arguments["name"] for call in run.calls] == ["first", "in the job", "again"]


def test_the_counters_of_a_run_are_closed_with_it(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_delays, "_NOTED_S", 0.0)
    seen: list[int] = []

    with ThreadPoolExecutor(4) as pool:
        recorded(lambda: seen.extend(open_counters() if list(pool.map(look_up, "abcd")) else ()), store)

        assert seen
        assert not open_counters()


def test_a_case_keeps_how_long_the_run_was_held_up(busy_core: int, store: rk.Store, tmp_path: Path) -> None:
    def agent() -> None:
        in_a_thread(busy_core)
        raise LookupError("no answer")

    with suppress(LookupError), rk.record("agent", store=store) as run:
        look_up("first")
        agent()
    trace = store.load(run.id)
    made = scaffold(trace, tmp_path / "case")

    assert trace.chance.held_up_s > 0
    assert load_case(made.directory).scenario.held_up_s == trace.chance.held_up_s
