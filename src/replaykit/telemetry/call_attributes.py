"""Span attributes by the GenAI conventions, for calls of models and tools and other HTTP requests.

The provider and operation of a model request follow from its host or API, or, if only the model is known, from the
model's family.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from replaykit.model.events import Call, Exchange, LlmCall, ToolCall, WireInfo
from replaykit.model.values import Json, JsonObject, Raw, canonical, decode, encode
from replaykit.telemetry.messages import input_messages, instructions, output_messages
from replaykit.telemetry.span import Attribute, Attributes, TelemetrySpanKind

UNKNOWN = "unknown"
"""The provider if it cannot be told; the conventions require one."""
_HOSTS = {
    "openai.azure.com": "azure.ai.openai",
    "cognitiveservices.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "models.ai.azure.com": "azure.ai.inference",
    "openai.com": "openai",
    "anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "cohere.com": "cohere",
    "cohere.ai": "cohere",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "moonshot.ai": "moonshot_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
}
_APIS = {
    "openai.chat": ("openai", "chat"),
    "openai.responses": ("openai", "chat"),
    "openai.completions": ("openai", "text_completion"),
    "openai.embeddings": ("openai", "embeddings"),
    "anthropic.messages": ("anthropic", "chat"),
    "gemini.generate": ("gcp.gen_ai", "generate_content"),
    "ollama.chat": ("ollama", "chat"),
    "ollama.generate": ("ollama", "text_completion"),
}
_FAMILIES = {
    **dict.fromkeys(("gpt", "chatgpt", "o1", "o3", "o4"), "openai"),
    "claude": "anthropic",
    "gemini": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "deepseek": "deepseek",
    "grok": "x_ai",
    "command": "cohere",
    "kimi": "moonshot_ai",
}


class RequestAttributes(NamedTuple):
    """The provider and operation of a model request."""

    provider: str
    operation: str


# Agents use few models at few addresses. Classifying one takes 1.5 µs, a quarter of the time for a span.
@lru_cache(256)
def model_request(method: str, url: str) -> RequestAttributes:
    """Return the attributes of an HTTP call: by its host, else by its API."""
    from replaykit.wire.routes import api_of  # noqa: PLC0415 (all APIs; a run may have no model in it)

    api = api_of(method, url)
    provider, operation = _APIS.get("" if api is None else api.name, (UNKNOWN, "chat"))
    return RequestAttributes(_of_host(address(url)[0]) or provider, operation)


@lru_cache(256)
def named(model: str) -> RequestAttributes:
    """Return the attributes of a call of which only the model is known: by its family, if it has a single provider."""
    family = model.rpartition("/")[2].partition("-")[0].partition(":")[0].lower()
    return RequestAttributes(_FAMILIES.get(family, UNKNOWN), "chat")


@lru_cache(256)
def address(url: str) -> tuple[str, int]:
    """Return the host and port of a URL; "" and 0 if it has none."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "", 0


def _of_host(host: str) -> str:
    if host.endswith(".amazonaws.com") and "bedrock" in host:
        return "aws.bedrock"
    domain = host
    while domain:
        if domain in _HOSTS:
            return _HOSTS[domain]
        domain = domain.partition(".")[2]
    return ""


_NUMBERS = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "top_k": ("top_k", "topK"),
    "frequency_penalty": ("frequency_penalty", "frequencyPenalty"),
    "presence_penalty": ("presence_penalty", "presencePenalty"),
}
_COUNTS = {
    "max_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict"),
    "seed": ("seed",),
}
_CHOICES = ("n", "candidateCount", "choice.count")
_STOPS = ("stop", "stop_sequences", "stopSequences")
_NESTED = ("generationConfig", "options")  # where Gemini and Ollama keep them
_STREAMS = ("text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream")
_INT64 = 2**63


class _ModelRequestFields(Struct):
    """The part of a request that is decoded: the messages may be long."""

    parameters: dict[str, Any] = {}


class _NestedResponse(Struct):
    id: str = ""
    model: str = ""


class _ResponseFields(Struct):
    """The id and model of an answer, wherever an API has them in a body or in the first event of a stream."""

    id: str = ""
    model: str = ""
    response_id: str = field(default="", name="responseId")
    version: str = field(default="", name="modelVersion")
    message: _NestedResponse = field(default_factory=_NestedResponse)
    response: _NestedResponse = field(default_factory=_NestedResponse)


_decode_request = msgspec.json.Decoder(_ModelRequestFields).decode
_decode_response = msgspec.json.Decoder(_ResponseFields).decode


class CallAttributes(Struct, frozen=True):
    """The name, kind and attributes of a call's span."""

    name: str
    kind: TelemetrySpanKind
    attributes: Attributes


def call_attributes(call: Call, *, content: bool, call_id: str = "") -> CallAttributes:
    """Return the name, kind and attributes of a call's span; contents only on request."""
    if isinstance(call, LlmCall):
        return _model(call, content)
    if isinstance(call, Exchange):
        return _request(call)
    return _tool(call, content, call_id)


def has_span(call: Call) -> bool:
    """Return whether a call has a span: models and tools do, and HTTP requests outside other calls."""
    return not isinstance(call, Exchange) or (call.parent is None and call.wire is not None)


def provider_of(call: LlmCall) -> str:
    """Return the provider of a model call."""
    return _request_of(call).provider


def _request_of(call: LlmCall) -> RequestAttributes:
    if call.wire is None:
        return named(call.name)
    return model_request(call.wire.method, call.wire.url)


def _tool(call: Call, content: bool, call_id: str) -> CallAttributes:
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
    }
    if call_id:
        attributes["gen_ai.tool.call.id"] = call_id
    if content:
        attributes["gen_ai.tool.call.arguments"] = bytes(call.arguments_json).decode()
        if call.items_json is not None:
            attributes["gen_ai.tool.call.result"] = f"[{','.join(bytes(item).decode() for item in call.items_json)}]"
        elif call.result_json:
            attributes["gen_ai.tool.call.result"] = _value(call.result_json)
    return CallAttributes(f"execute_tool {call.name}", TelemetrySpanKind.INTERNAL, attributes)


def _value(data: Raw) -> Attribute:
    """Return a number or boolean unchanged, anything else as JSON text, since not every receiver takes objects."""
    text = bytes(data)
    if text[:1] in (b"{", b"[", b'"', b"n"):
        return text.decode()
    value: Json = decode(data)
    if isinstance(value, bool | float) or (isinstance(value, int) and -_INT64 <= value < _INT64):
        return value
    return text.decode()


def _model(call: LlmCall, content: bool) -> CallAttributes:
    request = _request_of(call)
    attributes: Attributes = {
        "gen_ai.operation.name": request.operation,
        "gen_ai.provider.name": request.provider,
        "gen_ai.request.model": call.name,
    }
    attributes.update(_parameters(call.arguments_json))
    if call.wire is not None:
        attributes.update(_over_the_wire(call, call.wire))
    if call.finish_reason:
        attributes["gen_ai.response.finish_reasons"] = (call.finish_reason,)
    if call.usage is not None:
        counted = {
            "gen_ai.usage.input_tokens": call.usage.input_tokens,
            "gen_ai.usage.output_tokens": call.usage.output_tokens,
            "operation.cost": call.usage.cost_usd,
        }
        for name, value in counted.items():
            if value is not None:
                attributes[name] = value
    if content:
        attributes.update(_conversation(call))
    return CallAttributes(f"{request.operation} {call.name}".rstrip(), TelemetrySpanKind.CLIENT, attributes)


def _parameters(arguments: Raw) -> Iterator[tuple[str, Attribute]]:
    try:
        parameters = _decode_request(arguments).parameters
    except msgspec.MsgspecError:
        return
    if not parameters:
        return
    for name in _NESTED:
        if isinstance(parameters.get(name), dict):
            parameters = {**parameters, **parameters[name]}
    for name, spellings in _NUMBERS.items():
        found = _first(parameters, spellings)
        if type(found) in (int, float):
            yield f"gen_ai.request.{name}", float(found)
    for name, spellings in _COUNTS.items():
        found = _first(parameters, spellings)
        if type(found) is int and abs(found) < _INT64:
            yield f"gen_ai.request.{name}", found
    choices, stops = _first(parameters, _CHOICES), _first(parameters, _STOPS)
    if type(choices) is int and 1 < choices < _INT64:
        yield "gen_ai.request.choice.count", choices
    stops = [stops] if isinstance(stops, str) else stops
    if isinstance(stops, list) and stops and all(isinstance(stop, str) for stop in stops):
        yield "gen_ai.request.stop_sequences", tuple(stops)
    if parameters.get("stream") is True:
        yield "gen_ai.request.stream", True


def _first(parameters: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((parameters[name] for name in names if name in parameters), None)


def _over_the_wire(call: LlmCall, wire: WireInfo) -> Iterator[tuple[str, Attribute]]:
    yield from _server(wire.url)
    first = _first_object(call.items_json)
    if first is not None:
        identity = first.id or first.response_id or first.message.id or first.response.id
        model = first.model or first.version or first.message.model or first.response.model
        if identity:
            yield "gen_ai.response.id", identity
        if model:
            yield "gen_ai.response.model", model
    kind = next((value for name, value in wire.headers if name.lower() == "content-type"), "")
    if kind.startswith(_STREAMS):
        yield "gen_ai.request.stream", True
        if wire.pauses_ms and call.items_json:
            yield "gen_ai.response.time_to_first_chunk", wire.pauses_ms[0] / 1000


def _first_object(items: tuple[Raw, ...] | None) -> _ResponseFields | None:
    """Return the body of a response, or the first event of a stream; None if its first chunk is incomplete."""
    if not items:
        return None
    body = decode(items[0])
    if not isinstance(body, str | bytes):
        return None
    if len(items) > 1 or body[:1] not in ("{", b"{"):
        if isinstance(body, bytes):
            return None
        body = _first_data(body)
    try:
        return _decode_response(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _first_data(text: str) -> str:
    """Return the data of the first event in a text, or else its first line."""
    lines = text.split("\n", 8)[:8]
    for line in lines:
        if line.startswith("data:"):
            return line[5:]
    return lines[0]


def _server(url: str) -> Iterator[tuple[str, Attribute]]:
    host, port = address(url)
    if host:
        yield "server.address", host
        yield "server.port", port


def _conversation(call: LlmCall) -> Attributes:
    """Return the messages and tools of a call as JSON texts."""
    arguments = call.arguments
    request: JsonObject = {"messages": arguments}
    if isinstance(arguments, dict) and "messages" in arguments:
        request = arguments
    found = {
        "gen_ai.system_instructions": instructions(request.get("system")),
        "gen_ai.input.messages": input_messages(request.get("messages")),
        "gen_ai.tool.definitions": request.get("tools"),
    }
    if call.error is None and call.result_json:
        found["gen_ai.output.messages"] = output_messages(call.result, call.finish_reason)
    return {name: encode(value).decode() for name, value in found.items() if value}


def _request(call: Call) -> CallAttributes:
    """Return the attributes of an HTTP request by the conventions for HTTP clients."""
    wire = call.wire
    if wire is None:
        raise ValueError("an exchange that did not go over the wire has no span")
    attributes: Attributes = {"http.request.method": wire.method, "url.full": wire.url}
    attributes.update(_server(wire.url))
    if wire.status:
        attributes["http.response.status_code"] = wire.status
        if wire.status >= 400:
            attributes["error.type"] = str(wire.status)
    return CallAttributes(wire.method, TelemetrySpanKind.CLIENT, attributes)


def asked_tools(call: LlmCall) -> Iterator[tuple[tuple[str, bytes], str]]:
    """Yield the tool calls that a model requests, by name and arguments, with their ids."""
    if b'"tool_calls"' not in bytes(call.result_json) or b'"tool_calls":[]' in bytes(call.result_json):
        return
    answer = call.result
    if not isinstance(answer, dict):
        return
    for use in answer.get("tool_calls") or ():
        if isinstance(use, dict) and isinstance(use.get("id"), str) and use["id"]:
            yield (str(use.get("name")), canonical(use.get("arguments"))), use["id"]


def made_tool(call: ToolCall) -> tuple[str, bytes]:
    """Return the same name and arguments for a call that was made."""
    return call.name, bytes(call.request_json)
