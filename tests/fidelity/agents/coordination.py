"""Agents whose tasks and threads wait for each other: semaphores, barriers, locks, queues, schedulers and pipes."""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import os
import queue
import sched
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
from collection import every_way, failing, main, ran, took

import replaykit as rk

TAKES_S: contextvars.ContextVar[float] = contextvars.ContextVar("takes_s", default=0.05)


class Late(Exception):
    """The agent did not get in time what it needs."""


@rk.tool
def ask(question: str, seconds: float = 0.05):
    ran("ask")
    time.sleep(seconds)
    return {"question": question, "answer": 42}


@rk.tool
async def aask(question: str, seconds: float = 0.05):
    ran("aask")
    await asyncio.sleep(seconds)
    return {"question": question, "answer": 42}


@rk.tool
def ask_in_context(question: str):
    ran("ask_in_context")
    seconds = TAKES_S.get()
    time.sleep(seconds)
    return {"seconds": seconds}


def judged(words: str, *, is_late: bool) -> str:
    took(words)
    if is_late:
        raise Late(words)
    return words


@failing("Ask the same twice, and take the quicker answer")
def equal_calls_that_end_the_other_way_round(question: str) -> str:
    answers: queue.Queue[float] = queue.Queue()

    def one(seconds: float) -> None:
        TAKES_S.set(seconds)
        answers.put(ask_in_context("the same")["seconds"])

    for seconds in (0.4, 0.1):
        threading.Thread(target=one, args=(seconds,)).start()
    order = [answers.get(), answers.get()]
    return judged(f"{order}", is_late=order == [0.1, 0.4])


@failing("Ask in groups inside of groups")
async def nested_groups_with_limits(question: str) -> str:
    events: list[str] = []

    async def one(name: str, seconds: float) -> None:
        await aask(name, seconds)
        events.append(name)

    async def inner() -> None:
        try:
            async with asyncio.timeout(0.3), asyncio.TaskGroup() as group:
                group.create_task(one("inner quick", 0.1))
                group.create_task(one("inner slow", 0.6))
        except TimeoutError:
            events.append("limit")

    async with asyncio.TaskGroup() as group:
        group.create_task(inner())
        group.create_task(one("outer", 0.45))
    return judged(", ".join(events), is_late="limit" in events)


@failing("Two at a time")
async def semaphore_of_two(question: str) -> str:
    semaphore, ended = asyncio.Semaphore(2), []

    async def one(name: str, seconds: float) -> None:
        async with semaphore:
            await aask(name, seconds)
        ended.append(name)

    # a and b begin at once; c follows b, and d follows c.
    work = asyncio.gather(one("a", 1.2), one("b", 0.15), one("c", 0.15), one("d", 0.15))
    await asyncio.wait([work], timeout=0.8)
    words = "".join(ended)
    await work
    return judged(words, is_late=words == "bcd")


@failing("Wait until the queue is empty")
async def joined_queue(question: str) -> str:
    jobs: asyncio.Queue[float] = asyncio.Queue()
    done: list[float] = []

    async def worker() -> None:
        while True:
            seconds = await jobs.get()
            await aask(f"{seconds}", seconds)
            done.append(seconds)
            jobs.task_done()

    for seconds in (0.1, 0.3, 0.25, 0.5):
        jobs.put_nowait(seconds)
    workers = [asyncio.create_task(worker()) for _ in range(2)]
    try:
        await asyncio.wait_for(jobs.join(), 0.6)
        words = "all"
    except TimeoutError:
        words = f"only {done}"
    for task in workers:
        task.cancel()
    return judged(words, is_late=words != "all")


_connections = threading.local()


@failing("Use a connection of each worker")
def connection_of_each_worker(question: str) -> str:
    opened: list[str] = []

    def job(name: str, seconds: float) -> str:
        if getattr(_connections, "connection", None) is None:
            _connections.connection = ask(f"connect for {name}", 0.05)["answer"]
            opened.append(name)
        return ask(name, seconds)["question"]

    with ThreadPoolExecutor(2) as pool:
        first = [pool.submit(job, "long", 0.6), pool.submit(job, "short", 0.1)]
        time.sleep(0.3)
        second = pool.submit(job, "third", 0.1)
        for future in (*first, second):
            future.result()
    return judged(f"{sorted(opened)}", is_late=sorted(opened) == ["long", "short"])


@failing("Most urgent first")
def most_urgent_first(question: str) -> str:
    jobs: queue.PriorityQueue[tuple[int, str]] = queue.PriorityQueue()
    ended: list[str] = []

    def worker() -> None:
        while True:
            _, name = jobs.get()
            if name:
                ask(name, 0.2)
                ended.append(name)
            jobs.task_done()
            if not name:
                return

    thread = threading.Thread(target=worker)
    jobs.put((5, "first"))
    thread.start()
    time.sleep(0.1)  # the worker is at the first one
    for priority, name in ((4, "low"), (1, "high"), (3, "middle"), (9, "")):
        jobs.put((priority, name))
    jobs.join()
    thread.join()
    return judged(" ".join(ended), is_late=ended == ["first", "high", "middle", "low"])


@failing("All together, or not at all")
def broken_barrier(question: str) -> str:
    barrier = threading.Barrier(3)
    words: list[str] = []

    def one(name: str, seconds: float) -> None:
        ask(name, seconds)
        try:
            barrier.wait(timeout=0.3)
            words.append(f"{name} passed")
        except threading.BrokenBarrierError:
            words.append(f"{name} broke off")

    threads = [threading.Thread(target=one, args=pair) for pair in (("a", 0.05), ("b", 0.2), ("c", 0.7))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return judged(", ".join(sorted(words)), is_late=any("broke" in word for word in words))


@failing("At their times")
def scheduled_events(question: str) -> str:
    scheduler, events = sched.scheduler(time.monotonic, time.sleep), []
    late = scheduler.enter(0.5, 1, lambda: events.append("reminder"))

    def first() -> None:
        ask("report", 0.2)
        events.append("report")
        scheduler.enter(0.35, 1, lambda: events.append("follow-up"))

    def cancel() -> None:
        if "report" in events:
            scheduler.cancel(late)
            events.append("cancelled")

    scheduler.enter(0.1, 1, first)
    scheduler.enter(0.4, 1, cancel)
    scheduler.run()
    return judged(" ".join(events), is_late=events == ["report", "cancelled", "follow-up"])


@failing("Twice in one runner")
def one_runner_for_two(question: str) -> str:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    words: list[str] = []

    async def limited(seconds: float) -> None:
        try:
            await asyncio.wait_for(aask(f"{seconds}", seconds), 0.3)
            variable.set("in time")
        except TimeoutError:
            words.append(f"late after {variable.get()}")

    with asyncio.Runner() as runner:
        runner.run(limited(0.05))
        runner.run(limited(0.6))
    return judged(", ".join(words), is_late=bool(words))


@failing("With another library for tasks")
def anyio_limits(question: str) -> str:
    events: list[str] = []

    async def one(name: str, seconds: float) -> None:
        with anyio.move_on_after(0.35) as scope:
            await anyio.to_thread.run_sync(ask, name, seconds, abandon_on_cancel=True)
            events.append(name)
        if scope.cancelled_caught:
            events.append(f"{name} late")

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(one, "quick", 0.1)
            group.start_soon(one, "slow", 0.8)

    anyio.run(run)
    return judged(", ".join(events), is_late="slow late" in events)


@failing("Who holds the lock")
def lock_with_a_limit(question: str) -> str:
    lock, events = threading.RLock(), []

    def holder() -> None:
        with lock:
            ask("long", 0.5)
        events.append("released")

    thread = threading.Thread(target=holder)
    thread.start()
    time.sleep(0.1)
    if lock.acquire(timeout=0.2):
        events.append("locked")
        lock.release()
    else:
        events.append("gave up")
    thread.join()
    return judged(" ".join(events), is_late=events == ["gave up", "released"])


@failing("Count the heartbeats")
def heartbeats(question: str) -> str:
    stop, beats = threading.Event(), []

    def beat() -> None:
        while not stop.wait(0.4):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    ask("long", 1.4)
    stop.set()
    thread.join()
    return judged(f"{len(beats)} beats", is_late=len(beats) == 3)


@failing("Read from a pipe", may_be_inconclusive=every_way("limit"))
def pipe_with_a_limit(question: str) -> str:
    reader, writer = os.pipe()

    def write() -> None:
        ask("long", 0.5)
        os.write(writer, b"x")

    thread = threading.Thread(target=write)
    thread.start()
    ready, _, _ = select.select([reader], [], [], 0.2)
    words = "ready" if ready else "nothing yet"
    thread.join()
    os.close(reader)
    os.close(writer)
    return judged(words, is_late=not ready)


@failing("Read from a pair of sockets", may_be_inconclusive=every_way("limit"))
def socket_pair_with_a_limit(question: str) -> str:
    ours, theirs = socket.socketpair()
    ours.settimeout(0.2)

    def write() -> None:
        ask("long", 0.5)
        theirs.send(b"x")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        words = ours.recv(1).decode()
    except TimeoutError:
        words = "nothing yet"
    thread.join()
    ours.close()
    theirs.close()
    return judged(words, is_late=words == "nothing yet")


@failing("Take a semaphore that processes could share", may_be_inconclusive=every_way("limit"))
def semaphore_of_processes(question: str) -> str:
    semaphore = multiprocessing.get_context("spawn").Semaphore(0)

    def release() -> None:
        ask("long", 0.5)
        semaphore.release()

    thread = threading.Thread(target=release)
    thread.start()
    is_taken = semaphore.acquire(timeout=0.2)
    thread.join()
    return judged("taken" if is_taken else "given up", is_late=not is_taken)


@failing("The simplest queue")
def simple_queue_with_a_limit(question: str) -> str:
    answers: queue.SimpleQueue[int] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: answers.put(ask("long", 0.5)["answer"]))
    thread.start()
    try:
        words = f"{answers.get(timeout=0.2)}"
    except queue.Empty:
        words = "empty"
    thread.join()
    return judged(words, is_late=words == "empty")


@failing("Map with a limit")
def map_with_a_limit(question: str) -> str:
    got: list[str] = []
    with ThreadPoolExecutor(3) as pool:
        try:
            for answer in pool.map(ask, ("a", "b", "c"), (0.05, 0.6, 0.1), timeout=0.3):
                got.append(answer["question"])
        except TimeoutError:
            got.append("late")
    return judged(" ".join(got), is_late=got == ["a", "late"])


@failing("Meet in a loop")
async def asyncio_barrier(question: str) -> str:
    barrier, words = asyncio.Barrier(2), []

    async def one(name: str, seconds: float) -> None:
        await aask(name, seconds)
        try:
            async with asyncio.timeout(0.2):
                await barrier.wait()
            words.append(f"{name} met")
        except (TimeoutError, asyncio.BrokenBarrierError):
            words.append(f"{name} left")

    await asyncio.wait([asyncio.create_task(one("a", 0.05)), asyncio.create_task(one("b", 0.5))], timeout=1.5)
    return judged(", ".join(words), is_late="a left" in words)


@failing("Prepare each worker")
def initialized_workers(question: str) -> str:
    ready: list[str] = []

    def prepare() -> None:
        ready.append(ask("prepare", 0.4)["question"])

    with ThreadPoolExecutor(1, initializer=prepare) as pool:
        future = pool.submit(ask, "work", 0.05)
        try:
            future.result(timeout=0.2)
            words = "in time"
        except TimeoutError:
            words = "late"
    return judged(f"{words} {ready}", is_late=words == "late")


@failing("A loop in each thread")
def loops_in_threads(question: str) -> str:
    ended: list[str] = []

    def run(name: str, seconds: float) -> None:
        async def limited() -> None:
            done, _ = await asyncio.wait([asyncio.create_task(aask(name, seconds))], timeout=0.6)
            ended.append(f"{name} {'done' if done else 'late'}")

        asyncio.run(limited())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, ("quick", "slow"), (0.1, 1.5)))
    return judged(", ".join(ended), is_late=ended == ["quick done", "slow late"])


if __name__ == "__main__":
    main(globals())
