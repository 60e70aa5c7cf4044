"""Traces of the OpenAI Agents SDK, as it sends them and as trace processors log them.

    {"data": [{"object": "trace", "id": "trace_…", "workflow_name": …, "group_id": …, "metadata": …},
              {"object": "trace.span", "id": "span_…", "trace_id": "trace_…", "parent_id": …,
               "started_at": ISO, "ended_at": ISO, "span_data": {"type": …}, "error": {"message", "data"} | null}]}

The items may also be in a list, or one item or one such body on each line. The span of a function lacks the call's id,
and that of the Responses API has neither messages nor answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.registry import Found, collect, read_each, register_format
from replaykit.formats.core.replayability import Lack
from replaykit.formats.spans.dialects.openai_agents import DATA, STAGE
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
from replaykit.formats.spans.span import Span
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import has_object, object_in, text_in, value_in

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


register_format(
    FORMAT,
    "OpenAI Agents SDK: traces and their spans ({data}, lists, JSONL)",
    lambda source: any(map(_is_item, first_records(source, "data"))),
    lambda source: read_traces(source, _records, _read),
)


def _is_item(value: Json) -> bool:
    kind = value_in(value, "object")
    if kind == _TRACE:
        return "workflow_name" in value
    return kind == _SPAN and has_object(value, "span_data")


def _records(document: TraceItem) -> Iterator[Keyed | InvalidFile]:
    yield from read_each(document.members("data"), _keyed)


def _keyed(record: TraceItem) -> Keyed:
    kind = value_in(record.value, "object")
    if kind not in (_TRACE, _SPAN):
        raise record.error(f"neither a {_TRACE} nor a {_SPAN} of the OpenAI Agents SDK")
    return identity(record.fields(), "id" if kind == _TRACE else "trace_id"), record


def _read(trace: Trace) -> Iterator[Found]:
    trace_fields: JsonObject = {}
    records: Trace = []
    for record in trace:
        if record.value.get("object") == _TRACE:
            trace_fields = record.value
        else:
            records.append(record)
    spans: list[Span] = []
    yield from collect(records, _span, spans)
    if not spans:
        yield trace[0].error("a trace without a span that can be read")
        return
    yield from run_of_trace(_staged(spans), _summary(trace_fields, spans))


def _span(record: TraceItem) -> Span:
    fields = record.fields()
    data = fields.object("span_data")
    wrong = fields.object("error")
    kind = text_in(data, "type")
    attributes: JsonObject = {DATA: data}
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


def _message(wrong: JsonObject, data: JsonObject) -> str:
    """Return the text of an error, or, if it is redacted, the text that the model saw."""
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
    """Make the work of each agent a named step, if agents hand over to each other."""
    ids = {span.id for span in spans}
    by_parent: dict[str, list[Span]] = {}
    for span in spans:
        if _type(span) == "agent":
            by_parent.setdefault(span.parent if span.parent in ids else "", []).append(span)
    stages: dict[str, Span] = {}
    for group in by_parent.values():
        for span in group if len(group) > 1 else ():
            data: Json = {"type": STAGE, "name": span.name}
            stages[span.id] = replace(
                span, id=f"{span.id}/{STAGE}", parent=span.id, failed=False, message="", attributes={DATA: data}
            )
    moved = [replace(span, parent=stages[span.parent].id) if span.parent in stages else span for span in spans]
    return [*moved, *(stages[span_id] for span_id in sorted(stages))]


def _type(span: Span) -> str:
    return text_in(span.attributes[DATA], "type")


def _summary(trace_fields: JsonObject, spans: list[Span]) -> TraceSummary:
    lacks: dict[str, set[Lack]] = {}
    silent: set[str] = set()
    response_ids: list[str] = []
    for span in spans:
        data = span.attributes[DATA]
        if _type(span) == "function":
            lacks[span.id] = _lacks(span)
        if data.get("response_id"):
            response_ids.append(str(data["response_id"]))
        if not data.get("input"):
            silent.add(_type(span))
    advice = []
    if "response" in silent:
        advice.append(_NO_MESSAGES)
    if any(lacks.values()) or "generation" in silent:
        advice.append(_NOT_INCLUDED)
    return TraceSummary(
        format=FORMAT,
        name=text_in(trace_fields, "workflow_name"),
        metadata={
            "conversation": trace_fields.get("group_id"),
            "trace_metadata": trace_fields.get("metadata"),
            "responses": response_ids,
        },
        lacks=lacks,
        advice=tuple(advice),
    )


def _lacks(span: Span) -> set[Lack]:
    data = span.attributes[DATA]
    lacks = set()
    if not data.get("input"):
        lacks.add(Lack.ARGUMENTS)
    if span.failed and span.message and span.message == text_in(data, "output"):
        lacks.add(Lack.HIDDEN)
    return lacks
