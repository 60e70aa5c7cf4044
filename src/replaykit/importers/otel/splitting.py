"""An export request taken apart by trace, without reading what its spans hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct

from replaykit.importers.otel.collecting import link_id, trace_id
from replaykit.importers.otel.span import BadPayload
from replaykit.model.nesting import check_nesting

SPANS, RECORDS = b"spans", b"records"
BETWEEN = b"\x1e"  # a byte that JSON has nowhere
NO_TRACE = ""
"""Where spans go whose trace cannot be told: to be read, and rejected, by themselves."""

_START, _TRIES = 96, 4
_USUAL = re.compile(rb'\s*+\{\s*+"traceId"\s*+:\s*+"([0-9a-f]{32})"')


class _Scoped(Struct):
    """What one library made."""

    scope: Raw = Raw(b"null")
    spans: list[Raw] | None = None
    logRecords: list[Raw] | None = None
    log_records: list[Raw] | None = None


class _Held(Struct):
    """What one program made."""

    resource: Raw = Raw(b"null")
    scopeSpans: list[_Scoped] | None = None
    scope_spans: list[_Scoped] | None = None
    scopeLogs: list[_Scoped] | None = None
    scope_logs: list[_Scoped] | None = None


class _Request(Struct):
    """An export request; one of metrics has none of these."""

    resourceSpans: list[_Held] | None = None
    resource_spans: list[_Held] | None = None
    resourceLogs: list[_Held] | None = None
    resource_logs: list[_Held] | None = None


class _Ids(Struct):
    """Of a span or a log record."""

    traceId: str | None = None
    trace_id: str | None = None


_decode = msgspec.json.Decoder(_Request).decode
_decode_list = msgspec.json.Decoder(list[_Request]).decode
_decode_ids = msgspec.json.Decoder(_Ids).decode


def by_trace(text: bytes) -> Iterator[tuple[str, bytes, Raw]]:
    """The spans and log records of a request (or a list of them), each with its trace and what was said around it.

    Raises `msgspec.MsgspecError` where the text is no such request, as far as that shows without reading its spans.
    """
    check_nesting(text)
    for request in _decode_list(text) if text[:64].lstrip()[:1] == b"[" else [_decode(text)]:
        for held in (*(request.resourceSpans or ()), *(request.resource_spans or ())):
            for scoped in (*(held.scopeSpans or ()), *(held.scope_spans or ())):
                yield from _pieces(SPANS, held, scoped, scoped.spans or ())
        for held in (*(request.resourceLogs or ()), *(request.resource_logs or ())):
            for scoped in (*(held.scopeLogs or ()), *(held.scope_logs or ())):
                yield from _pieces(RECORDS, held, scoped, (*(scoped.logRecords or ()), *(scoped.log_records or ())))


def _pieces(kind: bytes, held: _Held, scoped: _Scoped, items: Iterable[Raw]) -> Iterator[tuple[str, bytes, Raw]]:
    head = BETWEEN.join((kind, held.resource, scoped.scope))
    for item in items:
        usual = _USUAL.match(item)
        trace = usual[1].decode() if usual is not None else _trace(item, of_logs=kind == RECORDS)
        if trace is not None:
            yield trace, head, item


def place_of(item: Raw, text: bytes, after: int) -> int | None:
    """Where an item stands in the text, behind that place; None where it is not soon found."""
    if text.startswith(item, after + 1):  # a comma is between it and the one before
        return after + 1
    start = memoryview(item)[:_START]
    for _ in range(_TRIES):
        after = text.find(start, after)
        if after < 0 or text.startswith(item, after):
            break
        after += 1
    else:
        return None
    return after if after >= 0 else None


def _trace(item: Raw, *, of_logs: bool) -> str | None:
    """The trace of an item as any writer may write it; None for a log record that speaks of none, as most do."""
    try:
        ids = _decode_ids(item)
        given = ids.trace_id if ids.traceId is None else ids.traceId
        return (link_id(given, of_trace=True) or None) if of_logs else trace_id(given)
    except (msgspec.MsgspecError, BadPayload):
        return NO_TRACE
