"""OpenAI chat completions, and the many that speak alike (Azure, gateways, local servers)."""

from __future__ import annotations

from replaykit.errors import UsageError
from replaykit.model.events import Usage
from replaykit.model.values import Json
from replaykit.wire.dialect import ApiDialect, Draft, MintedIds, WireRequest, WireResponse, call_id, split_request
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    as_text,
    dump_arguments,
    joined,
    load_arguments,
    nth,
    without,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.openai_chat_stream import fold, unfold
from replaykit.wire.usage import usage_of

_THINKING = ("reasoning_content", "reasoning")
"""The names under which a message shows its thinking in the open; gateways disagree."""
_KNOWN = ("role", "content", "refusal", "tool_calls", "function_call", *_THINKING)


def _read_request(body: dict[str, Json]) -> WireRequest:
    return split_request(body, "messages", tools="functions" if _is_old(body) else "tools")


def _is_old(body: dict[str, Json]) -> bool:
    """True for a request from before there were tools, which is answered in the old way too."""
    return "functions" in body and "tools" not in body


def _read_response(body: dict[str, Json]) -> WireResponse:
    choices = as_objects(body.get("choices"))
    return WireResponse(
        answers=tuple(_answer(as_object(choice.get("message"))) for choice in choices),
        finish_reason=as_text(choices[0].get("finish_reason")) or None if choices else None,
        usage=chat_usage(body),
        id=as_text(body.get("id")),
        model=as_text(body.get("model")),
    )


def chat_usage(body: dict[str, Json]) -> Usage | None:
    """The usage of a body, wherever the server put it."""
    counts = body.get("usage") or as_object(body.get("x_groq")).get("usage")
    return usage_of(counts, inputs=("prompt_tokens",), outputs=("completion_tokens",))


def _answer(message: dict[str, Json]) -> ModelAnswer:
    content = message.get("content")
    blocks = as_objects(content)
    named = next((message[name] for name in _THINKING if message.get(name)), None)
    return ModelAnswer(
        role=as_text(message.get("role")) or "assistant",
        content=as_text(content) or joined(as_text(one.get("text")) for one in blocks if one.get("type") == "text"),
        tool_calls=_calls(message),
        thinking=as_text(named) or joined(_thought(block) for block in blocks),
        refusal=as_text(message.get("refusal")) or None,
        parts=(
            *(block for block in blocks if block.get("type") not in ("text", "thinking")),
            *({name: value} for name, value in message.items() if name not in _KNOWN and value),
        ),
    )


def _thought(block: dict[str, Json]) -> str:
    """The text of a block of thinking, where thinking is a part of the content."""
    pieces = block.get("thinking")
    return as_text(pieces) or joined(as_text(piece.get("text")) for piece in as_objects(pieces)) or ""


def _calls(message: dict[str, Json]) -> tuple[ToolUse, ...]:
    calls = []
    for call in as_objects(message.get("tool_calls")):
        custom, function = as_object(call.get("custom")), as_object(call.get("function"))
        name = as_text((custom or function).get("name"))
        if custom:
            arguments = as_text(custom.get("input"))
        else:
            arguments = _arguments(function)
        calls.append(ToolUse(id=as_text(call.get("id")), name=name, arguments=arguments))
    if legacy := as_object(message.get("function_call")):
        calls.append(ToolUse(name=as_text(legacy.get("name")), arguments=_arguments(legacy)))
    return tuple(calls)


def _arguments(function: dict[str, Json]) -> Json:
    arguments = function.get("arguments")
    if type(arguments) is dict:
        return arguments
    return load_arguments(as_text(arguments))


def _fill(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
    choices = as_objects(recorded.get("choices"))
    choice = nth(choices, 0) or {}
    if _is_old(draft.request.body):
        called = "function_call"
    else:
        called = "tool_calls"
    filled = {
        "index": 0,
        "message": _message(as_object(choice.get("message")), draft),
        "logprobs": None,
        "finish_reason": draft.finish_reason or (called if draft.answer.tool_calls else "stop"),
    }
    envelope = {"id": draft.mint("chatcmpl-"), "object": "chat.completion", "created": 0, "model": draft.request.model}
    return envelope | ({} if recorded else _usage(draft)) | recorded | {"choices": [filled, *choices[1:]]}


def _usage(draft: Draft) -> dict[str, Json]:
    """The usage of an answer that was never on the wire; a stream tells it only to those who ask."""
    request = draft.request
    if request.streamed and not as_object(request.body.get("stream_options")).get("include_usage"):
        return {}
    tokens_in, tokens_out = draft.tokens
    counts = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    return {"usage": counts}


def _message(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
    answer = draft.answer
    blocks = [part for part in answer.parts if "type" in as_object(part)]
    message: dict[str, Json] = {"role": answer.role, "content": answer.content, "refusal": answer.refusal}
    for part in answer.parts:
        message |= {} if part in blocks else as_object(part)
    in_content = type(recorded.get("content")) is list
    if answer.thinking and in_content:
        blocks.insert(0, {"type": "thinking", "thinking": [{"type": "text", "text": answer.thinking}]})
    elif answer.thinking:
        message[next((name for name in _THINKING if name in recorded), _THINKING[0])] = answer.thinking
    if blocks:
        message["content"] = [*blocks, *([{"type": "text", "text": answer.content}] if answer.content else [])]
    return message | _tool_calls_member(as_objects(recorded.get("tool_calls")), draft)


def _tool_calls_member(recorded: list[dict[str, Json]], draft: Draft) -> dict[str, Json]:
    """The member of a message that calls tools, if it calls any."""
    calls = draft.answer.tool_calls
    if not calls:
        return {}
    if not _is_old(draft.request.body):
        return {"tool_calls": [_tool_call(draft, index, nth(recorded, index) or {}) for index in range(len(calls))]}
    if len(calls) > 1:
        raise UsageError("a request with `functions` can be answered with one call only")
    return {"function_call": {"name": calls[0].name, "arguments": dump_arguments(calls[0].arguments)}}


def _tool_call(draft: Draft, index: int, recorded: dict[str, Json]) -> dict[str, Json]:
    call = draft.answer.tool_calls[index]
    common = without(recorded, "function", "custom") | {"id": call_id(draft, index, recorded.get("id"), "call_")}
    if call.name in _custom_tools(draft.request.tools):
        return common | {"type": "custom", "custom": {"name": call.name, "input": dump_arguments(call.arguments)}}
    function = {"name": call.name, "arguments": dump_arguments(call.arguments)}
    return common | {"type": "function", "function": function}


def _custom_tools(tools: Json) -> set[str]:
    customs = (as_object(tool.get("custom")) for tool in as_objects(tools) if tool.get("type") == "custom")
    return {as_text(custom.get("name")) for custom in customs}


DIALECT = ApiDialect(
    name="openai.chat",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: "type" not in part,
    minted=MintedIds(
        conversation=("messages",),
        ids=("id", "tool_call_id", "signature", "thought_signature", "thoughtSignature", "encrypted_content"),
        into=("content", "tool_calls", "audio", "reasoning_details", "thinking_blocks", "extra_content", "google"),
        answers="tool_call_id",
        sealed=("reasoning.encrypted", "data"),
    ),
)
