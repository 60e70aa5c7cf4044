"""Vercel AI SDK, up to version 6: spans of the scope `ai`. Later versions use GenAI."""

from __future__ import annotations

from replaykit.formats.core.json_text import decode_text, load_json, read_arguments
from replaykit.formats.core.messages import ConversationCache, messages_of, only_text
from replaykit.formats.spans.span import Meaning, Span, SpanDialect, SpanKind, first, usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_object, as_objects, has_text, list_in, text_in, value_in
from replaykit.wire.model_calls import ModelAnswer, ToolUse

# `ai.generateText` and the like are loops around model calls, so they are agents.
_MODEL = (".doGenerate", ".doStream")
_SETTINGS = "ai.settings."


def _read(span: Span, cache: ConversationCache) -> Meaning | None:
    attributes = span.attributes
    operation = text_in(attributes, "ai.operationId")
    if not operation.startswith("ai."):
        return None
    if operation == "ai.toolCall":
        return _tool(attributes)
    if operation.endswith(_MODEL):
        return _model(attributes, cache)
    if operation.startswith(("ai.embed", "ai.rerank")):
        return Meaning(kind=SpanKind.NOTE, name=operation)
    return _agent(span, attributes)


VERCEL = SpanDialect("vercel", "ai.operationId", _read)


def _tool(attributes: JsonObject) -> Meaning:
    return Meaning(
        kind=SpanKind.TOOL,
        name=text_in(attributes, "ai.toolCall.name"),
        call_id=text_in(attributes, "ai.toolCall.id"),
        input=decode_text(first(attributes, "ai.toolCall.args", "ai.toolCall.input")),
        output=decode_text(first(attributes, "ai.toolCall.result", "ai.toolCall.output")),
    )


def _model(attributes: JsonObject, cache: ConversationCache) -> Meaning:
    calls = as_objects(load_json(attributes.get("ai.response.toolCalls")))
    spoken = text_in(attributes, "ai.response.text", "ai.response.object")
    answer = None
    if spoken or calls or "ai.response.finishReason" in attributes:
        answer = ModelAnswer(content=spoken or None, tool_calls=tuple(map(_call, calls)))
    return Meaning(
        kind=SpanKind.MODEL,
        name=text_in(attributes, "ai.model.id", "gen_ai.request.model"),
        messages=messages_of(attributes.get("ai.prompt.messages"), cache),
        tools=list(map(load_json, list_in(attributes, "ai.prompt.tools"))) or None,
        parameters=_parameters(attributes),
        answer=answer,
        finish_reason=text_in(attributes, "ai.response.finishReason") or None,
        usage=usage(
            attributes,
            ("ai.usage.inputTokens", "ai.usage.promptTokens", "gen_ai.usage.input_tokens"),
            ("ai.usage.outputTokens", "ai.usage.completionTokens", "gen_ai.usage.output_tokens"),
        ),
    )


def _call(call: JsonObject) -> ToolUse:
    return ToolUse(
        id=text_in(call, "toolCallId"),
        name=text_in(call, "toolName"),
        arguments=read_arguments(value_in(call, "input", "args")),
    )


def _parameters(attributes: JsonObject) -> JsonObject:
    found: JsonObject = {}
    for name in sorted(attributes):
        if name.startswith(_SETTINGS):
            found[name.removeprefix(_SETTINGS)] = attributes[name]
    return found


def _agent(span: Span, attributes: JsonObject) -> Meaning:
    return Meaning(
        kind=SpanKind.AGENT,
        name=text_in(attributes, "ai.telemetry.functionId", "resource.name") or span.name,
        input=_agent_input(load_json(first(attributes, "ai.prompt"))),
        output=load_json(first(attributes, "ai.response.text", "ai.response.object")),
    )


def _agent_input(prompt: Json) -> Json:
    request = as_object(prompt)
    if has_text(request, "prompt"):
        return request["prompt"]
    messages = messages_of(request.get("messages") or request.get("prompt"))
    text = only_text(messages)
    if text is not None:
        return text
    return messages or prompt
