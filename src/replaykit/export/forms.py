"""The built-in forms: the run log, and the native trace that `scaffold` reads."""

from __future__ import annotations

import msgspec

from replaykit.export import otlp as otlp  # it enters itself
from replaykit.export.registry import EXPORTERS
from replaykit.model.events import (
    AnyEvent,
    Call,
    Decision,
    ErrorEvent,
    ErrorInfo,
    LlmCall,
    Message,
    Note,
    ToolCall,
)
from replaykit.model.run import TraceRun, encode_run
from replaykit.model.tool_errors import is_raised
from replaykit.model.values import Json
from replaykit.redaction.files import clean_bytes, file_redactor, refuse_leaks


def export_run(run: TraceRun, form: str) -> bytes:
    """The run in the form of that name, built in or installed; redacted, and refused where something is left."""
    redactor = file_redactor()
    if redactor is not None:
        from replaykit.redaction.events import Door  # noqa: PLC0415 (not where redaction is turned off)

        run = Door(redactor).run(run)
    text = clean_bytes(EXPORTERS.get(form)(run), redactor)
    refuse_leaks({f"run {run.id} as {form}": text}, redactor)
    return text


@EXPORTERS.register("run_log")
def run_log(run: TraceRun) -> bytes:
    """Everything that is known about the run; reading it back gives the same run."""
    return msgspec.json.format(encode_run(run), indent=2) + b"\n"


@EXPORTERS.register("replaykit")
def native(run: TraceRun) -> bytes:
    """The native trace: small and readable. States, raw traffic and values beyond JSON are not kept as such."""
    document = {
        "run_id": run.id,
        "name": run.name,
        "agent": run.agent,
        "agent_version": run.agent_version,
        "status": run.status.value,
        "input": run.input_json,
        "started_at": run.started_at or None,
        "ended_at": run.ended_at,
        "error": _error(run.error),
        "final_output": run.output_json or None,
        "tags": run.tags,
        "metadata": run.metadata_json,
        "events": [native for event in run.events if (native := _native_event(event)) is not None],
    }
    filled = {key: value for key, value in document.items() if value not in (None, "", ())}
    return msgspec.json.format(msgspec.json.encode(filled), indent=2) + b"\n"


def _native_event(event: AnyEvent) -> dict[str, Json] | None:
    """The event in the native trace's words; None where it has none for it."""
    place: dict[str, Json] = {"timestamp": event.at} if event.at else {}
    if event.step:
        place["step"] = event.step
    if isinstance(event, Message):
        return {"type": "message", "role": event.role, "content": event.content_json, **place}
    if isinstance(event, Decision):
        return {"type": "decision", "content": event.content_json, **place}
    if isinstance(event, Note):
        return {"type": "note", "name": event.name, "content": event.content_json, **place}
    if isinstance(event, ErrorEvent):
        return {"type": "error", "error": _error(event.error), **place}
    if isinstance(event, ToolCall):
        call = {"type": "tool_call", "tool_name": event.name, "tool_args": event.arguments_json}
        return {**call, **_answer(event, "output"), **place}
    if isinstance(event, LlmCall):
        return {"type": "llm_call", "model": event.name, **_request(event), **_answer(event, "response"), **place}
    return None


def _request(call: LlmCall) -> dict[str, Json]:
    request = call.arguments
    fields: dict[str, Json] = dict(request) if isinstance(request, dict) else {"messages": request}
    if call.usage is not None:
        fields["usage"] = call.usage
    if call.finish_reason:
        return {**fields, "finish_reason": call.finish_reason}
    return fields


def _answer(call: Call, name: str) -> dict[str, Json]:
    if call.duration_s:
        time = {"duration_ms": round(call.duration_s * 1000, 3)}
    else:
        time = {}
    if is_raised(call):
        return {"error": _error(call.error), **time}
    if call.items_json is not None:
        return {name: call.items_json, **time}
    if call.result_json:
        return {name: call.result_json, **time}
    return time


def _error(error: ErrorInfo | None) -> dict[str, str] | None:
    if error is None:
        return None
    return {"type": error.type, "message": error.message}
