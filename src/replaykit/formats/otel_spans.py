"""Spans as OpenTelemetry's Python SDK prints them (`span.to_json()`, `ConsoleSpanExporter`).

    {"name", "context": {"trace_id": "0x…", "span_id": "0x…"}, "kind": "SpanKind.CLIENT", "parent_id": "0x…" | null,
     "start_time": ISO, "end_time": ISO, "status": {"status_code": "ERROR", "description"}, "attributes": {…},
     "events": [{"name", "timestamp": ISO, "attributes": {…}}], "resource": {"attributes": {…}}}

One span, a list, one on each line, or one after another as on a console.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields, TraceItem
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.registry import Found, collect, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.spans.exports import (
    Keyed,
    Trace,
    TraceSummary,
    nanoseconds,
    read_traces,
    run_of_trace,
)
from replaykit.formats.spans.span import BadPayload, Span, SpanEvent, link_id, span_id, trace_id
from replaykit.model.nesting import check_value_nesting
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text, object_in, text_in, value_in

FORMAT = "otel_spans"
_PRINTED = re.compile(rb'\s*\{\s*"name":.{0,4096}?"context":\s*\{\s*"trace_id":\s*"0x[0-9a-f]', re.DOTALL)


def _recognises(source: Source) -> bool:
    if not source.first:
        return source.is_text and _PRINTED.match(source.head) is not None
    return any(_is_span(value[0] if isinstance(value, list) and value else value) for value in source.first)


def _read_file(source: Source) -> Iterator[Found]:
    if not source.is_lines and source.peek() is None:
        source = _OneAfterAnother(source)
    yield from read_traces(source, _records, _read)


register_format(
    FORMAT, "OpenTelemetry: spans as its Python SDK prints them (`to_json`, console exporter)", _recognises, _read_file
)


def _read(trace: Trace) -> Iterator[Found]:
    spans: list[Span] = []
    yield from collect(trace, _span, spans)
    if spans:
        yield from run_of_trace(spans, TraceSummary(format=FORMAT))


class _OneAfterAnother(Source):
    """A text of several documents without separators."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.text, source.file)

    @cached_property
    def is_lines(self) -> bool:
        return True

    def documents(self) -> Iterator[Source]:
        text, place, decoder = self.text.decode("utf-8", "replace"), 0, json.JSONDecoder()
        while place < len(text):
            start = place + len(text[place:]) - len(text[place:].lstrip())
            if start >= len(text):
                return
            line = text.count("\n", 0, start) + 1
            try:
                value, place = decoder.raw_decode(text, start)
                check_value_nesting(value)
            except (ValueError, RecursionError):
                place = len(text)  # the start of the next document is unknown
            yield Source(text[start:place].encode(), self.file, line=line)


def _is_span(value: Json) -> bool:
    context = object_in(value, "context")
    if not text_in(context, "trace_id") or not text_in(context, "span_id"):
        return False
    return {"name", "kind", "status", "start_time"} <= as_object(value).keys()


def _records(record: TraceItem) -> Iterator[Keyed | InvalidFile]:
    for item in record.members():
        value = load_json(item.value)  # some people keep the text from `to_json` in a list
        if _is_span(value):
            yield text_in(value["context"], "trace_id"), TraceItem(item.source, value, item.path)
        else:
            yield item.error("not a span of the SDK: expected `name`, `context`, `kind`, `status` and `start_time`")


def _span(record: TraceItem) -> Span:
    fields = record.fields()
    status = as_object(fields.take("status"))
    context = fields.inner("context")
    try:
        return Span(
            trace=trace_id(context.take("trace_id")),
            id=span_id(context.take("span_id")),
            parent=link_id(fields.take("parent_id")),
            name=fields.text("name") or "",
            started_ns=nanoseconds(fields.time("start_time")),
            ended_ns=nanoseconds(fields.time("end_time")),
            failed=text_in(status, "status_code").rpartition(".")[2].upper() == "ERROR",
            message=text_in(status, "description"),
            attributes=fields.object("attributes"),
            happenings=tuple(events_in(fields)),
            scope=as_text(value_in(fields.take("instrumentation_scope", "instrumentation_info"), "name")),
            resource=as_object(value_in(fields.take("resource"), "attributes")),
        )
    except BadPayload as error:
        raise record.error(str(error), "context") from None


def events_in(fields: Fields) -> Iterator[SpanEvent]:
    """Yield the events of a span."""
    for event in fields.each("events"):
        at_ns = nanoseconds(event.time("timestamp", "time"))
        yield SpanEvent(name=event.text("name") or "", at_ns=at_ns, attributes=event.object("attributes"))
