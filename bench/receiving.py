"""Spans for the receiver, and what they cost it: batches as an SDK's exporter sends them, one after another."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measurements import Numbers

SPANS_A_TRACE = 8
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PROSE = "The customer asks where the order is, and why the refund has not come. " * 6
_START_NS = 1_794_768_038_000_000_000


def batches(count: int, size: int, *, rooted: bool) -> Iterator[bytes]:
    """Export requests of so many spans in all: agents that ask models and call tools, eight spans a trace."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for first in range(0, count, size):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        _set(resource.resource, {"service.name": "shop", "telemetry.sdk.language": "python"})
        scope = resource.scope_spans.add()
        scope.scope.name = "bench"
        for number in range(first, min(count, first + size)):
            _span(scope.spans.add(), number, rooted=rooted)
        yield request.SerializeToString()


def _span(span: Any, number: int, *, rooted: bool) -> None:
    """The last span of a trace is its root: spans are exported when they end."""
    trace, place = divmod(number, SPANS_A_TRACE)
    is_root = place == SPANS_A_TRACE - 1
    span.trace_id = (trace + 1).to_bytes(16, "big")
    span.span_id = (number + 1).to_bytes(8, "big")
    if not is_root or not rooted:
        span.parent_span_id = ((trace + 1) * SPANS_A_TRACE).to_bytes(8, "big")
    span.start_time_unix_nano = _START_NS + trace * 1000 + (0 if is_root else place)
    span.end_time_unix_nano = span.start_time_unix_nano + 900
    if is_root:
        _set(span, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"})
    elif place % 2 == 0:
        _set(span, _model(place))
    else:
        _set(span, _tool(place))


def _model(place: int) -> dict[str, Any]:
    asked = [{"role": "user", "parts": [{"type": "text", "content": _PROSE}]}] * (place // 2 + 1)
    call = {"type": "tool_call", "id": f"call_{place + 1}", "name": "look_up", "arguments": {"order": place + 1}}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 1000,
        "gen_ai.response.id": f"chatcmpl-{place}",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.usage.input_tokens": 1200 + place,
        "gen_ai.usage.output_tokens": 80,
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call], "finish_reason": "tool_call"}]),
        "server.address": "api.example.com",
        "server.port": 443,
    }


def _tool(place: int) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look_up",
        "gen_ai.tool.call.id": f"call_{place}",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": json.dumps({"order": place}),
        "gen_ai.tool.call.result": json.dumps({"order": place, "status": "delivered", "note": _PROSE}),
    }


def _set(message: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        pair = message.attributes.add()
        pair.key = name
        kind = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
        setattr(pair.value, kind, value)


def received(work: Path, count: int, size: int, *, made: bool, env: dict[str, str]) -> Numbers:
    """CPU of the receiver for each span: until it is acknowledged, or until its trace is a run in the store."""
    bodies = list(batches(count, size, rooted=made))
    command = [sys.executable, "-m", "replaykit", "serve", "--port", "0", "--json", "--quiet", "3600"]
    server = subprocess.Popen(command, cwd=work, env=os.environ | env, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        listening = json.loads(server.stdout.readline())
        address = listening["url"].removeprefix("http://")
        _post(address, bodies[:1])  # the first one imports what the others need
        before, started = _cpu_s(server.pid), time.perf_counter()
        _post(address, bodies[1:])
        runs = count // SPANS_A_TRACE if made else 0
        for _ in range(runs):
            assert json.loads(server.stdout.readline())["event"] == "run"
        spent, took = _cpu_s(server.pid) - before, time.perf_counter() - started
        server.terminate()
        ended = json.loads(server.stdout.readlines()[-1])
    finally:
        server.kill()
        server.wait()
    assert (ended["spans"], ended["runs"], ended["rejected"]) == (count, runs, 0), ended
    left = count - size
    kept = sum(file.stat().st_size for file in (work / ".replaykit").iterdir())
    return {
        "span_us": spent / left * 1e6,
        "spans_per_s": left / spent,
        "wall_us": took / left * 1e6,
        "bytes": kept / count,
    }


def _post(address: str, bodies: list[bytes]) -> None:
    connection = http.client.HTTPConnection(address, timeout=60)
    for body in bodies:
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
    connection.close()


def _cpu_s(pid: int) -> float:
    """User and system time of a process, as the kernel counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
