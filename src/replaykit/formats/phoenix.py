"""Phoenix: the spans of a project, from its API, its client and its data frames.

    {"data": [span, …], "next_cursor"}                        the response of `GET /v1/projects/{project}/spans`
    {"name", "context": {"trace_id", "span_id"}, "span_kind", "parent_id", "start_time", "end_time", "status_code",
     "status_message", "attributes": {…}, "events": […]}      one of them
    {"name", "context.trace_id", "attributes.llm.model_name", …}      a row of a data frame
    {"name": {"0": …, …}, "context.trace_id": {"0": …}, …}            a data frame by columns

A file holds a list of spans or rows, or one on each line. Attributes are flat or nested. `annotations`, beside the
spans or in one, are labels of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.labels import Label, says_failure
from replaykit.formats.core.registry import Found, collect, register_format
from replaykit.formats.otel_spans import events_in
from replaykit.formats.spans.exports import (
    Keyed,
    Trace,
    TraceSummary,
    nanoseconds,
    read_traces,
    run_of_trace,
)
from replaykit.formats.spans.span import BadPayload, Span, link_id, span_id, trace_id
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    as_text,
    has_object,
    object_in,
    objects_in,
    text_in,
    value_in,
)

FORMAT = "phoenix"
_TRACE, _SPAN = "context.trace_id", "context.span_id"
_KIND = "openinference.span.kind"
# Attributes whose values are objects rather than nested names.
_WHOLE = words_of(
    "metadata llm.invocation_parameters llm.prompt_template.variables tool.parameters "
    "tool.json_schema input.value output.value exception.stacktrace"
)
_MAX_DEPTH = 32


register_format(
    FORMAT,
    "Phoenix: spans of its API, its client and its data frames, with annotations",
    lambda source: any(map(_looks_like, source.first)),
    lambda source: read_traces(source, _records, _run),
)


def _looks_like(value: Json) -> bool:
    items = value
    if isinstance(value, dict):
        items = value.get("data")
    first = value
    if isinstance(items, list) and items:
        first = items[0]
    return _is_span(first) or _is_columns(as_object(value))


def _is_span(value: Json) -> bool:
    fields = as_object(value)
    return ("span_kind" in fields or "status_code" in fields) and all(_ids(fields)) and "name" in fields


def _is_columns(value: JsonObject) -> bool:
    return has_object(value, _TRACE) and has_object(value, "name")


def _ids(fields: JsonObject) -> tuple[str, str]:
    context = object_in(fields, "context")
    return text_in(context, "trace_id") or text_in(fields, _TRACE), text_in(context, "span_id") or text_in(
        fields, _SPAN
    )


def _records(record: TraceItem) -> Iterator[Keyed | InvalidFile]:
    fields = as_object(record.value)
    traces: dict[str, str] = {}
    rows = record.members("data")
    if _is_columns(fields):
        rows = _rows(record)
    for row in rows:
        trace, span = _ids(as_object(row.value))
        if _is_span(row.value):
            traces[span] = trace
            yield trace, row
        elif trace_of := _annotated(row.value, traces):  # annotations on lines of their own follow their spans
            yield trace_of, row
        else:
            yield row.error("not a span of Phoenix: expected `name`, `context` and `span_kind`")
    for index, annotation in enumerate(objects_in(fields, "annotations")):
        if trace_of := _annotated(annotation, traces):
            yield trace_of, TraceItem(record.source, annotation, ("annotations", index))


def _annotated(value: Json, traces: Mapping[str, str]) -> str:
    """Return the trace of an annotation; empty if it is not one, or its span is unknown."""
    annotation = as_object(value)
    if "result" not in annotation or "name" not in annotation:
        return ""
    return text_in(annotation, "trace_id") or traces.get(text_in(annotation, "span_id"), "")


def _rows(record: TraceItem) -> Iterator[TraceItem]:
    """Yield the rows of a data frame that was written by columns."""
    columns = {name: cells for name, cells in record.value.items() if isinstance(cells, dict)}
    for index in columns[_TRACE]:
        row = {name: cells[index] for name, cells in columns.items() if cells.get(index) is not None}
        yield TraceItem(record.source, {_SPAN: index, **row}, ("name", index))


def _run(trace: Trace) -> Iterator[Found]:
    records: Trace = []
    labels: list[Label] = []
    for record in trace:
        if _is_span(record.value):
            records.append(record)
            labels += _labels(objects_in(record.value, "annotations") or objects_in(record.value, "span_annotations"))
        else:
            labels += _labels([record.value])
    spans: list[Span] = []
    yield from collect(records, _span, spans)
    if spans:
        once = tuple(label for index, label in enumerate(labels) if label not in labels[:index])
        yield from run_of_trace(spans, TraceSummary(format=FORMAT, labels=once))


def _span(record: TraceItem) -> Span:
    fields = record.fields()
    trace, span = _ids(fields.value)
    attributes = _attributes(fields.value)
    kind = as_text(fields.take("span_kind"))
    if kind and kind.upper() != "UNKNOWN":
        attributes.setdefault(_KIND, kind)
    try:
        return Span(
            trace=trace_id(trace),
            id=span_id(span),
            parent=link_id(fields.take("parent_id")),
            name=fields.text("name") or "",
            started_ns=nanoseconds(fields.time("start_time")),
            ended_ns=nanoseconds(fields.time("end_time")),
            failed=(fields.text("status_code") or "").upper() == "ERROR",
            message=fields.text("status_message") or "",
            attributes=attributes,
            happenings=tuple(events_in(fields)),
        )
    except BadPayload as error:
        raise record.error(str(error), "context") from None


def _attributes(fields: JsonObject) -> JsonObject:
    """Return the attributes by flat name, wherever a span or a row has them."""
    found: JsonObject = {}
    _flatten(found, "", object_in(fields, "attributes"))
    for name, value in fields.items():
        if name.startswith("attributes."):
            _flatten(found, name.removeprefix("attributes."), value)
    return found


def _flatten(found: JsonObject, name: str, value: Json, depth: int = 0) -> None:
    """Join nested names with dots; list items get their index as name, as in OpenInference."""
    if value is None:
        return
    inner: Iterator[tuple[str, Json]] | None = None
    if isinstance(value, dict) and name not in _WHOLE:
        inner = iter(value.items())
    elif isinstance(value, list) and value and len(as_objects(value)) == len(value):
        inner = ((str(index), item) for index, item in enumerate(value))
    if inner is None or depth > _MAX_DEPTH:
        found[name] = value
        return
    for step, item in inner:
        _flatten(found, f"{name}.{step}" if name else step, item, depth + 1)


def _labels(annotations: list[JsonObject]) -> Iterator[Label]:
    for annotation in annotations:
        name, result = text_in(annotation, "name"), object_in(annotation, "result") or annotation
        value = value_in(result, "label", "score")
        if not name or value is None:
            continue
        failed = says_failure(name, result.get("label")) or says_failure(name, result.get("score"))
        yield Label(name=name, value=value, failed=failed, why=text_in(result, "explanation"))
