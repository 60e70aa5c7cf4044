"""Read the messages and answers that LangSmith holds, in the shapes that recordings have.

LangChain writes a message in three ways (`{lc, id, kwargs}`, `{type, data}`, `{type, content}`) and as a pair of
role and text; wrapped SDKs write the provider's own body.
"""

from __future__ import annotations

import msgspec

from replaykit.model.values import Json, JsonObject
from replaykit.wire import anthropic, openai_chat, openai_responses
from replaykit.wire.dialect import WireResponse
from replaykit.wire.json_fields import (
    as_list,
    as_object,
    as_objects,
    as_text,
    has_list,
    has_object,
    joined_texts,
    load_arguments,
    not_of_type,
    object_in,
    objects_in,
    pick,
    text_in,
    value_in,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}
_SPOKEN = ("text", "thinking", "tool_use", "input_json_delta")  # blocks of content that `ModelAnswer` has fields for
_PAIR = 2


def message_body(value: Json) -> JsonObject | None:
    """Return the fields of a LangChain message, including `type`; None for anything else."""
    if not isinstance(value, dict):
        return None
    body, kind = value, value.get("type")
    if kind == "constructor":
        body, names = object_in(value, "kwargs"), value.get("id")
        if isinstance(names, list) and names:
            kind = as_text(names[-1])
        else:
            kind = body.get("type")
    elif has_object(value, "data") and "content" not in value:
        body = value["data"]
    kind = as_text(kind).lower().removesuffix("chunk").removesuffix("message")
    if kind in _ROLES and "content" in body:
        return {**body, "type": kind}
    return None


def message_of(value: Json) -> Json:
    """Return a message as `{role, content}` with its calls; return anything but a LangChain message unchanged."""
    if isinstance(value, list) and len(value) == _PAIR and set(map(type, value)) == {str}:
        return {"role": _ROLES.get(value[0], value[0]), "content": value[1]}
    body = message_body(value)
    if body is None:
        return value
    message: JsonObject = {"role": _ROLES[body["type"]], "content": body["content"]}
    message |= pick(body, ("name", "tool_call_id"))
    calls = list(map(msgspec.structs.asdict, _calls(body)))
    if calls:
        return message | {"tool_calls": calls}
    return message


def conversation(messages: Json) -> Json:
    """Return the messages of a request, which LangChain may wrap in another list."""
    if not isinstance(messages, list):
        return messages
    wrapped = len(messages) == 1 and isinstance(messages[0], list) and not isinstance(message_of(messages[0]), dict)
    return list(map(message_of, messages[0] if wrapped else messages))


def read_outputs(outputs: Json) -> WireResponse:
    """Return the response in the outputs of a model's run; without answers if the shape is unknown."""
    body = as_object(outputs)
    if "generations" in body:
        return _read_generations(body)
    if has_list(body, "choices"):
        return openai_chat.DIALECT.read_response({**body, "choices": list(map(_choice, as_objects(body["choices"])))})
    if body.get("type") == "message" and has_list(body, "content"):
        return anthropic.DIALECT.read_response(body)
    if has_list(body, "output") and body.get("object") == "response":
        return openai_responses.DIALECT.read_response(body)
    return _read_message(body.get("output", body.get("message", outputs)))


def _read_generations(body: JsonObject) -> WireResponse:
    lists = as_list(body["generations"])
    first = as_objects(lists[0] if lists and isinstance(lists[0], list) else lists)
    if not first:
        return WireResponse()
    message = message_body(first[0].get("message"))
    info, metadata = object_in(first[0], "generation_info"), object_in(message, "response_metadata")
    reason = info.get("finish_reason") or metadata.get("finish_reason") or metadata.get("stop_reason")
    if message is None:
        answer = ModelAnswer(content=text_in(first[0], "text") or None)
    else:
        answer = _answer(message)
    return WireResponse(answers=(answer,), finish_reason=as_text(reason) or None, model=text_in(metadata, "model_name"))


def _read_message(value: Json) -> WireResponse:
    if isinstance(value, str):
        return WireResponse(answers=(ModelAnswer(content=value),))
    body = message_body(value)
    if body is not None:
        reason = object_in(body, "response_metadata").get("finish_reason")
        return WireResponse(answers=(_answer(body),), finish_reason=as_text(reason) or None)
    if as_text(value_in(value, "role")):
        return openai_chat.DIALECT.read_response({"choices": [{"message": value}]})
    return WireResponse()


def _choice(choice: JsonObject) -> JsonObject:
    """Return the choice with its reason as text: one SDK puts the last chunk of the stream there."""
    reason = choice.get("finish_reason")
    if isinstance(reason, dict):
        return {**choice, "finish_reason": reason.get("finish_reason")}
    return choice


def _answer(body: JsonObject) -> ModelAnswer:
    content = body.get("content")
    blocks = as_objects(content)
    extra = object_in(body, "additional_kwargs")
    return ModelAnswer(
        content=as_text(content) or joined_texts(blocks, "") or None,
        tool_calls=_calls(body),
        thinking=joined_texts(blocks, "", "thinking") or text_in(extra, "reasoning_content") or None,
        refusal=text_in(extra, "refusal") or None,
        parts=not_of_type(blocks, *_SPOKEN),
    )


def _calls(body: JsonObject) -> tuple[ToolUse, ...]:
    """Return the calls in a message, including those with malformed arguments."""
    calls = [*objects_in(body, "tool_calls"), *objects_in(body, "invalid_tool_calls")]
    return tuple(ToolUse(id=text_in(c, "id"), name=text_in(c, "name"), arguments=_arguments(c)) for c in calls)


def _arguments(call: JsonObject) -> Json:
    arguments = call.get("args")
    if isinstance(arguments, str):
        return load_arguments(arguments)
    if arguments is None:
        return {}
    return arguments
