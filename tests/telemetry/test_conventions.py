"""Spans hold what the GenAI conventions (and, for plain requests, those for HTTP clients) want of them."""

from __future__ import annotations

import json
from typing import Any, cast

import jsonschema
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode
from tests.telemetry.runs import BEGAN, everything

import replaykit as rk
from replaykit.model.events import Call, Exchange, LlmCall, ToolCall, WireInfo
from replaykit.model.run import TraceRun
from replaykit.model.values import Raw, canonical, raw
from replaykit.telemetry.call_attributes import call_attributes
from replaykit.telemetry.span import nanoseconds

# Per operation: the attributes at level "Required", the span kind, and what the name begins with.
INFERENCE = ({"gen_ai.operation.name", "gen_ai.provider.name"}, SpanKind.CLIENT)
OPERATIONS: dict[str, tuple[set[str], SpanKind]] = {
    "invoke_agent": ({"gen_ai.operation.name", "gen_ai.provider.name"}, SpanKind.INTERNAL),
    "chat": INFERENCE,
    "generate_content": INFERENCE,
    "text_completion": INFERENCE,
    "embeddings": ({"gen_ai.operation.name"}, SpanKind.CLIENT),
    "execute_tool": ({"gen_ai.operation.name"}, SpanKind.INTERNAL),
    "agent_step": ({"gen_ai.operation.name"}, SpanKind.INTERNAL),  # not among the well-known ones: a custom value
}
NAMED_BY = {"invoke_agent": "gen_ai.agent.name", "execute_tool": "gen_ai.tool.name"}
HTTP_CLIENT = {"http.request.method", "server.address", "server.port", "url.full"}
PROVIDERS = {"openai", "anthropic", "gcp.gemini"}
TYPES = {
    "gen_ai.request.temperature": float,
    "gen_ai.request.max_tokens": int,
    "gen_ai.request.seed": int,
    "gen_ai.request.choice.count": int,
    "gen_ai.request.stop_sequences": tuple,
    "gen_ai.request.stream": bool,
    "gen_ai.response.finish_reasons": tuple,
    "gen_ai.response.time_to_first_chunk": float,
    "gen_ai.usage.input_tokens": int,
    "gen_ai.usage.output_tokens": int,
    "server.port": int,
    "http.response.status_code": int,
}
KNOWN = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
PART = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}},
    "allOf": [
        {
            "if": {"properties": {"type": {"enum": ["text", "reasoning"]}}},
            "then": {"required": ["content"], "properties": {"content": {"type": "string"}}},
        },
        {
            "if": {"properties": {"type": {"const": "tool_call"}}},
            "then": {"required": ["name"], "properties": {"name": {"type": "string"}, "id": {"type": "string"}}},
        },
        {"if": {"properties": {"type": {"const": "tool_call_response"}}}, "then": {"required": ["response"]}},
    ],
}
MESSAGE = {
    "type": "object",
    "required": ["role", "parts"],
    "properties": {
        "role": {"enum": ["system", "user", "assistant", "tool"]},
        "parts": {"type": "array", "items": PART},
    },
}
SCHEMAS = {
    "gen_ai.input.messages": {"type": "array", "minItems": 1, "items": MESSAGE},
    "gen_ai.output.messages": {
        "type": "array",
        "minItems": 1,
        "items": {**MESSAGE, "required": ["role", "parts", "finish_reason"]},
    },
    "gen_ai.system_instructions": {"type": "array", "minItems": 1, "items": PART},
    "gen_ai.tool.definitions": {"type": "array", "minItems": 1},
    "gen_ai.tool.call.arguments": {"type": "object"},
}


def check(span: ReadableSpan) -> None:
    """One span against the conventions."""
    said = dict(span.attributes or {})
    operation = said.get("gen_ai.operation.name")
    if operation is None:
        assert said.keys() >= HTTP_CLIENT
        assert span.kind is SpanKind.CLIENT
    else:
        required, kind = OPERATIONS[cast(str, operation)]
        assert said.keys() >= required
        assert span.kind is kind
        named_by = NAMED_BY.get(cast(str, operation), "gen_ai.request.model")
        assert operation == "agent_step" or span.name == f"{operation} {said[named_by]}"
    failed = span.status.status_code is StatusCode.ERROR
    assert ("error.type" in said) == failed
    assert ("server.address" in said) == ("server.port" in said)
    assert {name for name in said if name.startswith("gen_ai.")} <= KNOWN
    for name, value in said.items():
        assert type(value) is TYPES.get(name, type(value)), name
        if name in SCHEMAS:
            jsonschema.validate(json.loads(cast(str, value)), SCHEMAS[name])


def tell(run: TraceRun, store: rk.Store) -> None:
    """Write a run as a recording writes it: each call when it has ended."""
    writer = store.begin(run.header)
    for event in sorted(run.events, key=lambda event: event.at + event.duration_s):
        writer.append(event)
    writer.finish(run.header)


@pytest.mark.parametrize("content", [False, True])
def test_every_span_holds_what_its_operation_requires(told: Any, store: rk.Store, content: bool) -> None:
    told.enable(content=content)
    tell(everything(), store)

    for span in told.spans:
        check(span)
    assert len(told.spans) == 9
    operations = {span.attributes.get("gen_ai.operation.name") for span in told.spans}
    assert operations == {"invoke_agent", "agent_step", "chat", "generate_content", "execute_tool", None}


def test_a_model_call_says_who_was_asked_what_and_what_it_took(told: Any, store: rk.Store) -> None:
    tell(everything(), store)

    said = dict(told.span("chat gpt-5-mini").attributes)
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.seed": 7,
        "gen_ai.request.choice.count": 2,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "gpt-5-mini-2026",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 5,
        "operation.cost": 0.002,
        "server.address": "api.openai.com",
        "server.port": 443,
        "replaykit.run.id": everything().id,
        "replaykit.event.seq": 0,
    }
    streamed = told.span("chat claude-x").attributes
    assert streamed["gen_ai.request.stream"] is True
    assert streamed["gen_ai.response.time_to_first_chunk"] == 0.12
    assert (streamed["gen_ai.response.id"], streamed["gen_ai.response.model"]) == ("msg_1", "claude-x")


def test_the_run_says_what_its_calls_took_together(told: Any, store: rk.Store) -> None:
    tell(everything(), store)

    said = told.span("invoke_agent clerk").attributes
    assert said["gen_ai.provider.name"] == "openai"
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (18, 11)
    assert (said["gen_ai.agent.version"], said["replaykit.tags"]) == ("1.2", ("keep",))


def test_the_call_of_a_tool_bears_the_id_that_the_model_gave_it(told: Any, store: rk.Store) -> None:
    tell(everything(), store)

    assert told.span("execute_tool lookup").attributes["gen_ai.tool.call.id"] == "c1"
    assert "gen_ai.tool.call.id" not in told.span("execute_tool refund").attributes
    assert told.span("execute_tool refund").attributes["replaykit.faults"] == ("timeout",)


def test_requests_under_a_call_and_questions_to_the_machine_have_no_span(told: Any, store: rk.Store) -> None:
    tell(everything(), store)

    requests = [span for span in told.spans if "http.request.method" in span.attributes]
    assert [span.attributes["url.full"] for span in requests] == ["https://hooks.test/x"]
    assert requests[0].attributes["error.type"] == "503"


def test_steps_begin_with_their_first_call_and_end_with_their_last(told: Any, store: rk.Store) -> None:
    tell(everything(), store)

    act = told.span("act")
    assert act.start_time == nanoseconds(BEGAN + 0.7)
    assert act.end_time == nanoseconds(BEGAN + 1) + nanoseconds(0.4)


def model(url: str = "", name: str = "m", **more: Any) -> LlmCall:
    asked = WireInfo(method="POST", url=url) if url else None
    return LlmCall(seq=0, name=name, wire=asked, **more)


@pytest.mark.parametrize(
    ("call", "provider", "operation"),
    [
        (model("https://api.openai.com/v1/responses"), "openai", "chat"),
        (model("https://api.openai.com/v1/embeddings"), "openai", "embeddings"),
        (model("https://api.openai.com/v1/completions"), "openai", "text_completion"),
        (model("https://x.openai.azure.com/openai/deployments/d/chat/completions"), "azure.ai.openai", "chat"),
        (model("https://api.groq.com/openai/v1/chat/completions"), "groq", "chat"),
        (model("http://localhost:8000/v1/chat/completions"), "openai", "chat"),
        (model("http://localhost:11434/api/chat"), "ollama", "chat"),
        (model("http://localhost:11434/api/generate"), "ollama", "text_completion"),
        (model("https://bedrock-runtime.eu-west-1.amazonaws.com/model/a.claude/invoke"), "aws.bedrock", "chat"),
        (
            model("https://aiplatform.googleapis.com/v1/projects/p/models/gemini-3:generateContent"),
            "gcp.vertex_ai",
            "generate_content",
        ),
        (model("https://notopenai.com.evil.test/v1/chat/completions"), "openai", "chat"),
        (model("http://[broken/v1/chat/completions"), "openai", "chat"),
        (model(name="claude-sonnet-5"), "anthropic", "chat"),
        (model(name="openai/gpt-5"), "openai", "chat"),
        (model(name="my-own"), "unknown", "chat"),
    ],
)
def test_the_provider_is_told_by_the_host_the_api_or_the_model(call: LlmCall, provider: str, operation: str) -> None:
    said = call_attributes(call, content=False).attributes
    assert (said["gen_ai.provider.name"], said["gen_ai.operation.name"]) == (provider, operation)


@pytest.mark.parametrize(
    "call",
    [
        model(arguments_json=raw("just text")),
        model(arguments_json=raw({"parameters": [1]})),
        model(arguments_json=raw({"messages": 5, "parameters": {"temperature": "hot", "seed": 2**70, "stop": [1]}})),
        model("https://api.openai.com/v1/chat/completions", items_json=(raw(b"\xff\x00"), raw("x"))),
        model("https://api.openai.com/v1/chat/completions", items_json=(raw('{"id":'),)),
        model("https://api.openai.com/v1/chat/completions", items_json=(raw('{"id":5}'),)),
        model("https://api.openai.com/v1/chat/completions", items_json=()),
        model(result_json=raw({"tool_calls": "odd"}), arguments_json=raw({"messages": [None, 3, {"role": 4}]})),
        model(result_json=raw([1, 2])),
        ToolCall(seq=0, name="t", result_json=raw(2**80)),
        Exchange(seq=0, name="GET", wire=WireInfo(method="GET", url="")),
    ],
)
def test_what_is_odd_makes_an_odd_span_and_no_error(call: Call) -> None:
    for value in call_attributes(call, content=True).attributes.values():
        assert isinstance(value, str | bool | int | float | tuple)


def test_results_that_are_numbers_stay_numbers() -> None:
    def result(value: Any) -> Any:
        call = ToolCall(seq=0, name="t", arguments_json=Raw(canonical({})), result_json=raw(value))
        return call_attributes(call, content=True).attributes["gen_ai.tool.call.result"]

    assert [result(value) for value in (3, 2.5, True, "3", None, [1])] == [3, 2.5, True, '"3"', "null", "[1]"]
