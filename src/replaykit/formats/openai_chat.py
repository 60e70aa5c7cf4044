"""OpenAI chat completions and compatible APIs: messages, requests, responses, streams, batches, fine-tuning data.

    [{role: system | developer | user, content}, {role: tool, tool_call_id, content},
     {role: assistant, content, tool_calls: [{id, function: {name, arguments}}]}]
    {model, messages, tools, …}     {id, object: chat.completion, choices: [{message, finish_reason}], usage}
    {object: chat.completion.chunk, choices: [{delta}]}     {error: {message, type, param, code}}

`core.exchanges` describes the shapes around these. Tools report failures as text: `Error: …`.
"""

from __future__ import annotations

from replaykit.formats.core.exchanges import ConversationApi, has_calls, register_api, text_or_parts
from replaykit.model.values import Json, JsonObject
from replaykit.wire import openai_chat
from replaykit.wire.json_fields import as_object, as_objects, objects_in, text_in

FORMAT = "openai_chat"

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_ERROR = {"message", "type", "param", "code"}
_MESSAGE_FIELDS = ("name", "tool_call_id")


def read_messages(messages: Json) -> list[Json]:
    """Return the messages of a request; a plain text is the user's."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return list(map(_read_message, as_objects(messages)))


def _read_message(message: JsonObject) -> JsonObject:
    role = text_in(message, "role") or "user"
    if role == "assistant":
        return openai_chat.DIALECT.read_response({"choices": [{"message": message}]}).answers[0].message
    content = text_or_parts(message.get("content"))
    return {"role": role, "content": content} | {n: message[n] for n in _MESSAGE_FIELDS if message.get(n)}


def _is_message(item: JsonObject) -> bool:
    fine = item.get("role") in _ROLES and any(name in item for name in ("content", "tool_calls", "function_call"))
    return fine and not has_calls(item.get("content"))


def _is_response(item: JsonObject) -> bool:
    return any("message" in choice for choice in objects_in(item, "choices"))


def _is_event(item: JsonObject) -> bool:
    if item.get("object") == "chat.completion.chunk":
        return True
    return any("delta" in choice for choice in objects_in(item, "choices"))


def _begins(event: JsonObject, before: JsonObject) -> bool:
    return bool(event.get("id")) and bool(before.get("id")) and event["id"] != before["id"]


def _is_certain(item: JsonObject) -> bool:
    messages = objects_in(item, "messages")
    is_conversation = bool(messages) and all(map(_is_message, messages))
    wrong = as_object(item.get("error") or (item.get("body") if "exception" in item else None))
    return is_conversation or _is_message(item) or _is_response(item) or _is_event(item) or wrong.keys() >= _ERROR


def _whole(response: Json) -> Json:
    """Return a response's body; a message alone is the answer."""
    if isinstance(response, dict) and _is_message(response):
        return {"choices": [{"message": response}]}
    return response


CONVERSATION_API = ConversationApi(
    dialect=openai_chat.DIALECT,
    conversation="messages",
    read_messages=read_messages,
    is_message=_is_message,
    is_response=_is_response,
    is_event=_is_event,
    begins=_begins,
    is_certain=_is_certain,
    whole=_whole,
)

register_api(FORMAT, "OpenAI chat completions: messages, requests, responses, streams, batches", CONVERSATION_API)
