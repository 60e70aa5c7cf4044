"""The built-in forms: the run log, and the native trace that `scaffold` reads."""

from __future__ import annotations

import msgspec

from replaykit.export.registry import EXPORTERS
from replaykit.model.events import AnyEvent, Call, ErrorEvent, LlmCall, Message, ToolCall
from replaykit.model.run import TraceRun, encode_run
from replaykit.model.values import Json


def export_run(run: TraceRun, form: str) -> bytes:
    """The run in the form of that name, built in or installed."""
    return EXPORTERS.get(form)(run)


@EXPORTERS.register("run_log")
def run_log(run: TraceRun) -> bytes:
    """Everything that is known about the run; reading it back gives the same run."""
    return msgspec.json.format(encode_run(run), indent=2) + b"\n"


@EXPORTERS.register("replaykit")
def native(run: TraceRun) -> bytes:
    """The native trace: small and readable; keeps messages, calls and errors."""
    document = {
        "run_id": run.id,
        "name": run.name,
        "status": run.status.value,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "final_output": msgspec.Raw(run.output_json) if run.output_json else None,
        "events": [part for event in run.events for part in _native_events(event)],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _native_events(event: AnyEvent) -> list[dict[str, Json]]:
    at = {"timestamp": event.at} if event.at else {}
    if isinstance(event, Message):
        kind = {"user": "input_message", "assistant": "output_message"}.get(event.role, "message")
        return [{"type": kind, "role": event.role, "content": event.content_json, **at}]
    if isinstance(event, ErrorEvent):
        return [{"type": "error", "error": str(event.error), **at}]
    if isinstance(event, ToolCall):
        call = {"type": "tool_call", "tool_call_id": str(event.seq), "tool_name": event.name}
        return [{**call, "tool_args": event.arguments_json, **at}, *_native_result(event)]
    if isinstance(event, LlmCall):
        return [
            {"type": "llm_call", "model": event.name, "messages": event.arguments_json, "response": event.result, **at}
        ]
    return []


def _native_result(call: Call) -> list[dict[str, Json]]:
    if not call.answered:
        return []
    answer = {"type": "tool_result", "tool_call_id": str(call.seq), "duration_ms": call.duration_s * 1000}
    if call.error is not None:
        return [{**answer, "error": str(call.error)}]
    return [{**answer, "output": call.items if call.items_json is not None else call.result}]
