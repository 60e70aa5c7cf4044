"""Spans to test with: OTLP/JSON in few words, and the same as protobuf."""

from __future__ import annotations

import json
from typing import Any

from replaykit.formats.otel.otlp_json import read_document
from replaykit.formats.spans.span import Span, SpanReading

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_794_768_038_000_000_000


def value(item: Any) -> dict[str, Any]:
    """An AnyValue."""
    if isinstance(item, bool):
        return {"boolValue": item}
    if isinstance(item, int):
        return {"intValue": str(item)}
    if isinstance(item, float):
        return {"doubleValue": item}
    if isinstance(item, list):
        return {"arrayValue": {"values": [value(each) for each in item]}}
    if isinstance(item, dict):
        return {"kvlistValue": {"values": pairs(item)}}
    return {} if item is None else {"stringValue": item}


def pairs(items: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(item)} for name, item in items.items()]


def span(number: int, parent: int | None = None, **given: Any) -> dict[str, Any]:
    """A span that begins and ends by its number; `attributes`, `events`, `error` and any member of its own."""
    attributes, events, error = given.pop("attributes", {}), given.pop("events", []), given.pop("error", None)
    made = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": str(START + number * 1000),
        "endTimeUnixNano": str(START + number * 1000 + 500),
        "attributes": pairs(attributes),
        "events": [{"name": name, "timeUnixNano": str(START), "attributes": pairs(said)} for name, said in events],
        "status": {"code": 2, "message": error} if error is not None else {},
    }
    if parent is not None:
        made["parentSpanId"] = f"{parent:016x}"
    return made | given


def agent(number: int = 1, parent: int | None = None, name: str = "support", **given: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name} | given.pop("attributes", {})
    return span(number, parent, attributes=attributes, **{"endTimeUnixNano": str(START + 10**9)} | given)


def tool(number: int, parent: int | None, name: str, arguments: Any = None, **given: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    if arguments is not None:
        attributes["gen_ai.tool.call.arguments"] = json.dumps(arguments)
    if "result" in given:
        attributes["gen_ai.tool.call.result"] = json.dumps(given.pop("result"))
    return span(number, parent, attributes=attributes | given.pop("attributes", {}), **given)


def said(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": p} if isinstance(p, str) else p for p in parts]}


def call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def told(call_id: str, response: Any, **more: Any) -> dict[str, Any]:
    return said("tool", {"type": "tool_call_response", "id": call_id, "response": response, **more})


def model(number: int, parent: int | None, asked: list[Any] | None, answer: Any = None, **given: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt"}
    if asked is not None:
        attributes["gen_ai.input.messages"] = json.dumps(asked)
    if answer is not None:
        attributes["gen_ai.output.messages"] = json.dumps([answer])
    return span(number, parent, attributes=attributes | given.pop("attributes", {}), **given)


def document(*spans: dict[str, Any], **resource: Any) -> dict[str, Any]:
    """An export request."""
    held = {"scope": {"name": "tests"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": pairs(resource)}, "scopeSpans": [held]}]}


def logs(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {"name": "logs"}, "logRecords": list(records)}]}]}


def record(number: int, name: str, body: Any = None, **given: Any) -> dict[str, Any]:
    """A log record that names a span."""
    attributes = pairs(given.pop("attributes", {}))
    named = {"traceId": TRACE, "spanId": f"{number:016x}", "eventName": name, "attributes": attributes}
    return {"timeUnixNano": str(START), **named, "body": value(body)} | given


def read(*spans: dict[str, Any], **resource: Any) -> tuple[Span, ...]:
    reading: SpanReading = read_document(document(*spans, **resource))
    assert not reading.rejected, reading.problem
    return reading.spans


def story() -> list[dict[str, Any]]:
    """An agent that looks up two things at once, fails to refund, and says so."""
    question = said("user", "refund W1")
    first = said("assistant", call("a", "get_order", {"id": "W1"}), call("b", "get_user", {"id": 9}))
    second = said("assistant", call("c", "refund", {"id": "W1"}))
    results = [told("a", {"total": 5}), told("b", {"name": "Ana"})]
    thrown = {"exception.type": "app.GatewayError", "exception.message": "too slow", "exception.stacktrace": "…"}
    return [
        agent(1, attributes={"gen_ai.input.messages": json.dumps([question])}),
        model(2, 1, [question], first, attributes={"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}),
        tool(3, 1, "get_order", {"id": "W1"}, result={"total": 5}, attributes={"gen_ai.tool.call.id": "a"}),
        tool(4, 1, "get_user", {"id": 9}, result={"name": "Ana"}, attributes={"gen_ai.tool.call.id": "b"}),
        model(5, 1, [question, first, *results], second),
        tool(6, 1, "refund", {"id": "W1"}, error="too slow", events=[("exception", thrown)]),
        model(7, 1, [question, first, *results, second, told("c", "failed")], said("assistant", "It failed.")),
    ]
