"""OTLP as JSON: a run as the trace that a file exporter of OpenTelemetry would have written, its contents in it."""

from __future__ import annotations

import msgspec

from replaykit import __version__
from replaykit.export.registry import EXPORTERS
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
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

_ERROR = 2
_SAMPLED = 1


@EXPORTERS.register("otlp")
def otlp(run: TraceRun) -> bytes:
    """One export request, on one line; the same run gives the same bytes."""
    trace = trace_id_of(run)
    spans = [_span(span, trace) for span in spans_of(run, content=True)]
    if (origin := origin_trace(run)) is not None and run.origin.run is not None:
        spans[0]["links"] = [{"traceId": origin, "spanId": f"{root_id(run.origin.run):016x}"}]
    scoped = {"scope": {"name": "replaykit", "version": __version__}, "spans": spans}
    resource = {"attributes": _attributes({"service.name": run.agent or run.name or "replaykit"})}
    return msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}) + b"\n"


def _span(span: TelemetrySpan, trace: str) -> dict[str, Json]:
    fields: dict[str, Json] = {"traceId": trace, "spanId": f"{span.id:016x}"}
    if span.parent:
        fields["parentSpanId"] = f"{span.parent:016x}"
    fields |= {
        "flags": _SAMPLED,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.started_ns),
        "endTimeUnixNano": str(span.ended_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.happenings:
        fields["events"] = [_event(event) for event in span.happenings]
    status: dict[str, Json] = {} if span.failure is None else {"code": _ERROR}
    return fields | {"status": status | {"message": span.failure} if span.failure else status}


def _event(event: ExportedSpanEvent) -> dict[str, Json]:
    return {"timeUnixNano": str(event.at_ns), "name": event.name, "attributes": _attributes(event.attributes)}


def _attributes(attributes: Attributes) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Attribute) -> dict[str, Json]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}  # 64 bits are more than a number of JSON holds everywhere
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
    return {"stringValue": value}
