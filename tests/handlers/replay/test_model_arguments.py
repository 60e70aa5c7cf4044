"""Calls of foreign traces: what a model wrote is found by a call of the function, whatever the function adds to it."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, Field

import replaykit as rk
from replaykit.errors import Divergence
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import CallSpan, ToolCall
from replaykit.model.matching import MatchMode, MatchRules, OnMiss
from replaykit.model.values import Raw, canonical, raw
from replaykit.store.open import open_store


def tape(*calls: dict[str, Any], name: str = "get_order", recorded: bool = False) -> Tape:
    """A tape whose n-th call answers with n."""
    return Tape(
        ToolCall(
            seq=number,
            name=name,
            arguments_json=Raw(canonical(given)),
            result_json=raw(number),
            span=CallSpan(begin=number, begin_s=0.0) if recorded else None,
        )
        for number, given in enumerate(calls)
    )


def served(tape: Tape, *calls: Callable[[], Any], rules: MatchRules | None = None) -> list[Any]:
    """What the calls were answered with; no call may differ from the tape."""
    with rk.replaying(tape, rules) as replayer:
        answers = [call() for call in calls]
    assert [one.kind for one in replayer.all_deviations()] == []
    return answers


@rk.tool
def get_order(order_id: str, verbose: bool = False, limit: float = 10) -> Any: ...


@pytest.mark.parametrize(
    "given",
    [
        {"order_id": "991"},
        {"order_id": "991", "verbose": False},
        {"order_id": "991", "limit": 10},
        {"order_id": "991", "limit": 10.0, "verbose": False},
    ],
)
def test_defaults_may_be_left_out_or_spelled_out_on_either_side(given):
    for call in (
        lambda: get_order("991"),
        lambda: get_order(order_id="991", verbose=False),
        lambda: get_order("991", False, limit=10),
    ):
        assert served(tape(given), call) == [0]


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({"order_id": "991"}, lambda: get_order("991", verbose=True)),
        ({"order_id": "991", "verbose": True}, lambda: get_order("991")),
        ({"order_id": "991"}, lambda: get_order("992")),
        ({"order_id": "991", "verbose": 0}, lambda: get_order("991")),
        ({"order_id": 991}, lambda: get_order("991")),
        ({"order_id": "991", "currency": "EUR"}, lambda: get_order("991")),
        ({}, lambda: get_order("991")),
    ],
)
def test_another_value_is_a_difference(given, call):
    with rk.replaying(tape(given)), pytest.raises(Divergence):
        call()


def test_a_miss_names_no_default_as_a_difference():
    with rk.replaying(tape({"order_id": "991"})), pytest.raises(Divergence) as caught:
        get_order("992")

    assert "$.order_id" in caught.value.message
    assert "$.verbose" not in caught.value.message


def test_a_recorded_call_is_compared_with_all_its_arguments():
    with rk.replaying(tape({"order_id": "991"}, recorded=True)), pytest.raises(Divergence):
        get_order("991")


def test_each_call_of_the_trace_is_served_once_in_its_order():
    calls = ({"order_id": "991"}, {"order_id": "991", "verbose": True}, {"order_id": "991", "verbose": False})

    answers = served(tape(*calls), *(lambda v=v: get_order("991", v) for v in (False, False, True)))

    assert answers == [0, 2, 1]


@pytest.mark.parametrize("mode", list(MatchMode))
def test_every_way_of_matching_knows_defaults(mode):
    calls = ({"order_id": "991"}, {"order_id": "992"})

    assert served(tape(*calls), lambda: get_order("991"), lambda: get_order("992"), rules=MatchRules(mode=mode)) == [
        0,
        1,
    ]


def test_strict_matching_still_wants_the_recorded_order():
    rules = MatchRules(mode=MatchMode.STRICT)

    with rk.replaying(tape({"order_id": "991"}, {"order_id": "992"}), rules), pytest.raises(Divergence):
        get_order("992")


def test_a_loop_that_asks_again_meets_the_last_outcome():
    calls = ({"order_id": "991"}, {"order_id": "991", "verbose": False})

    with rk.replaying(tape(*calls), MatchRules(on_miss=OnMiss.REPEAT)):
        assert [get_order("991") for _ in range(4)] == [0, 1, 1, 1]


def test_a_call_from_a_task_is_found_and_noted_as_moved():
    @rk.tool(name="get_order")
    async def get_order_later(order_id: str, verbose: bool = False) -> Any: ...

    async def agent() -> Any:
        return await asyncio.gather(get_order_later("991"), get_order_later("992"))

    with rk.replaying(tape({"order_id": "991"}, {"order_id": "992"})) as replayer:
        assert asyncio.run(agent()) == [0, 1]
    assert {one.kind for one in replayer.all_deviations()} == {"moved"}


def test_methods_and_variadic_parameters():
    class Shop:
        @rk.tool(name="get_order")
        def find(self, order_id: str, /, verbose: bool = False) -> Any: ...

    @rk.tool(name="get_order")
    def anything(*args: Any, verbose: bool = False, **kwargs: Any) -> Any: ...

    assert served(tape({"order_id": "991"}), lambda: Shop().find("991")) == [0]
    assert served(tape({"order_id": "991"}), lambda: anything(order_id="991")) == [0]
    with rk.replaying(tape({"order_id": "991"})), pytest.raises(Divergence):
        anything("extra", order_id="991")


class Status(Enum):
    OPEN = "open"


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    id: str
    lines: list[Line] = []
    status: Status = Status.OPEN
    due: dt.date | None = None
    note: str = Field(default="", alias="customerNote")


@dataclass
class Address:
    city: str
    tags: list[str] = field(default_factory=list)
    zip_code: str | None = None


class Price(msgspec.Struct):
    amount: decimal.Decimal
    currency: str = "EUR"


@rk.tool(name="get_order")
def place(order: Order, to: Address | None = None, price: Price | None = None) -> Any: ...


def test_objects_are_the_json_that_they_were_made_of():
    written = {
        "order": {"id": "991", "lines": [{"sku": "a"}], "due": "2026-01-02", "customerNote": "soon"},
        "to": {"city": "Rome"},
        "price": {"amount": 19.9},
    }
    order = Order(id="991", lines=[Line(sku="a")], due=dt.date(2026, 1, 2), customerNote="soon")

    call = lambda: place(order, Address("Rome"), Price(decimal.Decimal("19.90")))  # noqa: E731

    assert served(tape(written), call) == [0]
    written["order"]["lines"][0]["count"] = 2
    with rk.replaying(tape(written)), pytest.raises(Divergence):
        call()


def test_moments_and_sets_are_compared_as_what_they_mean():
    @rk.tool(name="get_order")
    def find(since: dt.datetime, tags: set[str]) -> Any: ...

    written = {"since": "2026-01-02T10:00:00Z", "tags": ["b", "a"]}

    assert served(tape(written), lambda: find(dt.datetime(2026, 1, 2, 10, tzinfo=dt.UTC), {"a", "b"})) == [0]


class InjectedState:
    """A marker as LangGraph has them."""


def framework_class(name: str, package: str) -> type:
    return dataclass(type(name, (), {"__annotations__": {"deps": Any}, "__module__": f"{package}.things"}))


RunContext = framework_class("RunContext", "pydantic_ai")
Context = framework_class("Context", "somebody")


def test_what_a_framework_injects_is_in_no_trace():
    @rk.tool(name="get_order")
    def find(
        ctx: RunContext,  # type: ignore[valid-type]
        order_id: str,
        state: Annotated[dict[str, Any], InjectedState],
        runtime: ToolRuntime[Any] | None = None,  # type: ignore[name-defined]  # noqa: F821
        socket: Any = None,
    ) -> Any: ...

    call = lambda: find(RunContext({"db": 1}), "991", {"messages": [1]}, socket=object())  # noqa: E731

    assert served(tape({"order_id": "991"}), call) == [0]


def test_an_object_of_ones_own_is_no_injected_one():
    @rk.tool(name="get_order")
    def find(ctx: Context, order_id: str) -> Any: ...  # type: ignore[valid-type]

    with rk.replaying(tape({"order_id": "991"})), pytest.raises(Divergence):
        find(Context({"db": 1}), "991")


def test_a_tool_that_a_framework_calls_knows_the_defaults_of_its_function():
    def plain(order_id: str, verbose: bool = False) -> Any: ...

    call = lambda: rk.call_tool("get_order", {"order_id": "991", "verbose": False}, lambda _: None, fn=plain)  # noqa: E731

    assert served(tape({"order_id": "991"}), call) == [0]


def test_ten_thousand_calls_are_found_in_linear_time():
    given = [{"order_id": str(number % 100)} for number in range(10_000)]
    with rk.replaying(tape(*given)):
        assert [get_order(one["order_id"]) for one in given] == list(range(10_000))


def test_a_tool_that_awaits_itself_is_recorded_at_every_level(tmp_path):
    @rk.tool
    async def countdown(number: int) -> int:
        return await countdown(number - 1) if number else 0

    with rk.record("countdown", store=tmp_path / "store.db") as run:
        asyncio.run(countdown(2))

    with open_store(tmp_path / "store.db", read_only=True) as store:
        assert [call.arguments["number"] for call in store.load(run.id).calls] == [2, 1, 0]


def test_sharing_a_replayer_keeps_what_was_found(tmp_path):
    replayer = Replayer(tape({"order_id": "991"}, {"order_id": "991"}))
    from replaykit.programs.shared_tape import SharedMatcher

    with replayer.at_work():
        assert get_order("991") == 0
        replayer.share(lambda matcher: SharedMatcher.shared(matcher, tmp_path / "taken"))
        assert get_order("991") == 1
