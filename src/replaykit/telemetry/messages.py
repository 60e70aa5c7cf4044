"""Messages as model APIs write them, in the shape of the GenAI conventions: `{role, parts: [{type, content, …}]}`.

    text                 {type: text, content}
    reasoning            {type: reasoning, content}
    tool_call            {type: tool_call, id, name, arguments}
    tool_call_response   {type: tool_call_response, id, response}

A part of another kind is kept as it is, under the type that its API gives it.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.model.values import Json, encode
from replaykit.wire.fields import as_object, as_objects, as_text, load_arguments

_TEXTS = ("text", "input_text", "output_text")
_CALLS = ("tool_use", "tool_call", "function_call", "custom_tool_call")
_RESULTS = ("tool_result", "tool_call_response", "function_call_output", "custom_tool_call_output")
_ITEMS = (*_CALLS, *_RESULTS, "reasoning")


def input_messages(messages: Json) -> list[Json]:
    """What a model was asked."""
    if isinstance(messages, dict):
        messages = [messages]
    if not isinstance(messages, list):
        return [] if messages is None else [_message("user", [_text(messages)])]
    return [_asked(message) for message in messages]


def output_messages(answer: Json, finish_reason: str | None) -> list[Json]:
    """What a model answered: one message."""
    said = answer if isinstance(answer, dict) else {"content": answer}
    parts = list(_parts(said)) or ([_text(answer)] if said and "role" not in said else [])
    return [_message(as_text(said.get("role")) or "assistant", parts) | {"finish_reason": finish_reason or "unknown"}]


def instructions(system: Json) -> list[Json]:
    """What stands above a conversation."""
    held = as_object(system).get("parts", system)  # Gemini has them in an object
    return list(_content(held))


def spoken(value: Json, role: str) -> list[Json]:
    """A value as the one thing that was said."""
    return [_message(role, [_text(value)])]


def _message(role: str, parts: list[Json]) -> dict[str, Json]:
    return {"role": role, "parts": parts}


def _asked(message: Json) -> dict[str, Json]:
    if not isinstance(message, dict):
        return _message("user", [_text(message)])
    kind = message.get("type")
    if kind in _ITEMS and "role" not in message:  # an item of OpenAI's responses
        return _message("tool" if kind in _RESULTS else "assistant", [_part(message)])
    role = as_text(message.get("role")) or "user"
    if message.get("tool_call_id") is not None:
        return _message("tool", [_response(message["tool_call_id"], message.get("content"))])
    said = _message("assistant" if role == "model" else role, list(_parts(message)))
    return said | {"name": message["name"]} if isinstance(message.get("name"), str) else said


def _parts(message: dict[str, Json]) -> Iterator[Json]:
    for name in ("thinking", "reasoning_content"):
        if isinstance(message.get(name), str):
            yield {"type": "reasoning", "content": message[name]}
    held = message.get("parts")
    if "content" not in message and isinstance(held, list):
        yield from _content(held)
        held = None
    yield from _content(message.get("content"))
    if isinstance(message.get("refusal"), str):
        yield {"type": "refusal", "content": message["refusal"]}
    yield from map(_call, as_objects(message.get("tool_calls")))
    yield from map(_part, held if isinstance(held, list) else ())


def _content(content: Json) -> Iterator[Json]:
    if isinstance(content, list):
        yield from map(_part, content)
    elif content is not None and content != "":
        yield _text(content)


def _part(part: Json) -> dict[str, Json]:
    if not isinstance(part, dict):
        return _text(part)
    kind = part.get("type")
    if kind in _TEXTS:
        return _text(part.get("text", part.get("content")))
    if kind in ("thinking", "reasoning"):
        return {"type": "reasoning", "content": as_text(part.get("thinking")) or as_text(part.get("content"))}
    if kind in _CALLS or "functionCall" in part:
        return _call(as_object(part.get("functionCall")) or part)
    if kind in _RESULTS:
        given = next((part[name] for name in ("content", "output", "response", "result") if name in part), None)
        return _response(part.get("tool_use_id") or part.get("call_id") or part.get("id"), given)
    if "functionResponse" in part:
        told = as_object(part["functionResponse"])
        return _response(told.get("id") or told.get("name"), told.get("response"))
    if kind is None and isinstance(part.get("text"), str):  # Gemini's
        return {"type": "reasoning" if part.get("thought") else "text", "content": part["text"]}
    return {**part, "type": kind if isinstance(kind, str) else "other"}


def _call(call: dict[str, Json]) -> dict[str, Json]:
    named = as_object(call.get("function")) or call
    given: Json = next((named[name] for name in ("arguments", "input", "args") if name in named), {})
    found: dict[str, Json] = {"type": "tool_call"}
    if identity := as_text(call.get("call_id")) or as_text(call.get("id")):
        found["id"] = identity
    found["name"] = as_text(named.get("name"))
    found["arguments"] = load_arguments(given) if isinstance(given, str) else given
    return found


def _response(identity: Json, given: Json) -> dict[str, Json]:
    found: dict[str, Json] = {"type": "tool_call_response"}
    if as_text(identity):
        found["id"] = identity
    return found | {"response": given}


def _text(value: Json) -> dict[str, Json]:
    return {"type": "text", "content": value if isinstance(value, str) else encode(value).decode()}
