"""GenAI: the conventions of OpenTelemetry, from their first names to the latest, and Pydantic AI's words beside them.

Messages stand in attributes of the span, in events of it, or in log records that name it.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.importers.messages import answer_in, messages_of, text_of
from replaykit.importers.otel.meaning import UNSET, Heard, Kind, Meaning, first, loaded, text, unflattened, usage
from replaykit.importers.otel.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json
from replaykit.wire.fields import as_object, as_objects, as_text

_KINDS = {
    "execute_tool": Kind.TOOL,
    "retrieval": Kind.TOOL,
    "invoke_agent": Kind.AGENT,
    "invoke_workflow": Kind.AGENT,
    "agent_step": Kind.STEP,
    "chat": Kind.MODEL,
    "generate_content": Kind.MODEL,
    "text_completion": Kind.MODEL,
    "completion": Kind.MODEL,
    "responses": Kind.MODEL,
    "embeddings": Kind.NOTE,
    "create_agent": Kind.NOTE,
}
_REQUEST = "gen_ai.request."
_MODEL = "gen_ai.request.model"
_DETAILS = "gen_ai.client.inference.operation.details"
_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")


class GenAI:
    """Reads spans that follow the GenAI conventions."""

    name = "genai"
    mark = ""

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        own = span.attributes
        kind = _KINDS.get(text(own, "gen_ai.operation.name")) or _guessed(own)
        if kind is None:
            return None
        said = own | _details(span) if span.happenings else own
        if kind is Kind.MODEL:
            return _model(span, said, heard)
        if kind is Kind.TOOL:
            return _tool(span, said)
        if kind is Kind.AGENT:
            return _agent(span, said, heard)
        return Meaning(kind=kind, name=span.name)


def _guessed(own: dict[str, Json]) -> Kind | None:
    """Spans of the first versions name no operation."""
    if "gen_ai.tool.name" in own:
        return Kind.TOOL
    asked = _MODEL in own or "llm.request.type" in own
    return Kind.MODEL if asked and ("gen_ai.system" in own or "gen_ai.provider.name" in own) else None


def _details(span: Span) -> dict[str, Json]:
    """What an event of the span says that its attributes may not."""
    return {
        name: value
        for happening in span.happenings
        if happening.name == _DETAILS
        for name, value in happening.attributes.items()
        if name not in span.attributes
    }


def _model(span: Span, said: dict[str, Json], heard: Heard) -> Meaning:
    asked, answered = _conversation(span, said, heard)
    reasons = first(said, "gen_ai.response.finish_reasons")
    return Meaning(
        kind=Kind.MODEL,
        name=text(said, _MODEL, "gen_ai.response.model"),
        system=_system(said),
        messages=asked,
        tools=_tools(said, heard),
        parameters=_parameters(said),
        answer=answer_in(answered or ()),
        finish_reason=_reason(reasons) or _reason_in(loaded(said.get("gen_ai.output.messages"))) or _chosen(span),
        usage=usage_of(said),
    )


def usage_of(said: dict[str, Json]) -> Usage | None:
    """Tokens and money of one call."""
    return usage(said, _INPUT_TOKENS, _OUTPUT_TOKENS, "operation.cost", "gen_ai.usage.cost")


def _conversation(span: Span, said: dict[str, Json], heard: Heard) -> tuple[list[Json] | None, list[Json] | None]:
    """What was asked and what was answered, from where the span has it."""
    asked = messages_of(said.get("gen_ai.input.messages"), heard)
    answered = messages_of(said.get("gen_ai.output.messages"))
    if asked is None and answered is None:
        told = list(_told(span))
        asked = [message for message, is_answer in told if not is_answer] or None
        answered = [message for message, is_answer in told if is_answer] or None
    if asked is None and answered is None:
        asked = messages_of(unflattened(said, "gen_ai.prompt.") or _content(span, "prompt"))
        answered = messages_of(unflattened(said, "gen_ai.completion.") or _content(span, "completion"))
    return asked, answered


def _told(span: Span) -> Iterator[tuple[Json, bool]]:
    """The messages in events and log records, each with whether it is the answer."""
    for happening in span.happenings:
        body = as_object(happening.body) or happening.attributes
        role = _ROLES.get(happening.name)
        if role is not None:
            yield from ((message, False) for message in messages_of([_message(role, body)]) or ())
        elif happening.name == "gen_ai.choice":
            said = as_object(loaded(body.get("message"))) or body
            yield from ((message, True) for message in messages_of([_message("assistant", said)]) or ())


def _message(role: str, body: dict[str, Json]) -> dict[str, Json]:
    said = {**body, "role": as_text(body.get("role")) or role, "content": body.get("content")}
    if isinstance(body.get("tool_calls"), str):
        said["tool_calls"] = loaded(body["tool_calls"])
    return said | {"tool_call_id": body.get("id")} if role == "tool" else said


def _content(span: Span, what: str) -> Json:
    """The oldest form: one event with everything that was said as one text."""
    name = f"gen_ai.content.{what}"
    return next((h.attributes.get(f"gen_ai.{what}") for h in span.happenings if h.name == name), None)


def _chosen(span: Span) -> str | None:
    bodies = (as_object(h.body) or h.attributes for h in span.happenings if h.name == "gen_ai.choice")
    return next((reason for body in bodies if (reason := as_text(body.get("finish_reason")))), None)


def _reason(given: Json) -> str | None:
    given = loaded(given)
    return as_text(given[0] if isinstance(given, list) and given else given) or None


def _reason_in(messages: Json) -> str | None:
    return next((reason for m in as_objects(messages) if (reason := as_text(m.get("finish_reason")))), None)


def _system(said: dict[str, Json]) -> Json:
    if "gen_ai.system_instructions" not in said:
        return None
    parts = loaded(said["gen_ai.system_instructions"])
    texts = [as_text(part.get("content")) for part in as_objects(parts) if part.get("type") == "text"]
    return "\n".join(texts) if texts and len(texts) == len(parts) else parts


def _tools(said: dict[str, Json], heard: Heard) -> Json:
    return heard.offered(said.get("gen_ai.tool.definitions")) or unflattened(said, "llm.request.functions.") or None


def _parameters(said: dict[str, Json]) -> dict[str, Json]:
    return {name[len(_REQUEST) :]: said[name] for name in said if name.startswith(_REQUEST) and name != _MODEL}


def _tool(span: Span, said: dict[str, Json]) -> Meaning:
    name = text(said, "gen_ai.tool.name", "gen_ai.data_source.id") or span.name.removeprefix("execute_tool ")
    given = first(said, "gen_ai.tool.call.arguments", "tool_arguments", "gen_ai.retrieval.query.text")
    result = first(said, "gen_ai.tool.call.result", "tool_response", "gen_ai.retrieval.documents")
    return Meaning(
        kind=Kind.TOOL,
        name=name,
        call_id=text(said, "gen_ai.tool.call.id"),
        input=loaded(given),
        output=loaded(result),
    )


def _agent(span: Span, said: dict[str, Json], heard: Heard) -> Meaning:
    asked = messages_of(said.get("gen_ai.input.messages") or said.get("pydantic_ai.all_messages"), heard)
    name = text(said, "gen_ai.agent.name", "agent_name", "gen_ai.workflow.name")
    as_value = _written if "replaykit.run.id" in said else _as_it_is  # our own export writes values into messages
    return Meaning(
        kind=Kind.AGENT,
        name=name or span.name.removeprefix("invoke_agent "),
        version=text(said, "gen_ai.agent.version"),
        input=as_value(_given(asked)),
        output=as_value(_gave(said)),
    )


def _written(value: Json) -> Json:
    return None if value == "null" else loaded(value)


def _as_it_is(value: Json) -> Json:
    return value


def _given(messages: list[Json] | None) -> Json:
    """What the agent was asked: a text where it is one, else the messages up to the first answer."""
    if not messages:
        return UNSET
    roles = [message.get("role") for message in messages]
    until = next((index for index, role in enumerate(roles) if role in ("assistant", "tool")), len(messages))
    asked = [message for message in messages[:until] if message.get("role") != "system"]
    if len(asked) == 1 and isinstance(asked[0].get("content"), str):
        return asked[0]["content"]
    return asked or UNSET


def _gave(said: dict[str, Json]) -> Json:
    if "final_result" in said:  # Pydantic AI's
        return loaded(said["final_result"])
    answered = messages_of(said.get("gen_ai.output.messages"))
    if answered and not any(value for message in answered for name, value in message.items() if name != "role"):
        return ""  # an answer, and nothing in it
    return text_of(answered, "assistant") or answered or UNSET
