"""Observations of Langfuse, as spans."""

from __future__ import annotations

import re

from replaykit.errors import InvalidFile
from replaykit.formats.core.json_text import load_json
from replaykit.formats.spans.dialects.langfuse import OBSERVATION, TYPES
from replaykit.formats.spans.exports import SpanRecord, identity, nanoseconds
from replaykit.formats.spans.span import Span
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text

_SNAKE = re.compile(r"_([a-z])")
_FIELDS = (
    *("type", "level", "input", "output", "model", "modelParameters", "usage", "usageDetails", "costDetails"),
    *("totalCost", "calculatedTotalCost", "toolDefinitions", "promptName", "promptVersion", "version", "statusMessage"),
    *("environment", "userId", "sessionId", "traceName", "tags", "release", "completionStartTime"),
)
"""What is said of an observation beside its place and time."""


def is_observation(value: Json) -> bool:
    """True for an object that is one: an id, a trace, a time, and a type of Langfuse's."""
    if not isinstance(value, dict) or "run_type" in value:
        return False
    of_trace = as_text(value.get("traceId")) or as_text(value.get("trace_id"))
    return bool(of_trace) and as_text(value.get("type")) in TYPES and ("startTime" in value or "start_time" in value)


def camel(value: dict[str, Json]) -> dict[str, Json]:
    """The object with its names as the API writes them; those of what is inside are the user's own."""
    return {_SNAKE.sub(lambda found: found[1].upper(), name): item for name, item in value.items()}


def span_of(record: SpanRecord, trace: str) -> Span:
    """An observation as a span of its trace; `InvalidFile` where it is none."""
    if not is_observation(record.value):
        raise record.error("not an observation of Langfuse: expected id, traceId, type and startTime")
    fields = record.fields
    own = camel(record.value)
    own["model"] = own.get("model") or own.get("providedModelName")  # as the second version calls it
    if own["traceId"] != trace:
        raise _of_another(record, own, trace)
    level = fields.text("level") or ""
    metadata = as_object(load_json(own.get("metadata")))
    observation = {name: own[name] for name in _FIELDS if own.get(name) is not None}
    return Span(
        trace=trace,
        id=identity(fields, "id"),
        parent=fields.text("parentObservationId", "parent_observation_id") or "",
        name=fields.text("name") or as_text(own["type"]).lower(),
        started_ns=nanoseconds(fields.time("startTime", "start_time")),
        ended_ns=_ended_ns(record),
        failed=level == "ERROR",
        message=(fields.text("statusMessage", "status_message") or "") if level == "ERROR" else "",
        attributes={OBSERVATION: observation | {"metadata": metadata}} | _step(metadata),
        scope=as_text(as_object(metadata.get("scope")).get("name")),
        resource=as_object(metadata.get("resourceAttributes")),
    )


def _ended_ns(record: SpanRecord) -> int:
    """When it ended; an event takes no time."""
    fields = record.fields
    ended = fields.time("endTime", "end_time")
    if ended is None and record.value["type"] == "EVENT":
        ended = fields.time("startTime", "start_time")
    return nanoseconds(ended)


def _step(metadata: dict[str, Json]) -> dict[str, Json]:
    number = metadata.get("langgraph_step")
    if type(number) is int:
        return {"metadata": {"langgraph_step": number}}
    return {}


def _of_another(record: SpanRecord, own: dict[str, Json], trace: str) -> InvalidFile:
    return record.error(f"an observation of trace {as_text(own['traceId'])} inside of trace {trace}", "traceId")
