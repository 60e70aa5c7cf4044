"""Tools that a framework calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import replaykit as rk
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun


@dataclass
class Message:
    """What a framework makes of a tool's result."""

    text: str


class RefusedError(Exception):
    """Raised by a tool."""


def recorded(run_id: str) -> TraceRun:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run_id)


def calls(run: TraceRun) -> list[ToolCall]:
    return [event for event in run.events if isinstance(event, ToolCall)]


def never(_: dict[str, Any]) -> Any:
    raise AssertionError("done for real")


def test_a_hosted_call_is_recorded_and_served() -> None:
    with rk.record("hosted") as run:
        assert rk.call_tool("add", {"a": 1, "b": 2}, lambda given: given["a"] + given["b"]) == 3
    trace = recorded(run.id)

    assert [(call.name, call.arguments, call.result) for call in calls(trace)] == [("add", {"a": 1, "b": 2}, 3)]
    with rk.replaying(rk.Tape.of(trace)):
        assert rk.call_tool("add", {"a": 1, "b": 2}, never) == 3


def test_an_awaited_hosted_call_is_recorded_and_served() -> None:
    async def live(given: dict[str, Any]) -> int:
        return given["a"] * 2

    with rk.record("hosted") as run:
        assert asyncio.run(rk.acall_tool("double", {"a": 4}, live)) == 8
    with rk.replaying(rk.Tape.of(recorded(run.id))):
        assert asyncio.run(rk.acall_tool("double", {"a": 4}, never)) == 8


def test_outside_of_a_run_the_call_just_happens() -> None:
    async def live(given: dict[str, Any]) -> int:
        return len(given)

    assert rk.call_tool("count", {"a": 1}, len) == 1
    assert asyncio.run(rk.acall_tool("count", {"a": 1}, live)) == 1


def test_what_a_framework_wants_is_made_of_plain_data() -> None:
    def ask(live: Any) -> Message:
        return rk.call_tool("say", {}, live, keep=lambda message: message.text, give=Message)

    with rk.record("hosted") as run:
        assert ask(lambda _: Message("hello")) == Message("hello")
    trace = recorded(run.id)

    assert calls(trace)[0].result == "hello"
    with rk.replaying(rk.Tape.of(trace)):
        assert ask(never) == Message("hello")


def test_the_function_behind_a_tool_says_what_recorded_data_is() -> None:
    def say() -> Message:
        return Message("typed")

    with rk.record("hosted") as run:
        rk.call_tool("say", {}, lambda _: say(), fn=say)
    with rk.replaying(rk.Tape.of(recorded(run.id))):
        assert rk.call_tool("say", {}, never, fn=say) == Message("typed")


def test_an_error_is_raised_again_as_itself() -> None:
    def refuse(_: dict[str, Any]) -> None:
        raise RefusedError("not today")

    with rk.record("hosted") as run, pytest.raises(RefusedError):
        rk.call_tool("refuse", {}, refuse)
    with rk.replaying(rk.Tape.of(recorded(run.id))), pytest.raises(RefusedError, match="not today"):
        rk.call_tool("refuse", {}, never, fn=recorded)


def test_a_decorated_function_that_a_framework_calls_is_one_call() -> None:
    @rk.tool
    def search(query: str) -> str:
        return helper(query)

    @rk.tool
    def helper(query: str) -> str:
        return query.upper()

    with rk.record("hosted") as run:
        assert rk.call_tool("search", {"query": "a"}, lambda given: search(**given)) == "A"
        assert search("b") == "B"

    assert [(call.name, call.path) for call in calls(recorded(run.id))] == [
        ("search", ""),
        ("helper", "/search#0"),
        ("search", ""),
        ("helper", "/search#1"),
    ]


def test_a_call_that_the_tape_does_not_have_is_a_divergence() -> None:
    with rk.record("hosted") as run:
        rk.call_tool("add", {"a": 1}, lambda _: 1)
    with rk.replaying(rk.Tape.of(recorded(run.id))), pytest.raises(rk.Divergence):
        rk.call_tool("add", {"a": 2}, never)
