"""Read OTLP as JSON, as file exporters, collectors and OTLP/HTTP write it.

Accepts all variants of writers: ids in hex or base64, 64-bit numbers as text or numbers, enums by number or name,
members in camelCase or with underscores.
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
    """Return whether this is an export request of traces or logs."""
    return isinstance(value, dict) and any(has_list(value, name) for name in _MARKS)


def read_document(value: Json) -> SpanReading:
    """Read the spans of one export request; raise `BadPayload` if it is not one."""
    if not isinstance(value, dict):
        raise BadPayload(EXPECTED)
    found = Collector()
    for item, scope, resource in _items(value, "resourceSpans", "scopeSpans", "spans"):
        found.add(partial(read_span, item, scope, resource))
    for item, scope, resource in _items(value, "resourceLogs", "scopeLogs", "logRecords"):
        found.add(partial(read_record, item, scope, resource))
    return found.reading


def _items(value: Json, above: str, middle: str, below: str) -> Iterator[tuple[Json, str, JsonObject]]:
    """Yield each item with its scope and resource."""
    for holder in _list(value, above):
        resource = read_resource(_get(holder, "resource"))
        for scoped in _list(holder, middle):
            scope = read_scope(_get(scoped, "scope"))
            yield from ((item, scope, resource) for item in _list(scoped, below))


def read_resource(value: Json) -> JsonObject:
    return _attributes(_get(value, "attributes"))


def read_scope(value: Json) -> str:
    """Return the name of a library."""
    return _text(value, "name")


def read_span(value: Json, scope: str, resource: JsonObject) -> Span:
    """Read a span; raise `BadPayload` if it is malformed."""
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
    """Read a log record as a part of its span; return None if it belongs to none."""
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
    """Return a member by its name in JSON or in protobuf."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadPayload(f"expected an object around `{name}`")
    found = value.get(name)
    if found is not None or name in value:
        return found  # even null: nobody writes both names
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
    if isinstance(pairs, dict):  # SDKs that print spans write an object
        return dict(islice(pairs.items(), MAX_ATTRIBUTES))
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise BadPayload("attributes: expected a list")
    found: JsonObject = {}
    for pair in islice(pairs, MAX_ATTRIBUTES):
        try:
            found[pair["key"] + ""] = pair["value"]["stringValue"] + ""  # the hot path: most values are texts
        except (KeyError, TypeError, AttributeError):
            found[_text(pair, "key")] = any_value(_get(pair, "value"), depth)
    return found


def any_value(value: Json, depth: int = 0) -> Json:
    """Return the content of an AnyValue; None if it is empty or of an unknown kind."""
    if not isinstance(value, dict):
        return value
    if depth > MAX_DEPTH:
        raise BadPayload("nested too deeply")
    for name, holder in value.items():
        read = _KINDS.get(name)
        if read is not None and holder is not None:
            return read(holder, depth + 1)
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
