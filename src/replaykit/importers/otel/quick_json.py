"""Spans of OTLP/JSON as nearly all writers write them, read quickly; what is written otherwise `otlp_json` reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec import Raw, Struct

from replaykit.importers.gathering import Piece
from replaykit.importers.otel.collecting import (
    INT64_DIGITS,
    MAX_ATTRIBUTES,
    Collector,
    link_id,
    number,
    span_id,
    trace_id,
    whole,
)
from replaykit.importers.otel.otlp_json import ERROR, any_value, read_record, read_resource, read_scope, read_span
from replaykit.importers.otel.span import BadPayload, Happening, Reading, Span
from replaykit.importers.otel.splitting import BETWEEN, RECORDS
from replaykit.model.nesting import decode_json
from replaykit.model.values import Json

_NONE = Raw(b"")
_END = BETWEEN * 2
_HEADS_BYTES = 8 * 1024 * 1024
_HEAD_OVERHEAD = 1000  # what is read of it
_Common = tuple[bytes, str, dict[str, Json]]


class _Scalar(Struct, frozen=True, gc=False):
    """An AnyValue that holds no others."""

    stringValue: str | None = None
    intValue: str | int | None = None
    boolValue: bool | None = None
    doubleValue: float | int | str | None = None


class _Array(Struct, frozen=True, gc=False):
    values: list[_Scalar] = []


class _Value(_Scalar, frozen=True, gc=False):
    """Any AnyValue: one that is neither of these is read as it is asked for."""

    arrayValue: _Array | None = None
    kvlistValue: Raw = _NONE
    bytesValue: Raw = _NONE


class _Pair(Struct, frozen=True, gc=False):
    key: str
    value: _Value


class _Status(Struct, frozen=True, gc=False):
    code: int | str | None = None
    message: str | None = None


class _Event(Struct, frozen=True, gc=False):
    name: str = ""
    timeUnixNano: str | int = 0
    attributes: list[_Pair] = []


class _Span(Struct, frozen=True, gc=False):
    traceId: str
    spanId: str
    startTimeUnixNano: str | int
    name: str
    parentSpanId: str | None = None
    endTimeUnixNano: str | int | None = None
    attributes: list[_Pair] = []
    events: list[_Event] = []
    status: _Status = _Status()


_is_trace = re.compile("(?!0{32})[0-9a-f]{32}").fullmatch
_is_span = re.compile("(?!0{16})[0-9a-f]{16}").fullmatch
_decode = msgspec.json.Decoder(_Span).decode


class Heads:
    """What all spans of one library in one program say alike: kept once for a file, by number, and read once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._texts: list[bytes] = [b""]
        self._read: dict[int, _Common] = {}
        self._size = 0

    def number(self, head: bytes) -> int:
        """That of a head; 0 where too many differ to be kept."""
        found = self._numbers.get(head)
        if found is None:
            if self._size + len(head) > _HEADS_BYTES:
                return 0
            found = self._numbers[head] = len(self._texts)
            self._texts.append(head)
            self._size += len(head) + _HEAD_OVERHEAD
        return found

    def joined(self, head: bytes, item: Raw) -> bytes:
        """An item that has its own head with it."""
        return b"".join((head, _END, item))

    def read(self, number: int) -> _Common:
        """What a head says; `BadPayload` where it is wrong."""
        found = self._read.get(number)
        if found is None:
            found = self._read[number] = _common(self._texts[number])
        return found


def read_pieces(pieces: Iterable[Piece], heads: Heads) -> Reading:
    """The spans and log records that `splitting.by_trace` took apart, each with the number of its head, or joined."""
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


def _span(given: _Span, scope: str, resource: dict[str, Json]) -> Span:
    events = given.events[:MAX_ATTRIBUTES]
    status, trace, parent = given.status, given.traceId, given.parentSpanId or ""
    return Span(
        trace=trace if _is_trace(trace) else trace_id(trace),
        id=given.spanId if _is_span(given.spanId) else span_id(given.spanId),
        parent=parent if not parent or _is_span(parent) else link_id(parent),
        name=given.name,
        started_ns=whole(given.startTimeUnixNano, "startTimeUnixNano"),
        ended_ns=whole(given.endTimeUnixNano, "endTimeUnixNano"),
        failed=status.code is not None and status.code in ERROR,
        message=status.message or "",
        attributes=_attributes(given.attributes),
        happenings=tuple([_event(event) for event in events]) if events else (),
        scope=scope,
        resource=resource,
    )


def _event(given: _Event) -> Happening:
    at_ns = whole(given.timeUnixNano, "timeUnixNano")
    return Happening(name=given.name, at_ns=at_ns, attributes=_attributes(given.attributes))


def _attributes(pairs: list[_Pair]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for pair in pairs if len(pairs) <= MAX_ATTRIBUTES else pairs[:MAX_ATTRIBUTES]:
        value = pair.value
        text = value.stringValue
        if text is None:
            given = value.intValue
            if type(given) is str and len(given) < INT64_DIGITS and given.isdecimal():
                found[pair.key] = int(given)
            else:
                found[pair.key] = _other(value)
        else:
            found[pair.key] = text
    return found


def _other(value: _Value) -> Json:
    """What is no text: one of these is there, as OTLP has it, or none."""
    if value.arrayValue is not None:
        return [_scalar(item) for item in value.arrayValue.values]
    given = value.doubleValue
    if given is not None:
        return number(given) if type(given) is float and value.intValue is None else _scalar(value)
    for name in _NESTED:
        nested = getattr(value, name)
        if nested:
            return any_value({name: _value(nested)})
    return _scalar(value)


def _scalar(value: _Scalar) -> Json:
    if value.stringValue is not None:
        return value.stringValue
    for name in _SIMPLE:
        given = getattr(value, name)
        if given is not None:
            return any_value({name: given})
    raise msgspec.ValidationError  # empty, spelled in another way, or a list in a list


_SIMPLE = ("intValue", "doubleValue", "boolValue")
_NESTED = ("kvlistValue", "bytesValue")


def _value(text: bytes | memoryview | Raw) -> Json:
    try:
        return decode_json(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadPayload(f"not JSON: {error}") from None
