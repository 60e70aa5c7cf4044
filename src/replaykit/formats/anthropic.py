"""Anthropic messages: conversations, requests, responses, streams, batches.

    [{role: user | assistant, content: text | [{type: text | thinking | tool_use{id, name, input}
                                                     | tool_result{tool_use_id, content, is_error} | …}]}]
    {model, system, messages, tools: [{name, input_schema}], max_tokens, …}
    {id, type: message, role, model, content, stop_reason, usage}
    {type: message_start | content_block_delta | … | message_stop}     {type: error, error: {type, message}}

Tool results are in the user's next message. Tools that the provider runs (`server_tool_use`, `mcp_tool_use`) have
theirs in the answer itself; both belong inside the model call. `core.exchanges` describes the shapes around these.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec.structs import replace

from replaykit.formats.core.exchanges import ConversationApi, has_calls, register_api, text_or_parts
from replaykit.formats.core.threads import Used
from replaykit.model.values import Json, JsonObject
from replaykit.wire import anthropic
from replaykit.wire.json_fields import (
    as_list,
    as_object,
    as_objects,
    by_text,
    has_list,
    has_object,
    object_in,
    objects_in,
    of_type,
    text_in,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "anthropic"

_EVENTS = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
)
_BLOCKS = ("tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "thinking", "redacted_thinking")
_SERVED = ("server_tool_use", "mcp_tool_use")
_ROLES = ("user", "assistant", "system")
_BATCHED = ("succeeded", "errored", "canceled", "expired")


def read_messages(messages: Json) -> list[Json]:
    """Return the messages of a request; each tool result becomes a message."""
    return list(chain.from_iterable(map(_read_message, as_objects(messages))))


def _read_message(message: JsonObject) -> Iterator[JsonObject]:
    role, content = text_in(message, "role") or "user", message.get("content")
    if role == "assistant":
        yield anthropic.DIALECT.read_response({"content": _blocks(content)}).answers[0].message
        return
    results = of_type(content, "tool_result")
    yield from map(_result, results)
    if results:
        content = [part for part in as_list(content) if part not in results]
    if content or not results:
        yield {"role": role, "content": text_or_parts(content)}


def _result(block: JsonObject) -> JsonObject:
    message = {"role": "tool", "content": text_or_parts(block.get("content")), "tool_call_id": block.get("tool_use_id")}
    if block.get("is_error") is True:
        message["status"] = "error"
    return message


def _blocks(content: Json) -> Json:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if content:
        return content
    return []


def _used(answer: ModelAnswer) -> list[Used]:
    """Return the calls that the provider made, each with its result in the same answer."""
    blocks = list(answer.parts)
    results = by_text(as_objects(blocks), "tool_use_id")
    found = []
    for block in of_type(blocks, *_SERVED):
        used = Used(use=ToolUse(id=text_in(block, "id"), name=text_in(block, "name"), arguments=block.get("input")))
        result = results.get(used.use.id)
        if result is not None and "tool_use_id" in result:
            used = replace(used, content=text_or_parts(result.get("content")), failed=_is_failure(result))
        found.append(used)
    return found


def _is_failure(result: JsonObject) -> bool:
    wrong = text_in(object_in(result, "content"), "type")
    return result.get("is_error") is True or wrong.endswith("_error")


def _is_message(item: JsonObject) -> bool:
    fine = item.get("role") in _ROLES and isinstance(item.get("content"), str | list)
    # Calls beside the content are OpenAI's: Anthropic has them as blocks of it.
    return fine and not item.get("tool_calls") and not has_calls(item["content"], _BLOCKS)


def _is_response(item: JsonObject) -> bool:
    return item.get("type") == "message" and "stop_reason" in item and has_list(item, "content")


def _is_event(item: JsonObject) -> bool:
    kind = item.get("type")
    return kind in _EVENTS and (kind != "message_start" or has_object(item, "message"))


def _is_certain(item: JsonObject) -> bool:
    # A ping has only its type, which any vendor's event may have.
    if _is_response(item) or (_is_event(item) and item.get("type") != "ping"):
        return True
    if item.get("role") in _ROLES and of_type(item.get("content"), *_BLOCKS):
        return True
    if has_list(item, "messages"):
        tools = objects_in(item, "tools")
        return "anthropic_version" in item or "system" in item or any("input_schema" in tool for tool in tools)
    if "exception" in item:
        item = object_in(item, "body")
    return _is_error(item)


def _is_error(item: JsonObject) -> bool:
    return item.get("type") == "error" and object_in(item, "error").keys() >= {"type", "message"}


def _whole(response: Json) -> Json:
    """Return the body of a response; a batch wraps it in an object that tells how the request ended."""
    body = as_object(response)
    if body.get("type") in _BATCHED:
        return body.get("message") or {"type": "error", "error": _reason(body)}
    if "content" in body and not isinstance(body["content"], list):
        return {**body, "content": _blocks(body["content"])}
    return response


def _reason(body: JsonObject) -> Json:
    wrong = object_in(body, "error")
    return wrong.get("error", wrong) or {"type": body["type"], "message": f"the request was {body['type']}"}


CONVERSATION_API = ConversationApi(
    dialect=anthropic.DIALECT,
    conversation="messages",
    read_messages=read_messages,
    is_message=_is_message,
    is_response=_is_response,
    is_event=_is_event,
    begins=lambda event, _before: event.get("type") == "message_start",
    is_certain=_is_certain,
    whole=_whole,
    used=_used,
)

register_api(FORMAT, "Anthropic messages: conversations, requests, responses, streams, batches", CONVERSATION_API)
