"""OTLP as JSON: what file exporters, collectors and OTLP/HTTP write.

Lenient where writers differ: ids in hex or base64, 64-bit numbers as text or numbers, enums by number or name, members
in camelCase or with underscores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice

from replaykit.formats.spans.span import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    BadPayload,
    Collector,
    Span,
    SpanEvent,
    SpanReading,
    aside,
    link_id,
    number,
    span_id,
    trace_id,
    whole,
)
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import has_list

ERROR = (2, "2", "STATUS_CODE_ERROR", "ERROR")
_INT64 = re.compile(r"-?\d{1,19}")
EXPECTED = "expected an object with `resourceSpans` or `resourceLogs`"
_MARKS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")


def is_otlp(value: Json) -> bool:
    """True for an export request of traces or logs."""
    return isinstance(value, dict) and any(has_list(value, name) for name in _MARKS)


def read_document(value: Json) -> SpanReading:
    """The spans of one export request; `BadPayload` when it is none."""
    if not isinstance(value, dict):
        raise BadPayload(EXPECTED)
    found = Collector()
    for item, scope, resource in _items(value, "resourceSpans", "scopeSpans", "spans"):
        found.add(partial(read_span, item, scope, resource))
    for item, scope, resource in _items(value, "resourceLogs", "scopeLogs", "logRecords"):
        found.add(partial(read_record, item, scope, resource))
    return found.reading


def _items(value: Json, above: str, middle: str, below: str) -> Iterator[tuple[Json, str, JsonObject]]:
    """Each item with the name of its scope and its resource."""
    for held in _list(value, above):
        resource = read_resource(_get(held, "resource"))
        for scoped in _list(held, middle):
            scope = read_scope(_get(scoped, "scope"))
            yield from ((item, scope, resource) for item in _list(scoped, below))


def read_resource(value: Json) -> JsonObject:
    """Return the attributes of a resource."""
    return _attributes(_get(value, "attributes"))


def read_scope(value: Json) -> str:
    """The name of a library."""
    return _text(value, "name")


def read_span(value: Json, scope: str, resource: JsonObject) -> Span:
    """A span; `BadPayload` when it is none."""
    status = _get(value, "status")
    return Span(
        trace=trace_id(_get(value, "traceId")),
        id=span_id(_get(value, "spanId")),
        parent=link_id(_get(value, "parentSpanId")),
        name=_text(value, "name"),
        started_ns=whole(_get(value, "startTimeUnixNano"), "startTimeUnixNano"),
        ended_ns=whole(_get(value, "endTimeUnixNano"), "endTimeUnixNano"),
        failed=_get(status, "code") in ERROR,
        message=_text(status, "message"),
        attributes=_attributes(_get(value, "attributes")),
        happenings=tuple(map(_event, _list(value, "events")[:MAX_ATTRIBUTES])),
        scope=scope,
        resource=resource,
    )


def _event(value: Json) -> SpanEvent:
    at_ns = whole(_get(value, "timeUnixNano"), "timeUnixNano")
    return SpanEvent(name=_text(value, "name"), at_ns=at_ns, attributes=_attributes(_get(value, "attributes")))


def read_record(value: Json, scope: str, resource: JsonObject) -> Span | None:
    """Return a log record as a part of its span; None where it belongs to none."""
    attributes = _attributes(_get(value, "attributes"))
    at_ns = whole(_get(value, "timeUnixNano"), "timeUnixNano")
    happening = SpanEvent(
        name=_text(value, "eventName") or str(attributes.get("event.name", "")),
        at_ns=at_ns or whole(_get(value, "observedTimeUnixNano"), "observedTimeUnixNano"),
        attributes=attributes,
        body=any_value(_get(value, "body")),
    )
    trace, span = link_id(_get(value, "traceId"), of_trace=True), link_id(_get(value, "spanId"))
    return aside(trace, span, happening, scope, resource)


def _get(value: Json, name: str) -> Json:
    """A member by its name in JSON, or by the one it has in protobuf."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadPayload(f"expected an object around `{name}`")
    found = value.get(name)
    if found is not None or name in value:
        return found  # also a null: whoever writes one name does not write the other
    return value.get(_plain(name))


@cache
def _plain(name: str) -> str:
    return re.sub(r"([A-Z])", lambda letter: f"_{letter[1].lower()}", name)


def _list(value: Json, name: str) -> list[Json]:
    found = _get(value, name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BadPayload(f"{name}: expected a list")
    return found


def _text(value: Json, name: str) -> str:
    found = _get(value, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise BadPayload(f"{name}: expected a text")
    return found


def _attributes(pairs: Json, depth: int = 0) -> JsonObject:
    if isinstance(pairs, dict):  # SDKs that print spans
        return dict(islice(pairs.items(), MAX_ATTRIBUTES))
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise BadPayload("attributes: expected a list")
    found: JsonObject = {}
    for pair in islice(pairs, MAX_ATTRIBUTES):
        try:
            found[pair["key"] + ""] = pair["value"]["stringValue"] + ""  # most are texts, and this is the hot path
        except (KeyError, TypeError, AttributeError):
            found[_text(pair, "key")] = any_value(_get(pair, "value"), depth)
    return found


def any_value(value: Json, depth: int = 0) -> Json:
    """Return the value of an AnyValue; None where it is empty or of an unknown kind."""
    if not isinstance(value, dict):
        return value
    if depth > MAX_DEPTH:
        raise BadPayload("nested too deeply")
    for name, held in value.items():
        read = _KINDS.get(name)
        if read is not None and held is not None:
            return read(held, depth + 1)
    return None


def _int(value: Json, _depth: int) -> Json:
    if isinstance(value, str) and _INT64.fullmatch(value):
        return int(value)
    return value


def _double(value: Json, _depth: int) -> Json:
    if isinstance(value, float):
        return number(value)
    return value


def _array(value: Json, depth: int) -> Json:
    return [any_value(item, depth) for item in _list(value, "values")]


def _pairs(value: Json, depth: int) -> Json:
    return _attributes(_get(value, "values"), depth)


_KINDS: dict[str, Callable[[Json, int], Json]] = {
    spelled: read
    for name, read in {
        "stringValue": lambda value, _depth: value,
        "boolValue": lambda value, _depth: value,
        "bytesValue": lambda value, _depth: value,
        "intValue": _int,
        "doubleValue": _double,
        "arrayValue": _array,
        "kvlistValue": _pairs,
    }.items()
    for spelled in (name, _plain(name))
}
