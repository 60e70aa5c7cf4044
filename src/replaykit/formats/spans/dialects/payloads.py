"""Payloads: requests and answers of models, where a tracer stores them in the framework's own form.

Langfuse, MLflow and others store the input and the output of a call as one value each, of any of these shapes:

    request    an API's request body (`messages`, `input`, `contents`, `prompt`), a list of messages or items, a text
    response   an API's response body, a choice, a message, a list of messages, items or calls, a text
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.langchain_messages import read_outputs
from replaykit.formats.core.messages import answer_in, messages_of, text_of
from replaykit.formats.spans.span import UNSET
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire import openai_responses
from replaykit.wire.dialect import WireResponse
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    filled_in,
    has_list,
    has_object,
    has_text,
    joined_texts,
    load_arguments,
    object_in,
    objects_in,
    of_type,
    text_in,
    value_in,
    without,
    without_nulls,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse

_CONVERSATIONS = ("messages", "input", "contents", "new_message", "prompt", "prompts")
_SYSTEMS = ("system", "instructions", "system_instruction", "systemInstruction", "system_prompt")
_TOOLS = ("tools", "functions")
_READ_ELSEWHERE = (*_CONVERSATIONS, *_SYSTEMS, *_TOOLS, "model", "config", "stream", "history")
_BODIES = ("choices", "generations")
_TEXTS = ("text", "completion", "raw", "response")
_ITEMS = ("function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output", "reasoning")
# Parts of an Anthropic answer that may occur without a message around them.
_BLOCKS = ("text", "tool_use", "thinking", "redacted_thinking", "server_tool_use")
_AI_SDK_CALLS = ("toolCalls", "tool_calls")


class PayloadRequest(Struct, frozen=True, kw_only=True):
    """The request of a model call."""

    model: str = ""
    system: Json = None
    messages: list[Json] | None = None
    tools: Json = None
    parameters: JsonObject = field(default_factory=dict)


def read_request(value: Json) -> PayloadRequest:
    """Return the request in a value; an empty one if there is none."""
    value = call_arguments(load_json(value))
    if isinstance(value, dict):
        if _is_message(value):
            return _of_message(value)
        return _of_body(value)
    if isinstance(value, str):
        return PayloadRequest(messages=messages_of(value))
    if not isinstance(value, list):
        return PayloadRequest()
    tools = [m["content"] for m in value if _is_tool_on_offer(m)]
    messages = conversation(message for message in value if not _is_tool_on_offer(message))
    return PayloadRequest(messages=messages or None, tools=tools or None)


def read_response(value: Json) -> WireResponse:
    """Return the response in a value; without answers if there is none."""
    value = load_json(value)
    if isinstance(value, str):
        if value:
            return WireResponse(answers=(ModelAnswer(content=value),))
        return WireResponse()
    if isinstance(value, list):
        return _read_list(value)
    if not isinstance(value, dict) or not value:
        return WireResponse()
    return _read_response_body(value)


def offered_tools(value: Json) -> Json:
    """Return the tools on offer if the value is a response of the Responses API, which repeats them."""
    body = as_object(load_json(value))
    if body.get("object") == "response":
        return body.get("tools") or None
    return None


def agent_input(value: Json) -> Json:
    """Return an agent's input: the user's text if it is a single one, else the value; UNSET for null."""
    value = load_json(value)
    if value is None:
        return UNSET
    request = read_request(value) if isinstance(value, list) or _is_request(value) else PayloadRequest()
    messages = [m for m in request.messages or () if isinstance(m, dict) and m.get("role") != "system"]
    if len(messages) == 1 and messages[0].get("role") == "user" and isinstance(messages[0].get("content"), str):
        return messages[0]["content"]
    if request.messages is None:
        return single_argument(call_arguments(value))
    return value


def agent_output(value: Json) -> Json:
    """Return an agent's output: the text of its last message if there is one, else the value; UNSET for null."""
    value = load_json(value)
    if value is None:
        return UNSET
    if has_list(value, "messages"):
        value = value["messages"]
    if isinstance(value, list):
        return text_of(conversation(value), "assistant") or value
    if isinstance(value, dict) and (_is_message(value) or has_object(value, "content") or _is_body(value)):
        answers = read_response(value).answers
        if answers:
            return answers[0].content or value
        return value
    raw = value_in(value, "raw")
    if isinstance(raw, str) and raw:
        return raw
    return value


def conversation(messages: Iterable[Json]) -> list[Json]:
    """Return messages of any of these shapes, including items of the Responses API and Gemini's contents, in one
    shape."""
    return list(
        _united(messages_of([readable for message in messages if (readable := _message(message)) is not None]) or [])
    )


def _of_message(value: JsonObject) -> PayloadRequest:
    return PayloadRequest(messages=conversation([value]) or None)


def _of_body(body: JsonObject) -> PayloadRequest:
    config = as_object(load_json(body.get("config")))
    settings = body | config
    held = load_json(filled_in(body, *_CONVERSATIONS))
    inner = read_request(held) if held is not None and not _is_wrapped(held) else PayloadRequest()
    offered = load_json(filled_in(settings, *_TOOLS))
    return PayloadRequest(
        model=text_in(body, "model", "model_name"),
        system=load_json(filled_in(settings, *_SYSTEMS)),
        messages=inner.messages,
        tools=offered or inner.tools,
        parameters=without_nulls(without(settings, *_READ_ELSEWHERE)) if held is not None else {},
    )


def _is_wrapped(held: Json) -> bool:
    """Return whether a value under `input` is neither text nor messages."""
    return isinstance(held, dict) and not _is_message(held) and not _holds_messages(held)


def _holds_messages(value: Json) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(name), list | str | dict) for name in _CONVERSATIONS)


def _is_request(value: Json) -> bool:
    """Return whether an object is a conversation and nothing else that would be lost."""
    if not _holds_messages(value):
        return False
    return "new_message" in value or not any(item and name not in _READ_ELSEWHERE for name, item in value.items())


def _is_message(value: JsonObject) -> bool:
    return bool(text_in(value, "role") or has_list(value, "parts")) or _is_of_langchain(value)


def _is_of_langchain(value: JsonObject) -> bool:
    kind = text_in(value, "type")
    return kind == "constructor" or (kind in ("human", "ai", "system", "tool") and "content" in value)


def _is_body(value: JsonObject) -> bool:
    return any(has_list(value, name) for name in (*_BODIES, "candidates", "output"))


def _is_tool_on_offer(message: Json) -> bool:
    """Return whether a message is a tool on offer: Langfuse's LangChain tracer appends tools as messages."""
    if not isinstance(message, dict) or message.get("role") != "tool" or message.get("tool_call_id"):
        return False
    return object_in(message, "content").get("type") == "function"


def _read_list(value: list[Json]) -> WireResponse:
    calls = [item for item in as_objects(value) if item.get("toolCallId") and item.get("toolName")]
    if calls and len(calls) == len(value):
        return WireResponse(answers=(ModelAnswer(tool_calls=tuple(map(_ai_sdk_call, calls))),))
    if any(item.get("type") in _ITEMS or item.get("type") == "message" for item in as_objects(value)):
        return openai_responses.DIALECT.read_response({"output": value})
    messages = [{"role": "assistant", "content": value}] if value and all(map(_is_block, value)) else value
    answer = answer_in(conversation(messages))
    if answer is None:
        return WireResponse()
    return WireResponse(answers=(answer,))


def _is_item(value: JsonObject) -> bool:
    """Return whether this is an item of the Responses API; an answer of Anthropic is a `message`, too."""
    if value.get("type") != "message":
        return value.get("type") in _ITEMS
    return bool(of_type(objects_in(value, "content"), "output_text", "refusal"))


def _is_block(value: Json) -> bool:
    return isinstance(value, dict) and value.get("type") in _BLOCKS and "role" not in value


def _read_response_body(body: JsonObject) -> WireResponse:
    if _is_item(body) or _is_block(body):  # Langfuse unwraps a list with a single item
        return _read_list([body])
    candidates = objects_in(body, "candidates")
    if candidates:
        return _read_response_body(candidates[0])
    is_anthropic = body.get("type") == "message" and has_list(body, "content")
    if is_anthropic or body.get("object") == "response" or any(has_list(body, name) for name in _BODIES):
        return read_outputs(body)
    inner = next((body[name] for name in ("message", "content") if _is_inner(body.get(name))), None)
    message = as_object(inner) or body
    if _is_message(message) or "content" in message or message.get("tool_calls"):
        answer = answer_in(conversation([{"role": "assistant", **message}]))
        return WireResponse(answers=() if answer is None else (answer,), finish_reason=_reason(body))
    return _read_text_answer(body)


def _is_inner(value: Json) -> bool:
    return isinstance(value, dict) and bool(value)


def _read_text_answer(body: JsonObject) -> WireResponse:
    """Read a text with calls beside it, as in the AI SDK; any other object is an answer of a shape of its own."""
    calls = load_json(filled_in(body, *_AI_SDK_CALLS))
    text = next((body[name] for name in _TEXTS if has_text(body, name)), None)
    if text is None and calls is None:
        output = load_json(body.get("output"))
        if output:
            return read_response(output)
        return WireResponse(answers=(ModelAnswer(content=encode(body).decode()),))
    uses = tuple(map(_ai_sdk_call, as_objects(calls)))
    return WireResponse(answers=(ModelAnswer(content=text or None, tool_calls=uses),), finish_reason=_reason(body))


def _reason(body: JsonObject) -> str | None:
    names = ("finish_reason", "finishReason", "stop_reason")
    return text_in(body, *names) or None


def _ai_sdk_call(call: JsonObject) -> ToolUse:
    arguments: Json = next((call[name] for name in ("input", "args", "arguments") if call.get(name) is not None), {})
    return ToolUse(
        id=text_in(call, "toolCallId", "id"),
        name=text_in(call, "toolName", "name"),
        arguments=load_arguments(arguments) if isinstance(arguments, str) else arguments,
    )


def _message(message: Json) -> Json:
    """Return a message in a shape that `messages_of` reads; None if it is empty."""
    if not isinstance(message, dict):
        return message
    kind = text_in(message, "type")
    if kind in _ITEMS:
        return _item(kind, message)
    if has_list(message, "parts"):
        role = "assistant" if message.get("role") == "model" else message.get("role")
        return {**message, "role": role, "parts": list(map(_part, message["parts"]))}
    hidden = object_in(message, "additional_kwargs").get("tool_calls")
    if hidden and not message.get("tool_calls"):
        return {**message, "tool_calls": hidden}
    return message


def _item(kind: str, item: JsonObject) -> Json:
    call_id = text_in(item, "call_id")
    if kind.endswith("_output"):
        return {"role": "tool", "tool_call_id": call_id, "content": item.get("output")}
    if kind == "reasoning":
        pieces = objects_in(item, "content") or objects_in(item, "summary")
        text = joined_texts(pieces, "\n\n") or None
        if text:
            return {"role": "assistant", "content": None, "thinking": text}
        return None
    arguments = item.get("arguments") if kind == "function_call" else item.get("input")
    call = {"id": call_id, "name": text_in(item, "name"), "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _part(part: Json) -> Json:
    """Add a type to a part of Gemini's, which has none."""
    if not isinstance(part, dict) or "type" in part:
        return part
    call = object_in(part, "function_call") or object_in(part, "functionCall")
    if call:
        return {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
    result = object_in(part, "function_response") or object_in(part, "functionResponse")
    if result:
        return {"type": "tool_call_response", **result}
    if has_text(part, "text"):
        return {"type": "thinking" if part.get("thought") is True else "text", "text": part["text"]}
    return part


def _united(messages: list[Json]) -> Iterator[Json]:
    """Join the items of one answer: thoughts and calls are separate items there."""
    waiting: JsonObject | None = None
    for message in messages:
        if waiting is not None and message.get("role") == "assistant" and not waiting.get("content"):
            calls = [*waiting.get("tool_calls", ()), *message.get("tool_calls", ())]
            waiting = {**waiting, **message} | ({"tool_calls": calls} if calls else {})
            continue
        if waiting is not None:
            yield waiting
        waiting = message if message.get("role") == "assistant" else None
        if waiting is None:
            yield message
    if waiting is not None:
        yield waiting


def call_arguments(call: Json) -> Json:
    """Return the arguments of a call; of `{args, kwargs}` with one empty, the other."""
    if not isinstance(call, dict) or not call.keys() <= {"args", "kwargs"}:
        return call
    if not call.get("args"):
        return call.get("kwargs", {})
    if not call.get("kwargs"):
        return call["args"]
    return call


def single_argument(value: Json) -> Json:
    """Return the only argument of a call; UNSET if there are none; else all of them."""
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    if value in ({}, []):
        return UNSET
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value
