"""MLflow traces from `Trace.to_json()`: one, a list, or one on each line.

    {"info": {"trace_id": "tr-…", "state": "OK", "request_time": ISO, "trace_metadata": {…}, "tags": {…},
              "assessments": […]},
     "data": {"spans": [{"span_id": base64, "parent_span_id", "name", "start_time_unix_nano", "end_time_unix_nano",
                         "status": {"code", "message"}, "events": […], "attributes": {name: JSON text}}]}}

Earlier versions have `request_id`, `timestamp_ms`, `status` and `request_metadata`, and spans with a `context`. Rows of
`search_traces()` have the trace under `trace`, and the file of a trace's artifacts has only its `spans`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields, TraceItem
from replaykit.formats.core.json_text import decode_text, load_json
from replaykit.formats.core.labels import Label, says_failure
from replaykit.formats.core.registry import Found, collect, register_format
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.talk import content_id
from replaykit.formats.spans.dialects.mlflow import ATTRIBUTES
from replaykit.formats.spans.exports import (
    Keyed,
    Trace,
    TraceSummary,
    first_records,
    identity,
    read_traces,
    run_of_trace,
)
from replaykit.formats.spans.span import Span, SpanEvent
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, JsonObject, canonical
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    as_text,
    has_object,
    list_in,
    object_in,
    objects_in,
    text_in,
    texts_in,
    value_in,
)

FORMAT = "mlflow"
_LISTS = ("traces", "data")
_SHORT = 500
_OF_MLFLOW = "mlflow."
_EXPECTED = ("expected_response", "expected_answer", "expected_output", "expected_facts")
_ADVICE = (
    "A span without inputs or outputs was made with `mlflow.start_span` or had them removed: call `span.set_inputs` "
    "and `span.set_outputs`, trace functions with `@mlflow.trace`, or turn on autologging of the library."
)


register_format(
    FORMAT,
    "MLflow: Trace.to_json() and to_dict(), versions 2 and 3",
    lambda source: any(_is_trace(_inner_trace(value) or value) for value in first_records(source, *_LISTS)),
    lambda source: read_traces(source, _records, _read),
)


def _inner_trace(row: Json) -> Json:
    """Return the trace in a row of `search_traces()`, possibly as JSON text; None for anything else."""
    holder = load_json(value_in(row, "trace"))
    if _is_trace(holder):
        return holder
    return None


def _is_trace(value: Json) -> bool:
    info = object_in(value, "info")
    if info:
        return ("trace_id" in info or "request_id" in info) and has_object(value, "data")
    # The file of a trace's artifacts has no `info`; its spans carry MLflow's attributes.
    for span in objects_in(value, "spans")[:1]:
        return any(name.startswith(_OF_MLFLOW) for name in object_in(span, "attributes"))
    return False


def _records(document: TraceItem) -> Iterator[Keyed | InvalidFile]:
    for record in document.members(*_LISTS):
        inner = _inner_trace(record.value)
        if inner is not None:
            yield None, TraceItem(record.source, inner, (*record.path, "trace"))
        elif _is_trace(record.value):
            yield None, record
        else:
            yield record.error("not a trace of MLflow: expected {info, data: {spans}}")


def _read(records: Trace) -> Iterator[Found]:
    (record,) = records
    info = object_in(record.value, "info")
    holder, path = record.value, record.path
    if info:
        holder, path = object_in(holder, "data"), (*path, "data")
    trace = _trace_id(record, info, objects_in(holder, "spans"))
    spans: list[Span] = []
    members = TraceItem(record.source, list_in(holder, "spans"), (*path, "spans")).members()
    yield from collect(members, lambda member: _span(member.fields("a span"), trace), spans)
    if not spans:
        yield record.error(f"trace {trace}: none of its spans is here; export it with its data, not its info alone")
        return
    try:
        summary = _summary(Fields(record.source, info, (*record.path, "info")), spans)
    except InvalidFile as error:
        yield error
        return
    yield from run_of_trace(spans, summary)


def _trace_id(record: TraceItem, info: JsonObject, spans: list[JsonObject]) -> str:
    trace_id = text_in(info, "trace_id", "request_id")
    for span in spans[:1]:
        # Files of artifacts name the trace only in the attributes of the root span.
        trace_id = trace_id or as_text(decode_text(object_in(span, "attributes").get("mlflow.traceRequestId")))
    return trace_id or content_id(FORMAT, canonical(record.value))


def _span(fields: Fields, trace: str) -> Span:
    context = fields.object("context")
    status = fields.take("status")
    # The code is `STATUS_CODE_ERROR`, `ERROR` or under `status_code`, depending on the version.
    code = as_text(value_in(status, "code")) or as_text(status) or fields.text("status_code") or ""
    return Span(
        trace=trace,
        id=text_in(context, "span_id") or identity(fields, "span_id", "spanId"),
        parent=fields.text("parent_span_id", "parent_id", "parentSpanId") or "",
        name=fields.text("name") or "",
        started_ns=_time_ns(fields, "start_time_unix_nano", "startTimeUnixNano", "start_time_ns", "start_time"),
        ended_ns=_time_ns(fields, "end_time_unix_nano", "endTimeUnixNano", "end_time_ns", "end_time"),
        failed=code.upper().endswith("ERROR"),
        message=as_text(value_in(status, "message")) or fields.text("status_message") or "",
        attributes={ATTRIBUTES: _attributes(fields.take("attributes"))},
        happenings=tuple(map(_happening, fields.each("events", "an event"))),
    )


def _time_ns(fields: Fields, *names: str) -> int:
    """Return nanoseconds, which protobuf's JSON writes as text."""
    moment = fields.take(*names)
    if isinstance(moment, str) and moment.isdecimal() and len(moment) < 20:
        moment = int(moment)
    if moment is None:
        return 0
    if type(moment) is not int or not 0 <= moment < 2**63:
        raise fields.error("expected nanoseconds since the epoch", *names)
    return moment


def _attributes(encoded: Json) -> JsonObject:
    """Decode the attributes, whose values are JSON text; OTLP's lists of keys and values are read, too."""
    return {name: decode_text(value) for name, value in _otlp_pairs(encoded).items()}


def _otlp_pairs(attributes: Json) -> JsonObject:
    pairs = _pairs(attributes)
    # Events and attributes of OTLP wrap each value: `{"stringValue": …}`.
    if not isinstance(attributes, list):
        return pairs
    return {name: next(iter(as_object(value).values()), None) for name, value in pairs.items()}


def _happening(event: Fields) -> SpanEvent:
    at_ns = _time_ns(event, "time_unix_nano", "timeUnixNano", "timestamp")
    return SpanEvent(name=event.text("name") or "", at_ns=at_ns, attributes=_otlp_pairs(event.take("attributes")))


def _summary(info: Fields, spans: list[Span]) -> TraceSummary:
    metadata = _pairs(info.take("trace_metadata", "request_metadata"))
    tags = _pairs(info.take("tags"))
    state = (info.text("state", "status") or "").upper()
    error = None
    if state == "ERROR":
        error = ErrorInfo(type="Error", message="the trace's state is ERROR")
    return TraceSummary(
        format=FORMAT,
        name=text_in(tags, "mlflow.traceName"),
        is_running=state == "IN_PROGRESS",
        error=error,
        metadata={
            "conversation": metadata.get("mlflow.trace.session"),
            "user": metadata.get("mlflow.trace.user"),
            "source": metadata.get("mlflow.source.name"),
            "commit": metadata.get("mlflow.source.git.commit"),
            "client_request_id": info.text("client_request_id"),
            "trace_tags": {name: value for name, value in tags.items() if _is_own(name, value)},
        },
        labels=tuple(_labels(info)),
        lacks={span.id: {Lack.ARGUMENTS} for span in spans if not span.attributes[ATTRIBUTES].get("mlflow.spanInputs")},
        advice=(_ADVICE,),
    )


def _pairs(value: Json) -> JsonObject:
    """Return tags or metadata, which earlier versions list as keys and values."""
    return as_object(value) or {text_in(item, "key"): item.get("value") for item in as_objects(value)}


def _is_own(tag: str, value: Json) -> bool:
    """Return whether this is a short tag of the user's own."""
    return not tag.startswith(_OF_MLFLOW) and (not isinstance(value, str) or len(value) <= _SHORT)


def _labels(info: Fields) -> Iterator[Label]:
    """Yield the assessments: feedback judges the run, expectations state a good answer. Overridden ones are skipped."""
    for assessment in info.each("assessments", "an assessment"):
        if assessment.value.get("valid") is False:
            continue
        name = assessment.text("assessment_name", "name") or "assessment"
        value, expectation = assessment.take("feedback"), assessment.object("expectation")
        why = assessment.text("rationale") or ""
        if expectation:
            yield _expectation(name, expectation, why)
            continue
        error = object_in(value, "error")
        if isinstance(value, dict):
            value = value.get("value")
        if error:
            yield Label(name=name, why=text_in(error, "error_message", "error_code"))
        else:
            yield Label(name=name, value=value, failed=says_failure(name, value), why=why)


def _expectation(name: str, expectation: JsonObject, why: str) -> Label:
    value = expectation.get("value")
    # MLflow stores values other than numbers, booleans and texts in serialized form.
    if value is None:
        value = decode_text(object_in(expectation, "serialized_value").get("value"))
    expected: tuple[str, ...] = ()
    if name in _EXPECTED:
        expected = texts_in([value]) or texts_in(value)
    return Label(name=name, value=value, why=why, expected_output=expected)
