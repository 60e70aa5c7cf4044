"""Read spans of OTLP/JSON in the usual notation in half the time: 11 instead of 22 µs for a span of 13 KB.

Spans in any other notation, and log records, are read by `otlp_json`. Both give the same spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
from msgspec import Raw, Struct

from replaykit.formats.core.piece_groups import Piece
from replaykit.formats.otel.otlp_json import ERROR, any_value, read_record, read_resource, read_scope, read_span
from replaykit.formats.spans.span import (
    INT64_DIGITS,
    MAX_ATTRIBUTES,
    BadPayload,
    Collector,
    Span,
    SpanEvent,
    SpanReading,
    link_id,
    number,
    span_id,
    trace_id,
    whole,
)
from replaykit.model.nesting import check_nesting, decode_json
from replaykit.model.values import Json, JsonObject

SPANS, RECORDS = b"spans", b"records"
BETWEEN = b"\x1e"  # a byte that cannot occur in JSON
NO_TRACE = ""
"""The key of spans without a valid trace id, which are read, and rejected, separately."""

_START, _TRIES = 96, 4
_USUAL = re.compile(rb'\s*+\{\s*+"traceId"\s*+:\s*+"([0-9a-f]{32})"')


class _Scoped(Struct):
    """The spans and records of one library."""

    scope: Raw = Raw(b"null")
    spans: list[Raw] | None = None
    logRecords: list[Raw] | None = None
    log_records: list[Raw] | None = None


class _ResourceGroup(Struct):
    """The spans and records of one resource, which is a program."""

    resource: Raw = Raw(b"null")
    scopeSpans: list[_Scoped] | None = None
    scope_spans: list[_Scoped] | None = None
    scopeLogs: list[_Scoped] | None = None
    scope_logs: list[_Scoped] | None = None


class _Request(Struct):
    """An export request; one of metrics has none of these members."""

    resourceSpans: list[_ResourceGroup] | None = None
    resource_spans: list[_ResourceGroup] | None = None
    resourceLogs: list[_ResourceGroup] | None = None
    resource_logs: list[_ResourceGroup] | None = None


class _Ids(Struct):
    """The trace id of a span or a log record."""

    traceId: str | None = None
    trace_id: str | None = None


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_list = msgspec.json.Decoder(list[_Request]).decode
_decode_ids = msgspec.json.Decoder(_Ids).decode


def split_by_trace(text: bytes) -> Iterator[tuple[str, bytes, Raw]]:
    """Yield each span and log record of a request or a list of requests, with its trace, kind, resource and scope.

    Raises `msgspec.MsgspecError` if the text is not such a request, as far as that shows without decoding spans.
    """
    check_nesting(text)
    for request in _decode_list(text) if text[:64].lstrip()[:1] == b"[" else [_decode_request(text)]:
        for program in (*(request.resourceSpans or ()), *(request.resource_spans or ())):
            for scoped in (*(program.scopeSpans or ()), *(program.scope_spans or ())):
                yield from _pieces(SPANS, program, scoped, scoped.spans or ())
        for program in (*(request.resourceLogs or ()), *(request.resource_logs or ())):
            for scoped in (*(program.scopeLogs or ()), *(program.scope_logs or ())):
                yield from _pieces(RECORDS, program, scoped, (*(scoped.logRecords or ()), *(scoped.log_records or ())))


def _pieces(
    kind: bytes, program: _ResourceGroup, scoped: _Scoped, items: Iterable[Raw]
) -> Iterator[tuple[str, bytes, Raw]]:
    head = BETWEEN.join((kind, program.resource, scoped.scope))
    for item in items:
        usual = _USUAL.match(item)
        if usual is not None:
            trace = usual[1].decode()
        else:
            trace = _trace(item, of_logs=kind == RECORDS)
        if trace is not None:
            yield trace, head, item


def place_of(item: Raw, text: bytes, after: int) -> int | None:
    """Return the offset of an item after a position in the text; None if a short search does not find it."""
    if text.startswith(item, after + 1):  # skip the comma between items
        return after + 1
    start = memoryview(item)[:_START]
    for _ in range(_TRIES):
        after = text.find(start, after)
        if after < 0 or text.startswith(item, after):
            break
        after += 1
    else:
        return None
    if after >= 0:
        return after
    return None


def _trace(item: Raw, *, of_logs: bool) -> str | None:
    """Return the trace id of an item in any notation; None for a log record without one, as most are."""
    try:
        ids = _decode_ids(item)
        trace = ids.trace_id if ids.traceId is None else ids.traceId
        if of_logs:
            return link_id(trace, of_trace=True) or None
        return trace_id(trace)
    except (msgspec.MsgspecError, BadPayload):
        return NO_TRACE


_NONE = Raw(b"")
_END = BETWEEN * 2
_HEADS_BYTES = 8 * 1024 * 1024
_HEAD_OVERHEAD = 1000  # rough size of the decoded head
_Common = tuple[bytes, str, JsonObject]


class _Scalar(Struct, frozen=True, gc=False):
    """An AnyValue without nested values."""

    stringValue: str | None = None
    intValue: str | int | None = None
    boolValue: bool | None = None
    doubleValue: float | int | str | None = None


class _Array(Struct, frozen=True, gc=False):
    values: list[_Scalar] = []


class _Value(_Scalar, frozen=True, gc=False):
    """Any AnyValue; nested ones stay encoded until they are needed."""

    arrayValue: _Array | None = None
    kvlistValue: Raw = _NONE
    bytesValue: Raw = _NONE


class _Pair(Struct, frozen=True, gc=False):
    key: str
    value: _Value


class _Status(Struct, frozen=True, gc=False):
    code: int | str | None = None
    message: str | None = None


class _FastEvent(Struct, frozen=True, gc=False):
    name: str = ""
    timeUnixNano: str | int = 0
    attributes: list[_Pair] = []


class _FastSpan(Struct, frozen=True, gc=False):
    traceId: str
    spanId: str
    startTimeUnixNano: str | int
    name: str
    parentSpanId: str | None = None
    endTimeUnixNano: str | int | None = None
    attributes: list[_Pair] = []
    events: list[_FastEvent] = []
    status: _Status = _Status()


_is_trace = re.compile("(?!0{32})[0-9a-f]{32}").fullmatch
_is_span = re.compile("(?!0{16})[0-9a-f]{16}").fullmatch
_decode = msgspec.json.Decoder(_FastSpan).decode


class Heads:
    """Scopes and resources that spans share, stored and decoded once for a file."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._texts: list[bytes] = [b""]
        self._read: dict[int, _Common] = {}
        self._size = 0

    def number(self, head: bytes) -> int:
        """Return the number of a head; 0 if there are too many to keep."""
        found = self._numbers.get(head)
        if found is None:
            if self._size + len(head) > _HEADS_BYTES:
                return 0
            found = self._numbers[head] = len(self._texts)
            self._texts.append(head)
            self._size += len(head) + _HEAD_OVERHEAD
        return found

    def joined(self, head: bytes, item: Raw) -> bytes:
        """Return an item with its own head in front."""
        return b"".join((head, _END, item))

    def read(self, number: int) -> _Common:
        """Return the decoded head; raise `BadPayload` if it is malformed."""
        found = self._read.get(number)
        if found is None:
            found = self._read[number] = _common(self._texts[number])
        return found


def read_pieces(pieces: Iterable[Piece], heads: Heads) -> SpanReading:
    """Read what `split_by_trace` yielded: pieces with the number of their head, or joined with it."""
    found = Collector()
    for text, line, head in pieces:
        found.add(partial(_read, text, head, heads), line)
    return found.reading


def _read(text: bytes, head: int, heads: Heads) -> Span | None:
    if head:
        common = heads.read(head)
    else:
        own, _, text = text.partition(_END)
        common = _common(own)
    kind, scope, resource = common
    if kind == RECORDS:
        return read_record(_value(text), scope, resource)
    try:
        return _span(_decode(text), scope, resource)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return read_span(_value(text), scope, resource)


def _common(head: bytes) -> _Common:
    kind, resource, scope = head.split(BETWEEN)
    return kind, read_scope(_value(scope)), read_resource(_value(resource))


def _span(span: _FastSpan, scope: str, resource: JsonObject) -> Span:
    events = span.events[:MAX_ATTRIBUTES]
    status, trace, parent = span.status, span.traceId, span.parentSpanId or ""
    return Span(
        trace=trace if _is_trace(trace) else trace_id(trace),
        id=span.spanId if _is_span(span.spanId) else span_id(span.spanId),
        parent=parent if not parent or _is_span(parent) else link_id(parent),
        name=span.name,
        started_ns=whole(span.startTimeUnixNano, "startTimeUnixNano"),
        ended_ns=whole(span.endTimeUnixNano, "endTimeUnixNano"),
        failed=status.code is not None and status.code in ERROR,
        message=status.message or "",
        attributes=_attributes(span.attributes),
        happenings=tuple([_event(event) for event in events]) if events else (),
        scope=scope,
        resource=resource,
    )


def _event(event: _FastEvent) -> SpanEvent:
    at_ns = whole(event.timeUnixNano, "timeUnixNano")
    return SpanEvent(name=event.name, at_ns=at_ns, attributes=_attributes(event.attributes))


def _attributes(pairs: list[_Pair]) -> JsonObject:
    found: JsonObject = {}
    for pair in pairs if len(pairs) <= MAX_ATTRIBUTES else pairs[:MAX_ATTRIBUTES]:
        value = pair.value
        text = value.stringValue
        if text is None:
            integer = value.intValue
            if type(integer) is str and len(integer) < INT64_DIGITS and integer.isdecimal():
                found[pair.key] = int(integer)
            else:
                found[pair.key] = _other(value)
        else:
            found[pair.key] = text
    return found


def _other(value: _Value) -> Json:
    """Return a value other than a text."""
    if value.arrayValue is not None:
        return [_scalar(item) for item in value.arrayValue.values]
    number_value = value.doubleValue
    if number_value is not None:
        if type(number_value) is float and value.intValue is None:
            return number(number_value)
        return _scalar(value)
    for name in _NESTED:
        nested = getattr(value, name)
        if nested:
            return any_value({name: _value(nested)})
    return _scalar(value)


def _scalar(value: _Scalar) -> Json:
    if value.stringValue is not None:
        return value.stringValue
    for name in _SIMPLE:
        scalar = getattr(value, name)
        if scalar is not None:
            return any_value({name: scalar})
    raise msgspec.ValidationError  # empty, in another notation, or a nested list


_SIMPLE = ("intValue", "doubleValue", "boolValue")
_NESTED = ("kvlistValue", "bytesValue")


def _value(text: bytes | memoryview | Raw) -> Json:
    try:
        return decode_json(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadPayload(f"not JSON: {error}") from None
