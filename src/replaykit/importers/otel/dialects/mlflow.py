"""MLflow: spans with a type, and their inputs and outputs as the traced library had them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from replaykit.importers.otel.dialects.contents import asked_in, gave_in, given_in, offered_in, told_in
from replaykit.importers.otel.dialects.traceloop import called_with
from replaykit.importers.otel.meaning import UNSET, Heard, Kind, Meaning, first, loaded
from replaykit.importers.otel.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json, encode
from replaykit.wire import anthropic, openai_chat, openai_responses
from replaykit.wire.call import Answer
from replaykit.wire.dialect import Told
from replaykit.wire.fields import as_count, as_object, as_text
from replaykit.wire.frames import Frame

ATTRIBUTES = "mlflow.export"
"""The attribute of a span that holds all of its attributes, decoded."""

_KINDS = {
    "AGENT": Kind.AGENT,
    "CHAIN": Kind.AGENT,
    "WORKFLOW": Kind.AGENT,
    "TASK": Kind.AGENT,
    "UNKNOWN": Kind.AGENT,
    "CHAT_MODEL": Kind.MODEL,
    "LLM": Kind.MODEL,
    "TOOL": Kind.TOOL,
    "RETRIEVER": Kind.TOOL,
}
"""What else there is (embeddings, parsers, memory, guardrails, judges) is kept as notes."""
_CHUNK = re.compile(r"mlflow\.chunk\.item\.(\d{1,9})")
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


class MLflow:
    """Reads spans that were MLflow's."""

    name = "mlflow"
    mark = ATTRIBUTES

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        own = span.attributes.get(ATTRIBUTES)
        if not isinstance(own, dict):
            return None
        kind = _KINDS.get((as_text(own.get("mlflow.spanType")) or "UNKNOWN").upper(), Kind.NOTE)
        given, output = first(own, "mlflow.spanInputs"), first(own, "mlflow.spanOutputs")
        if kind is Kind.MODEL:
            return _model(span, own, given, output)
        if kind is Kind.TOOL:
            return Meaning(kind=kind, name=span.name, input=called_with(loaded(given)), output=loaded(output))
        if kind is Kind.NOTE:
            return Meaning(kind=kind, name=span.name)
        return Meaning(
            kind=kind,
            name=span.name,
            is_agent=own.get("mlflow.spanType") == "AGENT",
            input=UNSET if given is UNSET else given_in(given),
            output=UNSET if output is UNSET else gave_in(output),
        )


def _model(span: Span, own: dict[str, Json], given: Json, output: Json) -> Meaning:
    asked = asked_in(None if given is UNSET else given)
    answered = _streamed(span) or told_in(None if output is UNSET else output)
    return Meaning(
        kind=Kind.MODEL,
        name=asked.model or as_text(own.get("mlflow.llm.model")) or as_text(own.get("model")) or answered.model,
        system=asked.system,
        messages=asked.messages,
        tools=asked.tools or loaded(own.get("mlflow.chat.tools")) or offered_in(output),
        parameters=asked.parameters or as_object(own.get("invocation_params")),
        answer=answered.answers[0] if answered.answers else None,
        finish_reason=answered.finish_reason,
        usage=_usage(own) or answered.usage,
    )


def _usage(own: dict[str, Json]) -> Usage | None:
    """Tokens and money; Anthropic counts what was cached beside the input, the others within it."""
    counts = as_object(loaded(own.get("mlflow.chat.tokenUsage")))
    given, output = as_count(counts.get("input_tokens")), as_count(counts.get("output_tokens"))
    if given is not None and own.get("mlflow.message.format") == "anthropic":
        given += sum(as_count(counts.get(name)) or 0 for name in _BESIDE)
    cost = as_object(loaded(own.get("mlflow.llm.cost"))).get("total_cost")
    usage = Usage(input_tokens=given, output_tokens=output, cost_usd=cost if isinstance(cost, float) else None)
    return None if usage == Usage() else usage


def _streamed(span: Span) -> Told | None:
    """What the chunks of a stream say together: more than the outputs do, which may lack the calls of tools."""
    found = [(int(match[1]), h) for h in span.happenings if (match := _CHUNK.fullmatch(h.name))]
    ordered = [happening for _number, happening in sorted(found, key=lambda item: item[0])]
    chunks = [loaded(happening.attributes.get("mlflow.chunk.value")) for happening in ordered]
    told = _folded(chunks) if chunks else None
    return told if told is not None and told.answers else None


def _folded(chunks: Sequence[Json]) -> Told | None:
    if all(isinstance(chunk, str) for chunk in chunks):
        return Told(answers=(Answer(content="".join(chunks) or None),))
    bodies = [chunk for chunk in chunks if isinstance(chunk, dict)]
    frames = [Frame(encode(chunk), as_text(chunk.get("type"))) for chunk in bodies]
    if any(isinstance(chunk.get("choices"), list) for chunk in bodies):
        dialect = openai_chat.DIALECT
    elif any(as_text(chunk.get("type")).startswith("response.") for chunk in bodies):
        dialect = openai_responses.DIALECT
    elif any(chunk.get("type") == "message_start" for chunk in bodies):
        dialect = anthropic.DIALECT
    else:
        return None
    folded = dialect.fold(frames)
    told = dialect.tell(folded.body)
    return msgspec.structs.replace(told, complete=folded.ended and told.complete)
