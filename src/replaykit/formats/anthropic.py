"""Anthropic messages: conversations, requests, responses, streams, batches.

    [{role: user | assistant, content: text | [{type: text | thinking | tool_use{id, name, input}
                                                     | tool_result{tool_use_id, content, is_error} | …}]}]
    {model, system, messages, tools: [{name, input_schema}], max_tokens, …}
    {id, type: message, role, model, content, stop_reason, usage}
    {type: message_start | content_block_delta | … | message_stop}     {type: error, error: {type, message}}

The results of tools are in the user's next message. Tools that the provider runs (`server_tool_use`, `mcp_tool_use`)
have theirs in the answer itself; both are inside of the model's call. What else stands around these is in
`importers.exchanges`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.formats.core.exchanges import ConversationApi, ExchangeImporter
from replaykit.formats.core.members import object_in, objects_in, of_type, text_in
from replaykit.formats.core.pairs import has_calls, text_or_parts
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.threads import Used
from replaykit.model.values import Json
from replaykit.wire import anthropic
from replaykit.wire.json_fields import as_object, as_objects
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
    """The messages of a request; each result of a tool is one of its own."""
    return [read for message in as_objects(messages) for read in _read_message(message)]


def _read_message(message: dict[str, Json]) -> Iterator[dict[str, Json]]:
    role, content = text_in(message, "role") or "user", message.get("content")
    if role == "assistant":
        yield anthropic.DIALECT.read_response({"content": _blocks(content)}).answers[0].message
        return
    blocks = as_objects(content)
    results = of_type(blocks, "tool_result")
    yield from map(_result, results)
    rest = [part for part in content if part not in results] if isinstance(content, list) else content
    if rest or not results:
        yield {"role": role, "content": text_or_parts(rest)}


def _result(block: dict[str, Json]) -> dict[str, Json]:
    message = {"role": "tool", "content": text_or_parts(block.get("content")), "tool_call_id": block.get("tool_use_id")}
    return message | ({"status": "error"} if block.get("is_error") is True else {})


def _blocks(content: Json) -> Json:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if content:
        return content
    return []


def _used(answer: ModelAnswer) -> list[Used]:
    """What the provider's tools did, each call with its result in the same answer."""
    blocks = as_objects(list(answer.parts))
    results = {text_in(block, "tool_use_id"): block for block in blocks if "tool_use_id" in block}
    found = []
    for block in blocks:
        if block.get("type") in _SERVED:
            use = ToolUse(id=text_in(block, "id"), name=text_in(block, "name"), arguments=block.get("input"))
            result = results.get(use.id)
            if result is None:
                found.append(Used(use=use))
            else:
                content = text_or_parts(result.get("content"))
                found.append(Used(use=use, content=content, failed=_is_failure(result)))
    return found


def _is_failure(result: dict[str, Json]) -> bool:
    wrong = text_in(object_in(result, "content"), "type")
    return result.get("is_error") is True or wrong.endswith("_error")


def _is_message(item: dict[str, Json]) -> bool:
    fine = item.get("role") in _ROLES and isinstance(item.get("content"), str | list)
    return fine and not item.get("tool_calls") and not has_calls(item["content"], _BLOCKS)


def _is_response(item: dict[str, Json]) -> bool:
    return item.get("type") == "message" and "stop_reason" in item and isinstance(item.get("content"), list)


def _is_event(item: dict[str, Json]) -> bool:
    kind = item.get("type")
    return kind in _EVENTS and (kind != "message_start" or isinstance(item.get("message"), dict))


def _is_certain(item: dict[str, Json]) -> bool:
    if _is_response(item) or (_is_event(item) and item.get("type") != "ping"):
        return True
    if any(block.get("type") in _BLOCKS for block in objects_in(item, "content") if item.get("role") in _ROLES):
        return True
    if isinstance(item.get("messages"), list):
        tools = objects_in(item, "tools")
        return "anthropic_version" in item or "system" in item or any("input_schema" in tool for tool in tools)
    return _is_error(object_in(item, "body") if "exception" in item else item)


def _is_error(item: dict[str, Json]) -> bool:
    return item.get("type") == "error" and object_in(item, "error").keys() >= {"type", "message"}


def _whole(response: Json) -> Json:
    """The body of a response; a batch says first how it ended."""
    body = as_object(response)
    if body.get("type") in _BATCHED:
        return body.get("message") or {"type": "error", "error": _reason(body)}
    if "content" in body and not isinstance(body["content"], list):
        return {**body, "content": _blocks(body["content"])}
    return response


def _reason(body: dict[str, Json]) -> Json:
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

IMPORTERS.register(FORMAT)(
    ExchangeImporter(
        FORMAT, "Anthropic messages: conversations, requests, responses, streams, batches", CONVERSATION_API
    )
)
