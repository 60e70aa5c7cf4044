"""Agents as strangers write them."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import heapq
import itertools
import json
import logging
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collection import every_way, failing, main, ran, took
from pydantic import BaseModel, Field

import replaykit as rk

CHANGED = every_way("changed")
TEMPORARY = {**CHANGED, "in_process": "temporary"}


class Refused(Exception):
    """The agent cannot go on."""


def judged(is_bad: object, why: str) -> str:
    took(f"{why}: {bool(is_bad)}")
    if is_bad:
        raise Refused(why)
    return "fine"


# a ReAct loop with a scratchpad
class ReAct:
    def __init__(self, limit: int = 3) -> None:
        self.limit = limit
        self.scratchpad: list[tuple[str, str]] = []

    @rk.tool
    def search(self, query: str) -> dict[str, Any]:
        ran("search")
        return {"hits": [], "query": query}

    def step(self) -> bool:
        found = self.search(f"attempt {len(self.scratchpad)}")
        self.scratchpad.append(("search", json.dumps(found)))
        return bool(found["hits"])

    def run(self) -> str:
        while len(self.scratchpad) < self.limit:
            if self.step():
                return "found"
        return judged(True, "nothing found")


@failing("Find it")
def react(question: str) -> str:
    return ReAct().run()


# retries with a decorator of its own
def retry(times: int):
    def decorate(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            last = None
            for attempt in range(times):
                try:
                    return fn(*args, **kwargs)
                except ConnectionError as error:
                    last = error
                    time.sleep(0.01 * 2**attempt)
            raise Refused("gave up") from last

        return call

    return decorate


@rk.tool
def flaky(url: str) -> str:
    ran("flaky")
    raise ConnectionError(f"no route to {url}")


@retry(3)
def fetch(url: str) -> str:
    return flaky(url)


@failing("Fetch it")
def decorated_retry(question: str) -> str:
    return fetch("https://example.invalid")


# the retry decorator outside of the tool decorator, with a counter
attempts = itertools.count(1)


@retry(2)
@rk.tool
def unstable(url: str) -> str:
    ran("unstable")
    raise ConnectionError("reset")


@failing("Fetch it twice")
def retried_tool(question: str) -> str:
    return unstable("x")


# pydantic in and out
class Order(BaseModel):
    id: int
    lines: list[str] = Field(default_factory=list)
    total: float = 0.0


@rk.tool
def price(order: Order) -> Order:
    ran("price")
    return order.model_copy(update={"total": -1.0})


@failing("Price it")
def pydantic_flow(question: str) -> str:
    order = price(Order(id=1, lines=["a"]))
    return judged(order.total < 0, "negative total")


# a tool that returns its argument, changed in place
@rk.tool
def enrich(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ran("enrich")
    for item in items:
        item["seen"] = True
    return items


@failing("Enrich", inconclusive=CHANGED)
def returns_its_argument(question: str) -> str:
    items = [{"id": 1}]
    result = enrich(items)
    return judged(result is items and items[0].get("seen"), "changed in place")


# async gather with exceptions returned
@rk.tool
async def part(number: int) -> int:
    ran("part")
    await asyncio.sleep(0.01 * (3 - number))
    if number == 1:
        raise ValueError("bad part")
    return number


@failing("Gather")
async def gathered(question: str) -> str:
    results = await asyncio.gather(*(part(n) for n in range(3)), return_exceptions=True)
    failures = [one for one in results if isinstance(one, ValueError)]
    return judged(len(failures) == 1, "one part failed")


# semaphore and queue workers
@failing("Work")
async def queue_workers(question: str) -> str:
    jobs: asyncio.Queue[int] = asyncio.Queue()
    found: list[int] = []
    for number in (0, 2, 0, 2):
        jobs.put_nowait(number)

    async def worker() -> None:
        while not jobs.empty():
            found.append(await part(jobs.get_nowait()))

    await asyncio.gather(worker(), worker())
    return judged(sorted(found) == [0, 0, 2, 2], "all parts")


# thread pool, results by completion
@rk.tool
def slow(number: int) -> int:
    ran("slow")
    time.sleep(0.15 * number)
    return number


@failing("Race")
def pool_completion(question: str) -> str:
    with ThreadPoolExecutor(3) as pool:
        order = [future.result() for future in as_completed([pool.submit(slow, n) for n in (2, 1, 0)])]
    return judged(order == [0, 1, 2], "in order of time")


# a generator of the agent over a generator tool
@rk.tool
def pages(query: str):
    ran("pages")
    for number in range(3):
        yield {"page": number, "rows": [] if number == 2 else [number]}


def rows_of(query: str):
    for page in pages(query):
        if not page["rows"]:
            return
        yield from page["rows"]


@failing("List")
def generator_pipeline(question: str) -> str:
    return judged(list(rows_of("q")) == [0, 1], "two rows")


# a context manager as a tool
@rk.tool
def open_session(name: str) -> dict[str, Any]:
    ran("open_session")
    return {"name": name, "open": True}


@rk.tool
def close_session(name: str) -> None:
    ran("close_session")


@contextmanager
def session(name: str):
    opened = open_session(name)
    try:
        yield opened
    finally:
        close_session(name)


@failing("Use a session")
def managed_session(question: str) -> str:
    with session("a") as opened:
        return judged(opened["open"], "still open")


# a context manager whose generator is the tool itself
@contextmanager
@rk.tool
def transaction(name: str):
    ran("transaction")
    yield {"name": name, "rows": 0}


@failing("Use a transaction")
def managed_tool(question: str) -> str:
    with transaction("a") as opened:
        return judged(opened["rows"] == 0, "no rows")


# an abstract class, a registry of subclasses
class Step(ABC):
    registry: dict[str, type[Step]] = {}

    def __init_subclass__(cls) -> None:
        Step.registry[cls.__name__] = cls

    @abstractmethod
    def run(self) -> str: ...


class Load(Step):
    def run(self) -> str:
        return lookup("load")


class Save(Step):
    def run(self) -> str:
        return lookup("save")


@rk.tool
def lookup(key: str) -> str:
    ran("lookup")
    return f"error: {key}"


@failing("Run all steps")
def registry_of_steps(question: str) -> str:
    answers = [Step.registry[name]().run() for name in ("Load", "Save")]
    return judged(all("error" in one for one in answers), "all failed")


# an enum state machine
class Phase(enum.Enum):
    START = enum.auto()
    WAIT = enum.auto()
    STUCK = enum.auto()


@rk.tool
def poll(phase: str) -> str:
    ran("poll")
    return "pending"


@failing("Run the machine")
def state_machine(question: str) -> str:
    phase, polls = Phase.START, 0
    while phase is not Phase.STUCK:
        match phase:
            case Phase.START:
                phase = Phase.WAIT
            case Phase.WAIT:
                polls += poll(phase.name) == "pending"
                if polls > 2:
                    phase = Phase.STUCK
    return judged(True, "stuck")


# a cache of the agent around a tool
@functools.lru_cache
def cached_lookup(key: str) -> str:
    return lookup(key)


@failing("Look it up twice")
def lru_cached(question: str) -> str:
    cached_lookup.cache_clear()
    return judged(cached_lookup("a") is cached_lookup("a"), "cached")


# random shared by agent and tool
@rk.tool
def sample(count: int) -> list[float]:
    ran("sample")
    return [random.random() for _ in range(count)]


@rk.tool
def shard_of(number: int) -> str:
    ran("shard_of")
    return f"down {number}"


@failing("Draw", inconclusive=CHANGED)
def random_after_a_drawing_tool(question: str) -> str:
    sample(3)
    number = random.randrange(1000)
    answer = shard_of(number)
    return judged(answer == f"down {number}", "the shard is down")


# a generator of random numbers that both use
RNG = random.Random(7)


@rk.tool
def jitter() -> float:
    ran("jitter")
    return RNG.random()


@failing("Draw from ours", inconclusive=CHANGED)
def shared_generator(question: str) -> str:
    RNG.seed(7)
    jitter()
    return judged(abs(RNG.random() - 0.15084917392450192) < 1e-9, "the second number")


# an iterator that both use
TICKETS = iter(())


@rk.tool
def take_ticket() -> int:
    ran("take_ticket")
    return next(TICKETS)


@failing("Take a ticket", inconclusive=CHANGED)
def shared_iterator(question: str) -> str:
    global TICKETS
    TICKETS = iter([1, 2, 3])
    take_ticket()
    return judged(next(TICKETS) == 2, "the second ticket")


# a subprocess of the agent
@failing("Count in a process")
def child_process(question: str) -> str:
    value = lookup("a")
    done = subprocess.run([sys.executable, "-c", f"print(len({value!r}))"], capture_output=True, text=True, check=True)
    return judged(done.stdout.strip() == "8", "eight letters")


# a temporary file between agent and tool
@rk.tool
def write_report(path: str) -> int:
    ran("write_report")
    return Path(path).write_text("TOTAL: -5")


@failing("Report", inconclusive=TEMPORARY)
def report_in_a_temporary_file(question: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "report.txt")
        write_report(path)
        text = Path(path).read_text() if os.path.exists(path) else ""
    return judged("-" in text, "a negative total")


# a database file of the agent and its tools
@rk.tool
def insert(path: str, value: str) -> None:
    ran("insert")
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("insert into t values (?)", (value,))


@failing("Insert", inconclusive=CHANGED)
def database_of_a_tool(question: str) -> str:
    Path("styles.db").unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect("styles.db")) as database:
        database.execute("create table t (v)")
        database.commit()
        insert("styles.db", "x")
        (count,) = database.execute("select count(*) from t").fetchone()
    return judged(count == 1, "one row")


# priority queue of the agent
@failing("Schedule")
def priority_queue(question: str) -> str:
    heap = [(3, "c"), (1, "a"), (2, "b")]
    heapq.heapify(heap)
    order = [lookup(heapq.heappop(heap)[1]) for _ in range(3)]
    return judged(order[0] == "error: a", "a first")


# an object with __call__ as a tool
class Translator:
    calls = 0

    def __call__(self, text: str) -> str:
        ran("Translator")
        Translator.calls += 1
        return text[::-1]


translate = rk.tool(Translator())


@failing("Translate", inconclusive=CHANGED)
def callable_object(question: str) -> str:
    Translator.calls = 0
    translate("abc")
    return judged(Translator.calls == 1, "called once")


# a plan held in a dataclass, changed by a tool through its argument
@dataclass
class Plan:
    steps: list[str] = field(default_factory=list)
    done: bool = False


@rk.tool
def extend(plan: Plan) -> None:
    ran("extend")
    plan.steps.append("more")


@failing("Plan", inconclusive=CHANGED)
def plan_as_an_argument(question: str) -> str:
    plan = Plan(["a"])
    extend(plan)
    return judged(len(plan.steps) == 2, "two steps")


# a callback that the agent gives to its tool
@rk.tool
def stream_to(on_token: Any) -> int:
    ran("stream_to")
    for token in ("a", "b", "error"):
        on_token(token)
    return 3


@failing("Stream", inconclusive=every_way("compare"))
def callback(question: str) -> str:
    tokens: list[str] = []
    stream_to(tokens.append)
    return judged("error" in tokens, "an error came")


# callbacks of an object
class Listener:
    def __init__(self) -> None:
        self.errors = 0

    def on_error(self, text: str) -> None:
        self.errors += 1


class Client:
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    @rk.tool
    def send(self, text: str) -> str:
        ran("send")
        self._listener.on_error(text)
        return "sent"


@failing("Send", inconclusive=CHANGED)
def observer(question: str) -> str:
    listener = Listener()
    Client(listener).send("x")
    return judged(listener.errors == 1, "one error")


# thread that fills a list of the agent
@failing("In a thread")
def thread_with_results(question: str) -> str:
    results: list[str] = []
    threads = [threading.Thread(target=lambda key=key: results.append(lookup(key))) for key in "ab"]
    for thread in threads:
        thread.start()
        thread.join()
    return judged(results == ["error: a", "error: b"], "two errors")


# an own logger with a formatter and a count
class Counting(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def filter(self, record: logging.LogRecord) -> bool:
        self.seen += 1
        return True


@rk.tool
def noisy(text: str) -> str:
    ran("noisy")
    logging.getLogger("styles").error("failed: %s", text)
    return text


@failing("Make noise", inconclusive=CHANGED)
def counted_by_a_filter(question: str) -> str:
    counting = Counting()
    log = logging.getLogger("styles")
    log.addFilter(counting)
    try:
        noisy("a")
    finally:
        log.removeFilter(counting)
    return judged(counting.seen == 1, "one error was logged")


# metrics by name in a module dictionary, read by another function
METRICS: dict[str, list[float]] = {}


def observe(name: str, value: float) -> None:
    METRICS.setdefault(name, []).append(value)


def average(name: str) -> float:
    values = METRICS.get(name, [0.0])
    return sum(values) / len(values)


@rk.tool
def measure(name: str) -> None:
    ran("measure")
    observe(name, 9.0)


@failing("Measure", inconclusive=CHANGED)
def metrics(question: str) -> str:
    METRICS.clear()
    measure("latency")
    return judged(average("latency") > 5, "too slow")


# a singleton behind a function
class Store:
    _instance = None

    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    @classmethod
    def instance(cls) -> Store:
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance


@rk.tool
def put(key: str, value: str) -> None:
    ran("put")
    Store.instance().data[key] = value


@failing("Put", inconclusive=CHANGED)
def singleton(question: str) -> str:
    Store.instance().data.clear()
    put("a", "wrong")
    return judged(Store.instance().data.get("a") == "wrong", "a wrong value")


# a tool made by a factory, with state in a partial
def record_call(log: list[str], text: str) -> str:
    ran("record_call")
    log.append(text)
    return text


PARTIAL_LOG: list[str] = []
logged_call = rk.tool(functools.partial(record_call, PARTIAL_LOG), name="record_call")


@failing("Call the partial", inconclusive=CHANGED)
def partial_with_a_list(question: str) -> str:
    PARTIAL_LOG.clear()
    logged_call("a")
    return judged(PARTIAL_LOG == ["a"], "logged")


# JSON state passed through messages
@failing("Talk")
def message_list(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    for _ in range(2):
        answer = complete(messages)
        messages.append({"role": "assistant", "content": answer})
    return judged(re.search("sorry", messages[-1]["content"]), "an apology")


@rk.tool
def complete(messages: list[dict[str, str]]) -> str:
    ran("complete")
    return f"sorry, {len(messages)} messages"


# a global flag behind a property
class Breaker:
    def __init__(self) -> None:
        self._failures = 0

    def record_failure(self) -> None:
        self._failures += 1

    @property
    def is_open(self) -> bool:
        return self._failures >= 2


BREAKER = Breaker()


@rk.tool
def guarded(name: str) -> str:
    ran("guarded")
    BREAKER.record_failure()
    return "failed"


@failing("Break", inconclusive=CHANGED)
def circuit_breaker(question: str) -> str:
    BREAKER._failures = 0
    took_calls.clear()
    while not BREAKER.is_open:
        if len(took_calls) > 5:
            break
        took_calls.append(guarded("a"))
    return judged(BREAKER.is_open, "the breaker is open")


took_calls: list[str] = []


if __name__ == "__main__":
    main(globals())
