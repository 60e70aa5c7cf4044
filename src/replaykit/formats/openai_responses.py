"""OpenAI responses: items, requests, responses, streams, batches.

    [{role, content}, {type: reasoning, summary}, {type: function_call, call_id, name, arguments},
     {type: function_call_output, call_id, output}, {type: message, role, content: [{type: output_text, text}]}, …]
    {model, instructions, input, tools, previous_response_id | conversation, …}
    {id, object: response, status, output: [item, …], error, usage}     {type: response.created | …, sequence_number}

Calls and results share their `call_id`. Consecutive items of the model form one answer. Tools that the provider runs
(`web_search_call`, `mcp_call`, `code_interpreter_call`, …) belong inside the model call. History that the provider
keeps (`previous_response_id`, `conversation`) is known only if the file has it. `core.exchanges` describes the shapes
around these.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec.structs import replace

from replaykit.formats.core.exchanges import ConversationApi, has_calls, register_api, text_or_parts
from replaykit.formats.core.threads import Used
from replaykit.model.values import Json, JsonObject
from replaykit.wire import openai_responses
from replaykit.wire.json_fields import (
    as_objects,
    as_text,
    filled_in,
    has_list,
    joined_texts,
    load_arguments,
    objects_in,
    of_type,
    text_in,
    value_in,
    without,
    without_nulls,
)
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse

FORMAT = "openai_responses"

_ROLES = ("user", "assistant", "system", "developer")
_MODEL_ITEMS = ("reasoning", "mcp_list_tools", "mcp_approval_request", "compaction")
# Calls that the provider requests and the agent makes.
_BY_AGENT = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request")
_FAILED = ("failed", "incomplete")
# Members of a provider's call that are neither its arguments nor its result.
_NO_RESULT = ("type", "id", "call_id", "container_id", "name", "server_label", "approval_request_id")
_ADVICE = (
    "OpenAI keeps what went before `previous_response_id` or `conversation`: send the whole conversation as `input` "
    "(with `store: false`), or log every request of it."
)


def read_messages(items: Json) -> list[Json]:
    """Return the messages in a request's items; a plain text is the user's."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    found: list[Json] = []
    for by_model, group in groupby(as_objects(items), _is_by_model):
        found += _read_group(by_model, list(group))
    return found


def _read_group(by_model: bool, items: list[JsonObject]) -> Iterator[JsonObject]:
    if by_model:
        for answer in openai_responses.DIALECT.read_response({"output": list(map(_item, items))}).answers:
            yield _answer(answer).message
        return
    for item in items:
        if "role" not in item and _call_id(item):
            yield _result(item)
        else:
            yield _spoken(item)


def _is_by_model(item: JsonObject) -> bool:
    """Return whether the model produced the item."""
    kind = text_in(item, "type")
    return item.get("role") == "assistant" or kind in _MODEL_ITEMS or kind.endswith("_call")


def _item(item: JsonObject) -> JsonObject:
    """Return the item in the form of responses: requests may write a message as role and text."""
    if item.get("role") != "assistant":
        return item
    content = item.get("content")
    if isinstance(content, str):
        content = [{"text": content}]
    return {**item, "type": "message", "content": content}


def _spoken(item: JsonObject) -> JsonObject:
    role = text_in(item, "role")
    if role:
        return {"role": role, "content": text_or_parts(item.get("content"))}
    return {"role": text_in(item, "type"), "content": item}


def _result(item: JsonObject) -> JsonObject:
    content: Json = without(item, "type", "id", "call_id")
    if "output" in item:
        content = text_or_parts(item["output"])
    message = {"role": "tool", "content": content, "tool_call_id": _call_id(item)}
    if item.get("status") in _FAILED:
        message["status"] = "error"
    return message


def _call_id(item: JsonObject) -> str:
    """Return the id of the call that an item is the result of; empty for other items."""
    kind = text_in(item, "type")
    if kind == "mcp_approval_response":
        return text_in(item, "approval_request_id")
    if kind.endswith("_call_output"):
        return text_in(item, "call_id", "id")
    return ""


def _answer(answer: ModelAnswer) -> ModelAnswer:
    """Return the answer with the calls that the agent has to make; calls of the provider have their result beside
    them."""
    parts = list(answer.parts)
    done = {_call_id(part) for part in as_objects(parts)} - {""}
    calls = [part for part in of_type(parts, *_BY_AGENT) if part.get("call_id") not in done]
    if not calls:
        return answer
    rest = tuple(part for part in parts if part not in calls)
    return replace(answer, tool_calls=(*answer.tool_calls, *map(_requested_call, calls)), parts=rest)


def _requested_call(item: JsonObject) -> ToolUse:
    kind = text_in(item, "type")
    arguments = filled_in(item, "action", "actions", "operation")
    if arguments is None:
        arguments = without(item, "type", "id", "call_id", "status")
    return ToolUse(id=text_in(item, "call_id", "id"), name=kind.removesuffix("_call"), arguments=arguments)


def _used(answer: ModelAnswer) -> list[Used]:
    """Return the calls that the provider made."""
    parts = as_objects(list(answer.parts))
    results = {call_id: part for part in parts if (call_id := _call_id(part))}
    return [_use(part, results) for part in parts if text_in(part, "type").endswith("_call")]


def _use(item: JsonObject, results: dict[str, JsonObject]) -> Used:
    """Return the call in an item: its arguments, and everything else as its result."""
    kind = text_in(item, "type").removesuffix("_call")
    # Each of the provider's tools names its arguments differently; by default it is `action`.
    arguments_name = {"mcp": "arguments", "file_search": "queries", "code_interpreter": "code"}.get(kind, "action")
    arguments = item.get(arguments_name)
    if isinstance(arguments, str) and arguments_name == "arguments":
        arguments = load_arguments(arguments)
    elif not isinstance(arguments, dict):
        arguments = without_nulls({arguments_name: arguments})
    content: Json = without_nulls(without(item, arguments_name, *_NO_RESULT))
    wrong, own_id = item.get("error"), text_in(item, "call_id")
    if results.get(own_id):
        content = text_or_parts(results[own_id].get("output"))
    if wrong is not None:
        content = joined_texts(objects_in(wrong, "content")) or wrong
    elif item.get("output") is not None:
        content = item["output"]
    use = ToolUse(id=own_id or text_in(item, "id"), name=text_in(item, "name") or kind, arguments=arguments)
    return Used(use=use, content=content, failed=wrong is not None or item.get("status") == "failed")


def _history_id(call: ModelCall) -> str:
    """Return the id of the response, conversation or item that the request continues."""
    found = text_in(call.parameters, "previous_response_id") or _conversation(call)
    for item in of_type(call.messages, "item_reference"):
        found = found or text_in(item, "id")
    return found


def _keeps(call: ModelCall) -> tuple[str, ...]:
    return tuple(filter(None, (call.response_id, _conversation(call))))


def _conversation(call: ModelCall) -> str:
    conversation = call.parameters.get("conversation")
    return as_text(conversation) or as_text(value_in(conversation, "id"))


def _is_message(item: JsonObject) -> bool:
    if item.get("role") in _ROLES:
        fine = "content" in item and item.get("type", "message") == "message" and "tool_calls" not in item
        return fine and not has_calls(item["content"])
    kind = text_in(item, "type")
    return kind in (*_MODEL_ITEMS, "item_reference") or kind.endswith("_call") or bool(_call_id(item))


def _is_response(item: JsonObject) -> bool:
    return item.get("object") == "response" and has_list(item, "output")


def _is_event(item: JsonObject) -> bool:
    kind = text_in(item, "type")
    return kind.startswith("response.") or (kind == "error" and "sequence_number" in item)


def _is_certain(item: JsonObject) -> bool:
    if _is_response(item) or (_is_event(item) and ("sequence_number" in item or "response" in item)):
        return True
    if "model" in item and isinstance(item.get("input"), str | list) and "messages" not in item:
        items = as_objects(item["input"])
        named = any(name in item for name in ("instructions", "previous_response_id", "conversation", "tools"))
        return named or (bool(items) and all(map(_is_message, items)))
    kind = text_in(item, "type")
    if kind == "message" and item.get("role") in _ROLES:
        return bool(of_type(objects_in(item, "content"), "output_text", "input_text"))
    if kind == "reasoning":
        return has_list(item, "summary")
    return bool(_call_id(item)) or (kind.endswith("_call") and ("call_id" in item or "status" in item))


def _whole(response: Json) -> Json:
    """Return a response's body; people may have kept only the output."""
    items = as_objects(response)
    if items and all(map(_is_by_model, items)):
        return {"output": list(map(_item, items))}
    return response


CONVERSATION_API = ConversationApi(
    dialect=openai_responses.DIALECT,
    conversation="input",
    read_messages=read_messages,
    is_message=_is_message,
    is_response=_is_response,
    is_event=_is_event,
    begins=lambda event, _before: event.get("type") == "response.created",
    is_certain=_is_certain,
    whole=_whole,
    answer=_answer,
    used=_used,
    history_id=_history_id,
    keeps=_keeps,
    advice=(_ADVICE,),
)

register_api(FORMAT, "OpenAI responses: items, requests, responses, streams, batches", CONVERSATION_API)
