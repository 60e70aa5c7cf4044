"""MLflow traces: what `Trace.to_json()` writes, one, a list of them, or one on each line.

    {"info": {"trace_id": "tr-…", "state": "OK", "request_time": ISO, "trace_metadata": {…}, "tags": {…},
              "assessments": […]},
     "data": {"spans": [{"span_id": base64, "parent_span_id", "name", "start_time_unix_nano", "end_time_unix_nano",
                         "status": {"code", "message"}, "events": […], "attributes": {name: JSON text}}]}}

Earlier versions have `request_id`, `timestamp_ms`, `status` and `request_metadata`, and spans with a `context`. Rows of
`search_traces()` hold the same under `trace`, and the file of a trace's artifacts holds its `spans` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.json_text import decode_text, load_json
from replaykit.formats.core.labels import Label, says_failure
from replaykit.formats.core.members import object_in, objects_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import content_id
from replaykit.formats.spans.dialects.mlflow import ATTRIBUTES
from replaykit.formats.spans.exports import Keyed, SpanRecord, TraceSummary, identity, listed, run_of_trace, traces_in
from replaykit.formats.spans.span import Span, SpanEvent
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, as_text

FORMAT = "mlflow"
_LISTS = ("traces", "data")
_SHORT = 500
_OF_MLFLOW = "mlflow."
_EXPECTED = ("expected_response", "expected_answer", "expected_output")
_ADVICE = (
    "A span without inputs or outputs was made with `mlflow.start_span` or had them taken out: call `span.set_inputs` "
    "and `span.set_outputs`, trace functions with `@mlflow.trace`, or turn on autologging of the library."
)


class MLflowImporter:
    """Reads traces of MLflow."""

    name = FORMAT
    title = "MLflow: Trace.to_json() and to_dict(), versions 2 and 3"

    def recognises(self, source: Source) -> bool:
        records = (r for value in source.first for r in islice(listed(SpanRecord(source, value), *_LISTS), 2))
        return any(_is_trace(_unwrapped(record).value) for record in records)

    def read(self, source: Source) -> Iterator[Found]:
        for trace in traces_in(source, _records):
            yield from [trace] if isinstance(trace, InvalidFile) else _read(trace[0])


def _unwrapped(record: SpanRecord) -> SpanRecord:
    """The trace of a row of `search_traces()`, which may be a text."""
    held = load_json(value_in(record.value, "trace"))
    if _is_trace(held):
        return SpanRecord(record.source, held, (*record.path, "trace"))
    return record


def _is_trace(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    info = object_in(value, "info")
    if info:
        return ("trace_id" in info or "request_id" in info) and isinstance(value.get("data"), dict)
    first = objects_in(value, "spans")[:1]
    return bool(first) and any(name.startswith(_OF_MLFLOW) for name in object_in(first[0], "attributes"))


def _records(document: SpanRecord) -> Iterator[Keyed | InvalidFile]:
    for record in listed(document, *_LISTS):
        trace = _unwrapped(record)
        if _is_trace(trace.value):
            yield None, trace
        else:
            yield record.error("not a trace of MLflow: expected {info, data: {spans}}")


def _read(record: SpanRecord) -> Iterator[Found]:
    info = object_in(record.value, "info")
    if info:
        inner = object_in(record.value, "data")
    else:
        inner = record.value
    if info:
        path = (*record.path, "data", "spans")
    else:
        path = (*record.path, "spans")
    held = inner.get("spans")
    trace = _trace_id(record, info, held)
    spans: list[Span] = []
    for index, value in enumerate(held if isinstance(held, list) else ()):
        try:
            spans.append(_span(Fields(record.source, value, (*path, index), "a span"), trace))
        except InvalidFile as error:
            yield error
    if not spans:
        yield record.error(f"trace {trace}: none of its spans is here; export it with its data, not its info alone")
        return
    try:
        summary = _summary(Fields(record.source, info, (*record.path, "info")), spans)
    except InvalidFile as error:
        yield error
        return
    yield from run_of_trace(spans, summary)


def _trace_id(record: SpanRecord, info: dict[str, Json], spans: Json) -> str:
    trace_id = text_in(info, "trace_id", "request_id")
    for span in as_objects(spans)[:1]:
        trace_id = trace_id or as_text(decode_text(object_in(span, "attributes").get("mlflow.traceRequestId")))
    return trace_id or content_id(FORMAT, canonical(record.value))


def _span(fields: Fields, trace: str) -> Span:
    context = fields.object("context")
    status = fields.take("status")
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
        happenings=tuple(_happening(fields, item, index) for index, item in enumerate(fields.items("events"))),
    )


def _time_ns(fields: Fields, *names: str) -> int:
    """Nanoseconds, which protobuf's JSON writes as text."""
    moment = fields.take(*names)
    if isinstance(moment, str) and moment.isdecimal() and len(moment) < 20:
        moment = int(moment)
    if moment is None:
        return 0
    if type(moment) is not int or not 0 <= moment < 2**63:
        raise fields.error("expected nanoseconds since the epoch", *names)
    return moment


def _attributes(encoded: Json) -> dict[str, Json]:
    """Each value is JSON text; OTLP's list of keys and values is read as well."""
    pairs = {text_in(item, "key"): _any_value(object_in(item, "value")) for item in as_objects(encoded)}
    return {name: decode_text(value) for name, value in (as_object(encoded) or pairs).items()}


def _any_value(value: dict[str, Json]) -> Json:
    return next(iter(value.values()), None)


def _happening(fields: Fields, value: Json, index: int) -> SpanEvent:
    event = Fields(fields.source, value, (*fields.path, "events", index), "an event")
    at_ns = _time_ns(event, "time_unix_nano", "timeUnixNano", "timestamp")
    attributes = event.take("attributes")
    pairs = {text_in(item, "key"): _any_value(object_in(item, "value")) for item in as_objects(attributes)}
    return SpanEvent(name=event.text("name") or "", at_ns=at_ns, attributes=as_object(attributes) or pairs)


def _summary(info: Fields, spans: list[Span]) -> TraceSummary:
    metadata = _pairs(info.take("trace_metadata", "request_metadata"))
    tags = _pairs(info.take("tags"))
    state = (info.text("state", "status") or "").upper()
    more = {name: value for name, value in tags.items() if not name.startswith(_OF_MLFLOW) and _is_short(value)}
    return TraceSummary(
        format=FORMAT,
        name=text_in(tags, "mlflow.traceName"),
        is_running=state == "IN_PROGRESS",
        error=ErrorInfo(type="Error", message="the trace's state is ERROR") if state == "ERROR" else None,
        metadata={
            "conversation": metadata.get("mlflow.trace.session"),
            "user": metadata.get("mlflow.trace.user"),
            "source": metadata.get("mlflow.source.name"),
            "commit": metadata.get("mlflow.source.git.commit"),
            "client_request_id": info.text("client_request_id"),
            "trace_tags": more,
        },
        labels=tuple(_labels(info)),
        lacks={span.id: {Lack.ARGUMENTS} for span in spans if not span.attributes[ATTRIBUTES].get("mlflow.spanInputs")},
        advice=(_ADVICE,),
    )


def _pairs(value: Json) -> dict[str, Json]:
    """Tags and metadata, which earlier versions list as keys and values."""
    listed_pairs = {text_in(item, "key"): item.get("value") for item in as_objects(value)}
    return as_object(value) or listed_pairs


def _is_short(value: Json) -> bool:
    return not isinstance(value, str) or len(value) <= _SHORT


def _labels(info: Fields) -> Iterator[Label]:
    """Feedback is a judgement; an expectation says what a good run gives. One that another overrides counts no more."""
    for index, item in enumerate(info.items("assessments")):
        assessment = Fields(info.source, item, (*info.path, "assessments", index), "an assessment")
        if item.get("valid") is False:
            continue
        name = assessment.text("assessment_name", "name") or "assessment"
        feedback, expectation = assessment.take("feedback"), assessment.object("expectation")
        why = assessment.text("rationale") or ""
        if expectation:
            yield _expectation(name, expectation, why)
            continue
        if isinstance(feedback, dict):
            value = feedback.get("value")
        else:
            value = feedback
        wrong = as_object(value_in(feedback, "error"))
        if wrong:
            yield Label(name=name, why=text_in(wrong, "error_message", "error_code"))
        else:
            yield Label(name=name, value=value, failed=says_failure(name, value), why=why)


def _expectation(name: str, expectation: dict[str, Json], why: str) -> Label:
    value = expectation.get("value")
    if value is None:
        value = decode_text(object_in(expectation, "serialized_value").get("value"))
    if isinstance(value, str):
        texts = [value]
    elif isinstance(value, list):
        texts = value
    else:
        texts = []
    is_output = name in _EXPECTED or name == "expected_facts"
    if is_output:
        expected_texts = tuple(text for text in texts if isinstance(text, str) and text)
    else:
        expected_texts = ()
    return Label(name=name, value=value, why=why, expected_output=expected_texts)


IMPORTERS.register(FORMAT)(MLflowImporter())
