"""Agents that act on whichever answer comes first."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
from multiprocessing.pool import ThreadPool

from collection import failing, main, ran, took

import replaykit as rk

DELAYS = {"primary": 0.5, "replica": 0.05, "archive": 0.3}


class Stale(Exception):
    """The answer used is out of date."""


@rk.tool
async def ask(source: str):
    ran("ask")
    await asyncio.sleep(DELAYS[source])
    return {"source": source, "fresh": source == "primary"}


@rk.tool
def query(source: str):
    ran("query")
    time.sleep(DELAYS[source])
    return {"source": source, "fresh": source == "primary"}


def checked(answer: dict) -> str:
    took(answer["source"])
    if not answer["fresh"]:
        raise Stale(f"the answer of {answer['source']} is out of date")
    return "up to date"


@failing("How many are in stock?")
async def first_completed(question: str) -> str:
    tasks = [asyncio.create_task(ask("primary")), asyncio.create_task(ask("replica"))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return checked(done.pop().result())


@failing("How many are on order?")
async def hedged(question: str) -> str:
    first = asyncio.create_task(ask("primary"))
    done, _ = await asyncio.wait({first}, timeout=0.15)
    if done:
        took("no hedge")
        return checked(first.result())
    took("hedge")
    second = asyncio.create_task(ask("replica"))
    done, pending = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return checked(done.pop().result())


@failing("Merge three sources")
async def as_completed_tasks(question: str) -> str:
    order = []
    for coming in asyncio.as_completed([ask(source) for source in DELAYS]):
        answer = await coming
        order.append(answer["source"])
    took(" ".join(order))
    if order[0] != "primary":
        raise Stale(f"the list begins with {order[0]}")
    return ", ".join(order)


@failing("Merge three databases")
def as_completed_futures(question: str) -> str:
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(query, source) for source in DELAYS]
        order = [future.result()["source"] for future in as_completed(futures)]
    took(" ".join(order))
    if order[0] != "primary":
        raise Stale(f"the list begins with {order[0]}")
    return ", ".join(order)


@failing("Which database is up?")
def first_future(question: str) -> str:
    pool = ThreadPoolExecutor(2)
    futures = [pool.submit(query, "primary"), pool.submit(query, "archive")]
    done, _ = wait(futures, return_when=FIRST_COMPLETED)
    pool.shutdown(wait=False)
    return checked(done.pop().result())


@failing("Log the answers as they come")
def done_callbacks(question: str) -> str:
    log: list[str] = []
    with ThreadPoolExecutor(3) as pool:
        for source in DELAYS:
            pool.submit(query, source).add_done_callback(lambda future: log.append(future.result()["source"]))
    took(" ".join(log))
    if log[-1] == "primary":
        raise Stale("the slow primary overwrote everything")
    return log[-1]


@failing("Notify in the order of arrival")
async def task_callbacks(question: str) -> str:
    log: list[str] = []
    tasks = [asyncio.create_task(ask(source)) for source in DELAYS]
    for task in tasks:
        task.add_done_callback(lambda done: log.append(done.result()["source"]))
    await asyncio.wait(tasks)
    await asyncio.sleep(0)
    took(" ".join(log))
    if log != list(DELAYS):
        raise Stale(f"notified in the order {log}")
    return "notified"


@rk.tool
async def crawl(page: str):
    ran("crawl")
    await asyncio.sleep({"a": 0.35, "b": 0.05, "c": 0.1, "d": 0.08}[page])
    return {"page": page, "links": 2}


@failing("Crawl the site with two workers")
async def workers_on_a_queue(question: str) -> str:
    pages: asyncio.Queue[str] = asyncio.Queue()
    for page in "abcd":
        pages.put_nowait(page)
    crawled: dict[str, list[str]] = {"first": [], "second": []}

    async def worker(name: str) -> None:
        while not pages.empty():
            page = pages.get_nowait()
            crawled[name].append((await crawl(page))["page"])

    await asyncio.gather(worker("first"), worker("second"))
    took(str(crawled))
    if len(crawled["first"]) < 2:
        raise RuntimeError(f"the first worker was starved: {crawled}")
    return "crawled"


@rk.tool
async def validate(field: str):
    ran("validate")
    await asyncio.sleep({"name": 0.4, "email": 0.05}[field])
    raise ValueError(f"{field} is not valid")


@failing("Validate the form")
async def first_exception(question: str) -> str:
    try:
        await asyncio.gather(validate("name"), validate("email"))
    except ValueError as error:
        took(str(error))
        raise RuntimeError(f"rejected: {error}") from error
    return "valid"


@failing("Validate and look up at once")
async def task_group(question: str) -> str:
    looked_up = []

    async def look_up() -> None:
        looked_up.append(await ask("primary"))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(look_up())
            group.create_task(validate("email"))
    except* ValueError as group_error:
        took(f"{len(group_error.exceptions)} errors, {len(looked_up)} answers")
    if not looked_up:
        raise RuntimeError("the lookup was cancelled by the validation")
    return "done"


@failing("Stop at the first failure")
async def wait_first_exception(question: str) -> str:
    tasks = [asyncio.create_task(ask("primary")), asyncio.create_task(validate("email"))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    took(f"{len(done)} done, {len(pending)} pending")
    for task in pending:
        task.cancel()
    raise next(error for task in done if (error := task.exception()))


@failing("Rank the sources by speed")
def unordered_map(question: str) -> str:
    with ThreadPool(3) as pool:
        order = [answer["source"] for answer in pool.imap_unordered(query, list(DELAYS))]
    took(" ".join(order))
    if order[0] != "primary":
        raise Stale(f"{order[0]} was faster than the primary")
    return order[0]


@failing("Keep the last price")
def last_writer_wins(question: str) -> str:
    latest: queue.Queue[str] = queue.Queue()

    def ask_for(source: str) -> None:
        latest.put(query(source)["source"])

    threads = [threading.Thread(target=ask_for, args=(source,)) for source in ("primary", "replica")]
    for thread in threads:
        thread.start()
    order = [latest.get(), latest.get()]
    took(" ".join(order))
    for thread in threads:
        thread.join()
    if order[-1] != "replica":
        raise Stale("the old price overwrote the new one")
    return order[-1]


@rk.tool
async def tokens(model: str, count: int, pause_s: float):
    ran("tokens")
    for number in range(count):
        await asyncio.sleep(pause_s)
        yield f"{model}{number}"


@failing("Show both models side by side")
async def two_streams(question: str) -> str:
    shown: list[str] = []

    async def show(model: str, pause_s: float) -> None:
        async for token in tokens(model, 3, pause_s):
            shown.append(token)

    await asyncio.gather(show("slow", 0.25), show("fast", 0.06))
    took(" ".join(shown))
    if shown[0].startswith("fast"):
        raise RuntimeError(f"the columns are mixed up: {shown}")
    return " ".join(shown)


@failing("Start the next as soon as one is done")
async def started_by_the_end_of_another(question: str) -> str:
    finished: list[str] = []

    async def chain(first: str, second: str) -> None:
        for source in (first, second):
            finished.append((await ask(source))["source"])

    await asyncio.gather(chain("archive", "replica"), chain("replica", "primary"))
    took(" ".join(finished))
    if finished[-1] == "primary":
        raise Stale("the primary came last")
    return finished[-1]


_tickets = itertools.count(1)


@rk.tool
async def take_ticket(counter: str):
    ran("take_ticket")
    return next(_tickets)


@failing("Two queues at one counter")
async def equal_questions(question: str) -> str:
    taken: dict[str, list[int]] = {"late": [], "early": []}

    async def queue_up(name: str, pause_s: float) -> None:
        for _ in range(2):
            await asyncio.sleep(pause_s)
            taken[name].append(await take_ticket("main"))

    await asyncio.gather(queue_up("late", 0.2), queue_up("early", 0.05))
    first = min(taken["late"] + taken["early"])
    ranks = {name: [ticket - first for ticket in tickets] for name, tickets in taken.items()}
    took(str(ranks))
    if min(taken["early"]) < min(taken["late"]):
        raise RuntimeError(f"the late queue was not served first: {ranks}")
    return "served"


if __name__ == "__main__":
    main(globals())
