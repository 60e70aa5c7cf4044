"""MLflow traces, versions 2 and 3."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import sample, unpacked
from tests.formats.story import check_story
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import Note, Usage
from replaykit.model.run import RunStatus, TraceRun


def document(name: str = "trace_to_json.json") -> Any:
    return json.loads(unpacked(sample(f"mlflow/{name}")))


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def only(value: Any) -> TraceRun:
    (run,) = of(value).runs
    return run


def span(own_id: str, kind: str | None = None, above: str | None = None, *, at: int = 0, **more: Any) -> dict[str, Any]:
    """A span; what is given by name are its inputs, outputs and other attributes."""
    names = {"inputs": "mlflow.spanInputs", "outputs": "mlflow.spanOutputs", "form": "mlflow.message.format"}
    names |= {"usage": "mlflow.chat.tokenUsage"}
    fields = {name: more.pop(name) for name in ("events", "status") if name in more}
    attributes = {names.get(name, name): json.dumps(value) for name, value in more.items()}
    if kind is not None:
        attributes["mlflow.spanType"] = json.dumps(kind)
    return {
        "trace_id": "kLxrku6WeEHJ/rE+V2ZR2Q==",
        "span_id": base64.b64encode(own_id.encode().ljust(8, b"-")).decode(),
        "parent_span_id": above and base64.b64encode(above.encode().ljust(8, b"-")).decode(),
        "name": own_id,
        "start_time_unix_nano": 1_794_767_832_000_000_000 + at * 1_000_000_000,
        "end_time_unix_nano": 1_794_767_833_000_000_000 + at * 1_000_000_000,
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "events": [],
        "attributes": attributes,
        **fields,
    }


def trace(*spans: Any, **info: Any) -> dict[str, Any]:
    return {"info": {"trace_id": "tr-1", "state": "OK", **info}, "data": {"spans": list(spans)}}


@pytest.mark.parametrize("name", ["trace_to_json.json", "trace_to_dict.json"])
def test_the_story(name: str) -> None:
    found = import_trace(sample(f"mlflow/{name}"))

    assert (found.format, found.left_out, found.notes) == ("mlflow", (), ())
    (run,) = found.runs
    check_story(run)
    assert (run.id, run.name, run.agent) == (document(name)["info"]["trace_id"], "support_agent", "support_agent")
    assert run.metadata["conversation"] == "s1"
    assert run.metadata["trace_tags"] == {"env": "test"}


def test_the_sample_counts_what_the_file_counts() -> None:
    told = document()
    total = json.loads(told["info"]["trace_metadata"]["mlflow.trace.tokenUsage"])
    cost = json.loads(told["info"]["trace_metadata"]["mlflow.trace.cost"])["total_cost"]
    kinds = [json.loads(one["attributes"]["mlflow.spanType"]) for one in told["data"]["spans"]]
    run = only(told)

    usages = [call.usage for call in run.llm_calls if call.usage]
    assert sum(usage.input_tokens or 0 for usage in usages) == total["input_tokens"]
    assert sum(usage.output_tokens or 0 for usage in usages) == total["output_tokens"]
    assert sum(usage.cost_usd or 0 for usage in usages) == pytest.approx(cost)
    assert (len(run.llm_calls), len(run.tool_calls)) == (kinds.count("CHAT_MODEL"), kinds.count("TOOL"))


def _older(told: dict[str, Any]) -> dict[str, Any]:
    """The trace as version 2 wrote it."""
    info = told["info"]
    spans = [
        {
            "name": one["name"],
            "context": {"span_id": f"0x{base64.b64decode(one['span_id']).hex()}", "trace_id": "0x1"},
            "parent_id": one["parent_span_id"] and f"0x{base64.b64decode(one['parent_span_id']).hex()}",
            "start_time": one["start_time_unix_nano"],
            "end_time": one["end_time_unix_nano"],
            "status_code": one["status"]["code"].removeprefix("STATUS_CODE_"),
            "status_message": one["status"]["message"],
            "attributes": one["attributes"],
            "events": [
                {"name": e["name"], "timestamp": e["time_unix_nano"], "attributes": e["attributes"]}
                for e in one["events"]
            ],
        }
        for one in told["data"]["spans"]
    ]
    return {
        "info": {
            "request_id": info["trace_id"],
            "experiment_id": "1",
            "timestamp_ms": 1794767831188,
            "execution_time_ms": 444,
            "status": "OK",
            "request_metadata": info["trace_metadata"],
            "tags": [{"key": key, "value": value} for key, value in info["tags"].items()],
        },
        "data": {"spans": spans, "request": "{}", "response": "{}"},
    }


def _of_protobuf(told: dict[str, Any]) -> dict[str, Any]:
    """The trace as JSON of its protobuf: names in camelCase, attributes as a list, times as text."""
    spans = [
        {
            "spanId": one["span_id"],
            "parentSpanId": one["parent_span_id"] or "",
            "name": one["name"],
            "startTimeUnixNano": str(one["start_time_unix_nano"]),
            "endTimeUnixNano": str(one["end_time_unix_nano"]),
            "status": one["status"],
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in one["attributes"].items()],
            "events": [
                {
                    "name": event["name"],
                    "timeUnixNano": str(event["time_unix_nano"]),
                    "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in event["attributes"].items()],
                }
                for event in one["events"]
            ],
        }
        for one in told["data"]["spans"]
    ]
    return {"info": told["info"], "data": {"spans": spans}}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([document()]).encode(),
        json.dumps({"traces": [document()]}).encode(),
        as_lines([document()]),
        json.dumps([{"trace_id": "x", "trace": json.dumps(document()), "request": "…"}]).encode(),
        json.dumps(_older(document())).encode(),
        json.dumps(_of_protobuf(document())).encode(),
        json.dumps({"spans": document()["data"]["spans"]}).encode(),
    ],
    ids=["list", "search", "lines", "rows", "version-2", "protobuf", "artifact"],
)
def test_the_story_in_every_form(content: bytes) -> None:
    found = import_source(Source(content, "traces.json"))

    assert (found.format, found.left_out, found.notes) == ("mlflow", (), ())
    (run,) = found.runs
    check_story(run)
    assert run.id == document()["info"]["trace_id"]


def test_an_error_ends_the_run() -> None:
    run = only(document("trace_error.json"))

    assert (run.status, str(run.error)) == (RunStatus.TIMEOUT, "TimeoutError: payment gateway timed out after 30s")
    (call,) = run.tool_calls
    assert call.error == run.error or (call.error is not None and call.error.type == "TimeoutError")
    assert call.error is not None
    assert call.error.traceback is not None


def test_a_stream_is_put_together_from_its_chunks() -> None:
    run = only(document("trace_stream.json"))

    (call,) = run.llm_calls
    assert [(use["id"], use["name"], use["arguments"]) for use in call.result["tool_calls"]] == [
        ("call_A1", "get_order", {"order_id": "W123"}),
        ("call_B2", "get_user", {"user_id": "u9"}),
    ]
    assert call.finish_reason == "tool_calls", "the outputs say stop"
    assert call.usage is not None
    assert call.usage.input_tokens == 120


def chunks(*values: Any) -> list[dict[str, Any]]:
    """Events of a stream, the last first."""
    told = [(f"mlflow.chunk.item.{index}", value) for index, value in enumerate(values)]
    return [
        {"name": name, "time_unix_nano": 1, "attributes": {"mlflow.chunk.value": json.dumps(value)}}
        for name, value in reversed(told)
    ]


def test_streams_of_other_apis_and_of_text() -> None:
    responses = chunks(
        {"type": "response.output_text.delta", "delta": "Hi"},
        {
            "type": "response.completed",
            "response": {
                "object": "response",
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}],
            },
        },
    )
    anthropic = chunks(
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    )
    for events in (responses, anthropic, chunks("H", "i")):
        run = only(
            trace(span("m", "CHAT_MODEL", inputs={"messages": [{"role": "user", "content": "q"}]}, events=events))
        )
        assert run.llm_calls[0].result["content"] == "Hi"


def test_chunks_are_put_in_the_order_of_their_numbers() -> None:
    run = only(trace(span("m", "LLM", inputs="q", events=chunks(*"put together"))))

    assert run.llm_calls[0].result["content"] == "put together"


@pytest.mark.parametrize(
    ("form", "asked", "answered"),
    [
        (
            "anthropic",
            {"system": "Be kind.", "messages": [{"role": "user", "content": "q"}], "max_tokens": 5, "model": "claude"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}],
                "stop_reason": "end_turn",
            },
        ),
        (
            "openai",
            {"instructions": "Be kind.", "input": "q", "max_tokens": 5, "model": "gpt"},
            {"object": "response", "output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}]},
        ),
        (
            "gemini",
            {"contents": "q", "model": "gemini", "config": {"system_instruction": "Be kind.", "max_tokens": 5}},
            {"candidates": [{"content": {"parts": [{"text": "a"}], "role": "model"}, "finish_reason": "STOP"}]},
        ),
    ],
)
def test_messages_of_other_libraries(form: str, asked: Any, answered: Any) -> None:
    run = only(trace(span("m", "CHAT_MODEL", form=form, inputs=asked, outputs=answered)))

    (call,) = run.llm_calls
    assert call.arguments["messages"] == [{"role": "user", "content": "q"}]
    assert call.arguments["system"] == "Be kind."
    assert call.arguments["parameters"] == {"max_tokens": 5}
    assert call.name == asked["model"]
    assert call.result["content"] == "a"


def test_langchain_messages() -> None:
    asked = [[{"content": "Be kind.", "type": "system"}, {"content": "q", "type": "human"}]]
    calls = [{"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]
    generation = {"text": "", "message": {"content": "", "type": "ai", "tool_calls": calls}}
    run = only(trace(span("m", "CHAT_MODEL", form="langchain", inputs=asked, outputs={"generations": [[generation]]})))

    (call,) = run.llm_calls
    assert [message["role"] for message in call.arguments["messages"]] == ["system", "user"]
    assert call.result["tool_calls"] == [{"id": "c1", "name": "f", "arguments": {"a": 1}}]


def test_anthropic_counts_what_was_cached_beside_the_input() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 5}

    for form, expected in (("anthropic", 95), ("openai", 10)):
        run = only(trace(span("m", "CHAT_MODEL", form=form, inputs="q", outputs="a", usage=usage)))
        assert run.llm_calls[0].usage == Usage(input_tokens=expected, output_tokens=2)


def test_other_types_of_spans() -> None:
    run = only(
        trace(
            span("chain", "CHAIN", inputs={"question": "q"}, outputs={"answer": "a"}),
            span("find", "RETRIEVER", "chain", at=1, inputs={"query": "q"}, outputs=[{"page_content": "p"}]),
            span("embed", "EMBEDDING", "chain", at=2, inputs="q"),
            span("mine", None, "chain", at=3),
        )
    )

    assert (run.input, run.output, run.agent) == ("q", {"answer": "a"}, "")
    assert [(type(event).__name__, event.name) for event in run.events] == [("ToolCall", "find"), ("Note", "embed")]
    assert isinstance(run.events[1], Note)


def test_a_tool_without_inputs_lacks_its_arguments() -> None:
    run = only(trace(span("agent", "AGENT"), span("f", "TOOL", "agent", at=1, outputs=1)))

    told = replayability(run)
    assert [(one.name, one.lacks) for one in told.lacking] == [("f", (Lack.ARGUMENTS,))]
    assert "span.set_inputs" in told.advice[0]


@pytest.mark.parametrize(
    ("assessment", "value", "failed"),
    [
        ({"assessment_name": "correctness", "feedback": {"value": "no"}, "rationale": "Why."}, "no", True),
        ({"assessment_name": "correctness", "feedback": {"value": "yes"}, "rationale": "Why."}, "yes", False),
        ({"assessment_name": "thumbs_up", "feedback": {"value": False}, "rationale": "Why."}, False, True),
        ({"assessment_name": "quality", "feedback": {"value": 0.7}, "rationale": "Why."}, 0.7, False),
        ({"name": "hallucination", "feedback": {"value": True}, "rationale": "Why."}, True, True),
        (
            {
                "assessment_name": "judge",
                "feedback": {"value": None, "error": {"error_code": "X", "error_message": "Why."}},
            },
            None,
            False,
        ),
    ],
)
def test_feedback_is_a_label(assessment: dict[str, Any], value: Any, failed: bool) -> None:
    run = only(trace(span("agent", "AGENT", outputs="x"), assessments=[assessment]))

    (label,) = labels_of(run)
    assert (label.value, label.failed, label.why) == (value, failed, "Why.")
    assert (run.status is RunStatus.ERROR) == failed


def test_expectations_say_what_was_expected_and_overridden_feedback_counts_no_more() -> None:
    run = only(
        trace(
            span("agent", "AGENT", outputs="x"),
            assessments=[
                {"assessment_name": "expected_response", "expectation": {"value": "42"}},
                {"assessment_name": "expected_facts", "expectation": {"serialized_value": {"value": '["a", "b"]'}}},
                {"assessment_name": "budget", "expectation": {"value": 3}},
                {"assessment_name": "ok", "feedback": {"value": False}, "valid": False},
            ],
        )
    )

    assert [(label.name, label.expected_output) for label in labels_of(run)] == [
        ("expected_response", ("42",)),
        ("expected_facts", ("a", "b")),
        ("budget", ()),
    ]
    assert run.status is RunStatus.SUCCESS


def test_the_state_of_the_trace_counts_where_no_span_says_it() -> None:
    done = span("agent", "AGENT", outputs="x")

    failed = only(trace(done, state="ERROR"))
    assert (failed.status, str(failed.error)) == (RunStatus.ERROR, "Error: the trace's state is ERROR")
    assert only(trace(done, state="IN_PROGRESS")).status is RunStatus.RUNNING


def test_what_is_wrong_is_told_with_its_line_and_the_rest_is_read() -> None:
    good = trace(span("agent", "AGENT", outputs="x"), span("f", "TOOL", at=1) | {"start_time_unix_nano": "soon"})

    found = import_source(Source(as_lines([good, {"info": {}}]) + b"{\n", "t.jsonl"))

    assert len(found.runs) == 1
    assert found.left_out == (
        "t.jsonl:1: start_time_unix_nano: expected nanoseconds since the epoch",
        "t.jsonl:2: not a trace of MLflow: expected {info, data: {spans}}",
        "t.jsonl:3: not JSON: unexpected end of data",
    )
    with pytest.raises(InvalidFile, match="none of its spans is here; export it with its data"):
        of(trace())
    with pytest.raises(InvalidFile, match="not a trace of MLflow"):
        of({"messages": []}, "mlflow")


@given(damaged(document()))
@settings(max_examples=examples(60), deadline=None)
def test_damage_never_ends_in_a_traceback(told: Any) -> None:
    read_without_a_traceback("mlflow", json.dumps(told).encode())


@given(damaged(document("trace_stream.json")))
@settings(max_examples=examples(30), deadline=None)
def test_damage_to_a_stream_never_ends_in_a_traceback(told: Any) -> None:
    read_without_a_traceback("mlflow", json.dumps(told).encode())


@given(truncated(unpacked(sample("mlflow/trace_error.json"))))
@settings(max_examples=examples(20), deadline=None)
def test_a_truncated_file_is_told_as_such(content: bytes) -> None:
    assert read_without_a_traceback("mlflow", content) == []
