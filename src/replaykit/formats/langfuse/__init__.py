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

from collections.abc import Iterator
from itertools import islice

import msgspec

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.langfuse.observations import camel, is_observation, span_of
from replaykit.formats.langfuse.trace_metadata import FORMAT, trace_summary
from replaykit.formats.spans.dialects.langfuse import OBSERVATION, kind_of
from replaykit.formats.spans.exports import Keyed, SpanRecord, Trace, listed, run_of_trace, traces_in
from replaykit.formats.spans.meaning import SpanKind
from replaykit.formats.spans.span import Span
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_objects, as_text

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
    return all(isinstance(as_object(side).get("success"), bool) for side in sides)


def _records(document: SpanRecord) -> Iterator[Keyed | InvalidFile]:
    for record in listed(document, *_LISTS):
        value = record.value
        if is_observation(value):
            yield as_text(value.get("traceId")) or as_text(value.get("trace_id")), record
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
        trace_fields = camel(as_object(record.value.get("trace")) or record.value)
        holders = [record.value, *([trace_fields] if "trace" in record.value else [])]
        scores += [score for held in holders for name in _JUDGED for score in as_objects(held.get(name))]
        inner = listed(SpanRecord(record.source, record.value["observations"], (*record.path, "observations")))
        # Lists of traces have only the ids of observations.
        observations += [member for member in inner if not isinstance(member.value, str)]
    first = records[0]
    trace = (
        as_text(trace_fields.get("id")) or as_text(first.value.get("traceId")) or as_text(first.value.get("trace_id"))
    )
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
