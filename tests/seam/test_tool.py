"""`@tool`: every shape of a call is recorded, and comes back as it was."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

import replaykit as rk
from replaykit.errors import Unreplayable


class World:
    """The live side of the tools below: counts what really happens."""

    def __init__(self) -> None:
        self.calls = 0

    def touch(self) -> int:
        self.calls += 1
        return self.calls


WORLD = World()


def again(store: rk.Store, agent: Callable[[], Any]) -> tuple[Any, Any]:
    """What the agent gives when it is recorded, and when it is replayed without touching the world."""
    with rk.record("agent", store=store) as run:
        recorded = agent()
    before = WORLD.calls
    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        replayed = agent()
    assert WORLD.calls == before, "the world was touched in the replay"
    assert [d for d in replayer.all_deviations() if d.kind not in ("undecided", "unordered")] == []
    return recorded, replayed


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Model(pydantic.BaseModel):
    name: str
    parts: list[Model] = []


class Packed(msgspec.Struct):
    when: datetime


@dataclass(frozen=True)
class Order:
    id: int
    price: Decimal
    lines: list[Order] = field(default_factory=list)


class GatewayError(Exception):
    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{code} {why}")
        self.code = code


@rk.tool
def plain(query: str, limit: int = 3) -> dict[str, Any]:
    return {"n": WORLD.touch(), "query": query, "limit": limit}


@rk.tool
async def awaited(query: str) -> tuple[str, int]:
    await asyncio.sleep(0)
    return query, WORLD.touch()


@rk.tool
def yielding(count: int) -> Iterator[Point]:
    for i in range(count):
        WORLD.touch()
        yield Point(i, i)
    return "done"


@rk.tool
async def streaming(count: int) -> AsyncIterator[bytes]:
    for i in range(count):
        WORLD.touch()
        yield bytes([i])


@rk.tool
def order(kind: str) -> Order | Model | Packed | Point | Colour | None:
    WORLD.touch()
    return {
        "dataclass": Order(1, Decimal("9.90"), [Order(2, Decimal(1))]),
        "pydantic": Model(name="a", parts=[Model(name="b")]),
        "struct": Packed(datetime(2024, 3, 12, tzinfo=UTC)),
        "namedtuple": Point(1, 2),
        "enum": Colour.RED,
    }[kind]


@rk.tool
def failing(how: str) -> None:
    WORLD.touch()
    if how == "own":
        raise GatewayError(504, why="timeout")
    if how == "key":
        raise KeyError("missing")
    raise TimeoutError("gateway timed out")


def test_a_plain_function_comes_back_with_its_defaults_bound(store: rk.Store) -> None:
    recorded, replayed = again(store, lambda: [plain("a"), plain("a", 3), plain(query="b", limit=1)])

    assert replayed == recorded
    assert recorded[0]["n"] != recorded[1]["n"], "the same arguments twice are two calls"


def test_a_coroutine_comes_back_with_its_tuple(store: rk.Store) -> None:
    recorded, replayed = again(store, lambda: asyncio.run(awaited("a")))

    assert replayed == recorded
    assert isinstance(replayed, tuple)


def test_a_generator_comes_back_item_by_item_with_its_return_value(store: rk.Store) -> None:
    def agent() -> tuple[list[Point], str]:
        items: list[Point] = []

        def collect() -> Iterator[None]:
            result = yield from yielding(3)
            items.append(result)

        items[:0] = list(collect())  # type: ignore[arg-type]
        return items

    recorded, replayed = again(store, agent)

    assert replayed == recorded == [Point(0, 0), Point(1, 1), Point(2, 2), "done"]
    assert type(replayed[0]) is Point


def test_an_async_generator_comes_back_item_by_item(store: rk.Store) -> None:
    async def agent() -> list[bytes]:
        return [item async for item in streaming(3)]

    recorded, replayed = again(store, lambda: asyncio.run(agent()))

    assert replayed == recorded == [b"\0", b"\1", b"\2"]


@pytest.mark.parametrize("kind", ["dataclass", "pydantic", "struct", "namedtuple", "enum"])
def test_a_result_comes_back_in_its_own_type(store: rk.Store, kind: str) -> None:
    recorded, replayed = again(store, lambda: order(kind))

    assert replayed == recorded
    assert type(replayed) is type(recorded)
    if kind == "dataclass":
        assert type(replayed.lines[0]) is Order


@pytest.mark.parametrize(("how", "kind"), [("own", GatewayError), ("key", KeyError), ("built in", TimeoutError)])
def test_an_exception_comes_back_as_its_own_class(store: rk.Store, how: str, kind: type[Exception]) -> None:
    def agent() -> tuple[str, Any]:
        try:
            failing(how)
        except kind as error:
            return str(error), getattr(error, "code", None)
        raise AssertionError("not raised")

    recorded, replayed = again(store, agent)

    assert replayed == recorded


def test_an_exception_of_an_unknown_class_is_still_caught_by_its_base(store: rk.Store) -> None:
    @rk.tool
    def odd() -> None:
        raise type("Vanished", (ConnectionError,), {"__module__": "nowhere"})("gone")

    with rk.record("agent", store=store) as run, pytest.raises(ConnectionError):
        odd()
    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(ConnectionError, match="gone"):
        odd()


def test_arguments_are_frozen_at_the_call(store: rk.Store) -> None:
    @rk.tool
    def append(messages: list[str]) -> int:
        messages.append("added by the tool")
        return len(messages)

    with rk.record("agent", store=store) as run:
        messages = ["hello"]
        append(messages)
        messages.append("later")

    (call,) = store.load(run.id).calls
    assert call.arguments == {"messages": ["hello"]}


def test_results_are_frozen_when_the_call_returns(store: rk.Store) -> None:
    @rk.tool
    def rows() -> list[int]:
        return [1]

    def agent() -> list[int]:
        rows().append(99)
        return rows()

    _, replayed = again(store, agent)

    assert replayed == [1]


def test_methods_and_static_and_class_methods_leave_out_the_receiver(store: rk.Store) -> None:
    class Client:
        @rk.tool
        def get(self, key: str) -> str:
            return f"{key}{WORLD.touch()}"

        @rk.tool
        @staticmethod
        def fixed(key: str) -> str:
            return f"{key}{WORLD.touch()}"

        @classmethod
        @rk.tool
        def make(cls, key: str) -> str:
            return f"{cls.__name__}{key}{WORLD.touch()}"

    recorded, replayed = again(store, lambda: [Client().get("a"), Client.fixed("b"), Client.make("c")])

    assert replayed == recorded
    names = [(call.name, call.arguments) for call in store.load("agent").calls]
    assert names == [("get", {"key": "a"}), ("fixed", {"key": "b"}), ("make", {"key": "c"})]


def test_a_receiver_that_is_given_by_name_is_left_out_too(store: rk.Store) -> None:
    class Client:
        @rk.tool
        def get(self, key: str) -> str:
            return key

    with rk.record("agent", store=store) as run:
        assert Client.get(self=Client(), key="a") == "a"

    assert [call.arguments for call in store.load(run.id).calls] == [{"key": "a"}]


@pytest.mark.parametrize("given", [{"query": "a", "limit": 5}, {"limit": 5, "query": "a"}, {"query": "a"}])
def test_arguments_by_name_are_the_same_call_as_those_by_place(store: rk.Store, given: dict[str, Any]) -> None:
    @rk.tool
    def search(query: str, limit: int = 5) -> None:
        """One that is called by models, and by hand."""

    with rk.record("agent", store=store) as run:
        search("a", 5)
        search(**given)

    by_place, by_name = store.load(run.id).calls
    assert by_name.arguments_json == by_place.arguments_json


def test_a_tool_may_be_named(store: rk.Store) -> None:
    @rk.record_tool(name="billing.lookup")
    def _impl(user: str, *rest: int, **more: int) -> str:
        return user

    with rk.record("agent", store=store) as run:
        _impl("a", 1, 2, x=3)

    (call,) = store.load(run.id).calls
    assert (call.name, call.arguments) == ("billing.lookup", {"user": "a", "rest": (1, 2), "x": 3})


class Doubler:
    def __call__(self, x: int) -> int:
        return 2 * x


@pytest.mark.parametrize(
    ("callable_", "name"),
    [(Doubler(), "Doubler"), (functools.partial(pow, 3), "pow"), (functools.partial(functools.partial(pow), 3), "pow")],
)
def test_a_callable_without_a_name_is_called_after_its_class_or_function(
    store: rk.Store, callable_: Any, name: str
) -> None:
    tool = rk.tool(callable_)

    with rk.record("agent", store=store):
        live = tool(4)
    with rk.replaying(rk.Tape.of(store.load("agent"))):
        again = tool(4)

    assert (live, [call.name for call in store.load("agent").calls]) == (again, [name])


def test_arguments_of_any_name_are_arguments_like_the_others(store: rk.Store) -> None:
    @rk.tool
    def search(query: str, /, **filters: Any) -> None:
        """One that a model gives whatever it likes."""

    with rk.record("agent", store=store) as run:
        search("a", year=2026)
        search("a")
        search("a", query="b")

    told = [call.arguments for call in store.load(run.id).calls]
    assert told == [{"query": "a", "year": 2026}, {"query": "a"}, {"query": "a", "filters": {"query": "b"}}]


def test_wrong_arguments_are_refused_by_python_and_not_recorded(store: rk.Store) -> None:
    with rk.record("agent", store=store) as run:
        for wrong in ({"nope": 1}, {"query": "a", "limit": 1, "x": 2}):
            with pytest.raises(TypeError):
                plain(**wrong)
        with pytest.raises(TypeError):
            plain("a", 1, 2)
        with pytest.raises(TypeError):
            plain("a", query="a")

    assert list(store.load(run.id).calls) == []


def test_outside_of_a_run_a_tool_is_just_a_function() -> None:
    assert plain("a")["query"] == "a"
    assert asyncio.run(awaited("b"))[0] == "b"
    assert [p.x for p in yielding(2)] == [0, 1]


def test_frameworks_see_the_shape_of_the_function() -> None:
    assert inspect.iscoroutinefunction(awaited)
    assert inspect.isgeneratorfunction(yielding)
    assert inspect.isasyncgenfunction(streaming)
    assert inspect.signature(plain) == inspect.signature(inspect.unwrap(plain))
    assert plain.__name__ == "plain"


def test_whoever_calls_what_is_wrapped_is_served_from_the_tape_too(store: rk.Store) -> None:
    done: list[str] = []

    @rk.tool
    def pay(order: str) -> str:
        done.append(order)
        return "paid"

    @rk.tool
    async def cancel(order: str) -> str:
        done.append(order)
        return "cancelled"

    def agent() -> Any:
        return [pay.__wrapped__("17"), asyncio.run(cancel.__wrapped__("18"))]  # type: ignore[attr-defined]

    recorded, replayed = again(store, agent)

    assert replayed == recorded == ["paid", "cancelled"]
    assert done == ["17", "18"], "the recording did it, and the replay did not"


def test_parallel_tasks_threads_and_pools_are_recorded_and_replayed_right(store: rk.Store) -> None:
    def in_thread(results: list[Any]) -> None:
        results.append(plain("thread"))

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        gathered = await asyncio.gather(*[awaited("same") for _ in range(8)])
        threads = await asyncio.gather(*[asyncio.to_thread(plain, "same") for _ in range(4)])
        executor = [await loop.run_in_executor(None, plain, "same") for _ in range(2)]
        return [gathered, threads, executor]

    def agent() -> list[Any]:
        results = asyncio.run(main())
        with ThreadPoolExecutor(4) as pool:
            results.append(list(pool.map(plain, ["same"] * 8)))
            results.append(pool.submit(plain, "x").result())
        threads = [threading.Thread(target=in_thread, args=(results,)) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
        return results

    recorded, replayed = again(store, agent)

    assert replayed == recorded
    assert len(list(store.load("agent").calls)) == 8 + 4 + 2 + 8 + 1 + 2


def test_a_pool_that_outlives_the_run_does_not_record_into_it(store: rk.Store) -> None:
    with ThreadPoolExecutor(1) as pool:
        with rk.record("agent", store=store) as run:
            pool.submit(plain, "inside").result()
        pool.submit(plain, "outside").result()

    assert [call.arguments["query"] for call in store.load(run.id).calls] == ["inside"]


def test_a_stream_that_was_left_early_ends_there_on_replay(store: rk.Store) -> None:
    def take(count: int) -> list[Point]:
        items = yielding(5)
        return [next(items) for _ in range(count)]

    with rk.record("agent", store=store) as run:
        recorded = take(2)
    with rk.replaying(rk.Tape.of(store.load(run.id))):
        assert take(2) == recorded
    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Unreplayable, match="left after 2 items"):
        take(3)


def test_a_generator_is_sent_to_and_thrown_into(store: rk.Store) -> None:
    @rk.tool
    def talk() -> Iterator[str]:
        said = yield "hello"
        try:
            yield f"you said {said}"
        except ValueError:
            yield "caught"

    with rk.record("agent", store=store) as run:
        conversation = talk()
        heard = [next(conversation), conversation.send("hi"), conversation.throw(ValueError("x"))]
        conversation.close()

    assert heard == ["hello", "you said hi", "caught"]
    (call,) = store.load(run.id).calls
    assert call.items == heard


def test_a_call_that_timed_out_waits_again_on_replay(store: rk.Store) -> None:
    @rk.tool
    async def slow() -> str:
        await asyncio.sleep(3600)
        return "never"

    async def agent() -> str:
        try:
            return await asyncio.wait_for(slow(), timeout=0.01)
        except TimeoutError:
            return "timed out"

    recorded, replayed = again(store, lambda: asyncio.run(agent()))

    assert replayed == recorded == "timed out"


def test_a_result_that_cannot_be_kept_is_a_clear_error_on_replay(store: rk.Store) -> None:
    @rk.tool
    def connect() -> Any:
        return threading.Lock()

    with rk.record("agent", store=store) as run:
        connect()
    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Unreplayable, match="lock"):
        connect()


def test_a_tool_inside_a_tool_is_its_child_and_does_not_happen_on_replay(store: rk.Store) -> None:
    @rk.tool
    def outer() -> Any:
        return [plain("inner"), plain("inner")]

    recorded, replayed = again(store, lambda: [outer(), plain("after")])

    assert replayed == recorded
    run = store.load("agent")
    assert [call.name for call in run.tool_calls] == ["outer", "plain"]
    assert [call.parent for call in run.calls] == [None, 0, 0, None]


def test_a_tool_records_its_time(store: rk.Store) -> None:
    @rk.tool
    def nap() -> None:
        time.sleep(0.01)

    with rk.record("agent", store=store) as run:
        nap()

    (call,) = store.load(run.id).calls
    assert 0.01 <= call.duration_s < 5
    assert abs(call.at - time.time()) < 60


def test_a_builtin_that_has_no_signature_is_a_tool_as_well(store: rk.Store) -> None:
    largest = rk.tool(max)

    assert again(store, lambda: [largest(1, 5, 3), largest([], default=7)]) == ([5, 7], [5, 7])
