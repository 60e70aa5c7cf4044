"""Convert messages of model APIs to the shape of the GenAI conventions: `{role, parts: [{type, content, …}]}`.

    text                 {type: text, content}
    reasoning            {type: reasoning, content}
    tool_call            {type: tool_call, id, name, arguments}
    tool_call_response   {type: tool_call_response, id, response}

Parts of other kinds keep their form, under the type that their API gives them.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import as_object, as_objects, as_text, load_arguments
from replaykit.wire.messages import TEXTS

_CALLS = ("tool_use", "tool_call", "function_call", "custom_tool_call")
_RESULTS = ("tool_result", "tool_call_response", "function_call_output", "custom_tool_call_output")
_ITEMS = (*_CALLS, *_RESULTS, "reasoning")


def input_messages(messages: Json) -> list[Json]:
    """Return the input messages of a model call."""
    if messages is None:
        return []
    if not isinstance(messages, list):
        messages = [messages]
    return list(map(_input_message, messages))


def output_messages(answer: Json, finish_reason: str | None) -> list[Json]:
    """Return the answer of a model as one message."""
    message = answer if isinstance(answer, dict) else {"content": answer}
    parts = list(_parts(message))
    if not parts and message and "role" not in message:
        parts = [_text(answer)]
    role = as_text(message.get("role")) or "assistant"
    return [_message(role, parts) | {"finish_reason": finish_reason or "unknown"}]


def instructions(system: Json) -> list[Json]:
    """Return the system instructions of a conversation."""
    parts = as_object(system).get("parts", system)  # Gemini wraps them in an object
    return list(_content(parts))


def spoken(value: Json, role: str) -> list[Json]:
    """Return a value as a conversation of one message."""
    return [_message(role, [_text(value)])]


def _message(role: str, parts: list[Json]) -> JsonObject:
    return {"role": role, "parts": parts}


def _input_message(message: Json) -> JsonObject:
    if not isinstance(message, dict):
        return _message("user", [_text(message)])
    kind = message.get("type")
    if kind in _ITEMS and "role" not in message:  # an item of OpenAI's responses
        return _message("tool" if kind in _RESULTS else "assistant", [_part(message)])
    role = as_text(message.get("role")) or "user"
    if message.get("tool_call_id") is not None:
        return _message("tool", [_response(message["tool_call_id"], message.get("content"))])
    converted = _message("assistant" if role == "model" else role, list(_parts(message)))
    if isinstance(message.get("name"), str):
        return converted | {"name": message["name"]}
    return converted


def _parts(message: JsonObject) -> Iterator[Json]:
    for name in ("thinking", "reasoning_content"):
        if isinstance(message.get(name), str):
            yield {"type": "reasoning", "content": message[name]}
    parts = message.get("parts")
    if not isinstance(parts, list):
        parts = []
    if "content" not in message:
        yield from map(_part, parts)
        parts = []
    yield from _content(message.get("content"))
    if isinstance(message.get("refusal"), str):
        yield {"type": "refusal", "content": message["refusal"]}
    yield from map(_call, as_objects(message.get("tool_calls")))
    yield from map(_part, parts)


def _content(content: Json) -> Iterator[Json]:
    if isinstance(content, list):
        yield from map(_part, content)
    elif content is not None and content != "":
        yield _text(content)


def _part(part: Json) -> JsonObject:
    if not isinstance(part, dict):
        return _text(part)
    kind = part.get("type")
    if kind in TEXTS:
        return _text(part.get("text", part.get("content")))
    if kind in ("thinking", "reasoning"):
        return {"type": "reasoning", "content": as_text(part.get("thinking")) or as_text(part.get("content"))}
    if kind in _CALLS or "functionCall" in part:
        return _call(as_object(part.get("functionCall")) or part)
    if kind in _RESULTS:
        response = next((part[name] for name in ("content", "output", "response", "result") if name in part), None)
        return _response(part.get("tool_use_id") or part.get("call_id") or part.get("id"), response)
    if "functionResponse" in part:
        function_response = as_object(part["functionResponse"])
        return _response(
            function_response.get("id") or function_response.get("name"), function_response.get("response")
        )
    if kind is None and isinstance(part.get("text"), str):  # Gemini
        return {"type": "reasoning" if part.get("thought") else "text", "content": part["text"]}
    return {**part, "type": kind if isinstance(kind, str) else "other"}


def _call(call: JsonObject) -> JsonObject:
    named = as_object(call.get("function")) or call
    arguments: Json = next((named[name] for name in ("arguments", "input", "args") if name in named), {})
    found: JsonObject = {"type": "tool_call"}
    if identity := as_text(call.get("call_id")) or as_text(call.get("id")):
        found["id"] = identity
    found["name"] = as_text(named.get("name"))
    found["arguments"] = load_arguments(arguments) if isinstance(arguments, str) else arguments
    return found


def _response(identity: Json, response: Json) -> JsonObject:
    found: JsonObject = {"type": "tool_call_response"}
    if as_text(identity):
        found["id"] = identity
    return found | {"response": response}


def _text(value: Json) -> JsonObject:
    return {"type": "text", "content": value if isinstance(value, str) else encode(value).decode()}
