"""The built-in formats: run log, native trace as read by `scaffold`, and OTLP as written by file exporters."""

from __future__ import annotations

from typing import Protocol

import msgspec

from replaykit import __version__
from replaykit.candidates.shared_arguments import redacted_run
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
from replaykit.model.values import Json, JsonObject, encode_pretty
from replaykit.redaction.files import clean_bytes, file_redactor, refuse_leaks
from replaykit.registry import Registry
from replaykit.telemetry.span import (
    Attribute,
    Attributes,
    ExportedSpanEvent,
    TelemetrySpan,
    origin_trace,
    root_id,
    trace_id_of,
)
from replaykit.telemetry.spans import spans_of


class Exporter(Protocol):
    """A function that writes a run in one format."""

    def __call__(self, run: TraceRun) -> bytes:
        """Return the run in that format."""


EXPORTERS: Registry[Exporter] = Registry("exporter")
"""The formats in which runs can be written."""


def export_run(run: TraceRun, form: str) -> bytes:
    """Return the redacted run in a format, built in or installed; raise if the result still contains a secret."""
    redactor = file_redactor()
    run = redacted_run(run, redactor)
    text = clean_bytes(EXPORTERS.get(form)(run), redactor)
    refuse_leaks({f"run {run.id} as {form}": text}, redactor)
    return text


@EXPORTERS.register("run_log")
def run_log(run: TraceRun) -> bytes:
    """Return everything known about the run. Reading it back gives an equal run."""
    return msgspec.json.format(encode_run(run), indent=2) + b"\n"


@EXPORTERS.register("replaykit")
def native(run: TraceRun) -> bytes:
    """Return the native trace: small and readable, but without states, raw traffic and values beyond JSON."""
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
    return encode_pretty(filled)


def _native_event(event: AnyEvent) -> JsonObject | None:
    """Convert an event to the native trace; None if it cannot be represented."""
    place: JsonObject = {}
    if event.at:
        place["timestamp"] = event.at
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


def _request(call: LlmCall) -> JsonObject:
    request = call.arguments
    fields: JsonObject = dict(request) if isinstance(request, dict) else {"messages": request}
    if call.usage is not None:
        fields["usage"] = call.usage
    if call.finish_reason:
        return {**fields, "finish_reason": call.finish_reason}
    return fields


def _answer(call: Call, name: str) -> JsonObject:
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


_ERROR = 2
_SAMPLED = 1


@EXPORTERS.register("otlp")
def otlp(run: TraceRun) -> bytes:
    """Return one OTLP export request on one line. Equal runs give equal bytes."""
    trace = trace_id_of(run)
    spans = [_span(span, trace) for span in spans_of(run, content=True)]
    if (origin := origin_trace(run)) is not None and run.origin.run is not None:
        spans[0]["links"] = [{"traceId": origin, "spanId": f"{root_id(run.origin.run):016x}"}]
    scoped = {"scope": {"name": "replaykit", "version": __version__}, "spans": spans}
    resource = {"attributes": _otlp_attributes({"service.name": run.agent or run.name or "replaykit"})}
    return msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}) + b"\n"


def _span(span: TelemetrySpan, trace: str) -> JsonObject:
    fields: JsonObject = {"traceId": trace, "spanId": f"{span.id:016x}"}
    if span.parent:
        fields["parentSpanId"] = f"{span.parent:016x}"
    fields |= {
        "flags": _SAMPLED,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.started_ns),
        "endTimeUnixNano": str(span.ended_ns),
        "attributes": _otlp_attributes(span.attributes),
    }
    if span.happenings:
        fields["events"] = [_otlp_event(event) for event in span.happenings]
    status: JsonObject = {}
    if span.failure is not None:
        status["code"] = _ERROR
    if span.failure:
        status["message"] = span.failure
    return fields | {"status": status}


def _otlp_event(event: ExportedSpanEvent) -> JsonObject:
    return {"timeUnixNano": str(event.at_ns), "name": event.name, "attributes": _otlp_attributes(event.attributes)}


def _otlp_attributes(attributes: Attributes) -> list[Json]:
    return [{"key": name, "value": _otlp_value(value)} for name, value in attributes.items()]


def _otlp_value(value: Attribute) -> JsonObject:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}  # JSON numbers do not hold 64 bits everywhere
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
    return {"stringValue": value}
