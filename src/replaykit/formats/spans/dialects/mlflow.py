"""MLflow: spans with a type, and inputs and outputs in the traced library's own form."""

from __future__ import annotations

import re

from msgspec.structs import replace

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.core.replayability import stated_usage
from replaykit.formats.spans.dialects.payloads import (
    agent_input,
    agent_output,
    call_arguments,
    offered_tools,
    read_request,
    read_response,
)
from replaykit.formats.spans.span import Meaning, Span, SpanDialect, SpanKind, first
from replaykit.model.events import Usage
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire import anthropic, openai_chat, openai_responses
from replaykit.wire.dialect import ApiDialect, WireResponse
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_objects, count_in, has_list, object_in, text_in, value_in
from replaykit.wire.model_calls import ModelAnswer

ATTRIBUTES = "mlflow.export"
"""The attribute of a span that holds all of its decoded attributes."""

# MLflow's span types. All others (embeddings, parsers, memory, guardrails, judges) become notes.
_KINDS = {
    "AGENT": SpanKind.AGENT,
    "CHAIN": SpanKind.AGENT,
    "WORKFLOW": SpanKind.AGENT,
    "TASK": SpanKind.AGENT,
    "UNKNOWN": SpanKind.AGENT,
    "CHAT_MODEL": SpanKind.MODEL,
    "LLM": SpanKind.MODEL,
    "TOOL": SpanKind.TOOL,
    "RETRIEVER": SpanKind.TOOL,
}
_CHUNK = re.compile(r"mlflow\.chunk\.item\.(\d{1,9})")
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


def _read(span: Span, _cache: ConversationCache) -> Meaning | None:
    attributes = span.attributes.get(ATTRIBUTES)
    if not isinstance(attributes, dict):
        return None
    kind = _KINDS.get((text_in(attributes, "mlflow.spanType") or "UNKNOWN").upper(), SpanKind.NOTE)
    inputs, output = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    if kind is SpanKind.MODEL:
        return _model(span, attributes, inputs, output)
    if kind is SpanKind.NOTE:
        return Meaning(kind=kind, name=span.name)
    if kind is SpanKind.TOOL:
        arguments = call_arguments(load_json(first(attributes, "mlflow.spanInputs")))
        result = load_json(first(attributes, "mlflow.spanOutputs"))
        return Meaning(kind=kind, name=span.name, input=arguments, output=result)
    return Meaning(
        kind=kind,
        name=span.name,
        is_agent=attributes.get("mlflow.spanType") == "AGENT",
        input=agent_input(inputs),
        output=agent_output(output),
    )


MLFLOW = SpanDialect("mlflow", ATTRIBUTES, _read)


def _model(span: Span, attributes: JsonObject, inputs: Json, output: Json) -> Meaning:
    request = read_request(inputs)
    response = _streamed(span) or read_response(output)
    return Meaning(
        kind=SpanKind.MODEL,
        name=request.model or text_in(attributes, "mlflow.llm.model", "model") or response.model,
        system=request.system,
        messages=request.messages,
        tools=request.tools or load_json(attributes.get("mlflow.chat.tools")) or offered_tools(output),
        parameters=request.parameters or object_in(attributes, "invocation_params"),
        answer=next(iter(response.answers), None),
        finish_reason=response.finish_reason,
        usage=_usage(attributes) or response.usage,
    )


def _usage(attributes: JsonObject) -> Usage | None:
    """Return tokens and cost. Anthropic counts cached tokens apart from the input; the others include them."""
    counts = load_json(attributes.get("mlflow.chat.tokenUsage"))
    input_tokens = count_in(counts, "input_tokens")
    if input_tokens is not None and attributes.get("mlflow.message.format") == "anthropic":
        for name in _BESIDE:
            input_tokens += count_in(counts, name) or 0
    cost = value_in(load_json(attributes.get("mlflow.llm.cost")), "total_cost")
    if not isinstance(cost, float):
        cost = None
    return stated_usage(input_tokens, count_in(counts, "output_tokens"), cost)


def _streamed(span: Span) -> WireResponse | None:
    """Join the chunks of a stream into a response; the span's outputs may lack the tool calls."""
    numbered: list[tuple[int, Json]] = []
    for happening in span.happenings:
        match = _CHUNK.fullmatch(happening.name)
        if match:
            numbered.append((int(match[1]), happening.attributes.get("mlflow.chunk.value")))
    if not numbered:
        return None
    numbered.sort(key=lambda pair: pair[0])
    response = _folded([load_json(chunk) for _number, chunk in numbered])
    if response is None or not response.answers:
        return None
    return response


def _folded(chunks: list[Json]) -> WireResponse | None:
    bodies = as_objects(chunks)
    if not bodies:
        texts = [chunk for chunk in chunks if isinstance(chunk, str)]
        if len(texts) < len(chunks):
            return None
        return WireResponse(answers=(ModelAnswer(content="".join(texts) or None),))
    dialect: ApiDialect | None = None
    for body in bodies:
        kind = text_in(body, "type")
        if has_list(body, "choices"):
            dialect = openai_chat.DIALECT
        elif kind.startswith("response."):
            dialect = openai_responses.DIALECT
        elif kind == "message_start":
            dialect = anthropic.DIALECT
        if dialect is not None:
            break
    else:
        return None
    folded = dialect.fold([Frame(encode(body), text_in(body, "type")) for body in bodies])
    response = dialect.read_response(folded.body)
    return replace(response, complete=folded.ended and response.complete)
