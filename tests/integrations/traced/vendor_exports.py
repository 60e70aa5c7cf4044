"""What Langfuse and Phoenix give out of the spans that they were sent, in the form that their APIs document."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_OBSERVATION = "langfuse.observation."


def phoenix_spans(dumped: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answer of Phoenix to GET /v1/projects/NAME/spans."""
    return {"data": [_phoenix_span(span) for span in dumped], "next_cursor": None}


def _phoenix_span(dumped: dict[str, Any]) -> dict[str, Any]:
    attributes = dict(dumped["attributes"])
    kind = attributes.pop("openinference.span.kind", "UNKNOWN")
    above = dumped["parent_id"]
    return {
        "id": base64.b64encode(f"Span:{dumped['context']['span_id']}".encode()).decode(),
        "name": dumped["name"],
        "context": {name: dumped["context"][name].removeprefix("0x") for name in ("trace_id", "span_id")},
        "span_kind": kind,
        "parent_id": None if above is None else above.removeprefix("0x"),
        "start_time": dumped["start_time"].replace("Z", "+00:00"),
        "end_time": dumped["end_time"].replace("Z", "+00:00"),
        "status_code": dumped["status"]["status_code"],
        "status_message": dumped["status"].get("description", ""),
        "attributes": attributes,
        "events": [{**event, "timestamp": event["timestamp"].replace("Z", "+00:00")} for event in dumped["events"]],
    }


def langfuse_trace(bodies: Sequence[bytes]) -> dict[str, Any]:
    """The answer of Langfuse to GET /api/public/traces/ID."""
    spans = [
        span
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    observations = sorted((_observation(span) for span in spans), key=lambda one: str(one["startTime"]))
    root = next(one for one in observations if one["parentObservationId"] is None)
    return {
        "id": root["traceId"],
        "timestamp": root["startTime"],
        "name": root["name"],
        "input": root["input"],
        "output": root["output"],
        "projectId": "project",
        "sessionId": None,
        "userId": None,
        "tags": [],
        "release": None,
        "version": None,
        "metadata": {},
        "public": False,
        "bookmarked": False,
        "environment": "default",
        "htmlPath": f"/project/project/traces/{root['traceId']}",
        "latency": 1.0,
        "totalCost": 0.0,
        "observations": observations,
        "scores": [],
    }


def _observation(span: Any) -> dict[str, Any]:
    attributes = {one.key: one.value.string_value for one in span.attributes}

    def parsed(name: str) -> Any:
        text = attributes.get(_OBSERVATION + name)
        return None if text is None else _json_or_text(text)

    return {
        "id": span.span_id.hex(),
        "traceId": span.trace_id.hex(),
        "projectId": "project",
        "type": attributes.get(f"{_OBSERVATION}type", "span").upper(),
        "name": span.name,
        "startTime": _iso(span.start_time_unix_nano),
        "endTime": _iso(span.end_time_unix_nano),
        "parentObservationId": span.parent_span_id.hex() or None,
        "level": attributes.get(f"{_OBSERVATION}level", "DEFAULT"),
        "statusMessage": attributes.get(f"{_OBSERVATION}status_message"),
        "environment": "default",
        "metadata": {},
        "input": parsed("input"),
        "output": parsed("output"),
        "model": attributes.get(f"{_OBSERVATION}model.name"),
        "modelParameters": parsed("model.parameters") or {},
        "usageDetails": parsed("usage_details") or {},
        "costDetails": {},
    }


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _iso(nanoseconds: int) -> str:
    time = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
