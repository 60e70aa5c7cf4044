"""Faults of tools: what the agent meets, what the log says, and that the tape then holds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import replaykit as rk
from replaykit.handlers.chaos.answers import PAYLOAD
from replaykit.handlers.chaos.handler import Chaos
from replaykit.handlers.recording.recorder import Recorder
from replaykit.model.events import State, ToolCall
from replaykit.model.faults import Attack, ChaosPlan, ContextAttack, ToolFault, ToolTrouble
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.seam.scope import RunSession

calls: list[str] = []


@rk.tool
def search(query: str) -> dict[str, Any]:
    calls.append(query)
    return {"query": query, "hits": ["a rather long text", "b"], "total": 2}


@rk.tool
async def asearch(query: str) -> dict[str, Any]:
    return {"query": query, "hits": ["a rather long text"]}


@rk.tool
def pages(query: str) -> Iterator[str]:
    for number in range(4):
        yield f"{query} {number}"


@rk.tool
async def apages(query: str) -> AsyncIterator[str]:
    for number in range(4):
        yield f"{query} {number}"


@dataclass
class Order:
    id: int
    status: str


@rk.tool
def order() -> Order:
    return Order(7, "shipped")


def plan_of(mode: str, **options: Any) -> ChaosPlan:
    return ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble(mode), **options),))


def faults(run: TraceRun) -> list[tuple[str, ...]]:
    return [call.faults for call in run.calls]


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def test_a_tool_that_times_out_raises_and_is_not_called(worlds: Any) -> None:
    run = worlds.live(search, plan_of("timeout", tool="search"))

    assert (run.status, run.error.type) == (RunStatus.TIMEOUT, "TimeoutError")
    assert (faults(run), calls) == ([("tool.timeout",)], [])


def test_a_tool_that_fails_raises_a_tool_error_with_the_status(worlds: Any) -> None:
    def agent(query: str) -> Any:
        try:
            search(query)
        except rk.ToolError as error:
            return error.status, str(error), error.response

    run = worlds.live(agent, plan_of("error", error_code=418, message="teapot", payload={"why": "tea"}))

    assert run.output == (418, "teapot", {"why": "tea"})
    assert calls == []


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("malformed", '{"query":"q","hits":["a rath\ufffd\ufffd{'),
        ("empty", {}),
        ("partial", {"query": "q"}),
        ("malicious_response", {"query": "q", "hits": [PAYLOAD, "b"], "total": 2}),
    ],
)
def test_an_answer_is_changed_after_a_live_call_and_from_a_tape_alike(worlds: Any, mode: str, expected: Any) -> None:
    calm = worlds.live(search)
    live = worlds.live(search, plan_of(mode))
    taped = worlds.taped(search, calm.events, plan_of(mode))

    assert live.output == taped.output == expected
    assert faults(live) == faults(taped) == [(f"tool.{mode}",)]
    assert len(calls) == 2  # the call itself happened


@pytest.mark.parametrize("mode", list(ToolTrouble))
def test_a_run_under_chaos_comes_out_again_without_it(worlds: Any, mode: ToolTrouble) -> None:
    def agent(query: str) -> Any:
        said = []
        for number in range(3):
            try:
                said.append(search(f"{query}{number}"))
            except (TimeoutError, rk.ToolError) as error:
                said.append(repr(error))
        return said

    run = worlds.live(agent, plan_of(mode, after_calls=1))
    again = worlds.taped(agent, run.events)

    assert len(calls) <= 3
    assert again.output == run.output
    assert faults(run)[1:] == [(f"tool.{mode}",)] * 2
    assert faults(again) == [(), (), ()]


def test_a_slow_tool_takes_longer_by_the_log_and_nobody_sleeps(worlds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"slept {seconds}"))
    calm = worlds.live(search)

    live = worlds.live(search, plan_of("slow", delay_ms=90_000))
    taped = worlds.taped(search, calm.events, plan_of("slow", delay_ms=90_000))

    assert live.output == taped.output == calm.output
    assert all(next(run.calls).duration_s >= 90 for run in (live, taped))


def test_a_slow_tool_sleeps_when_that_is_asked_for(worlds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("replaykit.seam.through.time.sleep", slept.append)
    calm = worlds.live(search)

    worlds.live(search, plan_of("slow", delay_ms=1500, sleep=True))
    worlds.taped(search, calm.events, plan_of("slow", delay_ms=1500, sleep=True))

    assert slept == [1.5, 1.5]


def test_a_slow_tool_that_is_awaited_lets_others_go_on(worlds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def later(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("replaykit.seam.through.later", later)

    worlds.live(asearch, plan_of("slow", delay_ms=2000, sleep=True))

    assert waited == [2.0]


def test_a_stale_answer_is_the_one_before(worlds: Any) -> None:
    def agent(query: str) -> Any:
        return [search(f"{query}{number}")["query"] for number in range(3)]

    assert worlds.live(agent, plan_of("stale")).output == ["q0", "q0", "q1"]
    assert worlds.live(agent, plan_of("stale", payload={"query": "old"})).output == ["old"] * 3


def test_an_awaited_tool_is_struck_as_a_plain_one(worlds: Any) -> None:
    assert worlds.live(asearch, plan_of("partial")).output == {"query": "q"}
    assert worlds.live(asearch, plan_of("timeout")).error.type == "TimeoutError"


def test_a_stream_is_cut_replaced_or_fails(worlds: Any) -> None:
    def agent(query: str) -> Any:
        return list(pages(query))

    assert worlds.live(agent, plan_of("partial")).output == ["q 0", "q 1"]
    assert worlds.live(agent, plan_of("empty")).output == []
    assert len(worlds.live(agent, plan_of("malformed")).output) == 1
    assert worlds.live(agent, plan_of("error")).error.type == "ToolError"
    calm = worlds.live(agent)
    assert worlds.taped(agent, calm.events, plan_of("partial")).output == ["q 0", "q 1"]


def test_an_awaited_stream_is_cut_too_and_its_tape_holds_that(worlds: Any) -> None:
    async def agent(query: str) -> Any:
        return [page async for page in apages(query)]

    run = worlds.live(agent, plan_of("partial"))

    assert run.output == ["q 0", "q 1"]
    assert worlds.taped(agent, run.events).output == ["q 0", "q 1"]


def test_a_stream_that_fails_by_itself_keeps_its_own_error(worlds: Any) -> None:
    @rk.tool
    def broken(query: str) -> Iterator[str]:
        yield query
        raise KeyError("gone")

    run = worlds.live(lambda query: list(broken(query)), plan_of("partial"))

    assert (run.error.type, faults(run)) == ("KeyError", [()])


def test_an_endless_stream_is_changed_all_the_same(worlds: Any) -> None:
    @rk.tool
    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    run = worlds.live(lambda _: len(list(endless())), plan_of("partial"))

    assert run.output == 5000


def test_an_object_of_a_class_stays_one_without_half_of_its_fields(worlds: Any) -> None:
    def agent(_: str) -> Any:
        found = order()
        return type(found).__name__, found.id, hasattr(found, "status")

    assert worlds.live(agent, plan_of("partial")).output == ("Order", 7, False)


def test_a_fault_means_tools_by_name_pattern_and_arguments(worlds: Any) -> None:
    def agent(_: str) -> Any:
        return [len(search(city)) for city in ("Paris", "Rome")]

    assert worlds.live(agent, plan_of("empty", tool="sea*")).output == [0, 0]
    assert worlds.live(agent, plan_of("empty", tool="other")).output == [3, 3]
    assert worlds.live(agent, plan_of("empty", match={"$.query": "Rome"})).output == [3, 0]
    assert worlds.live(agent, plan_of("empty", match={"$.query": "P*"})).output == [0, 3]
    assert worlds.live(agent, plan_of("empty", match={"$.query": "Rome", "$.limit": 3})).output == [3, 3]


def test_after_two_calls_the_third_is_the_first_to_fail(worlds: Any) -> None:
    def agent(_: str) -> Any:
        return [bool(search("q")) for _ in range(5)]

    assert worlds.live(agent, plan_of("empty", after_calls=2)).output == [True, True, False, False, False]
    assert worlds.live(agent, plan_of("empty", after_calls=0)).output == [False] * 5


def test_the_first_fault_that_takes_the_place_of_an_answer_wins(worlds: Any) -> None:
    both = ChaosPlan(
        tool_faults=(
            ToolFault(mode=ToolTrouble.ERROR, message="first"),
            ToolFault(mode=ToolTrouble.TIMEOUT),
        )
    )

    assert worlds.live(search, both).error.message == "first"


def test_several_changes_of_one_answer_are_all_named(worlds: Any) -> None:
    plan = ChaosPlan(
        tool_faults=(
            ToolFault(mode=ToolTrouble.SLOW, delay_ms=1),
            ToolFault(mode=ToolTrouble.PARTIAL),
        ),
        context_attacks=(ContextAttack(type=Attack.INDIRECT_INJECTION, payload="obey"),),
    )

    run = worlds.live(search, plan)

    assert run.output == {"query": "q\n\nobey"}
    assert faults(run) == [("tool.slow", "tool.partial", "context.indirect_injection")]


def test_an_injection_hides_behind_the_longest_text_of_an_answer(worlds: Any) -> None:
    plan = ChaosPlan(context_attacks=(ContextAttack(type=Attack.INDIRECT_INJECTION, payloads=("one", "two")),))

    said = worlds.live(search, plan).output["hits"][0]

    assert said in ("a rather long text\n\none", "a rather long text\n\ntwo")


def test_a_tool_that_fails_by_itself_has_no_answer_to_change(worlds: Any) -> None:
    @rk.tool
    def broken() -> str:
        raise ValueError("mine")

    run = worlds.live(lambda _: broken(), plan_of("malformed"))

    assert (run.error.message, faults(run)) == ("mine", [()])


def test_a_fault_takes_nothing_from_the_tape(worlds: Any) -> None:
    calm = worlds.live(search)

    def agent(query: str) -> Any:
        try:
            return search(query)
        except TimeoutError:
            return search(query)  # again, and the second time it answers

    fault = ToolFault(mode=ToolTrouble.TIMEOUT, probability=0.5)
    plan = ChaosPlan(seed=_seed_that_strikes_once(), tool_faults=(fault,))

    run = worlds.taped(agent, calm.events, plan)

    assert (run.output, faults(run)) == (calm.output, [("tool.timeout",), ()])


def _seed_that_strikes_once() -> int:
    from replaykit.handlers.chaos.chance import draw

    def strikes(seed: int, number: int) -> bool:
        return draw(seed, "", 0, "", "tool_call", "search", number).strikes(0.5)

    return next(seed for seed in range(1000) if strikes(seed, 0) and not strikes(seed, 1))


def test_time_and_chance_are_no_tools(worlds: Any) -> None:
    run = worlds.live(lambda _: rk.random() < 2, plan_of("timeout", tool="*"))

    assert run.status is RunStatus.SUCCESS


def test_without_a_plan_nothing_is_injected(worlds: Any) -> None:
    for plan in (None, ChaosPlan(seed=7)):
        run = worlds.live(search, plan)
        assert (run.status, faults(run)) == (RunStatus.SUCCESS, [()])


def test_gathered_calls_are_struck_each_for_itself(worlds: Any) -> None:
    async def agent(_: str) -> Any:
        found = await asyncio.gather(*(asearch(str(n)) for n in range(6)), return_exceptions=True)
        return [type(one).__name__ for one in found]

    run = worlds.live(agent, plan_of("timeout", probability=0.5))

    assert set(run.output) == {"dict", "TimeoutError"}
    assert worlds.live(agent, plan_of("timeout", probability=0.5)).output == run.output


def test_a_tool_that_a_framework_calls_is_struck_in_its_own_kind_of_answer(worlds: Any) -> None:
    class Message:
        def __init__(self, content: str) -> None:
            self.content = content

    def agent(query: str) -> str:
        said = rk.call_tool(
            "hosted",
            {"query": query},
            lambda given: Message(given["query"] * 4),
            keep=lambda message: message.content,
            give=Message,
        )
        return said.content

    assert worlds.live(agent, plan_of("partial", tool="hosted")).output == "qq"
    assert worlds.live(agent, plan_of("error", tool="hosted")).error.type == "ToolError"


def test_chaos_before_a_recorder_is_recorded(store: rk.Store) -> None:
    header = RunHeader(id="r1", started_at=1.0)
    writer = store.begin(header)
    session = RunSession(Chaos(Recorder(writer), plan_of("partial")))

    with session.active():
        said = search("q")
        session.checkpoint({"n": 1})
    writer.finish(header)

    call, state = store.load("r1").events
    assert isinstance(call, ToolCall)
    assert (said, call.result, call.faults) == ({"query": "q"}, {"query": "q"}, ("tool.partial",))
    assert isinstance(state, State)
