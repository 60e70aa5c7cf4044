"""GenAI: OpenTelemetry's conventions from their first names to the latest, and the names that Pydantic AI adds.

Messages are attributes of the span, events of it, or log records that refer to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.formats.core.json_text import decode_text, load_json
from replaykit.formats.core.messages import ConversationCache, answer_in, messages_of, only_text, text_of
from replaykit.formats.spans.dialects.payloads import call_arguments, single_argument
from replaykit.formats.spans.span import UNSET, Meaning, Span, SpanDialect, SpanKind, first, unflattened, usage
from replaykit.model.events import Usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_list, as_object, has_text, of_type, text_in

_KINDS = {
    "execute_tool": SpanKind.TOOL,
    "retrieval": SpanKind.TOOL,
    "invoke_agent": SpanKind.AGENT,
    "invoke_workflow": SpanKind.AGENT,
    "agent_step": SpanKind.STEP,
    "chat": SpanKind.MODEL,
    "generate_content": SpanKind.MODEL,
    "text_completion": SpanKind.MODEL,
    "completion": SpanKind.MODEL,
    "responses": SpanKind.MODEL,
    "embeddings": SpanKind.NOTE,
    "create_agent": SpanKind.NOTE,
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
_CHOICE = "gen_ai.choice"
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")


def _read(span: Span, cache: ConversationCache) -> Meaning | None:
    attributes = span.attributes
    kind = _KINDS.get(text_in(attributes, "gen_ai.operation.name")) or _guessed(attributes)
    if kind is None:
        return None
    details: JsonObject = {}
    for happening in span.happenings:
        if happening.name == _DETAILS:
            details |= happening.attributes
    if details:
        attributes = details | attributes
    if kind is SpanKind.MODEL:
        return _model(span, attributes, cache)
    if kind is SpanKind.TOOL:
        return _tool(span, attributes)
    if kind is SpanKind.AGENT:
        return _agent(span, attributes, cache)
    return Meaning(kind=kind, name=span.name)


GENAI = SpanDialect("genai", "", _read)


def _guessed(own: JsonObject) -> SpanKind | None:
    """Guess the kind of a span of the first versions, which name no operation."""
    if "gen_ai.tool.name" in own:
        return SpanKind.TOOL
    has_request = _MODEL in own or "llm.request.type" in own
    if has_request and ("gen_ai.system" in own or "gen_ai.provider.name" in own):
        return SpanKind.MODEL
    return None


def _model(span: Span, attributes: JsonObject, cache: ConversationCache) -> Meaning:
    request, answered = _conversation(span, attributes, cache)
    return Meaning(
        kind=SpanKind.MODEL,
        name=text_in(attributes, _MODEL, "gen_ai.response.model"),
        system=_system(attributes),
        messages=request,
        tools=_tools(attributes, cache),
        parameters=_parameters(attributes),
        answer=answer_in(answered or ()),
        finish_reason=next(_reasons(span, attributes), None),
        usage=usage_of(attributes),
    )


def _reasons(span: Span, attributes: JsonObject) -> Iterator[str]:
    """Yield why the answer ended, from all places that may state it."""
    reasons = load_json(attributes.get("gen_ai.response.finish_reasons"))
    if isinstance(reasons, list):
        reasons = next(iter(reasons), None)
    bodies: list[Json] = [{"finish_reason": reasons}, *as_list(load_json(attributes.get("gen_ai.output.messages")))]
    for happening in span.happenings:
        if happening.name == _CHOICE:
            bodies.append(as_object(happening.body) or happening.attributes)
    for body in bodies:
        reason = text_in(body, "finish_reason")
        if reason:
            yield reason


def usage_of(attributes: JsonObject) -> Usage | None:
    """Return the tokens and cost of one call."""
    return usage(attributes, _INPUT_TOKENS, _OUTPUT_TOKENS, "operation.cost", "gen_ai.usage.cost")


def _conversation(
    span: Span, attributes: JsonObject, cache: ConversationCache
) -> tuple[list[Json] | None, list[Json] | None]:
    """Return the request's and the answer's messages, from wherever the span has them."""
    request = messages_of(attributes.get("gen_ai.input.messages"), cache)
    answered = messages_of(attributes.get("gen_ai.output.messages"))
    if request is None and answered is None:
        request, answered = _event_messages(span)
    if request is None and answered is None:
        request = messages_of(unflattened(attributes, "gen_ai.prompt.") or _content(span, "prompt"))
        answered = messages_of(unflattened(attributes, "gen_ai.completion.") or _content(span, "completion"))
    return request, answered


def _event_messages(span: Span) -> tuple[list[Json] | None, list[Json] | None]:
    """Return the messages of the request and of the answer in events and log records."""
    request: list[Json] = []
    answered: list[Json] = []
    for happening in span.happenings:
        body = as_object(happening.body) or happening.attributes
        if happening.name in _ROLES:
            request += messages_of([_message(_ROLES[happening.name], body)]) or ()
        elif happening.name == _CHOICE:
            body = as_object(load_json(body.get("message"))) or body
            answered += messages_of([_message("assistant", body)]) or ()
    return request or None, answered or None


def _message(role: str, body: JsonObject) -> JsonObject:
    message = {**body, "role": text_in(body, "role") or role, "content": body.get("content")}
    if has_text(body, "tool_calls"):
        message["tool_calls"] = load_json(body["tool_calls"])
    if role == "tool":
        return message | {"tool_call_id": body.get("id")}
    return message


def _content(span: Span, what: str) -> Json:
    """Return the content in the oldest form: one event with the whole text."""
    for happening in span.happenings:
        if happening.name == f"gen_ai.content.{what}":
            return happening.attributes.get(f"gen_ai.{what}")
    return None


def _system(attributes: JsonObject) -> Json:
    parts = load_json(attributes.get("gen_ai.system_instructions"))
    if isinstance(parts, list) and parts and len(of_type(parts, "text")) == len(parts):
        return "\n".join([text_in(part, "content") for part in parts])
    return parts


def _tools(attributes: JsonObject, cache: ConversationCache) -> Json:
    return (
        cache.offered(attributes.get("gen_ai.tool.definitions"))
        or unflattened(attributes, "llm.request.functions.")
        or None
    )


def _parameters(attributes: JsonObject) -> JsonObject:
    return {
        name[len(_REQUEST) :]: attributes[name] for name in attributes if name.startswith(_REQUEST) and name != _MODEL
    }


def _tool(span: Span, attributes: JsonObject) -> Meaning:
    name = text_in(attributes, "gen_ai.tool.name", "gen_ai.data_source.id") or span.name.removeprefix("execute_tool ")
    arguments = first(attributes, "gen_ai.tool.call.arguments", "tool_arguments", "gen_ai.retrieval.query.text")
    result = first(attributes, "gen_ai.tool.call.result", "tool_response", "gen_ai.retrieval.documents")
    return Meaning(
        kind=SpanKind.TOOL,
        name=name,
        call_id=text_in(attributes, "gen_ai.tool.call.id"),
        input=load_json(arguments),
        output=load_json(result),
    )


def _agent(span: Span, attributes: JsonObject, cache: ConversationCache) -> Meaning:
    messages = messages_of(attributes.get("gen_ai.input.messages") or attributes.get("pydantic_ai.all_messages"), cache)
    name = text_in(attributes, "gen_ai.agent.name", "agent_name", "gen_ai.workflow.name")
    run_input, output = _agent_input(messages), _agent_output(attributes)
    if "replaykit.run.id" in attributes:  # our own export writes values into messages
        run_input, output = _written(run_input), _written(output)
    return Meaning(
        kind=SpanKind.AGENT,
        name=name or span.name.removeprefix("invoke_agent "),
        version=text_in(attributes, "gen_ai.agent.version"),
        input=run_input,
        output=output,
    )


def _written(value: Json) -> Json:
    if value == "null":
        return None
    return load_json(value)


def _agent_input(messages: list[Json] | None) -> Json:
    """Return the agent's input: its text if it is a single one, else the messages up to the first answer."""
    request: list[Json] = []
    for message in messages or ():
        if message.get("role") in ("assistant", "tool"):
            break
        if message.get("role") != "system":
            request.append(message)
    text = only_text(request)
    if text is not None:
        return text
    return request or UNSET


def _agent_output(attributes: JsonObject) -> Json:
    if "final_result" in attributes:  # Pydantic AI
        return load_json(attributes["final_result"])
    answered = messages_of(attributes.get("gen_ai.output.messages"))
    if answered and not any(value for message in answered for name, value in message.items() if name != "role"):
        return ""  # an empty answer
    return text_of(answered, "assistant") or answered or UNSET


_TRACELOOP_KINDS = {"workflow": SpanKind.AGENT, "agent": SpanKind.AGENT, "task": SpanKind.AGENT, "tool": SpanKind.TOOL}


def _read_traceloop(span: Span, _cache: ConversationCache) -> Meaning | None:
    attributes = span.attributes
    kind = _TRACELOOP_KINDS.get(text_in(attributes, "traceloop.span.kind"))
    if kind is None:
        return None
    arguments = call_arguments(decode_text(attributes.get("traceloop.entity.input", UNSET)))
    return Meaning(
        kind=kind,
        name=text_in(attributes, "traceloop.entity.name") or span.name,
        is_agent=attributes["traceloop.span.kind"] == "agent",
        input=arguments if kind is SpanKind.TOOL else single_argument(arguments),
        output=decode_text(attributes.get("traceloop.entity.output", UNSET)),
    )


TRACELOOP = SpanDialect("traceloop", "traceloop.span.kind", _read_traceloop)
"""OpenLLMetry (Traceloop): workflows, agents, tasks and tools. Its model calls use GenAI."""
