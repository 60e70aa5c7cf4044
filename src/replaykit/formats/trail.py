"""TRAIL: agent traces of the benchmark of that name: nested spans with OpenInference's attributes.

    {"trace_id": hex, "spans": [{"timestamp": ISO, "duration": "PT1M2.5S", "span_id", "parent_span_id", "span_name",
                                 "service_name", "scope_name", "resource_attributes": {…}, "span_attributes": {…},
                                 "status_code": "Ok" | "Error" | "Unset", "status_message", "events": […],
                                 "child_spans": […]}]}

Annotated errors of a trace are in a separate file, `{"trace_id", "errors": […], "scores": […]}`, which holds no run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.registry import Found, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.spans.exports import TraceSummary, identity, nanoseconds, run_of_trace
from replaykit.formats.spans.span import Span, SpanEvent
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    has_list,
    has_object,
    list_in,
    objects_in,
    text_in,
    without,
)

FORMAT = "trail"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_MAX_SPANS = 100_000
_COUNTS = "llm.token_count."
_DIGITS = 16


def _read_file(source: Source) -> Iterator[Found]:
    for document in source.documents():
        try:
            yield from _read(document)
        except InvalidFile as error:
            if not source.is_lines:
                raise
            yield error


register_format(
    FORMAT,
    "TRAIL: traces of the benchmark, spans inside of spans",
    lambda source: any(_is_trace(value) or _is_annotation(value) for value in source.first),
    _read_file,
)


def _is_trace(value: Json) -> bool:
    for span in objects_in(value, "spans")[:1]:
        return "trace_id" in value and "child_spans" in span and "span_id" in span
    return False


def _is_annotation(value: Json) -> bool:
    if not has_list(value, "errors") or "spans" in value:
        return False
    found = any("category" in error and "location" in error for error in as_objects(value["errors"]))
    return found or ("trace_id" in value and "scores" in value)


def _read(document: Source) -> Iterator[Found]:
    if _is_annotation(document.value):
        errors, annotated = len(document.value["errors"]), text_in(document.value, "trace_id")
        trace = "a trace"
        if annotated:
            trace = f"trace {annotated}"
        yield (
            f"it is what people found wrong in {trace} ({errors} errors), "
            "and no trace: import the file of `traces` with that name"
        )
        return
    fields = Fields(document, document.value, what="a trace of TRAIL")
    trace = identity(fields, "trace_id")
    spans: list[Span] = []
    waiting = [(item, "") for item in fields.members("spans")]
    while waiting:
        item, parent = waiting.pop()
        if len(spans) >= _MAX_SPANS:
            raise item.error(f"more than {_MAX_SPANS:,} spans in one trace")
        try:
            span_fields = item.fields("a span")
            span = _span(span_fields, trace, parent)
        except InvalidFile as error:
            yield error
            continue
        spans.append(span)
        waiting += [(inner, span.id) for inner in span_fields.members("child_spans")]
    if not spans:
        raise document.error("a trace without a span that can be read")
    yield from run_of_trace(spans, TraceSummary(format=FORMAT))


def _span(fields: Fields, trace: str, parent: str) -> Span:
    started = nanoseconds(fields.time("timestamp"))
    duration_ns = _duration_ns(fields)
    fields.items("child_spans")
    return Span(
        trace=trace,
        id=identity(fields, "span_id"),
        parent=parent or fields.text("parent_span_id") or "",
        name=fields.text("span_name") or "",
        started_ns=started,
        ended_ns=started + duration_ns if duration_ns is not None else 0,
        failed=(fields.text("status_code") or "").lower() == "error",
        message=fields.text("status_message") or "",
        attributes=_attributes(fields.object("span_attributes")),
        happenings=tuple(map(_happening, fields.each("events", "an event"))),
        scope=fields.text("scope_name") or "",
        resource=fields.object("resource_attributes"),
    )


def _duration_ns(fields: Fields) -> int | None:
    """Return a duration such as `PT1M2.5S` in nanoseconds; None if it is missing."""
    text = fields.text("duration")
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise fields.error(f"expected an ISO 8601 duration such as PT2.5S, got {text[:60]!r}", "duration")
    days, hours, minutes, seconds = (float(group or 0) for group in match.groups())
    return nanoseconds(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _happening(event: Fields) -> SpanEvent:
    return SpanEvent(
        name=event.text("Name", "name") or "",
        at_ns=nanoseconds(event.time("Timestamp", "timestamp")),
        attributes=event.object("Attributes", "attributes"),
    )


def _counted(value: Json) -> Json:
    if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS:
        return int(value)
    return value


def _attributes(attributes: JsonObject) -> JsonObject:
    """Decode numbers written as text, and swap smolagents' tool schema for the arguments."""
    attributes = {name: _counted(value) if name.startswith(_COUNTS) else value for name, value in attributes.items()}
    if text_in(attributes, "openinference.span.kind").upper() != "TOOL":
        return attributes
    called = load_json(attributes.get("input.value"))
    if not has_object(called, "kwargs"):
        return attributes
    names = list(as_object(load_json(attributes.get("tool.parameters"))))
    positional = list_in(called, "args")
    attributes = without(attributes, "tool.parameters")
    if len(positional) > len(names):
        return attributes
    arguments = dict(zip(names, positional, strict=False)) | called["kwargs"]
    return attributes | {"input.value": orjson.dumps(arguments).decode()}
