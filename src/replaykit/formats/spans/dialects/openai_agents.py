"""OpenAI Agents SDK: spans of its own tracing, each with `span_data` of a type."""

from __future__ import annotations

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.spans.dialects.payloads import read_request, read_response
from replaykit.formats.spans.span import Meaning, Span, SpanDialect, SpanKind, first
from replaykit.model.events import Usage
from replaykit.model.values import JsonObject
from replaykit.wire.dialect import WireResponse
from replaykit.wire.json_fields import load_arguments, object_in, text_in, without, without_nulls
from replaykit.wire.model_calls import usage_of

DATA = "openai_agents.data"
"""The attribute of a span that holds its data."""
STAGE = "stage"
"""Our own type for the part of a run that one of several agents did."""


def _read(span: Span, _cache: ConversationCache) -> Meaning | None:
    data = span.attributes.get(DATA)
    if not isinstance(data, dict):
        return None
    kind = text_in(data, "type")
    if kind == "agent":
        return Meaning(kind=SpanKind.AGENT, name=text_in(data, "name") or span.name)
    if kind == "function":
        return _function(span, data)
    if kind in ("generation", "response"):
        return _model(data)
    if kind == STAGE:
        return Meaning(kind=SpanKind.STEP, name=text_in(data, "name"))
    if kind == "custom":
        return _custom(span, object_in(data, "data"))
    return Meaning(kind=SpanKind.NOTE)


OPENAI_AGENTS = SpanDialect("openai_agents", DATA, _read)


def _custom(span: Span, data: JsonObject) -> Meaning | None:
    """Read the SDK's own wrappers: a turn is a step, and the task around everything adds nothing."""
    kind = data.get("sdk_span_type")
    if kind == "turn":
        number = data.get("turn")
        return Meaning(kind=SpanKind.STEP, name=f"turn_{number}" if type(number) is int else "turn")
    if kind == "task":
        return None
    return Meaning(kind=SpanKind.NOTE, name=span.name)


def _function(span: Span, data: JsonObject) -> Meaning:
    arguments = first(data, "input")
    if isinstance(arguments, str):
        arguments = load_arguments(arguments)
    return Meaning(
        kind=SpanKind.TOOL,
        name=text_in(data, "name") or span.name,
        input=arguments,
        output=load_json(first(data, "output")),
    )


def _model(data: JsonObject) -> Meaning:
    """Read a call of the chat API or the Responses API; of the latter, the SDK exports only id and usage."""
    response = object_in(data, "response")
    request = read_request(data.get("input"))
    answered = WireResponse()
    if response:
        answered = read_response({"object": "response", **response})
    elif data.get("output") is not None:
        answered = read_response(data["output"])
    return Meaning(
        kind=SpanKind.MODEL,
        name=text_in(data, "model") or text_in(response, "model"),
        system=request.system or response.get("instructions"),
        messages=request.messages,
        tools=request.tools or response.get("tools"),
        parameters=without_nulls(without(object_in(data, "model_config"), "base_url")),
        answer=next(iter(answered.answers), None),
        finish_reason=answered.finish_reason,
        usage=_usage(data) or answered.usage,
    )


def _usage(data: JsonObject) -> Usage | None:
    """Return the usage: later versions use the names of the Responses API, earlier ones those of the chat API."""
    counts = data.get("usage")
    return usage_of(counts, inputs=("input_tokens",), outputs=("output_tokens",)) or usage_of(
        counts, inputs=("prompt_tokens",), outputs=("completion_tokens",)
    )
