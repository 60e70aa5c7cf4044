"""Langfuse exports: observations with a type, and input and output in the framework's own form.

Instrumentation adds attributes in the observation's metadata, which often say more: the name of a tool, the id of a
call, or that a span is a tool's at all.
"""

from __future__ import annotations

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.langchain_messages import message_body
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
from replaykit.formats.spans.span import UNSET, Meaning, Span, SpanDialect, SpanKind, first
from replaykit.model.events import Usage
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_object, count_in, list_in, object_in, text_in, value_in

OBSERVATION = "langfuse.export"
"""The attribute of a span that holds its observation."""

_KINDS = {
    "GENERATION": SpanKind.MODEL,
    "TOOL": SpanKind.TOOL,
    "RETRIEVER": SpanKind.TOOL,
    "AGENT": SpanKind.AGENT,
    "CHAIN": SpanKind.AGENT,
    "SPAN": SpanKind.AGENT,
    "EMBEDDING": SpanKind.NOTE,
    "GUARDRAIL": SpanKind.NOTE,
    "EVALUATOR": SpanKind.NOTE,
    "EVENT": SpanKind.NOTE,
}
TYPES = frozenset(_KINDS)
_INSTRUMENTED_KINDS = {
    "AGENT": SpanKind.AGENT,
    "LLM": SpanKind.MODEL,
    "TOOL": SpanKind.TOOL,
    "invoke_agent": SpanKind.AGENT,
    "chat": SpanKind.MODEL,
    "execute_tool": SpanKind.TOOL,
    "ai.toolCall": SpanKind.TOOL,
}
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_call.function.name")
_CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id")
_MODEL_NAMES = ("gen_ai.request.model", "llm.model_name")
_AGENT_NAMES = ("gen_ai.agent.name", "agent_name", "agent.name")
_PREFIXES = ("execute_tool ", "running tool: ", "running tool ")
# Settings that are read elsewhere, or are not part of the request.
_NO_SETTINGS = words_of(
    "tools system_instruction instructions http_options finishReason model id system created_at "
    "completed_at metadata billing background object"
)
_UNSET_VALUES = (None, "Infinity")  # "Infinity" stands for a limit that was not set
_AI_SDK_LOOPS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")


def _read_export(span: Span, _cache: ConversationCache) -> Meaning | None:
    observation = span.attributes.get(OBSERVATION)
    if isinstance(observation, dict):
        return read_observation(span, observation)
    return None


LANGFUSE_EXPORT = SpanDialect("langfuse", OBSERVATION, _read_export)


def read_observation(span: Span, observation: JsonObject) -> Meaning:
    """Return the meaning of an observation, from `span`, which carried it or was made from it."""
    instrumented = _instrumented(observation)
    kind = kind_of(observation)
    if kind is SpanKind.MODEL:
        return _model(observation, instrumented)
    if kind is SpanKind.TOOL:
        return _tool(span, observation, instrumented)
    if kind is SpanKind.AGENT:
        return _agent(span, observation, instrumented)
    return Meaning(kind=SpanKind.NOTE, name=span.name)


def _instrumented(observation: JsonObject) -> JsonObject:
    """Return the attributes that instrumentation wrote beside input and output."""
    return object_in(object_in(observation, "metadata"), "attributes")


def kind_of(observation: JsonObject) -> SpanKind:
    """Return the kind by the observation's type; a plain span may reveal its kind in the instrumentation."""
    kind, instrumented = text_in(observation, "type"), _instrumented(observation)
    if kind == "GENERATION" and instrumented.get("ai.operationId") in _AI_SDK_LOOPS:
        return SpanKind.AGENT
    if kind != "SPAN":
        return _KINDS.get(kind, SpanKind.NOTE)
    for name in ("openinference.span.kind", "gen_ai.operation.name", "ai.operationId"):
        found = _INSTRUMENTED_KINDS.get(text_in(instrumented, name))
        if found is not None:
            return found
    if _tool_message(observation) is not None or text_in(instrumented, *_TOOL_NAMES):
        return SpanKind.TOOL
    return SpanKind.AGENT


def _model(observation: JsonObject, instrumented: JsonObject) -> Meaning:
    request, answered = read_request(observation.get("input")), read_response(observation.get("output"))
    settings = as_object(load_json(observation.get("modelParameters")))
    offered = list(map(load_json, list_in(observation.get("metadata"), "tools")))
    parameters = request.parameters | {name: load_json(value) for name, value in settings.items()}
    for name, value in list(parameters.items()):
        if name in _NO_SETTINGS or value in _UNSET_VALUES:
            del parameters[name]
    return Meaning(
        kind=SpanKind.MODEL,
        name=text_in(observation, "model") or request.model or text_in(instrumented, *_MODEL_NAMES),
        system=request.system or text_in(settings, "instructions") or None,
        messages=request.messages,
        tools=request.tools or offered or offered_tools(observation.get("output")) or _defined(observation),
        parameters=parameters,
        answer=next(iter(answered.answers), None),
        finish_reason=answered.finish_reason or text_in(settings, "finishReason") or None,
        usage=usage_in(observation) or answered.usage,
    )


def _defined(observation: JsonObject) -> Json:
    """Return the tools on offer if the server moved them out of the input: by name, each as JSON text."""
    found = as_object(load_json(observation.get("toolDefinitions")))
    return [as_object(load_json(tool)) | {"name": name} for name, tool in found.items()] or None


def usage_in(observation: JsonObject) -> Usage | None:
    """Return tokens and cost. Some SDKs count cached tokens within the input, others apart: the total tells which."""
    counts = object_in(observation, "usageDetails")
    older = object_in(observation, "usage")
    input_tokens, output, total = count_in(counts, "input"), count_in(counts, "output"), count_in(counts, "total")
    if input_tokens is None:
        input_tokens = count_in(older, "input")
    if output is None:
        output = count_in(older, "output")
    outputs = beside = 0
    for name in counts:
        if name.startswith("output"):
            outputs += count_in(counts, name) or 0
        elif name.startswith(("input_", "cache_")):
            beside += count_in(counts, name) or 0
    if input_tokens is not None and total is not None and input_tokens + (output or 0) < total:
        input_tokens, output = total - outputs, outputs
    elif input_tokens is not None and total is None:
        input_tokens, output = input_tokens + beside, outputs or output
    return stated_usage(input_tokens, output, _cost(observation))


def _cost(observation: JsonObject) -> float | None:
    """Return the cost; None for zero, which Langfuse writes for an unknown price."""
    found = value_in(observation.get("costDetails"), "total")
    if found is None:
        found = value_in(observation, "totalCost", "calculatedTotalCost")
    if type(found) in (int, float) and found > 0:
        return float(found)
    return None


def _tool(span: Span, observation: JsonObject, instrumented: JsonObject) -> Meaning:
    message = _tool_message(observation)
    arguments = _or_else(first(observation, "input"), first(instrumented, "gcp.vertex.agent.tool_call_args"))
    result = _or_else(first(observation, "output"), first(instrumented, "gcp.vertex.agent.tool_response"))
    inputs = value_in(observation.get("metadata"), "inputs")
    if isinstance(inputs, dict) and not isinstance(arguments, dict):
        arguments = inputs
    else:
        arguments = _arguments(arguments)
    if message is not None:
        result = load_json(message["content"])
    return Meaning(
        kind=SpanKind.TOOL,
        name=text_in(instrumented, *_TOOL_NAMES) or _bare(span.name),
        call_id=text_in(instrumented, *_CALL_IDS) or text_in(message, "tool_call_id"),
        input=arguments,
        output=result,
        tool_failed=value_in(message, "status") == "error",
    )


def _or_else(value: Json, other: Json) -> Json:
    """Return the value, or the other if Langfuse left an empty object, as it does with Google's ADK."""
    value = load_json(value)
    if value in ({}, UNSET) and other is not UNSET:
        return load_json(other)
    return value


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _arguments(arguments: Json) -> Json:
    """Return the arguments, which LangSmith's exporter puts under `input`."""
    if isinstance(arguments, dict) and arguments.keys() == {"input"} and isinstance(arguments["input"], dict):
        return arguments["input"]
    return call_arguments(arguments)


def _tool_message(observation: JsonObject) -> JsonObject | None:
    """Return the message that LangChain makes of a tool's result, if there is one."""
    message = message_body(load_json(observation.get("output")))
    if message is not None and message["type"] == "tool" and message.get("tool_call_id"):
        return message
    return None


def _agent(span: Span, observation: JsonObject, instrumented: JsonObject) -> Meaning:
    named = text_in(instrumented, *_AGENT_NAMES)
    is_agent = (
        observation.get("type") == "AGENT" or bool(named) or instrumented.get("openinference.span.kind") == "AGENT"
    )
    return Meaning(
        kind=SpanKind.AGENT,
        name=named or span.name,
        is_agent=is_agent,
        input=agent_input(observation.get("input")),
        output=agent_output(observation.get("output")),
    )


_OF = "langfuse.observation."
_FIELDS = {
    "input": "input",
    "output": "output",
    "model.name": "model",
    "model.parameters": "modelParameters",
    "usage_details": "usageDetails",
    "cost_details": "costDetails",
}
# The SDK's names for counts, and Langfuse's.
_COUNTS = {"prompt_tokens": "input", "completion_tokens": "output", "total_tokens": "total"}


def _read(span: Span, _cache: ConversationCache) -> Meaning | None:
    attributes = span.attributes
    kind = text_in(attributes, f"{_OF}type").upper()
    observation: JsonObject = {"type": kind, "metadata": {"attributes": attributes}}
    for name, field in _FIELDS.items():
        value = attributes.get(_OF + name)
        if value is not None:
            observation[field] = load_json(value)
    counts = object_in(observation, "usageDetails")
    observation["usageDetails"] = {_COUNTS.get(name, name): count for name, count in counts.items()}
    return read_observation(span, observation)


LANGFUSE = SpanDialect("langfuse", f"{_OF}type", _read)
