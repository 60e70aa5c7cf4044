"""One story, told by the real SDKs of those who trace agents: it comes out as the same run.

A user asks for a refund. The model asks for two tools at once, then for a third, which fails, and says so.
"""

from __future__ import annotations

import json

import pytest

from replaykit.importers.files import import_trace
from replaykit.model.run import RunStatus, TraceRun

from .spans import SAMPLES

STORIES = (
    *("genai_latest.json", "genai_events.jsonl", "openinference_openai.json", "openinference_langgraph.json"),
    *("openllmetry.json", "langfuse.json", "pydantic_ai_v2.json", "pydantic_ai_v5.json"),
    *("vercel_v6.json", "vercel_v6_stream.json", "vercel_v7.json"),
)
BROKEN = ("openinference_langgraph_error.json", "pydantic_ai_error.json")
MODEL_FAILED = ("vercel_v6_error.json", "vercel_v7_error.json")
CALLS = [
    ("get_order", {"order_id": "W123"}),
    ("get_user", {"user_id": "u9"}),
    ("refund_order", {"order_id": "W123", "amount": 59.9}),
]


def imported(name: str) -> list[TraceRun]:
    found = import_trace(SAMPLES / name)
    assert found.format == "otlp"
    assert found.left_out == ()
    return list(found.runs)


@pytest.mark.parametrize("name", STORIES)
def test_the_story_is_told_alike_by_all(name: str) -> None:
    run = imported(name)[0]

    assert run.status is RunStatus.SUCCESS
    assert run.input == "Refund my order W123, I'm user u9."
    assert run.output.strip() == "I could not refund order W123: the payment gateway timed out."
    assert [call.usage.input_tokens for call in run.llm_calls if call.usage][:3] == [120, 160, 200]
    made = [(call.name, call.arguments) for call in run.tool_calls][:3]
    assert sorted(made[:2]) + made[2:] == CALLS, "two at once, in either order, then the third"
    refund = run.tool_calls[2]
    assert refund.error is not None
    assert refund.error.message == "payment gateway timed out after 30s"
    assert refund.result is None


@pytest.mark.parametrize("name", STORIES)
def test_results_of_tools_and_questions_to_models_are_whole(name: str) -> None:
    run = imported(name)[0]

    order = next(call.result for call in run.tool_calls if call.name == "get_order")
    order = json.loads(order) if isinstance(order, str) else order
    assert (order["order_id"], order["total"]) == ("W123", 59.9)
    first, second, last = run.llm_calls[:3]
    assert first.name.startswith("gpt-4o-mini")
    told = {**first.arguments, "messages": [message["content"] for message in first.arguments["messages"]]}
    assert "You are a support agent." in (told.get("system"), *told["messages"])
    assert [use["id"] for use in first.result["tool_calls"]] == ["call_A1", "call_B2"]
    assert first.result["tool_calls"][0]["arguments"] == {"order_id": "W123"}
    answered = [m.get("tool_call_id") for m in second.arguments["messages"] if m["role"] == "tool"]
    assert sorted(answered) == ["call_A1", "call_B2"]
    assert last.result["tool_calls"] == []
    assert "could not refund" in last.result["content"]


@pytest.mark.parametrize("name", STORIES)
def test_events_are_in_the_order_they_began(name: str) -> None:
    run = imported(name)[0]

    times = [event.at for event in run.events]
    assert times == sorted(times)
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    assert run.ended_at is not None
    assert run.started_at <= times[0]
    assert times[-1] <= run.ended_at


@pytest.mark.parametrize("name", BROKEN)
def test_a_tool_that_ends_the_agent_ends_the_run(name: str) -> None:
    run = imported(name)[0]

    assert run.status is RunStatus.TIMEOUT
    assert str(run.error) == "TimeoutError: payment gateway timed out after 30s"
    assert run.error is not None
    assert (run.error.traceback or "").startswith("Traceback")
    assert str(run.tool_calls[-1].error) == str(run.error)
    assert run.output is None


@pytest.mark.parametrize("name", MODEL_FAILED)
def test_a_model_that_refuses_ends_the_run(name: str) -> None:
    (run,) = imported(name)

    assert run.status is RunStatus.ERROR
    assert str(run.llm_calls[0].error) == "AI_APICallError: Rate limit reached for requests"
    assert not run.llm_calls[0].result_json


def test_a_call_of_a_model_that_is_a_trace_by_itself_is_a_run() -> None:
    answered, refused = imported("openinference_responses.json")

    assert [use["name"] for use in answered.llm_calls[0].result["tool_calls"]] == ["get_order", "get_user"]
    assert answered.llm_calls[0].result["thinking"] == "Need order and user first."
    assert str(refused.error) == "RateLimitError: Error code: 429 - Rate limit reached for requests"
    assert refused.error is not None
    assert refused.error.module == "openai"


def test_steps_of_a_loop_are_those_that_the_trace_marks() -> None:
    assert [event.step for event in imported("vercel_v7.json")[0].events] == [
        *("step_1", "step_1", "step_1", "step_2", "step_2", "step_3")
    ]
    graph = [event.step for event in imported("openinference_langgraph.json")[0].events]
    assert graph == ["step_1", "step_2", "step_2", "step_3", "step_4", "step_5"]


def test_a_run_says_where_it_came_from() -> None:
    run = imported("genai_latest.json")[0]

    assert run.agent == "support"
    assert (run.origin.kind, run.origin.format) == ("imported", "otlp")
    assert run.id == run.metadata["trace_id"]
    assert run.metadata["service"] == "otel-agent"
    assert run.metadata["conversation"] == "conv_1"
    assert run.metadata["dialects"] == ["genai"]


def test_what_a_model_cost_is_kept() -> None:
    costs = [call.usage.cost_usd for call in imported("pydantic_ai_v5.json")[0].llm_calls if call.usage]
    assert costs == [3.18e-05, 3.78e-05, 4.38e-05]
