"""Agents whose tools are generators."""

from __future__ import annotations

import asyncio
import time

from collection import failing, main, ran, took

import replaykit as rk


class BadStream(Exception):
    """The stream is not what it should be."""


@rk.tool
def negotiate(price: int):
    ran("negotiate")
    offer = price
    while offer > 10:
        answer = yield offer
        offer = offer - 5 if answer == "too much" else 0
    return "no deal"


@failing("Get it cheaper")
def sent_to(question: str) -> str:
    haggling = negotiate(30)
    offers = [next(haggling)]
    try:
        while True:
            offers.append(haggling.send("too much"))
    except StopIteration as end:
        took(f"{offers} {end.value}")
        if end.value == "no deal":
            raise BadStream(f"no deal after {len(offers)} offers") from None
    return "deal"


@rk.tool
def transaction(account: str):
    ran("transaction")
    try:
        yield "open"
        yield "committed"
    except ValueError as error:
        yield f"rolled back: {error}"


@failing("Move the money")
def thrown_into(question: str) -> str:
    steps = transaction("savings")
    first = next(steps)
    outcome = steps.throw(ValueError("negative amount"))
    steps.close()
    took(f"{first} {outcome}")
    if outcome.startswith("rolled back"):
        raise BadStream(outcome)
    return outcome


@rk.tool
def pages(topic: str):
    ran("pages")
    try:
        for number in range(100):
            yield {"page": number, "hits": 0}
    finally:
        ran("pages closed")


@failing("Look at the first pages")
def closed_early(question: str) -> str:
    seen = []
    results = pages("lamps")
    for page in results:
        seen.append(page["page"])
        if len(seen) == 3:
            results.close()
            break
    took(str(seen))
    raise BadStream(f"nothing on {len(seen)} pages")


@rk.tool
def steps_of(plan: str):
    ran("steps_of")
    yield "think"
    yield "act"
    return {"steps": 2, "done": False}


def following(plan: str):
    return (yield from steps_of(plan))


@failing("Follow the plan")
def return_value(question: str) -> str:
    follower = following("tidy up")
    steps = []
    summary = None
    while summary is None:
        try:
            steps.append(next(follower))
        except StopIteration as end:
            summary = end.value or {"done": True}
    took(f"{steps} {summary}")
    if not summary["done"]:
        raise BadStream("the plan was not finished")
    return "finished"


@rk.tool
async def dialogue(topic: str):
    ran("dialogue")
    heard = yield "hello"
    while heard != "bye":
        heard = yield f"you said {heard}"


@failing("Talk to it")
async def sent_to_async(question: str) -> str:
    talk = dialogue("weather")
    said = [await talk.asend(None), await talk.asend("rain"), await talk.asend("sun")]
    await talk.aclose()
    took(str(said))
    if said[-1] == "you said sun":
        raise BadStream("it only repeats what I say")
    return said[-1]


@rk.tool
def half_a_stream(name: str):
    ran("half_a_stream")
    yield "one"
    yield "two"
    raise ConnectionResetError(104, "reset by peer")


@failing("Read the whole stream")
def broken_stream(question: str) -> str:
    parts: list[str] = []
    try:
        for part in half_a_stream("feed"):
            parts.append(part)
    except ConnectionResetError as error:
        took(f"{parts} {error.errno}")
        raise BadStream(f"only {len(parts)} parts") from error
    return " ".join(parts)


@rk.tool
async def slow_tokens(prompt: str):
    ran("slow_tokens")
    yield "The"
    await asyncio.sleep(0.05)
    yield "answer"
    await asyncio.sleep(0.7)
    yield "is 42"


@failing("Stream the answer")
async def stalled_stream(question: str) -> str:
    text: list[str] = []
    stream = slow_tokens(question)
    try:
        while True:
            text.append(await asyncio.wait_for(anext(stream), timeout=0.25))
    except StopAsyncIteration:
        took("complete")
        return " ".join(text)
    except TimeoutError:
        took(f"stalled after {len(text)}")
        raise BadStream(f"stalled after {' '.join(text)!r}") from None


@rk.tool
def ticks(count: int):
    ran("ticks")
    for number in range(count):
        time.sleep(0.2)
        yield number


@failing("Count while there is time")
def stream_until_deadline(question: str) -> str:
    deadline = time.monotonic() + 0.5
    seen = []
    for tick in ticks(10):
        seen.append(tick)
        if time.monotonic() > deadline:
            break
    took(str(seen))
    if len(seen) < 10:
        raise BadStream(f"only {len(seen)} ticks")
    return "all ticks"


if __name__ == "__main__":
    main(globals())
