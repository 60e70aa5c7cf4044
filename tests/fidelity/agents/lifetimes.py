"""Agents whose tools are called at odd moments, or with odd things: finalizers, abandoned streams, clocks, dispatch."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import threading
import time
import weakref
from dataclasses import dataclass, field

from collection import failing, main, ran, took

import replaykit as rk


class Wrong(Exception):
    """The agent has come to something wrong."""


@rk.tool
def release(name: str):
    ran("release")
    time.sleep(0.02)
    return {"name": name, "is_free": False}


@rk.tool
def log_time(moment: float, text: str = ""):
    ran("log_time")
    return {"is_accepted": False}


@rk.tool
def slow(name: str, seconds: float):
    ran("slow")
    time.sleep(seconds)
    return {"name": name, "seconds": seconds}


@rk.tool
async def pages(name: str):
    ran("pages")
    for number in range(5):
        await asyncio.sleep(0.05)
        yield {"name": name, "number": number}


def judged(words: str, *, is_wrong: bool) -> str:
    took(words)
    if is_wrong:
        raise Wrong(words)
    return words


class Lease:
    """Something that is given back when nobody has it any more."""


@failing("Give it back")
def finalizer_calls_a_tool(question: str) -> str:
    answers: list[bool] = []
    lease = Lease()
    weakref.finalize(lease, lambda: answers.append(release("lease")["is_free"]))
    del lease
    return judged(f"{answers}", is_wrong=answers == [False])


class Cycle:
    """Calls a tool when the garbage collector takes it."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers, self.own = answers, self

    def __del__(self) -> None:
        self.answers.append(release("cycle")["is_free"])


@failing("Collect the garbage")
def collected_cycle(question: str) -> str:
    answers: list[bool] = []
    gc.collect()
    Cycle(answers)
    before = list(answers)
    gc.collect()
    return judged(f"{before} {answers}", is_wrong=answers == [False])


@failing("Read two pages, and forget the rest")
async def abandoned_pages(question: str) -> str:
    seen: list[int] = []
    stream = pages("report")
    async for page in stream:
        seen.append(page["number"])
        if len(seen) == 2:
            break
    del stream, page
    gc.collect()
    await asyncio.sleep(0.1)
    answer = release("report")
    return judged(f"{seen} {answer['is_free']}", is_wrong=seen == [0, 1])


@functools.singledispatch
def describe(thing: object) -> str:
    return "unknown"


@describe.register
@rk.tool(name="describe_number")
def _(thing: int):
    ran("describe_number")
    return f"number {thing}"


@describe.register
@rk.tool(name="describe_text")
def _(thing: str):
    ran("describe_text")
    return f"text {thing}"


@failing("Describe them all")
def dispatched_by_type(question: str) -> str:
    words = [describe(3), describe("three"), describe(3.0)]
    return judged(", ".join(words), is_wrong=words[-1] == "unknown")


@dataclass
class Basket:
    """Its default is one list for all, by mistake."""

    items: list[str] = field(default_factory=lambda: _SHARED)


_SHARED: list[str] = []


@failing("Two baskets")
def shared_default(question: str) -> str:
    _SHARED.clear()
    first, second = Basket(), Basket()
    first.items.append(slow("apple", 0.02)["name"])
    second.items.append(slow("pear", 0.02)["name"])
    return judged(f"{second.items}", is_wrong=second.items == ["apple", "pear"])


@failing("How long did it take?")
def elapsed_in_an_argument(question: str) -> str:
    began = time.perf_counter()
    slow("question", 0.2)
    answer = log_time(round(time.perf_counter() - began, 1))
    return judged(f"{answer['is_accepted']}", is_wrong=not answer["is_accepted"])


@failing("When, in nanoseconds?")
def nanoseconds_in_an_argument(question: str) -> str:
    answer = log_time(time.time_ns(), "now")
    return judged(f"{answer['is_accepted']}", is_wrong=not answer["is_accepted"])


@failing("In the time of the system")
def deadline_by_clock_gettime(question: str) -> str:
    deadline = time.clock_gettime(time.CLOCK_MONOTONIC) + 1.25
    answers = []
    while time.clock_gettime(time.CLOCK_MONOTONIC) < deadline:
        answers.append(slow(f"poll {len(answers)}", 0.5)["name"])
    return judged(f"{len(answers)} polls", is_wrong=len(answers) == 3)


@failing("A thread that fails")
def hook_for_failing_threads(question: str) -> str:
    seen: list[str] = []
    before = threading.excepthook
    threading.excepthook = lambda args: seen.append(f"{args.exc_type.__name__}")

    def fail() -> None:
        raise Wrong(slow("thread", 0.1)["name"])

    try:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join(0.4)
    finally:
        threading.excepthook = before
    return judged(f"{seen}", is_wrong=seen == ["Wrong"])


@failing("Clean up on the way out")
def tools_on_the_way_out(question: str) -> str:
    answers: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: answers.append(slow("last", 0.02)["name"]))
        stack.callback(lambda: answers.append(slow("first", 0.02)["name"]))
        answers.append(slow("body", 0.02)["name"])
    return judged(" ".join(answers), is_wrong=answers == ["body", "first", "last"])


@failing("A generator that nobody reads on")
def abandoned_generator(question: str) -> str:
    events: list[str] = []

    def steps():
        try:
            while True:
                yield slow("step", 0.05)["name"]
        finally:
            events.append(release("generator")["name"])

    generator = steps()
    events.append(next(generator))
    del generator
    return judged(" ".join(events), is_wrong=events == ["step", "generator"])


if __name__ == "__main__":
    main(globals())
