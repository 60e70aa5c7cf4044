"""Spans as the Python SDK of OpenTelemetry prints them (`span.to_json()`, `ConsoleSpanExporter`).

    {"name", "context": {"trace_id": "0x…", "span_id": "0x…"}, "kind": "SpanKind.CLIENT", "parent_id": "0x…" | null,
     "start_time": ISO, "end_time": ISO, "status": {"status_code": "ERROR", "description"}, "attributes": {…},
     "events": [{"name", "timestamp": ISO, "attributes": {…}}], "resource": {"attributes": {…}}}

One span, a list of them, one a line, or one after another as a console shows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.members import object_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.spans.exports import (
    Keyed,
    SpanRecord,
    TraceSummary,
    listed,
    nanoseconds,
    run_of_trace,
    traces_in,
)
from replaykit.formats.spans.span import BadPayload, Span, SpanEvent, link_id, span_id, trace_id
from replaykit.model.nesting import check_value_nesting
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text

FORMAT = "otel_spans"
_PRINTED = re.compile(rb'\s*\{\s*"name":.{0,4096}?"context":\s*\{\s*"trace_id":\s*"0x[0-9a-f]', re.DOTALL)


class OtelSpansImporter:
    """Reads spans that the SDK of OpenTelemetry printed."""

    name = FORMAT
    title = "OpenTelemetry: spans as its Python SDK prints them (`to_json`, console exporter)"

    def recognises(self, source: Source) -> bool:
        if not source.first:
            return source.is_text and _PRINTED.match(source.head) is not None
        return any(_is_span(value[0] if isinstance(value, list) and value else value) for value in source.first)

    def read(self, source: Source) -> Iterator[Found]:
        if source.is_lines or source.peek() is not None:
            whole = source
        else:
            whole = _OneAfterAnother(source)
        for trace in traces_in(whole, _records):
            if isinstance(trace, InvalidFile):
                yield trace
                continue
            spans: list[Span] = []
            for record in trace:
                try:
                    spans.append(_span(record))
                except InvalidFile as problem:
                    yield problem
            yield from run_of_trace(spans, TraceSummary(format=FORMAT)) if spans else ()


IMPORTERS.register(FORMAT)(OtelSpansImporter())


class _OneAfterAnother(Source):
    """A text of several documents with nothing between them."""

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
                place = len(text)  # nobody can tell where the next one begins
            yield Source(text[start:place].encode(), self.file, line=line)


def _is_span(value: Json) -> bool:
    held = as_object(value)
    context = object_in(held, "context")
    ids = text_in(context, "trace_id") and text_in(context, "span_id")
    return bool(ids) and {"name", "kind", "status", "start_time"} <= held.keys()


def _records(record: SpanRecord) -> Iterator[Keyed | InvalidFile]:
    for item in listed(record):
        value = load_json(item.value)  # some keep the text that `to_json` gave in a list
        if _is_span(value):
            yield as_text(value["context"]["trace_id"]), SpanRecord(item.source, value, item.path)
        else:
            yield item.error("not a span of the SDK: expected `name`, `context`, `kind`, `status` and `start_time`")


def _span(record: SpanRecord) -> Span:
    fields = record.fields
    status = as_object(fields.take("status"))
    context = Fields(record.source, fields.take("context"), (*record.path, "context"))
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
    """The events of a span."""
    for index, event in enumerate(fields.items("events")):
        fields_of_event = Fields(fields.source, event, (*fields.path, "events", index))
        at_ns = nanoseconds(fields_of_event.time("timestamp", "time"))
        yield SpanEvent(
            name=fields_of_event.text("name") or "", at_ns=at_ns, attributes=fields_of_event.object("attributes")
        )
