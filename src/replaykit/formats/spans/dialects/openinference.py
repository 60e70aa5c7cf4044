"""OpenInference: Phoenix and its instrumentations. Lists are flattened into attribute names."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.formats.core.json_text import decode_text, load_json
from replaykit.formats.core.langchain_messages import message_body
from replaykit.formats.core.messages import ConversationCache, answer_in, messages_of, only_text, text_of
from replaykit.formats.spans.span import UNSET, Meaning, Span, SpanDialect, SpanKind, first, unflattened, usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    has_object,
    object_in,
    objects_in,
    text_in,
    value_in,
    without,
    without_nulls,
)

_KINDS = {
    "LLM": SpanKind.MODEL,
    "TOOL": SpanKind.TOOL,
    "RETRIEVER": SpanKind.TOOL,
    "AGENT": SpanKind.AGENT,
    "CHAIN": SpanKind.AGENT,
    "EMBEDDING": SpanKind.NOTE,
    "RERANKER": SpanKind.NOTE,
    "GUARDRAIL": SpanKind.NOTE,
    "EVALUATOR": SpanKind.NOTE,
}
_READ_ELSEWHERE = ("model", "model_name", "tools", "stream", "_type", "messages")


def _read(span: Span, _cache: ConversationCache) -> Meaning | None:
    attributes = span.attributes
    kind = _KINDS.get(text_in(attributes, "openinference.span.kind").upper())
    if kind is SpanKind.MODEL:
        return _model(attributes)
    if kind is SpanKind.TOOL:
        return _tool(span, attributes)
    if kind is SpanKind.AGENT:
        return _agent(span, attributes)
    if kind is None:
        return None
    return Meaning(kind=kind, name=span.name)


OPENINFERENCE = SpanDialect("openinference", "openinference.span.kind", _read)


def _model(attributes: JsonObject) -> Meaning:
    request: Json = list(map(_message, as_objects(unflattened(attributes, "llm.input_messages."))))
    answered = list(map(_message, as_objects(unflattened(attributes, "llm.output_messages."))))
    settings = as_object(load_json(attributes.get("llm.invocation_parameters")))
    reason = text_in(attributes, "llm.finish_reason") or None
    for choice in objects_in(load_json(attributes.get("output.value")), "choices")[:1]:
        reason = reason or text_in(choice, "finish_reason")
    return Meaning(
        kind=SpanKind.MODEL,
        name=text_in(settings, "model") or text_in(attributes, "llm.model_name"),
        messages=messages_of(request or attributes.get("input.value")),
        tools=list(_schemas(attributes)) or None,
        parameters=without_nulls(without(settings, *_READ_ELSEWHERE)),
        answer=answer_in(messages_of(answered) or ()),
        finish_reason=reason,
        usage=usage(attributes, ("llm.token_count.prompt",), ("llm.token_count.completion",), "llm.cost.total"),
    )


def _message(flat: JsonObject) -> JsonObject:
    """Rebuild a message from flattened names such as `message.contents.0.message_content.text`."""
    body = object_in(flat, "message")
    parts: list[Json] = []
    for part in objects_in(body, "contents"):
        if "tool_call" not in part:  # such a part repeats one of the message's calls
            parts.append(_part(object_in(part, "message_content")))
    message = {**without(body, "contents", "tool_calls"), "content": body.get("content", parts or None)}
    calls = [object_in(call, "tool_call") for call in objects_in(body, "tool_calls")]
    if calls:
        message["tool_calls"] = calls
    return message


def _part(content: JsonObject) -> JsonObject:
    """Return a part of a message; images take OpenAI's form, which every reader knows."""
    url = object_in(object_in(content, "image"), "image").get("url")
    if isinstance(url, str):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", **content}


def _schemas(attributes: JsonObject) -> Iterator[Json]:
    for tool in as_objects(unflattened(attributes, "llm.tools.")):
        schema = object_in(tool, "tool").get("json_schema")
        if schema is not None:
            yield load_json(schema)


def _tool(span: Span, attributes: JsonObject) -> Meaning:
    result, call_id, failed = _result(_valued(attributes, "output"))
    documents = unflattened(attributes, "retrieval.documents.")
    return Meaning(
        kind=SpanKind.TOOL,
        name=text_in(attributes, "tool.name", "tool_call.function.name") or span.name,
        call_id=text_in(attributes, "tool_call.id", "tool.id") or call_id,
        input=_arguments(_tool_input(attributes)),
        output=documents or result,
        tool_failed=failed,
    )


def _tool_input(attributes: JsonObject) -> Json:
    """Return the arguments of a tool. `tool.parameters` holds them in spans made by hand; OpenInference's decorators
    write the tool's schema there, and the arguments as the input."""
    called = first(attributes, "tool_call.function.arguments")
    if called is not UNSET:
        return load_json(called)
    value = _valued(attributes, "input")
    parameters = first(attributes, "tool.parameters")
    if isinstance(value, dict) or parameters is UNSET:
        return value
    return load_json(parameters)


def _arguments(arguments: Json) -> Json:
    """Return the keyword arguments, if smolagents recorded how the function was called."""
    if has_object(arguments, "kwargs") and not arguments.get("args"):
        return arguments["kwargs"]
    return arguments


def _result(value: Json) -> tuple[Json, str, bool]:
    """Return a tool's result, call id and failure, unwrapped from LangChain's message."""
    message = message_body(value)
    if message is None or message.get("type") != "tool":
        return value, "", False
    return load_json(message["content"]), text_in(message, "tool_call_id"), message.get("status") == "error"


def _agent(span: Span, attributes: JsonObject) -> Meaning:
    output = _valued(attributes, "output")
    answered = value_in(output, "messages")
    if answered:
        output = text_of(messages_of(answered), "assistant") or output
    return Meaning(
        kind=SpanKind.AGENT,
        name=text_in(attributes, "agent.name", "graph.node.id") or span.name,
        is_agent=text_in(attributes, "openinference.span.kind").upper() == "AGENT",
        input=_agent_input(_valued(attributes, "input")),
        output=output,
    )


def _agent_input(value: Json) -> Json:
    """Return the text if the input is a single user message, else the input."""
    if isinstance(value, dict) and value.keys() == {"messages"}:
        text = only_text(messages_of(value["messages"]))
        if text is not None:
            return text
    if isinstance(value, dict) and value.keys() == {"input"}:
        return value["input"]
    return value


def _valued(attributes: JsonObject, what: str) -> Json:
    """Return `input.value` or `output.value`, decoded if it is or looks like JSON."""
    value = first(attributes, f"{what}.value")
    if attributes.get(f"{what}.mime_type") == "application/json":
        return decode_text(value)
    return load_json(value)
