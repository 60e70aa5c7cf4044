"""Vercel AI SDK, up to version 6: spans of the scope `ai`. From version 7 on it speaks GenAI."""

from __future__ import annotations

from replaykit.importers.messages import messages_of
from replaykit.importers.otel.meaning import UNSET, Heard, Kind, Meaning, decoded, first, loaded, text, usage
from replaykit.importers.otel.span import Span
from replaykit.model.values import Json
from replaykit.wire.call import Answer, ToolUse
from replaykit.wire.fields import as_object, as_objects, as_text, load_arguments

_MODEL = (".doGenerate", ".doStream")
_SETTINGS = "ai.settings."


class Vercel:
    """Reads spans with an `ai.operationId`."""

    name = "vercel"
    mark = "ai.operationId"

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        said = span.attributes
        operation = text(said, "ai.operationId")
        if not operation.startswith("ai."):
            return None
        if operation == "ai.toolCall":
            return _tool(said)
        if operation.endswith(_MODEL):
            return _model(said, heard)
        if operation.startswith(("ai.embed", "ai.rerank")):
            return Meaning(kind=Kind.NOTE, name=operation)
        return _agent(span, said)


def _tool(said: dict[str, Json]) -> Meaning:
    return Meaning(
        kind=Kind.TOOL,
        name=text(said, "ai.toolCall.name"),
        call_id=text(said, "ai.toolCall.id"),
        input=decoded(first(said, "ai.toolCall.args", "ai.toolCall.input")),
        output=decoded(first(said, "ai.toolCall.result", "ai.toolCall.output")),
    )


def _model(said: dict[str, Json], heard: Heard) -> Meaning:
    calls = as_objects(loaded(said.get("ai.response.toolCalls")))
    spoken = text(said, "ai.response.text", "ai.response.object")
    answered = spoken or calls or "ai.response.finishReason" in said
    tools = said.get("ai.prompt.tools")
    return Meaning(
        kind=Kind.MODEL,
        name=text(said, "ai.model.id", "gen_ai.request.model"),
        messages=messages_of(said.get("ai.prompt.messages"), heard),
        tools=[loaded(tool) for tool in tools] if isinstance(tools, list) else None,
        parameters=_parameters(said),
        answer=Answer(content=spoken or None, tool_calls=tuple(map(_call, calls))) if answered else None,
        finish_reason=text(said, "ai.response.finishReason") or None,
        usage=usage(
            said,
            ("ai.usage.inputTokens", "ai.usage.promptTokens", "gen_ai.usage.input_tokens"),
            ("ai.usage.outputTokens", "ai.usage.completionTokens", "gen_ai.usage.output_tokens"),
        ),
    )


def _call(call: dict[str, Json]) -> ToolUse:
    given = first(call, "input", "args")
    return ToolUse(
        id=as_text(call.get("toolCallId")),
        name=as_text(call.get("toolName")),
        arguments=load_arguments(given) if isinstance(given, str) else {} if given is UNSET else given,
    )


def _parameters(said: dict[str, Json]) -> dict[str, Json]:
    names = (name for name in said if name.startswith(_SETTINGS))
    return {name.removeprefix(_SETTINGS): said[name] for name in sorted(names)}


def _agent(span: Span, said: dict[str, Json]) -> Meaning:
    return Meaning(
        kind=Kind.AGENT,
        name=text(said, "ai.telemetry.functionId", "resource.name") or span.name,
        input=_given(loaded(first(said, "ai.prompt"))),
        output=loaded(first(said, "ai.response.text", "ai.response.object")),
    )


def _given(prompt: Json) -> Json:
    asked = as_object(prompt)
    if isinstance(asked.get("prompt"), str):
        return asked["prompt"]
    messages = messages_of(asked.get("messages") or asked.get("prompt"))
    if messages and len(messages) == 1 and isinstance(messages[0].get("content"), str):
        return messages[0]["content"]
    return messages or prompt
