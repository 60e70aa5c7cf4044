"""MLflow: spans with a type, and their inputs and outputs as the traced library had them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.members import count_in, object_in, text_in, value_in
from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.spans.dialects.payloads import (
    agent_input,
    agent_output,
    call_arguments,
    offered_tools,
    read_request,
    read_response,
)
from replaykit.formats.spans.meaning import UNSET, Meaning, SpanKind, first
from replaykit.formats.spans.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json, encode
from replaykit.wire import anthropic, openai_chat, openai_responses
from replaykit.wire.dialect import WireResponse
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_object
from replaykit.wire.model_calls import ModelAnswer

ATTRIBUTES = "mlflow.export"
"""The attribute of a span that holds all of its attributes, decoded."""

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
"""Span types of MLflow; any other (embeddings, parsers, memory, guardrails, judges) is kept as a note."""
_CHUNK = re.compile(r"mlflow\.chunk\.item\.(\d{1,9})")
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


class MLflow:
    """Reads spans that were MLflow's."""

    name = "mlflow"
    mark = ATTRIBUTES

    def read(self, span: Span, cache: ConversationCache) -> Meaning | None:
        attributes = span.attributes.get(ATTRIBUTES)
        if not isinstance(attributes, dict):
            return None
        kind = _KINDS.get((text_in(attributes, "mlflow.spanType") or "UNKNOWN").upper(), SpanKind.NOTE)
        inputs, output = first(attributes, "mlflow.spanInputs"), first(attributes, "mlflow.spanOutputs")
        if kind is SpanKind.MODEL:
            return _model(span, attributes, inputs, output)
        if kind is SpanKind.TOOL:
            return Meaning(kind=kind, name=span.name, input=call_arguments(load_json(inputs)), output=load_json(output))
        if kind is SpanKind.NOTE:
            return Meaning(kind=kind, name=span.name)
        return Meaning(
            kind=kind,
            name=span.name,
            is_agent=attributes.get("mlflow.spanType") == "AGENT",
            input=UNSET if inputs is UNSET else agent_input(inputs),
            output=UNSET if output is UNSET else agent_output(output),
        )


def _model(span: Span, attributes: dict[str, Json], inputs: Json, output: Json) -> Meaning:
    request = read_request(None if inputs is UNSET else inputs)
    response = _streamed(span) or read_response(None if output is UNSET else output)
    return Meaning(
        kind=SpanKind.MODEL,
        name=request.model or text_in(attributes, "mlflow.llm.model", "model") or response.model,
        system=request.system,
        messages=request.messages,
        tools=request.tools or load_json(attributes.get("mlflow.chat.tools")) or offered_tools(output),
        parameters=request.parameters or object_in(attributes, "invocation_params"),
        answer=response.answers[0] if response.answers else None,
        finish_reason=response.finish_reason,
        usage=_usage(attributes) or response.usage,
    )


def _usage(attributes: dict[str, Json]) -> Usage | None:
    """Tokens and money; Anthropic counts what was cached beside the input, the others within it."""
    counts = as_object(load_json(attributes.get("mlflow.chat.tokenUsage")))
    input_tokens, output = count_in(counts, "input_tokens"), count_in(counts, "output_tokens")
    if input_tokens is not None and attributes.get("mlflow.message.format") == "anthropic":
        input_tokens += sum(count_in(counts, name) or 0 for name in _BESIDE)
    cost = value_in(load_json(attributes.get("mlflow.llm.cost")), "total_cost")
    usage = Usage(input_tokens=input_tokens, output_tokens=output, cost_usd=cost if isinstance(cost, float) else None)
    if usage == Usage():
        return None
    return usage


def _streamed(span: Span) -> WireResponse | None:
    """Return the response that the chunks of a stream add up to; outputs may lack its tool calls."""
    found = [(int(match[1]), h) for h in span.happenings if (match := _CHUNK.fullmatch(h.name))]
    ordered = [happening for _number, happening in sorted(found, key=lambda item: item[0])]
    chunks = [load_json(happening.attributes.get("mlflow.chunk.value")) for happening in ordered]
    response = _folded(chunks) if chunks else None
    if response is not None and response.answers:
        return response
    return None


def _folded(chunks: Sequence[Json]) -> WireResponse | None:
    if all(isinstance(chunk, str) for chunk in chunks):
        return WireResponse(answers=(ModelAnswer(content="".join(chunks) or None),))
    bodies = [chunk for chunk in chunks if isinstance(chunk, dict)]
    frames = [Frame(encode(chunk), text_in(chunk, "type")) for chunk in bodies]
    if any(isinstance(chunk.get("choices"), list) for chunk in bodies):
        dialect = openai_chat.DIALECT
    elif any(text_in(chunk, "type").startswith("response.") for chunk in bodies):
        dialect = openai_responses.DIALECT
    elif any(chunk.get("type") == "message_start" for chunk in bodies):
        dialect = anthropic.DIALECT
    else:
        return None
    folded = dialect.fold(frames)
    response = dialect.read_response(folded.body)
    return msgspec.structs.replace(response, complete=folded.ended and response.complete)
