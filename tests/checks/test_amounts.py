"""How much a run took and did: money, tokens, time, effects, spans."""

from __future__ import annotations

from typing import Any

import pytest

import replaykit as rk
from replaykit.checks.assertions import parse_assertion
from replaykit.checks.budgets import own_time, time_of
from replaykit.model.events import ErrorEvent, ErrorInfo, Exchange, LlmCall, ToolCall, Usage, WireInfo
from replaykit.model.result import Finding, Side
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import Raw, canonical, raw


def tool(seq: int, name: str, arguments: Any = None, result: Any = "ok", **more: Any) -> ToolCall:
    named = Raw(canonical(arguments or {}))
    return ToolCall(seq=seq, name=name, arguments_json=named, result_json=raw(result), **more)


def llm(seq: int, **usage: Any) -> LlmCall:
    return LlmCall(seq=seq, name="m", usage=Usage(**usage) if usage else None)


def found(kind: str, value: Any, *events: Any, **more: Any) -> Finding:
    return parse_assertion(kind, value).check(TraceRun(id="r", events=events, **more), Side.DESIRED)


def test_the_cost_is_that_of_all_model_calls():
    calls = [llm(0, cost_usd=0.02), llm(1, cost_usd=0.03)]

    assert found("budget.cost", 0.05, *calls).holds
    over = found("budget.cost", 0.04, *calls)
    assert (over.holds, over.seq, over.actual) == (False, 1, "$0.05")


def test_a_cost_that_nobody_knows_is_not_within_the_budget():
    calls = [llm(0, cost_usd=0.02), llm(1, input_tokens=5)]

    finding = found("budget.cost", 5, *calls)

    assert (finding.holds, finding.seq) == (False, 1)
    assert "1 of 2 calls do not say" in finding.actual
    assert found("budget.cost", {"max_usd": 5, "unknown_usd": 0}, *calls).holds
    assert not found("budget.cost", {"max_usd": 0.05, "unknown_usd": 0.04}, *calls).holds
    assert found("budget.cost", 0).holds


@pytest.mark.parametrize(
    ("value", "holds"), [(100, True), (99, False), ({"input": 70, "output": 30}, True), ({"output": 29}, False)]
)
def test_tokens_are_counted_together_or_each(value, holds):
    calls = [llm(0, input_tokens=40, output_tokens=10), llm(1, input_tokens=30, output_tokens=20)]

    assert found("budget.tokens", value, *calls).holds is holds


def test_tokens_that_nobody_knows_are_not_within_the_budget():
    assert not found("budget.tokens", 1000, llm(0, input_tokens=1)).holds
    assert not found("budget.tokens", 1000, llm(0)).holds


def test_latency_adds_up_the_calls_and_counts_none_twice():
    calls = [
        tool(0, "plan", duration_s=2.0),
        tool(1, "search", duration_s=1.5, parent=0),
        tool(2, "send", duration_s=1.0),
    ]

    assert found("budget.latency", 3, *calls).holds
    over = found("budget.latency", 2.9, *calls)
    assert (over.holds, over.seq) == (False, 0)
    assert over.actual == "3.000 s, the longest call 'plan'"


def test_without_a_single_duration_the_latency_cannot_be_said():
    assert not found("budget.latency", 100, tool(0, "plan")).holds
    assert found("budget.latency", 0).holds


def test_own_time_is_what_is_left_and_in_a_replay_all_of_it():
    recorded = TraceRun(id="r", started_at=10.0, ended_at=15.0, events=(tool(0, "plan", duration_s=2.0),))
    replayed = TraceRun(id="r", started_at=10.0, ended_at=13.0, events=recorded.events, origin=Origin(kind="replayed"))

    assert own_time(recorded) == own_time(replayed) == 3.0
    for run in (recorded, replayed):
        rule = parse_assertion("budget.latency", {"max_s": 5, "own_time": True})
        assert rule.check(run, Side.DESIRED).holds
        rule = parse_assertion("budget.latency", {"max_s": 4.9, "own_time": True})
        assert not rule.check(run, Side.DESIRED).holds


def test_a_replay_has_the_latency_of_its_recording(store):
    @rk.tool
    def ask(question: str) -> str:
        return question.upper()

    def agent(question: str) -> str:
        return ask(question) + ask("more")

    with rk.record("slow", input="why", store=store) as run:
        run.output = agent("why")
    recorded = store.load(run.id)

    result = rk.replay(recorded, agent)

    assert time_of(recorded.events) > 0
    assert time_of(result.run.events) == time_of(recorded.events)


def posted(seq: int, name: str, **more: Any) -> Exchange:
    wire = WireInfo(method=name.split()[0], url="http://shop.test", status=200)
    return Exchange(seq=seq, name=name, result_json=raw("ok"), wire=wire, **more)


@pytest.mark.parametrize(
    ("value", "results", "holds"),
    [
        ("pay", ["done"], True),
        ("pay", [], False),
        ("pay", ["done", "done"], False),
        ("pay", ["Error: late", "done"], True),
        ("pay", ["Error: late"], False),
        ({"tool": "pay", "failed": True}, ["Error: late", "done"], False),
    ],
)
def test_exactly_once_counts_what_was_done(value, results, holds):
    calls = [tool(seq, "pay", {"order": 7}, result) for seq, result in enumerate(results)]

    assert found("effect.exactly_once", value, *calls).holds is holds


def test_exactly_once_can_be_for_each_order():
    calls = [tool(0, "pay", {"order": 7}), tool(1, "pay", {"order": 8}), tool(2, "pay", {"order": 8})]

    finding = found("effect.exactly_once", {"tool": "pay", "per": "$.order"}, *calls)

    assert (finding.holds, finding.seq) == (False, 1)
    assert found("effect.exactly_once", {"tool": "pay", "per": "$.order"}, *calls[:2]).holds
    assert found("effect.exactly_once", {"tool": "pay", "arguments": {"order": 7}}, *calls).holds


def test_no_effect_means_not_so_much_as_tried():
    assert found("effect.none", ["pay"], tool(0, "look")).holds
    assert not found("effect.none", ["p*"], tool(0, "pay", result="Error: late")).holds


def test_requests_that_write_are_effects_and_those_that_read_are_not():
    reading, writing = posted(0, "GET shop.test/orders"), posted(1, "POST shop.test/orders")

    assert found("effect.none", ["*"], reading).holds
    finding = found("effect.none", ["*"], reading, writing)
    assert (finding.holds, finding.seq) == (False, 1)
    assert found("effect.exactly_once", "POST shop.test/*", reading, writing).holds


def test_a_request_inside_a_tool_is_that_tools_effect():
    calls = [tool(0, "pay"), posted(1, "POST bank.test/charge", parent=0)]

    assert found("effect.exactly_once", "*", *calls).holds


SPANS = (
    tool(0, "plan", step="step_1", duration_s=2.0),
    tool(1, "search", step="step_1", parent=0, duration_s=1.5),
    LlmCall(seq=2, name="gpt", step="step_2", parent=1, duration_s=0.5),
    tool(3, "pay", {}, "Error: late", step="step_2", duration_s=4.0),
    ErrorEvent(seq=4, step="step_2", error=ErrorInfo(type="Error", message="late")),
)


@pytest.mark.parametrize(
    ("kind", "value", "holds"),
    [
        ("span.exists", "search", True),
        ("span.exists", {"kind": "llm"}, True),
        ("span.exists", {"kind": "exchange"}, False),
        ("span.exists", {"name": "p*", "status": "error"}, True),
        ("span.exists", {"name": "plan", "status": "error"}, False),
        ("span.exists", {"name": "gpt", "within": "plan"}, True),
        ("span.exists", {"name": "pay", "within": "plan"}, False),
        ("span.exists", {"name": "pay", "within": "step_*"}, True),
        ("span.exists", {"kind": "step", "name": "step_2", "status": "error"}, True),
        ("span.exists", {"kind": "step", "status": "ok", "min_s": 2, "max_s": 2}, True),
        ("span.exists", {"kind": "tool", "min_s": 4}, True),
        ("span.exists", {"kind": "tool", "min_s": 4.1}, False),
        ("span.count", {"kind": "tool", "min": 3, "max": 3}, True),
        ("span.count", {"kind": "step", "max": 1}, False),
        ("span.count", {"status": "error", "within": "step_1", "max": 0}, True),
        ("span.duration", {"kind": "tool", "max_s": 4}, True),
        ("span.duration", {"kind": "tool", "max_s": 3}, False),
        ("span.duration", {"name": "refund", "max_s": 3}, False),
        ("span.no_errors", {"within": "step_1"}, True),
        ("span.no_errors", {"kind": "step"}, False),
        ("span.no_errors", "refund", False),
    ],
)
def test_spans_are_selected_and_measured(kind, value, holds):
    assert found(kind, value, *SPANS).holds is holds


def test_the_span_that_is_too_long_is_pointed_at():
    assert found("span.duration", {"max_s": 3}, *SPANS).seq in (2, 3)
    assert found("span.no_errors", {"kind": "tool"}, *SPANS).seq == 3


def test_a_run_that_marks_no_steps_has_none_as_spans():
    assert not found("span.exists", {"kind": "step"}, tool(0, "plan")).holds
