"""Langfuse: traces with their observations, from its pages, its REST API and its exports.

    {"trace": {…}, "observations": […]}                               what its pages download
    {"id", "timestamp", "htmlPath", "observations": […], "scores": […]}  GET /api/public/traces/{id}
    {"data": […], "meta": {…}}                                        lists of traces, or of observations
    {"id", "traceId", "type", "startTime", "input", "output", …}      one observation: in a list, or on each line

Observations on their own are grouped by trace. Names may be in snake_case, as in its Python SDK. The view of a trace's
messages that Langfuse's pages export, `{observation: {"input": {"success", "data"}, "output": …}}`, is not a trace, and
the importer says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.labels import Label, says_failure
from replaykit.formats.core.registry import Found, collect, register_format
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.source import Source
from replaykit.formats.spans.dialects.langfuse import OBSERVATION, TYPES, kind_of
from replaykit.formats.spans.dialects.payloads import agent_input, agent_output
from replaykit.formats.spans.exports import (
    Keyed,
    Trace,
    TraceSummary,
    first_records,
    identity,
    nanoseconds,
    read_traces,
    run_of_trace,
)
from replaykit.formats.spans.span import UNSET, Span, SpanKind
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_object,
    has_list,
    has_object,
    list_in,
    object_in,
    objects_in,
    pick,
    text_in,
    value_in,
)

FORMAT = "langfuse"
_LISTS = ("data", "traces")
_NO_OBSERVATIONS = (
    "its observations are not in the file: export the trace itself (GET /api/public/traces/{id}), or its observations"
)


def _recognises(source: Source) -> bool:
    records = first_records(source, *_LISTS)
    return any(map(_is_message_view, source.first)) or any(map(_is_trace, records)) or any(map(is_observation, records))


def _read_file(source: Source) -> Iterator[Found]:
    if not source.is_lines and _is_message_view(source.value):
        yield "it is what Langfuse shows of a trace's messages, and no trace: import the trace itself"
        return
    yield from read_traces(source, _records, _read)


register_format(
    FORMAT, "Langfuse: exports of traces and observations, and answers of its REST API", _recognises, _read_file
)


def _is_trace(value: Json) -> bool:
    """Return whether this is a trace, with or without its observations."""
    if not has_list(value, "observations"):
        return False
    if has_object(value, "trace"):
        return "id" in value["trace"]
    return "id" in value and any(name in value for name in ("htmlPath", "html_path", "timestamp"))


def _is_message_view(value: Json) -> bool:
    """Return whether these are the messages that Langfuse's pages show of a trace."""
    shown = as_object(value)
    for sides in shown.values():
        for side in (as_object(sides) or {"": None}).values():
            if not isinstance(value_in(side, "success"), bool):
                return False
    return bool(shown)


def _records(document: TraceItem) -> Iterator[Keyed | InvalidFile]:
    for record in document.members(*_LISTS):
        value = record.value
        if is_observation(value):
            yield text_in(value, "traceId", "trace_id"), record
        elif not _is_trace(value):
            yield record.error("neither a trace nor an observation of Langfuse")
        elif objects_in(value, "observations") or "trace" in value:
            yield None, record
        else:
            yield str(value["id"]), record


def _read(records: Trace) -> Iterator[Found]:
    """Yield the run of a trace: from one record with everything, or from observations and possibly the trace."""
    observations: Trace = []
    trace_fields: JsonObject = {}
    scores: list[JsonObject] = []
    for record in records:
        value = record.value
        if is_observation(value):
            observations.append(record)
            continue
        trace_fields = camel(object_in(value, "trace") or value)
        holders = [value]
        if "trace" in value:
            holders.append(trace_fields)
        for holder in holders:
            scores += objects_in(holder, "scores") + objects_in(holder, "corrections")
        # Lists of traces have only the ids of observations
        observations += [member for member in record.members("observations") if not isinstance(member.value, str)]
    trace = text_in(trace_fields, "id") or text_in(records[0].value, "traceId", "trace_id")
    spans: list[Span] = []
    yield from collect(observations, lambda observation: span_of(observation, trace), spans)
    if not spans:
        yield records[0].error(f"trace {trace}: {_NO_OBSERVATIONS}")
        return
    yield from run_of_trace(_move_tools_out_of_models(spans), trace_summary(trace_fields, spans, scores))


def _move_tools_out_of_models(spans: list[Span]) -> list[Span]:
    """Move tools out of model calls: some tracers nest a tool's span in the answer that requested it."""
    models = {span.id: span for span in spans if kind_of(span.attributes[OBSERVATION]) is SpanKind.MODEL}
    moved: list[Span] = []
    for span in spans:
        if span.parent in models and kind_of(span.attributes[OBSERVATION]) is SpanKind.TOOL:
            span = replace(span, parent=models[span.parent].parent)
        moved.append(span)
    return moved


_SNAKE = re.compile(r"_([a-z])")
# Members of an observation beside position and time.
_FIELDS = words_of(
    "type level input output model modelParameters usage usageDetails costDetails totalCost "
    "calculatedTotalCost toolDefinitions promptName promptVersion version statusMessage environment "
    "userId sessionId traceName tags release completionStartTime"
)


def is_observation(value: Json) -> bool:
    """Return whether an object is an observation: it has an id, a trace, a time, and one of Langfuse's types."""
    if not text_in(value, "traceId", "trace_id") or "run_type" in value:
        return False
    return text_in(value, "type") in TYPES and ("startTime" in value or "start_time" in value)


def camel(value: JsonObject) -> JsonObject:
    """Return the object with names in the API's style; names inside its values are the user's own."""
    return {_SNAKE.sub(lambda found: found[1].upper(), name): item for name, item in value.items()}


def span_of(record: TraceItem, trace: str) -> Span:
    """Return an observation as a span of its trace; raise `InvalidFile` if it is not one."""
    if not is_observation(record.value):
        raise record.error("not an observation of Langfuse: expected id, traceId, type and startTime")
    fields = record.fields()
    own = camel(record.value)
    own["model"] = own.get("model") or own.get("providedModelName")  # the name in version 2 of the API
    if own["traceId"] != trace:
        raise record.error(f"an observation of trace {text_in(own, 'traceId')} inside of trace {trace}", "traceId")
    failed = fields.text("level") == "ERROR"
    message = fields.text("statusMessage", "status_message") if failed else ""
    metadata = as_object(load_json(own.get("metadata")))
    attributes: JsonObject = {OBSERVATION: pick(own, _FIELDS) | {"metadata": metadata}}
    if type(metadata.get("langgraph_step")) is int:
        attributes["metadata"] = {"langgraph_step": metadata["langgraph_step"]}
    started, ended = fields.time("startTime", "start_time"), fields.time("endTime", "end_time")
    if ended is None and own["type"] == "EVENT":
        ended = started  # events take no time
    return Span(
        trace=trace,
        id=identity(fields, "id"),
        parent=fields.text("parentObservationId", "parent_observation_id") or "",
        name=fields.text("name") or text_in(own, "type").lower(),
        started_ns=nanoseconds(started),
        ended_ns=nanoseconds(ended),
        failed=failed,
        message=message or "",
        attributes=attributes,
        scope=text_in(object_in(metadata, "scope"), "name"),
        resource=object_in(metadata, "resourceAttributes"),
    )


_SHORT = 500
_NO_INPUT = (
    "Observations came without input or output: ask the API for these fields (fields=core,basic,time,io,metadata,model,"
    "usage), and see that the SDK does not leave them out (capture_input, capture_output) or mask them."
)
_LOST_INPUT = (
    "Where a model's input holds no messages, the instrumentation lost them: one of Langfuse's own for that framework "
    "keeps them."
)


def trace_summary(trace_fields: JsonObject, spans: list[Span], scores: Iterable[JsonObject]) -> TraceSummary:
    """Summarise a trace from its own record, or from the fields that its observations repeat."""
    observations = [span.attributes[OBSERVATION] for span in spans]
    output = agent_output(load_json(load_json(trace_fields.get("output"))))
    prompts = {f"{own['promptName']} v{own.get('promptVersion')}" for own in observations if "promptName" in own}

    def stated(name: str, name_in_observations: str = "") -> str:
        texts = [text_in(trace_fields, name), *(text_in(own, name_in_observations or name) for own in observations)]
        return next(filter(None, texts), "")

    return TraceSummary(
        format=FORMAT,
        name=stated("name", "traceName"),
        version=text_in(trace_fields, "version"),
        tags=_tags([trace_fields, *observations]),
        input=agent_input(load_json(load_json(trace_fields.get("input")))),
        output=output,
        metadata={
            "conversation": stated("sessionId"),
            "user": stated("userId"),
            "environment": stated("environment"),
            "release": stated("release"),
            "trace_metadata": _plain(trace_fields.get("metadata")),
            "prompts": sorted(prompts),
            "warnings": list(_warnings(spans)),
        },
        labels=tuple(_labels(scores, output)),
        lacks={span.id: {Lack.ARGUMENTS} for span in spans if "input" not in span.attributes[OBSERVATION]},
        advice=tuple(_advice(observations)),
    )


def _tags(holders: Iterable[JsonObject]) -> tuple[str, ...]:
    for holder in holders:
        tags = list_in(holder, "tags")
        if tags:
            return tuple(tag for tag in tags if isinstance(tag, str))
    return ()


def _plain(metadata: Json) -> JsonObject:
    """Return the user's own short metadata, without what OpenTelemetry adds."""
    values = as_object(load_json(metadata))
    return {name: value for name, value in values.items() if _is_short(value)}


def _is_short(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= _SHORT
    return not isinstance(value, dict | list)


def _warnings(spans: Iterable[Span]) -> Iterator[str]:
    for span in spans:
        own = span.attributes[OBSERVATION]
        warning = text_in(own, "statusMessage")
        if own.get("level") == "WARNING" and warning:
            yield f"{span.name}: {warning}"[:_SHORT]


def _labels(scores: Iterable[JsonObject], output: Json) -> Iterator[Label]:
    seen: set[str] = set()
    for score in scores:
        key = text_in(score, "id")
        if key and key in seen:
            continue
        seen.add(key)
        if text_in(score, "dataType", "data_type") == "CORRECTION":
            yield _correction(score, output)
        else:
            yield _label(score)


def _label(score: JsonObject) -> Label:
    name, kind = text_in(score, "name") or "score", text_in(score, "dataType", "data_type")
    value = score.get("value")
    if kind == "BOOLEAN" and isinstance(value, int | float):
        value = bool(value)
    elif kind in ("CATEGORICAL", "TEXT") or value is None:
        value = text_in(score, "stringValue", "string_value") or value
    return Label(name=name, value=value, failed=says_failure(name, value), why=text_in(score, "comment"))


def _correction(score: JsonObject, output: Json) -> Label:
    """Return the label of a corrected output: a failure if the correction differs."""
    text = text_in(score, "longStringValue", "long_string_value", "stringValue", "string_value")
    failed = bool(text) and output is not UNSET and output not in (text, load_json(text))
    return Label(name="correction", value=text, failed=failed, why=text_in(score, "comment"))


def _advice(observations: list[JsonObject]) -> Iterator[str]:
    calls = [own for own in observations if kind_of(own) in (SpanKind.MODEL, SpanKind.TOOL)]
    if any("input" not in own or "output" not in own for own in calls):
        yield _NO_INPUT
    if any("input" in own for own in calls if kind_of(own) is SpanKind.MODEL):
        yield _LOST_INPUT
