"""Traces of the OpenAI Agents SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import sample, unpacked
from tests.formats.story import check_story
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import LlmCall, Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

SILENT = {"input", "output", "answers", "call ids", "messages", "system"}
HIDDEN = {"failure", "type of the error", "replayable"}


def items(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(unpacked(sample(f"openai_agents/{name}")))["data"]
    return found


def only(name: str) -> TraceRun:
    (run,) = import_trace(sample(f"openai_agents/{name}")).runs
    return run


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def span(own_id: str, kind: str, parent: str | None = None, *, at: int = 0, **data: Any) -> dict[str, Any]:
    error = data.pop("error", None)
    return {
        "object": "trace.span",
        "id": own_id,
        "trace_id": "trace_1",
        "parent_id": parent,
        "started_at": f"2026-01-01T00:00:{at:02}+00:00",
        "ended_at": f"2026-01-01T00:00:{at + 1:02}+00:00",
        "span_data": {"type": kind, **data},
        "error": error,
    }


TRACE = {"object": "trace", "id": "trace_1", "workflow_name": "w", "group_id": None, "metadata": None}


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("chat_model_trace.json", HIDDEN),
        ("responses_model_trace.json", SILENT | HIDDEN),
        ("ingest_post_body.json", SILENT | HIDDEN),
    ],
)
def test_the_story(name: str, lacks: set[str]) -> None:
    found = import_trace(sample(f"openai_agents/{name}"))

    assert (found.format, found.left_out, found.notes) == ("openai_agents", (), ())
    (run,) = found.runs
    check_story(run, lacks)
    assert (run.id, run.name, run.agent) == (items(name)[0]["id"], "refund-workflow", "Support")
    assert [event.step for event in run.events] == ["turn_1"] * 3 + ["turn_2"] * 2 + ["turn_3"]


def test_the_samples_count_what_the_file_counts() -> None:
    for name in ("chat_model_trace.json", "responses_model_trace.json", "tool_exception_trace.json"):
        spans = [item["span_data"] | {"failed": item["error"]} for item in items(name)[1:]]
        models = [data for data in spans if data["type"] in ("generation", "response")]
        tools = [data for data in spans if data["type"] == "function"]
        run = only(name)
        assert len(run.llm_calls) == len(models)
        assert sum(c.usage.input_tokens or 0 for c in run.llm_calls if c.usage) == sum(
            data["usage"]["input_tokens"] for data in models
        )
        assert len(run.tool_calls) == len(tools)
        assert sum(call.error is not None for call in run.tool_calls) == sum(
            data["failed"] is not None for data in tools
        )


def test_spans_with_no_more_than_a_response_id_say_what_would_help() -> None:
    run = only("responses_model_trace.json")

    told = replayability(run)
    assert {one.name: set(one.lacks) for one in told.lacking} == {
        "response": {Lack.MESSAGES, Lack.RESULT},
        "refund_order": {Lack.HIDDEN},
    }
    assert "to_input_list()" in told.advice[0]
    assert "trace_include_sensitive_data=True" in told.advice[1]
    assert run.metadata["responses"] == ["resp_0", "resp_2", "resp_3"]
    assert (run.metadata["conversation"], run.metadata["trace_metadata"]) == ("conv_1", {"customer": "u9"})


def test_a_tool_that_raises_ends_the_run() -> None:
    run = only("tool_exception_trace.json")

    refund = run.tool_calls[2]
    assert refund.error is not None
    assert (refund.error.type, refund.error.message) == ("ToolError", "payment gateway timed out after 30s")
    assert (run.status, run.output) == (RunStatus.ERROR, None)
    assert run.error is not None
    assert run.error.message == "Error running tool refund_order: payment gateway timed out after 30s"
    assert replayability(run).score == 1.0


def test_a_model_that_fails_ends_the_run() -> None:
    run = only("model_error_trace.json")

    (call,) = run.llm_calls
    assert call.error is not None
    assert call.error.message == "Error code: 429 - Rate limit reached for requests"
    assert (run.status, run.error) == (RunStatus.ERROR, call.error)


def test_too_many_turns_are_an_error_of_the_run_alone() -> None:
    run = only("max_turns_trace.json")

    assert run.error is not None
    assert (run.error.type, run.error.message) == ("MaxTurnsExceeded", "Max turns exceeded (max_turns: 1)")
    assert [type(event) for event in run.events] == [LlmCall, ToolCall, ToolCall]


def test_a_list_and_lines_and_batches_on_lines_are_the_same_trace() -> None:
    told = items("chat_model_trace.json")
    expected = only("chat_model_trace.json")

    batches = [{"data": told[index : index + 4]} for index in range(0, len(told), 4)]
    for content in (json.dumps(told).encode(), as_lines(told), as_lines(batches), as_lines(told[::-1])):
        found = import_source(Source(content, "trace.jsonl"))
        assert found.format == "openai_agents"
        assert found.runs == (expected,)


def test_traces_that_lie_among_each_other_come_apart() -> None:
    first, second = items("chat_model_trace.json"), items("max_turns_trace.json")
    mixed = [item for pair in zip(first, second, strict=False) for item in pair] + first[len(second) :]

    found = import_source(Source(as_lines(mixed), "traces.jsonl"))

    assert found.runs == (only("chat_model_trace.json"), only("max_turns_trace.json"))


def test_agents_that_hand_over_are_steps_and_the_last_one_says_how_it_ended() -> None:
    found = of(
        [
            TRACE,
            span("task", "custom", name="task", data={"sdk_span_type": "task"}),
            span("a", "agent", "task", at=1, name="Triage", handoffs=["Refunds"]),
            span("ga", "generation", "a", at=2, input=[{"role": "user", "content": "Hi"}], model="m"),
            span("h", "handoff", "a", at=3, from_agent="Triage", to_agent="Refunds"),
            span("b", "agent", "task", at=4, name="Refunds", error={"message": "Error in agent run", "data": None}),
            span("gb", "generation", "b", at=5, input=[{"role": "user", "content": "Hi"}], model="m"),
        ]
    )

    (run,) = found.runs
    assert [(type(event), event.step) for event in run.events] == [
        (LlmCall, "Triage"),
        (Note, "Triage"),
        (LlmCall, "Refunds"),
    ]
    assert run.events[1].name == "handoff"
    assert run.events[1].content["openai_agents.data"]["to_agent"] == "Refunds"
    assert run.status is RunStatus.ERROR
    assert str(run.error) == "Error: Error in agent run"


def test_an_agent_that_is_a_tool_is_inside_of_its_call() -> None:
    found = of(
        [
            TRACE,
            span("a", "agent", at=1, name="Main"),
            span("f", "function", "a", at=2, name="ask_expert", input='{"q": 1}', output="42"),
            span("b", "agent", "f", at=3, name="Expert"),
            span("g", "generation", "b", at=4, input=[{"role": "user", "content": "q"}], model="m"),
        ]
    )

    (run,) = found.runs
    outer, inner = run.events
    assert isinstance(outer, ToolCall)
    assert isinstance(inner, LlmCall)
    assert inner.parent == outer.seq
    assert (run.agent, run.name) == ("Main", "w")


def test_two_calls_of_one_tool_are_joined_by_their_arguments() -> None:
    def call(number: int) -> dict[str, Any]:
        return {"id": f"c{number}", "function": {"name": "f", "arguments": json.dumps({"n": number})}}

    output = [{"role": "assistant", "tool_calls": [call(1), call(2)]}]
    told = [{"role": "tool", "tool_call_id": f"c{n}", "content": f"r{n}"} for n in (1, 2)]
    found = of(
        [
            TRACE,
            span("a", "agent", name="A"),
            span("g1", "generation", "a", at=1, input=[{"role": "user", "content": "q"}], output=output, model="m"),
            span("f2", "function", "a", at=3, name="f", input='{"n": 2}', output="r2"),
            span("f1", "function", "a", at=3, name="f", input='{"n": 1}', output="r1"),
            span("g2", "generation", "a", at=5, input=output + told, output=[], model="m"),
        ]
    )

    (run,) = found.runs
    assert sorted((call.arguments["n"], call.result) for call in run.tool_calls) == [(1, "r1"), (2, "r2")]


def test_a_processor_that_keeps_responses_gives_messages_and_answers() -> None:
    said = [{"role": "user", "content": "q"}]
    items_said = [
        {"type": "reasoning", "summary": [{"text": "Hm."}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
    ]
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    response = {"id": "r", "model": "gpt-5", "instructions": "Be kind.", "status": "completed", "output": [answer]}
    found = of([TRACE, span("r", "response", input=said + items_said, response=response, response_id="r")])

    (run,) = found.runs
    (call,) = run.llm_calls
    assert (call.name, call.arguments["system"], call.result["content"]) == ("gpt-5", "Be kind.", "done")
    assert call.arguments["messages"] == [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": None,
            "thinking": "Hm.",
            "tool_calls": [{"id": "c1", "name": "f", "arguments": {"a": 1}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ]
    assert [(made.name, made.arguments, made.result) for made in run.tool_calls] == []
    assert run.output == "done"
    assert replayability(run).score == 1.0


def test_without_sensitive_data_calls_lack_what_was_left_out() -> None:
    found = of(
        [
            TRACE,
            span("g", "generation", input=None, output=None, model="m", usage={"input_tokens": 5, "output_tokens": 1}),
            span("f", "function", at=2, name="f", input=None, output=None),
        ]
    )

    (run,) = found.runs
    told = replayability(run)
    assert {one.name: set(one.lacks) for one in told.lacking} == {
        "m": {Lack.MESSAGES, Lack.RESULT},
        "f": {Lack.ARGUMENTS, Lack.RESULT},
    }
    assert "trace_include_sensitive_data" in told.advice[0]
    assert run.llm_calls[0].usage == Usage(input_tokens=5, output_tokens=1)


def test_guardrails_and_lists_of_tools_are_notes() -> None:
    found = of(
        [
            TRACE,
            span("a", "agent", name="A", error={"message": "Guardrail tripwire triggered", "data": {"guardrail": "g"}}),
            span("g", "guardrail", "a", at=1, name="no_math", triggered=True),
            span("m", "mcp_tools", "a", at=2, server="files", result=["read"]),
            span("c", "custom", "a", at=3, name="mine", data={"x": 1}),
        ]
    )

    (run,) = found.runs
    assert [event.name for event in run.events if isinstance(event, Note)] == ["no_math", "mcp_tools", "mine"]
    assert run.error is not None
    assert (run.error.type, run.error.message) == (
        "GuardrailTripwireTriggered",
        'Guardrail tripwire triggered (guardrail: "g")',
    )


def test_a_span_that_has_not_ended_leaves_the_run_running() -> None:
    (run,) = of([TRACE, span("a", "agent", name="A") | {"ended_at": None}]).runs

    assert (run.status, run.ended_at) == (RunStatus.RUNNING, None)


def test_a_bad_span_is_told_with_its_line_and_the_rest_is_read() -> None:
    told = [TRACE, span("a", "agent", name="A"), span("b", "function", "a", name="f") | {"started_at": "soon"}]

    found = import_source(Source(as_lines(told), "t.jsonl"))

    assert found.left_out == ("t.jsonl:3: started_at: expected an ISO time or epoch seconds, got 'soon'",)
    assert len(found.runs) == 1


def test_what_is_neither_a_trace_nor_a_span_is_told() -> None:
    found = of({"data": [TRACE, {"object": "other"}, span("a", "agent", name="A")]})

    assert found.left_out == ("trace.json:1: neither a trace nor a trace.span of the OpenAI Agents SDK",)
    with pytest.raises(InvalidFile, match=r"neither a trace nor a trace\.span"):
        of({"messages": []}, "openai_agents")
    with pytest.raises(InvalidFile, match="a trace without a span that can be read"):
        of([TRACE])


@given(damaged(json.loads(unpacked(sample("openai_agents/chat_model_trace.json")))))
@settings(max_examples=examples(60), deadline=None)
def test_damage_never_ends_in_a_traceback(document: Any) -> None:
    read_without_a_traceback("openai_agents", json.dumps(document).encode())
    rest = document.get("data") if isinstance(document, dict) else None
    if isinstance(rest, list):
        read_without_a_traceback("openai_agents", as_lines(rest))


@given(truncated(unpacked(sample("openai_agents/chat_model_trace.json"))))
@settings(max_examples=examples(20), deadline=None)
def test_a_truncated_file_is_told_as_such(content: bytes) -> None:
    assert read_without_a_traceback("openai_agents", content) == []


@given(st.lists(st.integers(0, 15), max_size=12, unique=True))
@settings(max_examples=examples(25), deadline=None)
def test_spans_may_be_missing(gone: list[int]) -> None:
    told = items("chat_model_trace.json")
    kept = [item for index, item in enumerate(told) if index not in gone]

    for run in read_without_a_traceback("openai_agents", json.dumps(kept).encode()):
        assert len(run.llm_calls) <= 3
