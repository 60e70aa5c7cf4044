"""A small file of each format, for tests that mix them up. What no SDK told the story in is made of what one did."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.formats.samples import corpus, sample, unpacked
from tests.formats.story import ANSWER, CALLS, PROBLEM, QUESTION
from tests.phoenix_server import spans_of

from replaykit.formats.files import import_trace
from replaykit.model.run import encode_run

_SAMPLES = {
    "a2a": "a2a/task_v1.json",
    "ag_ui": "ag_ui/events.jsonl",
    "ai_sdk": "vercel_ai_sdk/generateText_steps.json",
    "anthropic": "anthropic_messages/request_response_pairs.json",
    "anthropic_sessions": "langsmith/sdk_test_data/anthropic_managed_custom_tools.jsonl",
    "atif": "atif/claude_code_converted.json",
    "claude_stream": "claude_code/stream_json_output.jsonl",
    "inspect": "inspect_ai/2026-11-15T18-37-55-00-00_refund_iSjqgR7kgAfUVaTYaopYaS.json",
    "langchain": "langchain/messages_to_dict.json",
    "langsmith": "langsmith/merged_runs_1_support_agent.json",
    "mlflow": "mlflow/trace_to_json.json",
    "openai_agents": "openai_agents/chat_model_trace.json",
    "openai_chat": "openai_chat/request_response_pairs.json",
    "openai_responses": "openai_responses/request_response_pairs.json",
    "otel_spans": "openllmetry/openai_workflow.sdk_to_json.json",
    "otlp": "openllmetry/openai_workflow.otlp.json",
    "pydantic_ai": "pydantic_ai/all_messages.json",
}
_CORPORA = {
    "claude_code": "claude-code/test_data__edge_cases.jsonl",
    "openhands": "openhands/trajs__basic_interactions.json",
    "swe_agent": "swe-agent/demonstrations__function_calling_simple.traj",
    "tau2": "tau2/474d620.json",
    "trail": "trail/traces/0ebe673d64647ec44c370638b82d3c78.json",
    "who_and_when": "who-and-when/Algorithm-Generated__21.json",
}


@cache
def examples() -> dict[str, bytes]:
    """A file of each format, by the format's name."""
    found = {name: unpacked(sample(file)) for name, file in _SAMPLES.items()}
    found |= {name: unpacked(corpus(file)) for name, file in _CORPORA.items()}
    made = {
        "gemini": _gemini(),
        "langfuse": langfuse_trace(),
        "har": _har(),
        "phoenix": {"data": spans_of("openai_chat_agent"), "next_cursor": None},
        "replaykit": _native(),
        "tau_bench": _tau_bench(),
    }
    found |= {name: json.dumps(value).encode() for name, value in made.items()}
    (run,) = import_trace(sample(_SAMPLES["openai_chat"])).runs
    return found | {"run_log": encode_run(run)}


def _gemini() -> list[Any]:
    """Without ids: results are those of the calls before them, by name."""
    asked = [{"functionCall": {"name": name, "args": given}} for name, given in CALLS]
    gave = [
        ("get_order", {"order_id": "W123", "total": 59.9, "status": "delivered"}),
        ("get_user", {"user_id": "u9", "name": "Ana"}),
        ("refund_order", {"error": f"TimeoutError: {PROBLEM}"}),
    ]
    results = [{"functionResponse": {"name": name, "response": response}} for name, response in gave]
    return [
        {"role": "user", "parts": [{"text": QUESTION}]},
        {"role": "model", "parts": asked[:2]},
        {"role": "user", "parts": results[:2]},
        {"role": "model", "parts": asked[2:]},
        {"role": "user", "parts": results[2:]},
        {"role": "model", "parts": [{"text": ANSWER}]},
    ]


def langfuse_trace() -> dict[str, Any]:
    """The story that Langfuse's SDK sends, as its server gives it back: tokens that were cached are told apart."""
    spans = json.loads(unpacked(sample("langfuse/sdk_otel_spans.sdk_to_json.json")))
    agent = next(span for span in spans if span["name"] == "support-agent")
    told = [_served(span) for span in spans if span["context"]["trace_id"] == agent["context"]["trace_id"]]
    return {
        "id": agent["context"]["trace_id"][2:],
        "timestamp": "2026-01-01T00:00:00Z",
        "htmlPath": "/t1",
        "observations": told,
        "name": "support-agent",
        "sessionId": "s1",
        "userId": "u9",
    }


def _served(span: dict[str, Any]) -> dict[str, Any]:
    said = {name.removeprefix("langfuse.observation."): value for name, value in span["attributes"].items()}
    counted = json.loads(said.get("usage_details", "{}"))
    cached = counted.get("prompt_tokens_details.cached_tokens", 0)
    usage = {
        "input": counted.get("prompt_tokens", 0) - cached,
        "input_cached_tokens": cached,
        "output": counted.get("completion_tokens"),
        "total": counted.get("total_tokens"),
    }
    return {
        "id": span["context"]["span_id"][2:],
        "traceId": span["context"]["trace_id"][2:],
        "parentObservationId": (span["parent_id"] or "0x")[2:] or None,
        "type": said["type"].upper(),
        "name": span["name"],
        "startTime": span["start_time"],
        "endTime": span["end_time"],
        "input": said.get("input"),
        "output": said.get("output"),
        "level": said.get("level", "DEFAULT"),
        "statusMessage": said.get("status_message"),
        "model": said.get("model.name"),
        "modelParameters": json.loads(said.get("model.parameters", "{}")),
        "usageDetails": usage if counted else {},
    }


def _har() -> dict[str, Any]:
    entries = [
        {
            "startedDateTime": f"2026-01-01T00:00:0{second}Z",
            "time": 500,
            "request": {
                "method": "POST",
                "url": "https://api.openai.com/v1/chat/completions",
                "headers": [],
                "postData": {"mimeType": "application/json", "text": json.dumps(pair["request"])},
            },
            "response": {"status": 200, "headers": [], "content": {"text": json.dumps(pair["response"])}},
        }
        for second, pair in enumerate(json.loads(unpacked(sample(_SAMPLES["openai_chat"]))))
    ]
    return {"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": entries}}


def _native() -> dict[str, Any]:
    calls = [{"type": "tool_call", "tool_name": name, "tool_args": given, "output": "done"} for name, given in CALLS]
    events = [*calls, {"type": "error", "message": PROBLEM}]
    return {"run_id": "r1", "status": "error", "input": QUESTION, "events": events}


def _tau_bench() -> list[Any]:
    told: list[Any] = json.loads(unpacked(corpus("tau-bench/gpt-4o-airline-trials-0-1.json")))
    return told[:1]
