"""Agents that give up on a slow tool, and go wrong because they did."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait

from collection import every_way, failing, main, ran, took

import replaykit as rk

PATIENCE_S = 0.2
SLOW_S = 0.7


class NoAnswer(Exception):
    """Nothing can be said to the customer."""


@rk.tool
def look_up_invoice(number: str):
    ran("look_up_invoice")
    time.sleep(SLOW_S)
    return {"number": number, "total": 49.99}


@rk.tool
async def search_web(query: str):
    ran("search_web")
    await asyncio.sleep(SLOW_S)
    return [f"a page about {query}"]


@rk.tool
def quick_lookup(number: str):
    ran("quick_lookup")
    time.sleep(0.02)
    return {"number": number, "total": None}


@failing("Why was I charged for invoice 991?")
def future_result(question: str) -> str:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(look_up_invoice, "991")
    try:
        invoice = future.result(timeout=PATIENCE_S)
    except TimeoutError:
        took("gave up")
        raise NoAnswer("the invoice service did not answer in time") from None
    finally:
        pool.shutdown(wait=False)
    took("answered")
    return f"You were charged {invoice['total']}."


@failing("Why was I charged for invoice 992?")
async def wait_for_thread(question: str) -> str:
    try:
        invoice = await asyncio.wait_for(asyncio.to_thread(look_up_invoice, "992"), PATIENCE_S)
    except TimeoutError:
        took("gave up")
        raise NoAnswer("the invoice service did not answer in time") from None
    took("answered")
    return f"You were charged {invoice['total']}."


@failing("Find the return policy")
async def wait_for_coroutine(question: str) -> str:
    try:
        pages = await asyncio.wait_for(search_web("return policy"), timeout=PATIENCE_S)
    except TimeoutError:
        took("no pages")
        pages = []
    if not pages:
        raise NoAnswer("no pages found")
    took("pages")
    return pages[0]


@failing("Find the opening hours")
async def asyncio_timeout(question: str) -> str:
    found: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await search_web("opening hours")
    except TimeoutError:
        took("timeout")
    took(f"{len(found)} found")
    return found[0]  # an IndexError after a timeout


@failing("Compare three vendors")
async def wait_with_timeout(question: str) -> str:
    tasks = [asyncio.create_task(search_web(vendor)) for vendor in ("acme", "bolt", "cargo")]
    done, pending = await asyncio.wait(tasks, timeout=PATIENCE_S)
    for task in pending:
        task.cancel()
    took(f"{len(done)} done, {len(pending)} pending")
    if pending:
        raise NoAnswer(f"{len(pending)} vendors did not answer")
    return "all vendors answered"


@failing("Book the cheaper flight")
async def shielded(question: str) -> str:
    search = asyncio.create_task(search_web("flights"))
    try:
        flights = await asyncio.wait_for(asyncio.shield(search), PATIENCE_S)
    except TimeoutError:
        took("stale")
        flights = None
    late = await search
    took(f"late {len(late)}")
    if flights is None:
        raise NoAnswer("booked without prices")
    return "booked"


@failing("What does order 17 cost?")
def queue_get(question: str) -> str:
    answers: queue.Queue[dict] = queue.Queue()
    worker = threading.Thread(target=lambda: answers.put(look_up_invoice("17")), daemon=True)
    worker.start()
    try:
        answer = answers.get(timeout=PATIENCE_S)
    except queue.Empty:
        took("empty")
        raise NoAnswer("nothing on the queue") from None
    took("answered")
    return str(answer["total"])


@failing("Is the export ready?")
def event_wait(question: str) -> str:
    ready = threading.Event()

    def export() -> None:
        look_up_invoice("export")
        ready.set()

    threading.Thread(target=export, daemon=True).start()
    if not ready.wait(PATIENCE_S):
        took("not ready")
        raise NoAnswer("the export is not ready")
    took("ready")
    return "ready"


@failing("Clean up the workspace")
def thread_join(question: str) -> str:
    worker = threading.Thread(target=look_up_invoice, args=("cleanup",), daemon=True)
    worker.start()
    worker.join(timeout=PATIENCE_S)
    if worker.is_alive():
        took("still alive")
        raise RuntimeError("the cleanup hangs")
    took("joined")
    return "clean"


@failing("Wait for the approval")
def condition_wait_for(question: str) -> str:
    changed = threading.Condition()
    approvals: list[str] = []

    def approve() -> None:
        invoice = look_up_invoice("approval")
        with changed:
            approvals.append(invoice["number"])
            changed.notify_all()

    threading.Thread(target=approve, daemon=True).start()
    with changed:
        approved = changed.wait_for(lambda: approvals, timeout=PATIENCE_S)
    took("approved" if approved else "not approved")
    if not approved:
        raise PermissionError("nobody approved it")
    return "approved"


@failing("Ask two registries")
def futures_wait(question: str) -> str:
    pool = ThreadPoolExecutor(2)
    futures = {pool.submit(quick_lookup, "a"), pool.submit(look_up_invoice, "b")}
    done, missing = wait(futures, timeout=PATIENCE_S)
    pool.shutdown(wait=False)
    took(f"{len(done)} of {len(futures)}")
    if missing:
        raise NoAnswer("a registry is missing")
    return "both answered"


@failing("Ask three registries")
def as_completed_in_time(question: str) -> str:
    pool = ThreadPoolExecutor(3)
    futures = [pool.submit(quick_lookup, "a"), pool.submit(look_up_invoice, "b"), pool.submit(quick_lookup, "c")]
    found = []
    try:
        for future in as_completed(futures, timeout=PATIENCE_S):
            found.append(future.result())
    except TimeoutError:
        took(f"timeout after {len(found)}")
    finally:
        pool.shutdown(wait=False)
    if len(found) < len(futures):
        raise NoAnswer(f"only {len(found)} answers")
    took("all")
    return "all answered"


@rk.tool
async def place_order(item: str, attempt: int):
    ran("place_order")
    await asyncio.sleep(SLOW_S if attempt == 1 else 0.01)
    return {"item": item, "order": 500 + attempt}


@failing("Order a lamp")
async def retried_after_timeout(question: str) -> str:
    orders = []
    for attempt in (1, 2):
        try:
            orders.append(await asyncio.wait_for(place_order("lamp", attempt), PATIENCE_S))
            break
        except TimeoutError:
            took(f"attempt {attempt} too slow")
    if orders[0]["order"] != 501:
        took("ordered twice")
        raise RuntimeError("the lamp may have been ordered twice")
    return "ordered"


@failing("What is the total of invoice 5?")
def in_time_but_empty(question: str) -> str:
    with ThreadPoolExecutor(1) as pool:
        try:
            invoice = pool.submit(quick_lookup, "5").result(timeout=1.0)
        except TimeoutError:
            took("gave up")
            return "Please ask again later."
    took("answered")
    return f"{invoice['total']:.2f} EUR"  # a TypeError: the total is None


@failing("Summarise the incident")
def watchdog_timer(question: str) -> str:
    expired = threading.Event()
    watchdog = threading.Timer(PATIENCE_S, expired.set)
    watchdog.start()
    look_up_invoice("incident")
    watchdog.cancel()
    took("expired" if expired.is_set() else "in time")
    if expired.is_set():
        raise NoAnswer("the watchdog cut it off")
    return "summary"


@failing("Translate the letter")
async def call_later(question: str) -> str:
    loop = asyncio.get_running_loop()
    hurried: list[bool] = []
    handle = loop.call_later(PATIENCE_S, hurried.append, True)
    pages = await search_web("letter")
    handle.cancel()
    took("hurried" if hurried else "calm")
    if hurried:
        raise NoAnswer("the user closed the window")
    return pages[0]


@failing("Answer from the first source")
def first_of_pool(question: str) -> str:
    pool = ThreadPoolExecutor(2)
    slow, fast = pool.submit(look_up_invoice, "slow"), pool.submit(quick_lookup, "fast")
    done, _ = wait([slow, fast], return_when=FIRST_COMPLETED)
    pool.shutdown(wait=False)
    invoice = done.pop().result()
    took(invoice["number"])
    return f"{invoice['total']:.2f} EUR"  # the fast one has no total


@failing("Remind me later")
async def event_wait_async(question: str) -> str:
    found = asyncio.Event()

    async def search() -> None:
        await search_web("reminder")
        found.set()

    task = asyncio.create_task(search())
    try:
        await asyncio.wait_for(found.wait(), PATIENCE_S)
    except TimeoutError:
        took("not found")
        task.cancel()
        raise NoAnswer("no reminder") from None
    took("found")
    return "reminded"


def rung(seconds: float, work: Callable[[], object], ring: Callable[..., None]) -> None:
    """Do something while an alarm is set."""
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def give_up(*_: object) -> None:
    raise TimeoutError


@failing("Why was I charged for invoice 993?")
def alarm_that_sets_a_flag(question: str) -> str:
    rings: list[int] = []
    rung(PATIENCE_S, lambda: look_up_invoice("993"), lambda number, _: rings.append(number))
    if rings:
        took("too late")
        raise NoAnswer("the answer came too late")
    took("answered")
    return "49.99"


@failing("Why was I charged for invoice 996?")
def alarm_in_whole_seconds(question: str) -> str:
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(1)
    try:
        look_up_invoice("996")
        time.sleep(SLOW_S)
    except TimeoutError:
        took("gave up")
        raise NoAnswer("no answer in time") from None
    finally:
        left_s = signal.alarm(0)
    took(f"{left_s} s left")
    return "49.99"


@failing("What is the largest prime?", may_be_inconclusive=every_way("computed"))
def alarm_in_an_endless_computation(question: str) -> str:
    def work() -> None:
        number = 0
        while True:
            number += 1

    quick_lookup("997")
    try:
        rung(3 * PATIENCE_S, work, give_up)
    except TimeoutError:
        took("gave up")
        raise NoAnswer("there is none") from None
    return "never"


@failing("Search for invoice 998")
async def alarm_in_an_event_loop(question: str) -> str:
    rings: list[int] = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, lambda: rings.append(1))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    pages = await search_web("998")
    signal.setitimer(signal.ITIMER_REAL, 0)
    if rings:
        took("too late")
        raise NoAnswer("the answer came too late")
    took("answered")
    return str(pages)


if __name__ == "__main__":
    main(globals())
