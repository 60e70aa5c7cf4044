"""Served calls end in their recorded places and at their recorded moments: each construct takes its recorded branch."""

from __future__ import annotations

import _thread
import asyncio
import inspect
import multiprocessing
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from msgspec.structs import replace

import replaykit as rk
from replaykit.errors import Unreplayable
from replaykit.handlers.replay.handler import Replayer
from replaykit.model.events import CallSpan
from replaykit.seam.scope import PendingCall

AGENTS: dict[str, Callable[[], Any]] = {}


def agent(function: Callable[[], Any]) -> Callable[[], Any]:
    AGENTS[function.__name__] = function
    return function


@rk.tool
def work(name: str, seconds: float) -> str:
    time.sleep(seconds)
    return name


@rk.tool
async def awork(name: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return name


@agent
async def first_completed() -> list[str]:
    tasks = [asyncio.create_task(awork("slow", 0.2)), asyncio.create_task(awork("fast", 0.05))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return [task.result() for task in done]


@agent
async def all_that_end_in_the_same_moment() -> int:
    tasks = [asyncio.create_task(awork(name, 0.05)) for name in "abc"]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return len(done)


@agent
async def as_completed_of_tasks() -> list[str]:
    calls = [asyncio.ensure_future(awork(name, s)) for name, s in (("a", 0.2), ("b", 0.05), ("c", 0.12))]
    return [await call for call in asyncio.as_completed(calls)]


@agent
def as_completed_of_futures() -> list[str]:
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(work, name, s) for name, s in (("a", 0.2), ("b", 0.05), ("c", 0.12))]
        return [future.result() for future in as_completed(futures)]


@agent
async def hedged_request() -> str:
    first = asyncio.create_task(awork("first", 0.3))
    done, _ = await asyncio.wait([first], timeout=0.08)
    if not done:
        second = asyncio.create_task(awork("second", 0.05))
        done, pending = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
    return done.pop().result()


@agent
async def wait_for() -> str:
    try:
        return await asyncio.wait_for(awork("x", 0.3), 0.08)
    except TimeoutError:
        return "late"


@agent
async def wait_for_a_thread() -> str:
    try:
        return await asyncio.wait_for(asyncio.to_thread(work, "x", 0.3), 0.08)
    except TimeoutError:
        return "late"


@agent
async def timeout_block() -> str:
    try:
        async with asyncio.timeout(0.15):
            await awork("x", 0.08)
            return await awork("y", 0.2)
    except TimeoutError:
        return "late"


@agent
async def wait_with_a_timeout() -> list[str]:
    tasks = [asyncio.create_task(awork(str(i), 0.04 + 0.1 * i)) for i in range(4)]
    done, pending = await asyncio.wait(tasks, timeout=0.2)
    for task in pending:
        task.cancel()
    return sorted(task.result() for task in done)


@agent
async def shielded() -> tuple[str, str]:
    task = asyncio.create_task(awork("x", 0.2))
    try:
        return "in time", await asyncio.wait_for(asyncio.shield(task), 0.08)
    except TimeoutError:
        return "late", await task


@agent
def future_result() -> tuple[str, str]:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work, "x", 0.2)
        try:
            return "in time", future.result(timeout=0.08)
        except FutureTimeout:
            return "late", future.result()


@agent
def future_that_nobody_waits_for() -> str:
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work, "x", 0.3).result(timeout=0.08)
    except FutureTimeout:
        return "late"
    finally:
        pool.shutdown(wait=False)


@agent
def queue_get() -> tuple[str, str]:
    answers: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: answers.put(work("x", 0.2))).start()
    try:
        return "in time", answers.get(timeout=0.08)
    except queue.Empty:
        return "late", answers.get()


@agent
def simple_queue_get() -> tuple[str, str]:
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(work("x", 0.2))).start()
    try:
        return "in time", answers.get(timeout=0.08)
    except queue.Empty:
        return "late", answers.get()


@agent
def event_wait() -> list[bool]:
    event = threading.Event()
    thread = threading.Thread(target=lambda: (work("x", 0.2), event.set()))
    thread.start()
    found = [event.wait(0.06), event.wait(0.06), event.wait()]
    thread.join()
    return found


@agent
def thread_join() -> tuple[bool, bool]:
    thread = threading.Thread(target=work, args=("x", 0.2))
    thread.start()
    thread.join(0.08)
    is_running = thread.is_alive()
    thread.join()
    return is_running, thread.is_alive()


@agent
def done_callbacks() -> list[str]:
    seen: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        for name, seconds in (("a", 0.2), ("b", 0.05)):
            pool.submit(work, name, seconds).add_done_callback(lambda future: seen.append(future.result()))
    return seen


@agent
async def call_later() -> list[str]:
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, seen.append, "before")
    loop.call_later(0.2, seen.append, "after")
    seen.append(await awork("x", 0.12))
    await asyncio.sleep(0.15)
    return seen


@agent
async def tasks_started_as_others_finish() -> list[str]:
    seen, number = [], 2
    pending = {asyncio.create_task(awork("0", 0.05)), asyncio.create_task(awork("1", 0.11))}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            seen.append(task.result())
            if number < 6:
                pending.add(asyncio.create_task(awork(str(number), 0.04 + 0.07 * (number % 3))))
                number += 1
    return seen


@agent
def lock_held_over_a_call() -> list[str]:
    lock, seen = threading.Lock(), []

    def one(name: str) -> None:
        with lock:
            seen.append(work(name, 0.06))

    threads = [threading.Thread(target=one, args=(str(i),)) for i in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    return seen


@agent
def barrier() -> list[str]:
    meeting, seen = threading.Barrier(2), []

    def other() -> None:
        work("x", 0.2)
        try:
            meeting.wait(1)
        except threading.BrokenBarrierError:
            seen.append("too late")

    thread = threading.Thread(target=other)
    thread.start()
    try:
        meeting.wait(0.08)
    except threading.BrokenBarrierError:
        seen.append("left")
    thread.join()
    return seen


@agent
def timer_that_is_cancelled() -> list[str]:
    seen: list[str] = []
    timer = threading.Timer(0.2, seen.append, ("fired",))
    timer.start()
    work("x", 0.08)
    timer.cancel()
    timer.join()
    return seen


@agent
async def threads_and_tasks_together() -> list[str]:
    answers: queue.Queue[str] = queue.Queue()
    seen: list[str] = []

    async def ticker() -> None:
        for _ in range(3):
            await asyncio.sleep(0.1)
            seen.append("tick")

    def consumer() -> None:
        try:
            seen.append(answers.get(timeout=0.05))
        except queue.Empty:
            seen.append("nothing yet")

    await asyncio.gather(ticker(), asyncio.to_thread(lambda: answers.put(work("x", 0.25))), asyncio.to_thread(consumer))
    return seen


@rk.tool
async def aitems(name: str, seconds: float) -> AsyncIterator[str]:
    for number in range(3):
        await asyncio.sleep(seconds)
        yield f"{name}{number}"


@rk.tool
def items(seconds: float) -> Iterator[int]:
    for number in range(10):
        time.sleep(seconds)
        yield number
    time.sleep(seconds)


@agent
async def two_streams() -> list[str]:
    seen: list[str] = []

    async def read(name: str, seconds: float) -> None:
        async for item in aitems(name, seconds):
            seen.append(item)

    await asyncio.gather(read("slow", 0.25), read("fast", 0.07))
    return seen


@agent
def stream_until_a_deadline() -> list[int]:
    deadline = time.monotonic() + 0.5
    seen = []
    for item in items(0.2):
        seen.append(item)
        if time.monotonic() > deadline:
            break
    return seen


@agent
async def stream_whose_items_are_late() -> list[str]:
    seen: list[str] = []
    stream = aitems("x", 0.3)
    try:
        while True:
            seen.append(await asyncio.wait_for(anext(stream), 0.1))
    except TimeoutError:
        return seen


@agent
def end_of_a_stream_among_timers() -> list[str]:
    seen: list[str] = []

    def read() -> None:
        seen.append(str(list(items(0.03))))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join(0.1)
    seen.append("waited")
    thread.join()
    return seen


@rk.tool
async def cancelled_by_its_server() -> None:
    raise asyncio.CancelledError("gone")


@agent
async def cancellation_of_the_tools_own() -> str:
    try:
        await cancelled_by_its_server()
    except asyncio.CancelledError as error:
        return f"cancelled: {error}"
    return "done"


def outcome(function: Callable[[], Any]) -> Any:
    return asyncio.run(function()) if inspect.iscoroutinefunction(function) else function()


def recorded(function: Callable[[], Any], store: rk.Store) -> tuple[Any, rk.TraceRun]:
    with rk.record("order", store=store) as run:
        found = outcome(function)
    return found, store.load(run.id)


@pytest.mark.parametrize("name", AGENTS)
def test_a_replay_takes_the_recorded_branch(name: str, store: rk.Store) -> None:
    found, trace = recorded(AGENTS[name], store)

    for _ in range(3):
        with rk.replaying(rk.Tape.of(trace)) as replayer:
            assert outcome(AGENTS[name]) == found
        assert [d for d in replayer.all_deviations() if d.kind not in ("undecided", "unordered")] == []


def test_as_completed_begins_its_tasks_in_the_order_it_was_given_them(store: rk.Store) -> None:
    begun: list[int] = []

    async def one(number: int) -> int:
        begun.append(number)
        return number

    async def agent() -> None:
        for coming in asyncio.as_completed([one(number) for number in range(30)]):
            await coming

    with rk.record("tasks", store=store):
        asyncio.run(agent())

    assert begun == list(range(30))
    assert "set" not in vars(asyncio.tasks)


@contextmanager
def busy_machine() -> Iterator[None]:
    processes = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(3)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def spin() -> None:
    while True:
        pass


def test_a_busy_machine_changes_nothing(store: rk.Store) -> None:
    with busy_machine():
        for name in ("hedged_request", "as_completed_of_futures", "queue_get", "wait_for_a_thread"):
            found, trace = recorded(AGENTS[name], store)
            for _ in range(2):
                with rk.replaying(rk.Tape.of(trace)):
                    assert outcome(AGENTS[name]) == found, name


class Edited:
    """Agents before and after an edit, and what the edited one gives against the recording of the other."""

    @staticmethod
    def slow_call_removed() -> tuple[Any, Any, Any]:
        async def before() -> str:
            async def flow() -> str:
                await awork("slow", 0.3)
                return await awork("b", 0.1)

            task = asyncio.create_task(flow())
            await asyncio.wait([task], timeout=0.2)
            return await task

        async def after() -> str:
            async def flow() -> str:
                return await awork("b", 0.1)

            return await asyncio.wait_for(flow(), 0.2)

        return before, after, "b"

    @staticmethod
    def limit_raised() -> tuple[Any, Any, Any]:
        def with_limit(seconds: float) -> Callable[[], str]:
            def run() -> str:
                with ThreadPoolExecutor(1) as pool:
                    future = pool.submit(work, "x", 0.2)
                    try:
                        return future.result(timeout=seconds)
                    except FutureTimeout:
                        return "late"

            return run

        return with_limit(0.08), with_limit(2), "x"

    @staticmethod
    def call_inserted() -> tuple[Any, Any, Any]:
        async def before() -> list[Any]:
            return await asyncio.gather(awork("a", 0.1), awork("b", 0.05))

        async def after() -> list[str]:
            calls = (awork("a", 0.1), awork("new", 0.5), awork("b", 0.05))
            return [
                str(x) if isinstance(x, str) else type(x).__name__
                for x in await asyncio.gather(*calls, return_exceptions=True)
            ]

        return before, after, ["a", "Divergence", "b"]

    @staticmethod
    def one_of_several_removed() -> tuple[Any, Any, Any]:
        def of(names: str) -> Callable[[], list[str]]:
            def run() -> list[str]:
                seconds = {"a": 0.24, "b": 0.18, "c": 0.12, "d": 0.06}
                with ThreadPoolExecutor(4) as pool:
                    futures = [pool.submit(work, name, seconds[name]) for name in names]
                    return [future.result() for future in as_completed(futures, timeout=60)]

            return run

        return of("abcd"), of("abd"), ["d", "b", "a"]

    @staticmethod
    def in_a_row_became_parallel() -> tuple[Any, Any, Any]:
        async def before() -> list[str]:
            return [await awork("a", 0.1), await awork("b", 0.2), await awork("c", 0.05)]

        async def after() -> list[str]:
            return await asyncio.wait_for(asyncio.gather(awork("a", 0.1), awork("b", 0.2), awork("c", 0.05)), 0.28)

        return before, after, ["a", "b", "c"]

    @staticmethod
    def parallel_became_a_row() -> tuple[Any, Any, Any]:
        async def before() -> list[str]:
            return await asyncio.gather(awork("a", 0.1), awork("b", 0.2), awork("c", 0.05))

        async def after() -> str:
            async def row() -> None:
                for name, seconds in (("a", 0.1), ("b", 0.2), ("c", 0.05)):
                    await awork(name, seconds)

            try:
                await asyncio.wait_for(row(), 0.25)
            except TimeoutError:
                return "late"
            return "in time"

        return before, after, "late"

    @staticmethod
    def calls_moved() -> tuple[Any, Any, Any]:
        def in_order(names: str) -> Callable[[], list[str]]:
            def run() -> list[str]:
                with ThreadPoolExecutor(1) as pool:
                    return [pool.submit(work, name, 0.05).result(timeout=5) for name in names]

            return run

        return in_order("abc"), in_order("cab"), ["c", "a", "b"]


@pytest.mark.parametrize("name", [name for name in vars(Edited) if not name.startswith("_")])
def test_an_edited_agent_gets_its_answers_in_its_own_time(name: str, store: rk.Store) -> None:
    before, after, expected = getattr(Edited, name)()
    _, trace = recorded(before, store)

    with rk.replaying(rk.Tape.of(trace)):
        assert outcome(after) == expected


def test_who_waits_for_an_abandoned_call_is_told_that_there_is_no_answer(store: rk.Store) -> None:
    _, trace = recorded(future_that_nobody_waits_for, store)

    def patient() -> str:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work, "x", 0.3).result()

    with rk.replaying(rk.Tape.of(trace)) as replayer, pytest.raises(Unreplayable):
        patient()
    assert [d.kind for d in replayer.all_deviations()] == ["undecided"]


def test_tasks_that_wait_for_abandoned_calls_alone_are_told_so(store: rk.Store) -> None:
    async def impatient() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(patient(), 0.05)

    async def patient() -> list[Any]:
        return await asyncio.gather(awork("x", 0.3), awork("y", 0.3), return_exceptions=True)

    _, trace = recorded(impatient, store)

    with rk.replaying(rk.Tape.of(trace)) as replayer:
        found = outcome(patient)
    assert [type(one) for one in found] == [Unreplayable, Unreplayable]
    assert "undecided" in {d.kind for d in replayer.all_deviations()}


def test_who_waits_longer_for_an_abandoned_call_leaves_the_question_open(store: rk.Store) -> None:
    _, trace = recorded(wait_for, store)

    async def more_patient() -> str:
        try:
            return await asyncio.wait_for(awork("x", 0.3), 5)
        except TimeoutError:
            return "late"

    with rk.replaying(rk.Tape.of(trace)) as replayer:
        assert outcome(more_patient) == "late"
    assert [d.kind for d in replayer.all_deviations()] == ["undecided"]


def test_who_reads_on_in_a_stream_that_was_left_gets_no_item(store: rk.Store) -> None:
    _, trace = recorded(stream_until_a_deadline, store)

    def patient() -> list[int]:
        return list(items(0.2))

    with rk.replaying(rk.Tape.of(trace)) as replayer, pytest.raises(Unreplayable, match="left after"):
        patient()
    assert [d.kind for d in replayer.all_deviations()] == ["undecided"]


def test_a_limit_too_close_to_an_end_is_told(store: rk.Store) -> None:
    async def close() -> bool:
        task = asyncio.create_task(awork("x", 0.1))
        done, _ = await asyncio.wait([task], timeout=0.11)
        await task
        return bool(done)

    _, trace = recorded(close, store)

    with rk.replaying(rk.Tape.of(trace)) as replayer:
        outcome(close)
    (deviation,) = replayer.all_deviations()
    assert deviation.kind == "undecided"
    assert "awork" in deviation.text


def test_a_lock_from_before_the_replay_does_not_hold_its_clock(store: rk.Store) -> None:
    lock = threading.Lock()

    def two_threads() -> list[str]:
        seen: list[str] = []

        def one(name: str) -> None:
            with lock:
                seen.append(work(name, 0.05))

        threads = [threading.Thread(target=one, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
            time.sleep(0.01)
        for thread in threads:
            thread.join()
        return seen

    found, trace = recorded(two_threads, store)

    with rk.replaying(rk.Tape.of(trace)):
        assert two_threads() == found


def test_an_event_loop_from_before_the_run_takes_part_in_it(store: rk.Store) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def agent() -> list[str]:
        return [asyncio.run_coroutine_threadsafe(awork(name, 0.1), loop).result(5) for name in "abc"]

    found, trace = recorded(agent, store)
    for _ in range(3):
        with rk.replaying(rk.Tape.of(trace)):
            assert agent() == found
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_worker_from_before_the_run_takes_part_in_it(store: rk.Store) -> None:
    jobs: queue.Queue[str] = queue.Queue()
    answers: queue.Queue[str] = queue.Queue()

    def worker() -> None:
        while name := jobs.get():
            answers.put(work(name, 0.1))

    thread = threading.Thread(target=worker, daemon=True)
    thread.start()

    def agent() -> list[str]:
        found = []
        for name in "abc":
            jobs.put(name)
            try:
                found.append(answers.get(timeout=0.05))
            except queue.Empty:
                found.append(f"late {answers.get(timeout=5)}")
        return found

    found, trace = recorded(agent, store)
    for _ in range(3):
        with rk.replaying(rk.Tape.of(trace)):
            assert agent() == found
    jobs.put("")
    thread.join()


def test_threads_come_to_their_calls_in_the_recorded_order(store: rk.Store) -> None:
    def agent(*, is_slow: bool) -> None:
        def one(name: str) -> None:
            if name == "a" and is_slow:
                sum(range(2_000_000))
            work(name, 0.05)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, "ab"))

    with rk.record("order", store=store) as run:
        agent(is_slow=False)
    trace = store.load(run.id)
    names = [call.arguments["name"] for call in trace.calls]

    with rk.replaying(rk.Tape.of(trace)) as replayer:
        agent(is_slow=True)
    assert [event.arguments["name"] for event in replayer.events()] == names


@pytest.mark.parametrize("order", ["dcba", "bdac", "cadb"])
def test_several_threads_that_come_too_early_wait_for_each_other(order: str, store: rk.Store) -> None:
    def agent() -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: work(name, 0.05), "abcd"))

    with rk.record("order", store=store) as run:
        agent()
    calls = []
    for call in store.load(run.id).calls:
        place = order.index(call.arguments["name"])
        span = CallSpan(begin=place, begin_s=0.01 + place / 1000, end=place + 4, end_s=0.06 + place / 1000)
        calls.append(replace(call, span=span))

    with rk.replaying(rk.Tape(sorted(calls, key=lambda call: call.span.begin))) as replayer:
        agent()
    assert "".join(event.arguments["name"] for event in replayer.events()) == order


def replayed_names(agent: Callable[[], Any], trace: rk.TraceRun, held_up_s: float = 0.0, **spans: CallSpan) -> str:
    """The names that a replay asks for, in its order, of a recording with other spans."""
    calls = [replace(call, span=spans[call.arguments["name"]]) for call in trace.calls]
    tape = rk.Tape(sorted(calls, key=lambda call: call.span.begin))
    tape.held_up_s = held_up_s
    with rk.replaying(tape) as replayer:
        agent()
    return "".join(event.arguments["name"] for event in replayer.events())


def test_a_call_after_a_sleep_comes_before_one_that_began_a_moment_later(store: rk.Store) -> None:
    def agent() -> None:
        def sleeper() -> None:
            time.sleep(0.02)
            work("s", 0.05)

        def caller() -> None:
            work("a", 0.01)
            work("b", 0.05)

        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(caller), pool.submit(sleeper)]:
                future.result()

    _, trace = recorded(agent, store)
    # A busy machine gave `b` its turn a moment after the sleep had ended; in a replay it is 10 ms before.
    spans = {
        "a": CallSpan(begin=0, begin_s=0.0, end=1, end_s=0.01),
        "s": CallSpan(begin=2, begin_s=0.0205, end=4, end_s=0.07),
        "b": CallSpan(begin=3, begin_s=0.0206, end=5, end_s=0.08),
    }

    assert replayed_names(agent, trace, **spans) == "asb"


@pytest.mark.parametrize("apart_s", [0.04, 0.08])
def test_a_thread_that_was_held_up_before_its_call_comes_second_again(apart_s: float, store: rk.Store) -> None:
    def agent() -> None:
        def one(name: str) -> None:
            if name == "a":
                sum(range(1_000_000))
            work(name, 0.05)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, "ab"))

    _, trace = recorded(agent, store)
    spans = {
        "a": CallSpan(begin=0, begin_s=0.001, end=2, end_s=apart_s + 0.1),
        "b": CallSpan(begin=1, begin_s=0.001 + apart_s, end=3, end_s=apart_s + 0.2),
    }

    assert replayed_names(agent, trace, held_up_s=0.05, **spans) == "ab"


def test_threads_that_were_held_up_before_the_first_call_end_their_calls_in_the_recorded_order(store: rk.Store) -> None:
    ended: list[str] = []

    def agent() -> None:
        def one(name: str, seconds: float) -> None:
            if name == "a":
                sum(range(1_000_000))
            work(name, seconds)
            ended.append(name)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, "ab", (0.15, 0.05)))

    _, trace = recorded(agent, store)
    spans = {
        "a": CallSpan(begin=0, begin_s=0.26, end=3, end_s=0.42),
        "b": CallSpan(begin=1, begin_s=0.261, end=2, end_s=0.28),
    }
    ended.clear()

    assert replayed_names(agent, trace, held_up_s=0.5, **spans) == "ab"
    assert ended == ["b", "a"]


def test_a_call_that_was_overtaken_after_it_got_its_number_comes_second(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_number, has_begun = _thread.allocate_lock(), _thread.allocate_lock()  # the clock knows nothing of them
    serve = Replayer.serve

    def one(name: str) -> None:
        if name == "a":
            has_number.acquire()
        work(name, 0.05)

    def agent() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, "ab"))

    def served(replayer: Replayer, call: PendingCall) -> Any:
        if b'"b"' in call.arguments:
            has_number.release()
            has_begun.acquire()
            return serve(replayer, call)
        try:
            return serve(replayer, call)
        finally:
            has_begun.release()

    _, trace = recorded(agent, store)
    has_begun.acquire()
    monkeypatch.setattr(Replayer, "serve", served)
    spans = {
        "a": CallSpan(begin=0, begin_s=0.001, end=2, end_s=0.1),
        "b": CallSpan(begin=1, begin_s=0.002, end=3, end_s=0.11),
    }

    assert replayed_names(agent, trace, **spans) == "ab"
