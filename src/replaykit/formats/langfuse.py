"""Langfuse: traces with their observations, as its pages, its REST API and its exports give them.

    {"trace": {…}, "observations": […]}                               what its pages download
    {"id", "timestamp", "htmlPath", "observations": […], "scores": […]}  GET /api/public/traces/{id}
    {"data": […], "meta": {…}}                                        lists of traces, or of observations
    {"id", "traceId", "type", "startTime", "input", "output", …}      one observation: in a list, or on each line

Observations that stand alone are put together by their traces. Names may be in snake_case, as its Python SDK has them.
What its pages make of a trace's messages, `{observation: {"input": {"success", "data"}, "output": …}}`, is no trace,
and the importer says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from replaykit.errors import InvalidFile
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.labels import Label, says_failure
from replaykit.formats.core.members import object_in, objects_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.source import Source
from replaykit.formats.spans.dialects.langfuse import OBSERVATION, TYPES, kind_of
from replaykit.formats.spans.dialects.payloads import agent_input, agent_output
from replaykit.formats.spans.exports import (
    Keyed,
    SpanRecord,
    Trace,
    TraceSummary,
    identity,
    listed,
    nanoseconds,
    run_of_trace,
    traces_in,
)
from replaykit.formats.spans.meaning import UNSET, SpanKind
from replaykit.formats.spans.span import Span
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_objects, as_text

FORMAT = "langfuse"
_LISTS = ("data", "traces")
_JUDGED = ("scores", "corrections")
_NO_OBSERVATIONS = (
    "its observations are not in the file: export the trace itself (GET /api/public/traces/{id}), or its observations"
)


class LangfuseImporter:
    """Reads traces of Langfuse."""

    name = FORMAT
    title = "Langfuse: exports of traces and observations, and answers of its REST API"

    def recognises(self, source: Source) -> bool:
        records = (r for value in source.first for r in islice(listed(SpanRecord(source, value), *_LISTS), 2))
        return any(map(_is_shown, source.first)) or any(_is_trace(r.value) or is_observation(r.value) for r in records)

    def read(self, source: Source) -> Iterator[Found]:
        if not source.is_lines and _is_shown(source.value):
            yield "it is what Langfuse shows of a trace's messages, and no trace: import the trace itself"
            return
        for trace in traces_in(source, _records):
            yield from [trace] if isinstance(trace, InvalidFile) else _read(trace)


def _is_trace(value: Json) -> bool:
    """True for a trace with its observations, or one whose observations stand elsewhere."""
    if not isinstance(value, dict) or not isinstance(value.get("observations"), list):
        return False
    if isinstance(value.get("trace"), dict):
        return "id" in value["trace"]
    return "id" in value and any(name in value for name in ("htmlPath", "html_path", "timestamp"))


def _is_shown(value: Json) -> bool:
    """True for the messages that Langfuse's pages make of a trace's observations."""
    if not isinstance(value, dict) or not value:
        return False
    sides = [side for shown in value.values() for side in (as_object(shown) or {"": None}).values()]
    return all(isinstance(value_in(side, "success"), bool) for side in sides)


def _records(document: SpanRecord) -> Iterator[Keyed | InvalidFile]:
    for record in listed(document, *_LISTS):
        value = record.value
        if is_observation(value):
            yield text_in(value, "traceId", "trace_id"), record
        elif _is_trace(value):
            whole = bool(as_objects(value["observations"])) or "trace" in value
            yield None if whole else str(value["id"]), record
        else:
            yield record.error("neither a trace nor an observation of Langfuse")


def _read(records: Trace) -> Iterator[Found]:
    """The run of a trace: of one record that holds it all, or of its observations and perhaps the trace itself."""
    observations: list[SpanRecord] = []
    trace_fields: dict[str, Json] = {}
    scores: list[dict[str, Json]] = []
    for record in records:
        if is_observation(record.value):
            observations.append(record)
            continue
        trace_fields = camel(object_in(record.value, "trace") or record.value)
        holders = [record.value, *([trace_fields] if "trace" in record.value else [])]
        scores += [score for held in holders for name in _JUDGED for score in objects_in(held, name)]
        inner = listed(SpanRecord(record.source, record.value["observations"], (*record.path, "observations")))
        # Lists of traces have only the ids of observations.
        observations += [member for member in inner if not isinstance(member.value, str)]
    first = records[0]
    trace = text_in(trace_fields, "id") or text_in(first.value, "traceId", "trace_id")
    spans: list[Span] = []
    for record in observations:
        try:
            spans.append(span_of(record, trace))
        except InvalidFile as error:
            yield error
    if not spans:
        yield first.error(f"trace {trace}: {_NO_OBSERVATIONS}")
        return
    yield from run_of_trace(_outside_of_models(spans), trace_summary(trace_fields, spans, scores))


def _outside_of_models(spans: list[Span]) -> list[Span]:
    """A model calls no tools, though some tracers put a tool's span into that of the answer that asked for it."""
    kinds = {span.id: kind_of(span.attributes[OBSERVATION]) for span in spans}
    parents = {span.id: span.parent for span in spans}
    return [
        msgspec.structs.replace(span, parent=parents[span.parent])
        if kinds[span.id] is SpanKind.TOOL and kinds.get(span.parent) is SpanKind.MODEL
        else span
        for span in spans
    ]


IMPORTERS.register(FORMAT)(LangfuseImporter())


_SNAKE = re.compile(r"_([a-z])")
_FIELDS = (
    *("type", "level", "input", "output", "model", "modelParameters", "usage", "usageDetails", "costDetails"),
    *("totalCost", "calculatedTotalCost", "toolDefinitions", "promptName", "promptVersion", "version", "statusMessage"),
    *("environment", "userId", "sessionId", "traceName", "tags", "release", "completionStartTime"),
)
"""What is said of an observation beside its place and time."""


def is_observation(value: Json) -> bool:
    """True for an object that is one: an id, a trace, a time, and a type of Langfuse's."""
    if not isinstance(value, dict) or "run_type" in value:
        return False
    of_trace = text_in(value, "traceId", "trace_id")
    return bool(of_trace) and text_in(value, "type") in TYPES and ("startTime" in value or "start_time" in value)


def camel(value: dict[str, Json]) -> dict[str, Json]:
    """The object with its names as the API writes them; those of what is inside are the user's own."""
    return {_SNAKE.sub(lambda found: found[1].upper(), name): item for name, item in value.items()}


def span_of(record: SpanRecord, trace: str) -> Span:
    """An observation as a span of its trace; `InvalidFile` where it is none."""
    if not is_observation(record.value):
        raise record.error("not an observation of Langfuse: expected id, traceId, type and startTime")
    fields = record.fields
    own = camel(record.value)
    own["model"] = own.get("model") or own.get("providedModelName")  # as the second version calls it
    if own["traceId"] != trace:
        raise _of_another(record, own, trace)
    level = fields.text("level") or ""
    metadata = as_object(load_json(own.get("metadata")))
    observation = {name: own[name] for name in _FIELDS if own.get(name) is not None}
    return Span(
        trace=trace,
        id=identity(fields, "id"),
        parent=fields.text("parentObservationId", "parent_observation_id") or "",
        name=fields.text("name") or as_text(own["type"]).lower(),
        started_ns=nanoseconds(fields.time("startTime", "start_time")),
        ended_ns=_ended_ns(record),
        failed=level == "ERROR",
        message=(fields.text("statusMessage", "status_message") or "") if level == "ERROR" else "",
        attributes={OBSERVATION: observation | {"metadata": metadata}} | _step(metadata),
        scope=text_in(object_in(metadata, "scope"), "name"),
        resource=object_in(metadata, "resourceAttributes"),
    )


def _ended_ns(record: SpanRecord) -> int:
    """When it ended; an event takes no time."""
    fields = record.fields
    ended = fields.time("endTime", "end_time")
    if ended is None and record.value["type"] == "EVENT":
        ended = fields.time("startTime", "start_time")
    return nanoseconds(ended)


def _step(metadata: dict[str, Json]) -> dict[str, Json]:
    number = metadata.get("langgraph_step")
    if type(number) is int:
        return {"metadata": {"langgraph_step": number}}
    return {}


def _of_another(record: SpanRecord, own: dict[str, Json], trace: str) -> InvalidFile:
    return record.error(f"an observation of trace {as_text(own['traceId'])} inside of trace {trace}", "traceId")


_SHORT = 500
_NO_INPUT = (
    "Observations came without input or output: ask the API for these fields (fields=core,basic,time,io,metadata,model,"
    "usage), and see that the SDK does not leave them out (capture_input, capture_output) or mask them."
)
_LOST_INPUT = (
    "Where a model's input holds no messages, the instrumentation lost them: one of Langfuse's own for that framework "
    "keeps them."
)


def trace_summary(trace_fields: dict[str, Json], spans: list[Span], scores: Iterable[dict[str, Json]]) -> TraceSummary:
    """Of the trace itself where the file holds it, else of what its observations repeat of it."""
    owned = [as_object(span.attributes[OBSERVATION]) for span in spans]
    output = agent_output(load_json(load_json(trace_fields.get("output"))))
    return TraceSummary(
        format=FORMAT,
        name=text_in(trace_fields, "name") or _first(owned, "traceName"),
        version=text_in(trace_fields, "version"),
        tags=_tags(trace_fields, owned),
        input=agent_input(load_json(load_json(trace_fields.get("input")))),
        output=output,
        metadata={
            "conversation": text_in(trace_fields, "sessionId") or _first(owned, "sessionId"),
            "user": text_in(trace_fields, "userId") or _first(owned, "userId"),
            "environment": text_in(trace_fields, "environment") or _first(owned, "environment"),
            "release": text_in(trace_fields, "release") or _first(owned, "release"),
            "trace_metadata": _plain(trace_fields.get("metadata")),
            "prompts": sorted(
                {f"{own['promptName']} v{own.get('promptVersion')}" for own in owned if "promptName" in own}
            ),
            "warnings": [f"{span.name}: {warning}"[:_SHORT] for span in spans if (warning := _warning(span))],
        },
        labels=tuple(_labels(scores, output)),
        lacks={span.id: {Lack.ARGUMENTS} for span in spans if "input" not in span.attributes[OBSERVATION]},
        advice=tuple(_advice(owned)),
    )


def _first(owned: list[dict[str, Json]], name: str) -> str:
    return next((found for own in owned if (found := text_in(own, name))), "")


def _tags(trace_fields: dict[str, Json], owned: list[dict[str, Json]]) -> tuple[str, ...]:
    lists = [trace_fields.get("tags"), *(own.get("tags") for own in owned)]
    found = next((tags for tags in lists if isinstance(tags, list) and tags), [])
    return tuple(tag for tag in found if isinstance(tag, str))


def _plain(metadata: Json) -> dict[str, Json]:
    """What a user said of the trace: short, and nothing of what OpenTelemetry adds."""
    values = as_object(load_json(metadata))
    plain = {name: value for name, value in values.items() if not isinstance(value, dict | list)}
    return {name: value for name, value in plain.items() if not isinstance(value, str) or len(value) <= _SHORT}


def _warning(span: Span) -> str:
    own = as_object(span.attributes[OBSERVATION])
    if own.get("level") == "WARNING":
        return text_in(own, "statusMessage")
    return ""


def _labels(scores: Iterable[dict[str, Json]], output: Json) -> Iterator[Label]:
    seen: set[str] = set()
    for score in scores:
        key = text_in(score, "id")
        if key and key in seen:
            continue
        seen.add(key)
        yield _correction(score, output) if _is_correction(score) else _label(score)


def _is_correction(score: dict[str, Json]) -> bool:
    return _field(score, "dataType") == "CORRECTION"


def _field(score: dict[str, Json], name: str) -> str:
    """A text of a score, whose names may be in snake_case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return text_in(score, name, snake)


def _label(score: dict[str, Json]) -> Label:
    name, kind = text_in(score, "name") or "score", _field(score, "dataType")
    value = score.get("value")
    if kind == "BOOLEAN" and isinstance(value, int | float):
        value = bool(value)
    elif kind in ("CATEGORICAL", "TEXT") or value is None:
        value = _field(score, "stringValue") or value
    return Label(name=name, value=value, failed=says_failure(name, value), why=text_in(score, "comment"))


def _correction(score: dict[str, Json], output: Json) -> Label:
    """What somebody wrote in the place of the output: a failure, where it is something else."""
    text = _field(score, "longStringValue") or _field(score, "stringValue")
    corrected = load_json(text)
    failed = bool(text) and output is not UNSET and corrected != output and text != output
    return Label(name="correction", value=text, failed=failed, why=text_in(score, "comment"))


def _advice(owned: list[dict[str, Json]]) -> Iterator[str]:
    calls = [own for own in owned if kind_of(own) in (SpanKind.MODEL, SpanKind.TOOL)]
    if any("input" not in own or "output" not in own for own in calls):
        yield _NO_INPUT
    if any("input" in own for own in calls if kind_of(own) is SpanKind.MODEL):
        yield _LOST_INPUT
