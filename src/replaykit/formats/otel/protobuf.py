"""Read OTLP as protobuf, the default of SDKs.

The outer messages are walked here, and each span is parsed separately: a bad one does not affect the others, and memory
is bounded by the largest span.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

from replaykit.errors import UsageError, install_hint
from replaykit.formats.spans.span import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_SPANS,
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
)
from replaykit.model.values import Json, JsonObject

_LEN, _I64, _I32 = 2, 1, 5
_VARINT_BYTES = 10
_ERROR = 2
_INNER, _ITEMS = 1, 2  # field numbers of the owner and the items, in messages of a resource's spans and of a scope's
_PREFIX_BYTES = 4
_SUSPECT_BYTES = 1024 * 1024
_MAX_MESSAGES = 200_000


class MissingExtra(UsageError):
    """Raised if the extra for OTLP as protobuf is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "OTLP as protobuf needs the package opentelemetry-proto",
            hint=f"{install_hint('otel')}, or send JSON: OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
        )


def can_read() -> bool:
    """Return whether the extra is installed."""
    try:
        _messages()
    except MissingExtra:
        return False
    return True


def read_traces(data: bytes) -> SpanReading:
    """Read an ExportTraceServiceRequest; raise `BadPayload` if it is malformed."""
    types = _messages()
    return _read(data, types, types.span, _span)


def read_logs(data: bytes) -> SpanReading:
    """Read the log records of an ExportLogsServiceRequest as spans; raise `BadPayload` if it is malformed."""
    types = _messages()
    return _read(data, types, types.record, _record)


def is_traces(data: bytes) -> bool:
    """Return whether the bytes look like an ExportTraceServiceRequest: the first span has ids of the right length."""
    # The field numbers of trace id and span id, and their sizes.
    return _first_item(data)[:2] == [(1, 16), (2, 8)]


def is_logs(data: bytes) -> bool:
    """Return whether the bytes look like an ExportLogsServiceRequest: the first record has ids of a trace and a
    span."""
    # Log records may lack ids; those that belong to spans have them.
    return {(9, 16), (10, 8)} <= set(_first_item(data))


def _first_item(data: bytes) -> list[tuple[int, int]]:
    """Return the fields of the first span or log record, with their sizes; empty if there is none."""
    try:
        _resource, scopes = next(_groups(data))
        _scope, items = next(scopes)
        return [(field, end - start) for field, _kind, start, end in _fields(data, *next(items))]
    except (BadPayload, StopIteration):
        return []


def messages_in(data: bytes) -> list[bytes]:
    """Return the requests in a file: a single one, or several with size prefixes, as collectors write them."""
    messages, place = [], 0
    while place + _PREFIX_BYTES <= len(data):
        size = int.from_bytes(data[place : place + _PREFIX_BYTES], "big")
        place += _PREFIX_BYTES
        messages.append(data[place : place + size])
        place += size
    # A single request could begin like a size prefix, so the first message must be valid.
    sized = place == len(data) and bool(messages) and (is_traces(messages[0]) or is_logs(messages[0]))
    if sized:
        return messages
    return [data]


class _Types:
    """The message types of the extra."""

    def __init__(self) -> None:
        from google.protobuf.message import DecodeError  # noqa: PLC0415 (the extra)
        from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope  # noqa: PLC0415
        from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord  # noqa: PLC0415
        from opentelemetry.proto.resource.v1.resource_pb2 import Resource  # noqa: PLC0415
        from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage  # noqa: PLC0415

        self.error: type[Exception] = DecodeError
        self.scope: Any = InstrumentationScope
        self.resource: Any = Resource
        self.span: Any = SpanMessage
        self.record: Any = LogRecord


@cache
def _messages() -> _Types:
    try:
        return _Types()
    except ImportError:
        raise MissingExtra from None


def _read(data: bytes, types: _Types, kind: Any, read: Callable[[Any, str, JsonObject], Span | None]) -> SpanReading:
    collector = Collector()
    for resource_place, scopes in _groups(data):
        if resource_place:
            resource = _attributes(_parsed(types, types.resource, data, resource_place).attributes)
        else:
            resource = {}
        for scope_place, items in scopes:
            scope = _parsed(types, types.scope, data, scope_place).name if scope_place else ""
            for place in items:
                collector.add(lambda: read(_parsed(types, kind, data, place), scope, resource))  # noqa: B023 (called at once)
    return collector.reading


def _parsed(types: _Types, kind: Any, data: bytes, place: _Place) -> Any:
    if place[1] - place[0] > _SUSPECT_BYTES:
        _check_amount(data, place, kind.DESCRIPTOR)
    try:
        return kind.FromString(data[place[0] : place[1]])
    except types.error as error:
        raise BadPayload(f"not OTLP: {error}") from None


def _check_amount(data: bytes, place: _Place, described: Any) -> None:
    """Raise `BadPayload` for a message with more nested messages than any real span: each takes only two bytes."""
    remaining = [(place, described)]
    count = 0
    while remaining:
        message, described = remaining.pop()
        for field, kind, start, end in _fields(data, *message):
            field_type = described.fields_by_number.get(field) if kind == _LEN else None
            if field_type is None or field_type.message_type is None:
                continue
            count += 1
            if count > _MAX_MESSAGES:
                raise BadPayload(f"more than {_MAX_MESSAGES:,} values in one span")
            remaining.append(((start, end), field_type.message_type))


def _span(message: Any, scope: str, resource: JsonObject) -> Span:
    return Span(
        trace=trace_id(message.trace_id),
        id=span_id(message.span_id),
        parent=link_id(message.parent_span_id),
        name=message.name,
        started_ns=message.start_time_unix_nano,
        ended_ns=message.end_time_unix_nano,
        failed=message.status.code == _ERROR,
        message=message.status.message,
        attributes=_attributes(message.attributes),
        happenings=tuple(map(_event, message.events[:MAX_ATTRIBUTES])),
        scope=scope,
        resource=resource,
    )


def _event(message: Any) -> SpanEvent:
    return SpanEvent(name=message.name, at_ns=message.time_unix_nano, attributes=_attributes(message.attributes))


def _record(message: Any, scope: str, resource: JsonObject) -> Span | None:
    attributes = _attributes(message.attributes)
    happening = SpanEvent(
        name=message.event_name or str(attributes.get("event.name", "")),
        at_ns=message.time_unix_nano or message.observed_time_unix_nano,
        attributes=attributes,
        body=_any(message.body),
    )
    trace, span = link_id(message.trace_id, of_trace=True), link_id(message.span_id)
    return aside(trace, span, happening, scope, resource)


def _attributes(pairs: Any, depth: int = 0) -> JsonObject:
    attributes: JsonObject = {}
    for pair in islice(pairs, MAX_ATTRIBUTES):
        value = pair.value
        attributes[pair.key] = value.string_value or _any(value, depth)  # the hot path: most values are texts
    return attributes


def _any(value: Any, depth: int = 0) -> Json:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind is None:
        return None
    if depth > MAX_DEPTH:
        raise BadPayload("nested too deeply")
    if kind == "array_value":
        return [_any(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values, depth + 1)
    inner = getattr(value, kind)
    if kind == "bytes_value":
        return base64.b64encode(inner).decode()
    if kind == "double_value":
        return number(inner)
    return inner


_Place = tuple[int, int]
_Group = tuple[_Place | None, Iterator[_Place]]


def _groups(data: bytes) -> Iterator[tuple[_Place | None, Iterator[_Group]]]:
    """Yield the resources of a request, each with its scopes and the positions of their items."""
    for field, kind, start, end in _fields(data, 0, len(data)):
        # Fields with other numbers come from later versions of the protocol.
        if field == 1:
            if kind != _LEN:
                raise BadPayload("not OTLP: the first field is not a message")
            resource, scopes = _split(data, start, end)
            yield resource, map(partial(_scope, data), scopes)


def _scope(data: bytes, place: _Place) -> _Group:
    scope_place, items = _split(data, *place)
    return scope_place, iter(items)


def _split(data: bytes, start: int, end: int) -> tuple[_Place | None, list[_Place]]:
    inner: _Place | None = None
    items: list[_Place] = []
    for field, kind, first, last in _fields(data, start, end):
        if kind != _LEN and field in (_INNER, _ITEMS):
            raise BadPayload("not OTLP: a number where a message has to be")
        if field == _INNER:
            inner = (first, last)
        elif field == _ITEMS:
            if len(items) >= MAX_SPANS:  # an item may take only two bytes, so the list has to end somewhere
                raise BadPayload(f"more than {MAX_SPANS:,} spans in one document")
            items.append((first, last))
    return inner, items


def _fields(data: bytes, place: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message: number, wire type, and start and end of the content."""
    while place < end:
        tag, place = _varint(data, place, end)
        field, kind = tag >> 3, tag & 7
        if kind == _LEN:
            size, start = _varint(data, place, end)
            place = start + size
        elif kind == 0:
            start = place
            _number, place = _varint(data, place, end)
        elif kind in (_I64, _I32):
            start, place = place, place + (8 if kind == _I64 else 4)
        else:
            raise BadPayload("not OTLP: no such kind of field")
        if place > end or field == 0:
            raise BadPayload("not OTLP: it ends in the middle of a field")
        yield field, kind, start, place


def _varint(data: bytes, place: int, end: int) -> tuple[int, int]:
    value = 0
    # A varint has at most ten bytes; more would loop over damaged data.
    for index in range(_VARINT_BYTES):
        if place >= end:
            break
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, place
    raise BadPayload("not OTLP: it ends in the middle of a number")
