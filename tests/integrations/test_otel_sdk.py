"""OpenTelemetry's own SDK and exporter send a trace: it becomes a run, message by message."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer
from tests.matrix import sampled

import replaykit as rk

SHOP = Resource.create({"service.name": "shop", "service.version": "1.2"})


class Receiver:
    def __init__(self) -> None:
        command = [sys.executable, "-m", "replaykit", "serve", "--port", "0", "--json", "--store", "store.db"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]

    def end(self) -> dict[str, Any]:
        """What it says at its end."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        ended: dict[str, Any] = json.loads(out.splitlines()[-1])
        return ended


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.process.kill()
    made.process.communicate()


def agent_at_work(tracer: Tracer) -> str:
    """An agent that asks a model and calls a tool that fails; gives the trace's id."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": "refund W1"}]}]
    call = {"type": "tool_call", "id": "a", "name": "refund", "arguments": {"order": "W1"}}
    root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
    with tracer.start_as_current_span("invoke_agent support", attributes=root) as span:
        chat = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt",
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.response.finish_reasons": ("tool_call",),
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call]}]),
        }
        with tracer.start_as_current_span("chat gpt", attributes=chat):
            pass
        used = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "refund",
            "gen_ai.tool.call.id": "a",
            "gen_ai.tool.call.arguments": '{"order": "W1"}',
        }
        try:
            with tracer.start_as_current_span("execute_tool refund", attributes=used):
                raise TimeoutError("gateway")
        except TimeoutError:
            span.set_status(Status(StatusCode.ERROR, "TimeoutError: gateway"))
    return f"{span.get_span_context().trace_id:032x}"


@sampled("compression", [Compression.Gzip, Compression.NoCompression], count=1)
@pytest.mark.parametrize("processor", [BatchSpanProcessor, SimpleSpanProcessor])
def test_a_trace_of_the_sdk_becomes_a_run(receiver: Receiver, compression: Any, processor: Any) -> None:
    provider = TracerProvider(resource=SHOP)
    exporter = OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces", compression=compression)
    provider.add_span_processor(processor(exporter))

    trace = agent_at_work(provider.get_tracer("shop.agent"))
    provider.shutdown()
    ended = receiver.end()

    assert (ended["spans"], ended["rejected"], ended["refused"], ended["runs"]) == (3, 0, 0, 1)
    with rk.Store.open("store.db") as store:
        run = store.load(trace)
    assert (run.status, run.agent, run.agent_version, run.input) == ("timeout", "support", "1.2", "refund W1")
    assert run.metadata["scopes"] == ["shop.agent"]
    (chat,), (tool,) = run.llm_calls, run.tool_calls
    assert (chat.finish_reason, chat.usage and chat.usage.input_tokens) == ("tool_call", 7)
    assert (tool.name, tool.arguments, str(tool.error)) == ("refund", {"order": "W1"}, "TimeoutError: gateway")
    assert tool.error is not None
    assert "Traceback" in (tool.error.traceback or "")


def test_messages_in_log_records_of_the_sdk_are_joined_with_their_spans(receiver: Receiver) -> None:
    provider, loggers = TracerProvider(resource=SHOP), LoggerProvider(resource=SHOP)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces")))
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{receiver.url}/v1/logs")))
    tracer, logger = provider.get_tracer("a"), loggers.get_logger("a")

    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt"}
    with tracer.start_as_current_span("chat gpt", attributes=chat) as span:
        logger.emit(event_name="gen_ai.user.message", body={"content": "hi"})
        said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ho"}}
        logger.emit(event_name="gen_ai.choice", body=said)
    provider.shutdown()
    loggers.shutdown()
    receiver.end()

    with rk.Store.open("store.db") as store:
        run = store.load(f"{span.get_span_context().trace_id:032x}")
    (call,) = run.llm_calls
    assert (run.input, run.output, call.finish_reason) == ("hi", "ho", "stop")
