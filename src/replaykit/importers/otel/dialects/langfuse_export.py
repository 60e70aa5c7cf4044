"""Langfuse, as it exports its observations: each has a type, and an input and an output as the framework had them.

What instrumentation wrote beside them is kept in the observation's metadata, and often says more: the name of a tool,
the id of a call, that a span is a tool's at all.
"""

from __future__ import annotations

from replaykit.importers.langsmith.messages import message_body
from replaykit.importers.otel.dialects.contents import asked_in, gave_in, given_in, offered_in, told_in
from replaykit.importers.otel.dialects.traceloop import called_with
from replaykit.importers.otel.meaning import UNSET, Heard, Kind, Meaning, first, loaded, text
from replaykit.importers.otel.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json
from replaykit.wire.fields import as_count, as_object, as_text, without

OBSERVATION = "langfuse.export"
"""The attribute of a span that holds its observation."""

_KINDS = {
    "GENERATION": Kind.MODEL,
    "TOOL": Kind.TOOL,
    "RETRIEVER": Kind.TOOL,
    "AGENT": Kind.AGENT,
    "CHAIN": Kind.AGENT,
    "SPAN": Kind.AGENT,
    "EMBEDDING": Kind.NOTE,
    "GUARDRAIL": Kind.NOTE,
    "EVALUATOR": Kind.NOTE,
    "EVENT": Kind.NOTE,
}
TYPES = frozenset(_KINDS)
_SAID_KINDS = {
    "AGENT": Kind.AGENT,
    "LLM": Kind.MODEL,
    "TOOL": Kind.TOOL,
    "invoke_agent": Kind.AGENT,
    "chat": Kind.MODEL,
    "execute_tool": Kind.TOOL,
    "ai.toolCall": Kind.TOOL,
}
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_call.function.name")
_CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id")
_AGENT_NAMES = ("gen_ai.agent.name", "agent_name", "agent.name")
_PREFIXES = ("execute_tool ", "running tool: ", "running tool ")
_NO_SETTINGS = (
    *("tools", "system_instruction", "instructions", "http_options", "finishReason", "model", "id", "system"),
    *("created_at", "completed_at", "metadata", "billing", "background", "object"),
)
"""What is told apart, or says nothing of what was asked."""
_UNSAID = (None, "Infinity")  # the latter for a limit that was not set
_AI_SDK_LOOPS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")


class LangfuseExport:
    """Reads spans that were observations of an export."""

    name = "langfuse"
    mark = OBSERVATION

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        own = span.attributes.get(OBSERVATION)
        if not isinstance(own, dict):
            return None
        said = _beside(own)
        kind = kind_of(own)
        if kind is Kind.MODEL:
            return _model(own, said)
        if kind is Kind.TOOL:
            return _tool(span, own, said)
        if kind is Kind.AGENT:
            return _agent(span, own, said)
        return Meaning(kind=Kind.NOTE, name=span.name)


def _beside(own: dict[str, Json]) -> dict[str, Json]:
    """What instrumentation wrote beside input and output."""
    return as_object(as_object(own.get("metadata")).get("attributes"))


def kind_of(own: dict[str, Json]) -> Kind:
    """By its type; what is typed as no more than a span may be known by what is beside it."""
    kind, said = as_text(own.get("type")), _beside(own)
    if kind == "GENERATION" and said.get("ai.operationId") in _AI_SDK_LOOPS:
        return Kind.AGENT
    if kind != "SPAN":
        return _KINDS.get(kind, Kind.NOTE)
    names = ("openinference.span.kind", "gen_ai.operation.name", "ai.operationId")
    found = next((_SAID_KINDS[word] for name in names if (word := as_text(said.get(name))) in _SAID_KINDS), None)
    if found is not None:
        return found
    return Kind.TOOL if _tool_message(own) is not None or text(said, *_TOOL_NAMES) else Kind.AGENT


def _model(own: dict[str, Json], said: dict[str, Json]) -> Meaning:
    asked, answered = asked_in(own.get("input")), told_in(own.get("output"))
    settings = as_object(loaded(own.get("modelParameters")))
    metadata = as_object(own.get("metadata"))
    offered = [loaded(tool) for tool in metadata["tools"]] if isinstance(metadata.get("tools"), list) else None
    instructions = as_text(settings.get("instructions")) or None
    parameters = asked.parameters | {name: loaded(value) for name, value in settings.items()}
    return Meaning(
        kind=Kind.MODEL,
        name=as_text(own.get("model")) or asked.model or text(said, "gen_ai.request.model", "llm.model_name"),
        system=asked.system or instructions,
        messages=asked.messages,
        tools=asked.tools or offered or offered_in(own.get("output")) or _defined(own),
        parameters={n: value for n, value in without(parameters, *_NO_SETTINGS).items() if value not in _UNSAID},
        answer=answered.answers[0] if answered.answers else None,
        finish_reason=answered.finish_reason or as_text(settings.get("finishReason")) or None,
        usage=usage_in(own) or answered.usage,
    )


def _defined(own: dict[str, Json]) -> Json:
    """The tools on offer, where the server took them out of the input: by name, each as JSON text."""
    found = as_object(loaded(own.get("toolDefinitions")))
    return [as_object(loaded(tool)) | {"name": name} for name, tool in found.items()] or None


def usage_in(own: dict[str, Json]) -> Usage | None:
    """Tokens and money. Some count what was cached within the input, some beside it: the total tells which."""
    counts = {name: as_count(value) for name, value in as_object(own.get("usageDetails")).items()}
    counted = {name: count for name, count in counts.items() if count is not None}
    older = as_object(own.get("usage"))
    given = counted.get("input", as_count(older.get("input")))
    output = counted.get("output", as_count(older.get("output")))
    total = counted.get("total")
    outputs = sum(count for name, count in counted.items() if name.startswith("output"))
    beside = sum(count for name, count in counted.items() if name.startswith(("input_", "cache_")))
    if given is not None and total is not None and given + (output or 0) < total:
        given, output = total - outputs, outputs
    elif given is not None and total is None:
        given, output = given + beside, outputs or output
    usage = Usage(input_tokens=given, output_tokens=output, cost_usd=_cost(own))
    return None if usage == Usage() else usage


def _cost(own: dict[str, Json]) -> float | None:
    """What it cost; zero is what Langfuse writes where it knows no price."""
    found = first(as_object(own.get("costDetails")), "total")
    found = first(own, "totalCost", "calculatedTotalCost") if found is UNSET else found
    return float(found) if type(found) in (int, float) and found > 0 else None


def _tool(span: Span, own: dict[str, Json], said: dict[str, Json]) -> Meaning:
    message = _tool_message(own)
    given = _or_else(first(own, "input"), first(said, "gcp.vertex.agent.tool_call_args"))
    result = _or_else(first(own, "output"), first(said, "gcp.vertex.agent.tool_response"))
    inputs = as_object(own.get("metadata")).get("inputs")
    return Meaning(
        kind=Kind.TOOL,
        name=text(said, *_TOOL_NAMES) or _bare(span.name),
        call_id=text(said, *_CALL_IDS) or as_text((message or {}).get("tool_call_id")),
        input=inputs if isinstance(inputs, dict) and not isinstance(given, dict) else _arguments(given),
        output=result if message is None else loaded(message["content"]),
        tool_failed=message is not None and message.get("status") == "error",
    )


def _or_else(value: Json, other: Json) -> Json:
    """The value; the other where Langfuse has put an empty object in its place, as it does with Google's ADK."""
    value = loaded(value)
    return loaded(other) if value in ({}, UNSET) and other is not UNSET else value


def _bare(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)


def _arguments(given: Json) -> Json:
    """The arguments; LangSmith's exporter puts them under `input`."""
    if isinstance(given, dict) and given.keys() == {"input"} and isinstance(given["input"], dict):
        return given["input"]
    return called_with(given)


def _tool_message(own: dict[str, Json]) -> dict[str, Json] | None:
    """The message that LangChain makes of a tool's result."""
    message = message_body(loaded(own.get("output")))
    return message if message is not None and message["type"] == "tool" and message.get("tool_call_id") else None


def _agent(span: Span, own: dict[str, Json], said: dict[str, Json]) -> Meaning:
    named = text(said, *_AGENT_NAMES)
    is_agent = own.get("type") == "AGENT" or bool(named) or said.get("openinference.span.kind") == "AGENT"
    return Meaning(
        kind=Kind.AGENT,
        name=named or span.name,
        is_agent=is_agent,
        input=given_in(own.get("input")),
        output=gave_in(own.get("output")),
    )
