"""Agents whose tools keep something that the agent does not read, each as a failing and as a fixed version."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import replaykit as rk

LOG = logging.getLogger(__name__)
PRICES = {"lamp": 49, "desk": -1}
CACHE: dict[str, int] = {}
CALLS: list[str] = []
STATS: defaultdict[str, int] = defaultdict(int)
LOCK = threading.Lock()
IDS = itertools.count()


class Refused(Exception):
    """The agent cannot go on."""


@dataclass
class Metrics:
    requests: int = 0
    names: list[str] = field(default_factory=list)

    def observe(self, name: str) -> None:
        self.requests += 1
        self.names.append(name)

    def summary(self) -> str:
        """For the operator."""
        return f"{self.requests} requests: {self.names}"


METRICS = Metrics()


def cached_price(item: str) -> int:
    if item not in CACHE:
        CACHE[item] = PRICES[item]
    return CACHE[item]


@rk.tool
def price(item: str) -> int:
    CALLS.append(item)
    with LOCK:
        STATS[item] += 1
    METRICS.observe(item)
    LOG.info("price of %s, request %d", item, next(IDS))
    return cached_price(item)


def report() -> str:
    """For whoever runs the agent, after it."""
    return f"{len(CALLS)} calls, {dict(STATS)}, {METRICS.summary()}, {CACHE}"


class Shop:
    """A client that counts its requests and keeps a session."""

    def __init__(self) -> None:
        self.requests_made = 0
        self.session: object | None = None
        self.cache: dict[str, int] = {}

    def _remembered(self, item: str) -> int:
        if item not in self.cache:
            self.cache[item] = PRICES[item]
        return self.cache[item]

    @rk.tool
    def ask(self, item: str) -> int:
        self.requests_made += 1
        self.session = self.session or object()
        return self._remembered(item)


class Printing(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines_printed = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.lines_printed += 1


def checked(value: int, *, is_fixed: bool) -> str:
    if value < 0 and not is_fixed:
        raise Refused(f"the price is {value}")
    return "the price is not known" if value < 0 else f"it is {value}"


def memo(is_fixed: bool) -> str:
    price("lamp")
    return checked(price("desk"), is_fixed=is_fixed)


def client(is_fixed: bool) -> str:
    shop = Shop()
    shop.ask("lamp")
    return checked(shop.ask("desk"), is_fixed=is_fixed)


def counted(is_fixed: bool) -> str:
    CALLS.clear()
    return checked(price("desk"), is_fixed=is_fixed)


def logged(is_fixed: bool) -> str:
    handler = Printing()
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        return checked(price("desk"), is_fixed=is_fixed)
    finally:
        LOG.removeHandler(handler)


def closures(is_fixed: bool) -> str:
    seen: list[str] = []

    @rk.tool
    def look(item: str) -> int:
        seen.append(item)
        return PRICES[item]

    return checked(look("desk"), is_fixed=is_fixed)


def pooled(is_fixed: bool) -> str:
    with ThreadPoolExecutor(2) as pool:
        values = list(pool.map(price, ["lamp", "desk"]))
    return checked(min(values), is_fixed=is_fixed)


def constants(is_fixed: bool) -> str:
    assert PRICES["lamp"] == 49  # read by agent and tool, changed by none
    return checked(price("desk"), is_fixed=is_fixed)


class Collector:
    """Counts and collects answers while its other calls are still under way."""

    def __init__(self, **gates: Any) -> None:
        self.gates = gates
        self.answers: list[int] = []
        self.count = 0
        self.calls: list[str] = []

    @rk.tool
    def ask(self, item: str) -> int:
        self.calls.append(item)
        assert self.gates[item].acquire(timeout=10)
        return PRICES[item]

    @rk.tool
    async def wait(self, item: str) -> int:
        self.calls.append(item)
        await asyncio.wait_for(self.gates[item].acquire(), 10)
        return PRICES[item]

    @rk.tool
    def read(self, items: list[str]) -> Iterator[int]:
        for item in items:
            self.calls.append(item)
            yield PRICES[item]

    def take(self, answer: int) -> None:
        self.answers.append(answer)
        self.count += 1

    def outcome(self, *, is_fixed: bool) -> str:
        assert self.count == 2
        return checked(min(self.answers), is_fixed=is_fixed)


def collected_in_threads(is_fixed: bool) -> str:
    collector = Collector(lamp=threading.Semaphore(1), desk=threading.Semaphore(0))
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(collector.ask, item) for item in ("lamp", "desk")]
        for job in as_completed(jobs):
            collector.take(job.result())
            collector.gates["desk"].release()
    return collector.outcome(is_fixed=is_fixed)


def collected_in_tasks(is_fixed: bool) -> str:
    async def collect() -> str:
        collector = Collector(lamp=asyncio.Semaphore(1), desk=asyncio.Semaphore(0))
        tasks = [asyncio.ensure_future(collector.wait(item)) for item in ("lamp", "desk")]
        for task in asyncio.as_completed(tasks):
            collector.take(await task)
            collector.gates["desk"].release()
        return collector.outcome(is_fixed=is_fixed)

    return asyncio.run(collect())


def collected_from_a_stream(is_fixed: bool) -> str:
    collector = Collector()
    for answer in collector.read(["lamp", "desk"]):
        collector.take(answer)
    return collector.outcome(is_fixed=is_fixed)


@functools.cache
def remembered(item: str) -> int:
    return price(item)


def agent_cache(is_fixed: bool) -> str:
    remembered.cache_clear()
    remembered("desk")
    return checked(remembered("desk"), is_fixed=is_fixed)


@rk.tool
def jittered(item: str) -> int:
    random.random()
    return PRICES[item]


def tool_draws(is_fixed: bool) -> str:
    return checked(jittered("desk"), is_fixed=is_fixed)


def sets(is_fixed: bool) -> str:
    wanted = {"desk", "lamp"}
    values = {item: price(item) for item in sorted(wanted)}
    return checked(values["desk"], is_fixed=is_fixed)


@rk.tool
def render(path: str) -> int:
    return len(path) - len(path) - 1


def temporary(is_fixed: bool) -> str:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "page.html"
        file.write_text("x", encoding="utf-8")
        return checked(render(str(file)), is_fixed=is_fixed)


class Stack:
    """Uses tools, and has state of its own that no tool touches."""

    def __init__(self) -> None:
        self.history: list[Any] = []
        self.errors = 0

    def step(self, item: str) -> int:
        value = price(item)
        self.history.append((item, value))
        self.errors += value < 0
        return value

    def run(self, is_fixed: bool) -> str:
        self.step("lamp")
        value = self.step("desk")
        assert self.errors == 1
        assert len(self.history) == 2
        return checked(value, is_fixed=is_fixed)


def own_state(is_fixed: bool) -> str:
    return Stack().run(is_fixed)


@rk.tool
def pages(item: str) -> Any:
    CALLS.append(item)
    yield PRICES[item]


def streamed(is_fixed: bool) -> str:
    return checked(next(iter(list(pages("desk")))), is_fixed=is_fixed)


@rk.tool
def renewed(order: dict[str, int]) -> dict[str, int]:
    return order


def same_object(is_fixed: bool) -> str:
    return checked(renewed({"price": -1})["price"], is_fixed=is_fixed)


async def later(item: str) -> int:
    return await awaited(item)


@rk.tool
async def awaited(item: str) -> int:
    STATS[item] += 1
    return PRICES[item]


def in_a_loop(is_fixed: bool) -> str:
    import asyncio

    async def both() -> list[int]:
        return await asyncio.gather(later("lamp"), later("desk"))

    return checked(min(asyncio.run(both())), is_fixed=is_fixed)


AGENTS = (
    memo,
    client,
    counted,
    logged,
    closures,
    pooled,
    collected_in_threads,
    collected_in_tasks,
    collected_from_a_stream,
    constants,
    agent_cache,
    tool_draws,
    sets,
    temporary,
    own_state,
    streamed,
    same_object,
    in_a_loop,
)
