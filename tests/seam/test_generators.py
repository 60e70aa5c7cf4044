"""Generators are sent to, thrown into, closed and returned from, in a replay as when they were recorded."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.errors import Divergence, Unreplayable

LIVE: list[str] = []


@dataclass
class Turn:
    text: str


class Stop(Exception):
    def __init__(self, *, why: str) -> None:
        self.why = why


@rk.tool
def talk(name):  # type: ignore[no-untyped-def]
    LIVE.append(name)
    heard = []
    try:
        while len(heard) < 4:
            try:
                heard.append((yield Turn(f"{name} {len(heard)}")))
            except ValueError as error:
                heard.append(f"caught {error}")
        return {"heard": heard, "last": Turn("bye")}
    finally:
        LIVE.append("closed")


@rk.tool
async def atalk(name):  # type: ignore[no-untyped-def]
    LIVE.append(name)
    heard = []
    while len(heard) < 4:
        await asyncio.sleep(0)
        try:
            heard.append((yield Turn(f"{name} {heard}")))
        except ValueError as error:
            heard.append(f"caught {error}")


def both(store: rk.Store, agent: Callable[[], Any]) -> tuple[Any, Any]:
    with rk.record("agent", store=store) as run:
        recorded = agent()
    LIVE.clear()
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        replayed = agent()
    assert LIVE == [], "the tool was run in the replay"
    assert replayer.all_deviations() == []
    return recorded, replayed


def ended(generator: Generator[Any, Any, Any], *sent: Any) -> Any:
    """Send all of it, and return what the generator does."""
    heard = [next(generator)]
    try:
        for value in sent:
            heard.append(generator.throw(value) if isinstance(value, Exception) else generator.send(value))
    except StopIteration as stop:
        return heard, stop.value
    return heard, "not ended"


def test_what_is_sent_and_thrown_gives_the_recorded_answers(store: rk.Store) -> None:
    recorded, replayed = both(store, lambda: ended(talk("a"), "x", None, ValueError("no"), Turn("mine")))

    assert replayed == recorded
    assert replayed[1] == {"heard": ["x", None, "caught no", Turn("mine")], "last": Turn("bye")}


def test_a_generator_delegated_to_gives_its_return_value(store: rk.Store) -> None:
    def outer() -> Iterator[Any]:
        return (yield from talk("a"))["last"]

    recorded, replayed = both(store, lambda: ended(outer(), 1, 2, 3, 4))

    assert replayed == recorded
    assert replayed[1] == Turn("bye")


def test_what_a_generator_does_not_catch_is_the_callers_own_exception(store: rk.Store) -> None:
    def agent() -> bool:
        mine = Stop(why="enough")
        conversation = talk("a")
        next(conversation)
        try:
            conversation.throw(mine)
        except Stop as error:
            return error is mine
        return False

    assert both(store, agent) == (True, True)


def test_a_generator_that_answers_a_thrown_exception_with_another(store: rk.Store) -> None:
    @rk.tool
    def strict():  # type: ignore[no-untyped-def]
        try:
            yield 1
        except ValueError as error:
            raise Stop(why="strict") from error

    def agent() -> Any:
        items = strict()
        next(items)
        try:
            items.throw(ValueError("x"))
        except Stop as error:
            return error.why, repr(error.__cause__)

    recorded, replayed = both(store, agent)

    assert replayed == recorded == ("strict", "ValueError('x')")


def test_a_generator_that_is_closed_ends(store: rk.Store) -> None:
    def agent() -> list[str]:
        conversation = talk("a")
        heard = [next(conversation).text, conversation.send("x").text]
        conversation.close()
        return [*heard, *(turn.text for turn in conversation)]

    recorded, replayed = both(store, agent)

    assert replayed == recorded == ["a 0", "a 1"]


def test_a_generator_that_fails_when_it_is_closed_fails_again(store: rk.Store) -> None:
    @rk.tool
    def stubborn():  # type: ignore[no-untyped-def]
        try:
            yield 1
        finally:
            raise Stop(why="not now")

    def agent() -> str:
        items = stubborn()
        next(items)
        try:
            items.close()
        except Stop as error:
            return error.why
        return "closed"

    recorded, replayed = both(store, agent)

    assert replayed == recorded == "not now"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="close() returns nothing before Python 3.13")
def test_what_a_generator_returns_when_it_is_closed_comes_back(store: rk.Store) -> None:
    @rk.tool
    def counting():  # type: ignore[no-untyped-def]
        count = 0
        try:
            while True:
                count += 1
                yield count
        except GeneratorExit:
            return count

    def agent() -> Any:
        items = counting()
        next(items)
        next(items)
        return items.close()

    recorded, replayed = both(store, agent)

    assert replayed == recorded == 2


def test_a_generator_that_nobody_closes_is_recorded_all_the_same(store: rk.Store) -> None:
    kept: list[Any] = []

    def agent() -> str:
        kept.append(talk("a"))
        return next(kept[-1]).text

    recorded, replayed = both(store, agent)

    assert replayed == recorded == "a 0"
    (call,) = store.load("agent").calls
    assert call.complete is False


def test_something_else_that_is_sent_leaves_the_tape(store: rk.Store) -> None:
    for first, then in (
        ("x", "y"),
        ("x", None),
        (None, "y"),
        (ValueError("a"), ValueError("b")),
        ("x", ValueError("x")),
    ):
        with rk.record("agent", store=store) as run:
            ended(talk("a"), first)
        with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer, pytest.raises((Divergence, Unreplayable)):
            ended(talk("a"), then, None)

        assert "missing" in {deviation.kind for deviation in replayer.all_deviations()} or then is None


async def asked(generator: AsyncGenerator[Any, Any], *sent: Any) -> list[str]:
    heard = [(await anext(generator)).text]
    for value in sent:
        try:
            sending = generator.athrow(value) if isinstance(value, Exception) else generator.asend(value)
            heard.append((await sending).text)
        except StopAsyncIteration:
            heard.append("end")
        except Stop as error:
            heard.append(f"stopped: {error.why}")
    await generator.aclose()
    return heard


@pytest.mark.parametrize(
    "sent",
    [
        ("x", "y"),
        (None, "y", ValueError("no")),
        ("a", "b", "c", "d"),
        (Stop(why="enough"),),
        (ValueError("1"), ValueError("2"), Turn("z")),
    ],
    ids=str,
)
def test_an_async_generator_is_sent_to_and_thrown_into(store: rk.Store, sent: tuple[Any, ...]) -> None:
    recorded, replayed = both(store, lambda: asyncio.run(asked(atalk("a"), *sent)))

    assert replayed == recorded


def test_an_async_generator_is_sent_to_outside_of_a_run() -> None:
    assert asyncio.run(asked(atalk("a"), "x")) == ["a []", "a ['x']"]


STEPS = st.lists(
    st.one_of(
        st.none(),
        st.integers(),
        st.text(max_size=5),
        st.builds(Turn, st.text(max_size=3)),
        st.builds(ValueError, st.text(max_size=3)),
        st.builds(Stop, why=st.text(max_size=3)),
    ),
    max_size=6,
)


@given(STEPS)
def test_any_conversation_with_a_generator_comes_back(steps: list[Any]) -> None:
    def agent() -> list[str]:
        heard = []
        conversation = talk("a")
        try:
            heard.append(repr(next(conversation)))
            for step in steps:
                answer = conversation.throw(step) if isinstance(step, Exception) else conversation.send(step)
                heard.append(repr(answer))
        except StopIteration as stop:
            heard.append(f"returned {stop.value!r}")
        except Stop as error:
            heard.append(f"stopped {error.why!r}")
        conversation.close()
        return heard

    with rk.Store.open("conversations.db", redact=False) as store:
        recorded, replayed = both(store, agent)

    assert replayed == recorded
