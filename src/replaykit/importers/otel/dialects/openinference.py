"""OpenInference: Phoenix and its instrumentations. Lists are flattened into the names of attributes."""

from __future__ import annotations

from replaykit.importers.langsmith.messages import message_body
from replaykit.importers.messages import answer_in, messages_of, text_of
from replaykit.importers.otel.meaning import (
    UNSET,
    Heard,
    Kind,
    Meaning,
    decoded,
    first,
    loaded,
    text,
    unflattened,
    usage,
)
from replaykit.importers.otel.span import Span
from replaykit.model.values import Json
from replaykit.wire.fields import as_object, as_objects, as_text, without

_KINDS = {
    "LLM": Kind.MODEL,
    "TOOL": Kind.TOOL,
    "RETRIEVER": Kind.TOOL,
    "AGENT": Kind.AGENT,
    "CHAIN": Kind.AGENT,
    "EMBEDDING": Kind.NOTE,
    "RERANKER": Kind.NOTE,
    "GUARDRAIL": Kind.NOTE,
    "EVALUATOR": Kind.NOTE,
}
_TOLD_APART = ("model", "model_name", "tools", "stream", "_type", "messages")


class OpenInference:
    """Reads spans with an `openinference.span.kind`."""

    name = "openinference"
    mark = "openinference.span.kind"

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        said = span.attributes
        kind = _KINDS.get(text(said, "openinference.span.kind").upper())
        if kind is Kind.MODEL:
            return _model(said)
        if kind is Kind.TOOL:
            return _tool(span, said)
        if kind is Kind.AGENT:
            return _agent(span, said)
        return None if kind is None else Meaning(kind=kind, name=span.name)


def _model(said: dict[str, Json]) -> Meaning:
    asked = [_message(m) for m in as_objects(unflattened(said, "llm.input_messages."))]
    answered = [_message(m) for m in as_objects(unflattened(said, "llm.output_messages."))]
    settings = as_object(loaded(said.get("llm.invocation_parameters")))
    choices = as_objects(as_object(loaded(said.get("output.value"))).get("choices"))
    return Meaning(
        kind=Kind.MODEL,
        name=as_text(settings.get("model")) or text(said, "llm.model_name"),
        messages=messages_of(asked) if asked else messages_of(said.get("input.value")),
        tools=[loaded(item) for item in _schemas(said)] or None,
        parameters={name: value for name, value in without(settings, *_TOLD_APART).items() if value is not None},
        answer=answer_in(messages_of(answered) or ()),
        finish_reason=text(said, "llm.finish_reason") or next((as_text(c.get("finish_reason")) for c in choices), None),
        usage=usage(said, ("llm.token_count.prompt",), ("llm.token_count.completion",), "llm.cost.total"),
    )


def _message(flat: dict[str, Json]) -> dict[str, Json]:
    """A message out of the flattened names: `message.contents.0.message_content.text` and the like."""
    body = as_object(flat.get("message"))
    parts = [_part(as_object(part.get("message_content"))) for part in as_objects(body.get("contents"))]
    calls = [as_object(call.get("tool_call")) for call in as_objects(body.get("tool_calls"))]
    said = {**without(body, "contents", "tool_calls"), "content": body.get("content", parts or None)}
    return said | {"tool_calls": calls} if calls else said


def _part(content: dict[str, Json]) -> dict[str, Json]:
    return {"type": "text", **content}


def _schemas(said: dict[str, Json]) -> list[Json]:
    tools = as_objects(unflattened(said, "llm.tools."))
    return [found for tool in tools if (found := as_object(tool.get("tool")).get("json_schema")) is not None]


def _tool(span: Span, said: dict[str, Json]) -> Meaning:
    result, call_id, failed = _result(_valued(said, "output"))
    documents = unflattened(said, "retrieval.documents.")
    given = first(said, "tool.parameters", "tool_call.function.arguments")
    given = _valued(said, "input") if given is UNSET else loaded(given)
    return Meaning(
        kind=Kind.TOOL,
        name=text(said, "tool.name", "tool_call.function.name") or span.name,
        call_id=text(said, "tool_call.id", "tool.id") or call_id,
        input=_arguments(given),
        output=documents or result,
        tool_failed=failed,
    )


def _arguments(given: Json) -> Json:
    """smolagents writes how the function was called: its keyword arguments are what counts."""
    if isinstance(given, dict) and isinstance(given.get("kwargs"), dict) and not given.get("args"):
        return given["kwargs"]
    return given


def _result(value: Json) -> tuple[Json, str, bool]:
    """A tool's result, out of the message that LangChain makes of it."""
    message = message_body(value)
    if message is None or message.get("type") != "tool":
        return value, "", False
    return loaded(message["content"]), as_text(message.get("tool_call_id")), message.get("status") == "error"


def _agent(span: Span, said: dict[str, Json]) -> Meaning:
    output = _valued(said, "output")
    held = as_object(output).get("messages")
    return Meaning(
        kind=Kind.AGENT,
        name=text(said, "agent.name", "graph.node.id") or span.name,
        is_agent=text(said, "openinference.span.kind").upper() == "AGENT",
        input=_given(_valued(said, "input")),
        output=(text_of(messages_of(held), "assistant") or output) if held else output,
    )


def _given(value: Json) -> Json:
    """A text where the input is one message of a user, else as it is."""
    if isinstance(value, dict) and value.keys() == {"messages"}:
        messages = messages_of(value["messages"]) or []
        if len(messages) == 1 and isinstance(messages[0].get("content"), str):
            return messages[0]["content"]
    if isinstance(value, dict) and value.keys() == {"input"}:
        return value["input"]
    return value


def _valued(said: dict[str, Json], what: str) -> Json:
    """`input.value` or `output.value`: JSON where it says so, else JSON where it looks like it."""
    value = first(said, f"{what}.value")
    return decoded(value) if said.get(f"{what}.mime_type") == "application/json" else loaded(value)
