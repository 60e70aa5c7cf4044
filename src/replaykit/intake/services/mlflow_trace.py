"""A trace as MLflow's REST API gives it, in the shape of `Trace.to_json()`, which is what files of it hold.

The API says attributes as OpenTelemetry does (`{key, value: {string_value: …}}`), and the info of old servers has lists
of `{key, value}` where files have objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from replaykit.model.values import Json

_PAIRS = ("request_metadata", "tags", "trace_metadata")
_NUMBERS = ("int_value", "intValue")
_PLAIN = (
    *("string_value", "bool_value", "double_value", "bytes_value"),
    *("stringValue", "boolValue", "doubleValue", "bytesValue"),
)
_ARRAYS, _OBJECTS = ("array_value", "arrayValue"), ("kvlist_value", "kvlistValue")
_TIMES = ("start_time_unix_nano", "end_time_unix_nano", "time_unix_nano")


def file_of(trace: dict[str, Json]) -> dict[str, Json]:
    """The trace of `{trace_info, spans}`."""
    spans = trace.get("spans")
    info = trace.get("trace_info")
    return {
        "info": info_of(info) if isinstance(info, dict) else info,
        "data": {"spans": [_span(span) for span in spans] if isinstance(spans, list) else spans},
    }


def info_of(info: dict[str, Json]) -> dict[str, Json]:
    """The info: pairs as objects, and the time it took in milliseconds."""
    found = {name: _object(value) if name in _PAIRS else value for name, value in info.items()}
    took = found.pop("execution_duration", None)
    if isinstance(took, str) and took.endswith("s"):
        try:
            found["execution_duration_ms"] = round(float(took[:-1]) * 1000)
        except (ValueError, OverflowError):
            found["execution_duration"] = took
    return found


def _object(value: Json) -> Json:
    if isinstance(value, list):
        return dict(_pairs(value))
    return value


def _pairs(value: Json) -> Iterator[tuple[str, Json]]:
    for pair in value if isinstance(value, list) else []:
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            yield pair["key"], pair.get("value")


def _span(span: Json) -> Json:
    """The span, with attributes as files have them: an object of JSON texts, and plain values in its events."""
    if not isinstance(span, dict):
        return span
    found = _timed(span)
    if isinstance(span.get("attributes"), list):
        pairs = _pairs(span["attributes"])
        found["attributes"] = {key: json.dumps(_value(value), ensure_ascii=False) for key, value in pairs}
    if isinstance(span.get("events"), list):
        found["events"] = [_event(event) for event in span["events"]]
    return found


def _event(event: Json) -> Json:
    if not isinstance(event, dict):
        return event
    attributes = event.get("attributes")
    plain = {key: _value(value) for key, value in _pairs(attributes)} if isinstance(attributes, list) else attributes
    return _timed(event) | {"attributes": plain or {}}


def _timed(value: dict[str, Json]) -> dict[str, Json]:
    """The object with its times as numbers, which JSON of protobuf may say as text."""
    return {name: _number(item) if name in _TIMES else item for name, item in value.items()}


def _number(value: Json) -> Json:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    return value


def _value(value: Json) -> Json:
    """Return the value of an OpenTelemetry AnyValue; None where it is empty."""
    for name, item in value.items() if isinstance(value, dict) else ():
        inner = item.get("values") if isinstance(item, dict) else None
        if name in _PLAIN:
            return item
        if name in _NUMBERS:
            return _number(item)
        if name in _ARRAYS:
            if isinstance(inner, list):
                return [_value(item) for item in inner]
            return []
        if name in _OBJECTS:
            return {key: _value(item) for key, item in _pairs(inner)}
    return None
