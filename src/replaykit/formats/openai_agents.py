"""Traces of the OpenAI Agents SDK, as it sends them and as processors write them down.

    {"data": [{"object": "trace", "id": "trace_…", "workflow_name": …, "group_id": …, "metadata": …},
              {"object": "trace.span", "id": "span_…", "trace_id": "trace_…", "parent_id": …,
               "started_at": ISO, "ended_at": ISO, "span_data": {"type": …}, "error": {"message", "data"} | null}]}

also as a list, or with one item, or one such body, on each line. A span of a function has no id of its call, and one
of the Responses API has neither messages nor answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from replaykit.errors import InvalidFile
from replaykit.formats.core.members import object_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.source import Source
from replaykit.formats.spans.dialects.openai_agents import DATA, STAGE
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
from replaykit.formats.spans.span import Span
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_object, as_text

FORMAT = "openai_agents"
_TRACE, _SPAN = "trace", "trace.span"
_HIDDEN = "details are redacted"
_ERROR_TYPES = (
    ("Max turns exceeded", "MaxTurnsExceeded"),
    ("Guardrail tripwire triggered", "GuardrailTripwireTriggered"),
    ("Error running tool", "ToolError"),
    ("Tool not found", "ToolNotFound"),
    ("Invalid JSON", "InvalidJSON"),
)
_NO_MESSAGES = (
    "Spans of the Responses API hold no messages. Trace with chat completions instead (OpenAIChatCompletionsModel "
    "makes generation spans), or keep `result.to_input_list()` and import that."
)
_NOT_INCLUDED = (
    "The SDK keeps inputs, outputs or the words of errors out of this trace: run with "
    "RunConfig(trace_include_sensitive_data=True), and without OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=false."
)


class OpenAIAgentsImporter:
    """Reads traces of the OpenAI Agents SDK."""

    name = FORMAT
    title = "OpenAI Agents SDK: traces and their spans ({data}, lists, JSONL)"

    def recognises(self, source: Source) -> bool:
        return any(
            _is_item(r.value) for value in source.first for r in islice(listed(SpanRecord(source, value), "data"), 2)
        )

    def read(self, source: Source) -> Iterator[Found]:
        for trace in traces_in(source, _records):
            if isinstance(trace, InvalidFile):
                yield trace
            else:
                yield from _read(trace)


def _is_item(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("object") == _TRACE:
        return "workflow_name" in value
    return value.get("object") == _SPAN and isinstance(value.get("span_data"), dict)


def _records(document: SpanRecord) -> Iterator[Keyed | InvalidFile]:
    for record in listed(document, "data"):
        kind = value_in(record.value, "object")
        try:
            if kind not in (_TRACE, _SPAN):
                raise record.error(f"neither a {_TRACE} nor a {_SPAN} of the OpenAI Agents SDK")
            yield identity(record.fields, "id" if kind == _TRACE else "trace_id"), record
        except InvalidFile as error:
            yield error


def _read(trace: Trace) -> Iterator[Found]:
    trace_fields: dict[str, Json] = {}
    spans: list[Span] = []
    for record in trace:
        if record.value.get("object") == _TRACE:
            trace_fields = record.value
            continue
        try:
            spans.append(_span(record))
        except InvalidFile as error:
            yield error
    if not spans:
        yield trace[0].error("a trace without a span that can be read")
        return
    yield from run_of_trace(_staged(spans), _summary(trace_fields, spans))


def _span(record: SpanRecord) -> Span:
    fields = record.fields
    data = fields.object("span_data")
    wrong = fields.object("error")
    kind = text_in(data, "type")
    attributes: dict[str, Json] = {DATA: data}
    if wrong:
        attributes["error.type"] = _error_type(text_in(wrong, "message"))
    return Span(
        trace=fields.required_text("trace_id"),
        id=identity(fields, "id"),
        parent=fields.text("parent_id") or "",
        name=text_in(data, "name") or kind,
        started_ns=nanoseconds(fields.time("started_at")),
        ended_ns=nanoseconds(fields.time("ended_at")),
        failed=bool(wrong),
        message=_message(wrong, data),
        attributes=attributes,
    )


def _error_type(message: str) -> str:
    return next((kind for start, kind in _ERROR_TYPES if message.startswith(start)), "Error")


def _message(wrong: dict[str, Json], data: dict[str, Json]) -> str:
    """What went wrong: the error itself; where it is hidden, what the model was told of it."""
    if not wrong:
        return ""
    details = object_in(wrong, "data")
    error_text = text_in(details, "error")
    if error_text and _HIDDEN not in error_text:
        return error_text
    if error_text:
        return text_in(data, "output") or error_text
    more = ", ".join(f"{name}: {encode(value).decode()}" for name, value in details.items())
    if more:
        return f"{text_in(wrong, 'message')} ({more})"
    return text_in(wrong, "message")


def _staged(spans: list[Span]) -> list[Span]:
    """Where agents hand over to each other, what each of them did is a step of the run that has its name."""
    ids = {span.id for span in spans}
    agents = {span.id: span for span in spans if _type(span) == "agent"}
    by_parent: dict[str, list[Span]] = {}
    for span in agents.values():
        by_parent.setdefault(span.parent if span.parent in ids else "", []).append(span)
    several = {span.id for group in by_parent.values() if len(group) > 1 for span in group}
    stages = [
        msgspec.structs.replace(
            agents[span_id],
            id=f"{span_id}/{STAGE}",
            parent=span_id,
            failed=False,
            message="",
            attributes={DATA: {"type": STAGE, "name": agents[span_id].name}},
        )
        for span_id in sorted(several)
    ]
    moved = [msgspec.structs.replace(s, parent=f"{s.parent}/{STAGE}") if s.parent in several else s for s in spans]
    return [*moved, *stages]


def _type(span: Span) -> str:
    return as_text(value_in(span.attributes[DATA], "type"))


def _summary(trace_fields: dict[str, Json], spans: list[Span]) -> TraceSummary:
    lacks = {span.id: _lacks(span) for span in spans if _type(span) == "function"}
    named = [str(data.get("response_id")) for span in spans if (data := span.attributes[DATA]).get("response_id")]
    silent = {_type(span) for span in spans if not span.attributes[DATA].get("input")}
    return TraceSummary(
        format=FORMAT,
        name=text_in(trace_fields, "workflow_name"),
        metadata={
            "conversation": trace_fields.get("group_id"),
            "trace_metadata": trace_fields.get("metadata"),
            "responses": named,
        },
        lacks=lacks,
        advice=(
            *((_NO_MESSAGES,) if "response" in silent else ()),
            *((_NOT_INCLUDED,) if any(lacks.values()) or "generation" in silent else ()),
        ),
    )


def _lacks(span: Span) -> set[Lack]:
    data = as_object(span.attributes[DATA])
    hidden = span.failed and span.message == text_in(data, "output") != ""
    return {*((Lack.ARGUMENTS,) if not data.get("input") else ()), *((Lack.HIDDEN,) if hidden else ())}


IMPORTERS.register(FORMAT)(OpenAIAgentsImporter())
