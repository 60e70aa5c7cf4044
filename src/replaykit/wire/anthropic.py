"""Anthropic messages: direct, on Bedrock and on Vertex."""

from __future__ import annotations

from replaykit.model.values import Json
from replaykit.wire.anthropic_stream import fold, unfold
from replaykit.wire.dialect import ApiDialect, Draft, MintedIds, WireRequest, WireResponse, call_id, split_request
from replaykit.wire.json_fields import as_object, as_objects, as_text, joined, nth
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.usage import usage_of

_THINKING = ("thinking", "redacted_thinking")
_PARTS = ("_tool_use", "_tool_result", "container_upload", "compaction", "fallback")
"""Suffixes of the types of an answer's other blocks."""
_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _read_request(body: dict[str, Json]) -> WireRequest:
    return split_request(body, "messages", system="system")


def _read_response(body: dict[str, Json]) -> WireResponse:
    reason = as_text(body.get("stop_reason")) or None
    answers: tuple[ModelAnswer, ...] = ()
    if type(body.get("content")) is list:
        if reason == "refusal":
            refusal = as_text(as_object(body.get("stop_details")).get("explanation"))
        else:
            refusal = ""
        answers = (_answer(as_objects(body["content"]), refusal or None),)
    return WireResponse(
        answers=answers,
        finish_reason=reason,
        usage=usage_of(body.get("usage"), inputs=_INPUTS, outputs=("output_tokens",)),
        id=as_text(body.get("id")),
        model=as_text(body.get("model")),
    )


def _answer(content: list[dict[str, Json]], refusal: str | None) -> ModelAnswer:
    return ModelAnswer(
        content=_text_of(content),
        tool_calls=tuple(_call(block) for block in content if block.get("type") == "tool_use"),
        thinking=_thinking_of(content),
        refusal=refusal,
        parts=tuple(block for block in content if block.get("type") not in ("text", "tool_use", *_THINKING)),
    )


def _text_of(content: list[dict[str, Json]]) -> str | None:
    return joined(as_text(block.get("text")) for block in content if block.get("type") == "text")


def _thinking_of(content: list[dict[str, Json]]) -> str | None:
    return joined((as_text(block.get("thinking")) for block in content if block.get("type") == "thinking"), "\n\n")


def _call(block: dict[str, Json]) -> ToolUse:
    arguments = block.get("input")
    if type(arguments) in (dict, list, str):
        usable = arguments
    else:
        usable = {}
    return ToolUse(id=as_text(block.get("id")), name=as_text(block.get("name")), arguments=usable)


def _fill(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
    answer = draft.answer
    before = as_objects(recorded.get("content"))
    calls = [block for block in before if block.get("type") == "tool_use"]
    content = [
        *_thinking_blocks(before, draft),
        *answer.parts,
        *_text_blocks(before, draft),
        *(_tool_use(draft, index, nth(calls, index) or {}) for index in range(len(answer.tool_calls))),
    ]
    if answer.tool_calls:
        plain = "tool_use"
    else:
        plain = "end_turn"
    filled: dict[str, Json] = {
        "role": answer.role,
        "content": content,
        "stop_reason": draft.finish_reason or ("refusal" if answer.refusal else plain),
        "stop_sequence": None,
    }
    if answer.refusal:
        filled["stop_details"] = {"type": "refusal", "explanation": answer.refusal}
    tokens_in, tokens_out = draft.tokens
    envelope = {
        "id": draft.mint("msg_"),
        "type": "message",
        "model": draft.request.model,
        "usage": {"input_tokens": tokens_in, "output_tokens": tokens_out},
    }
    return envelope | {name: value for name, value in recorded.items() if name != "stop_details"} | filled


def _thinking_blocks(before: list[dict[str, Json]], draft: Draft) -> list[dict[str, Json]]:
    """The recorded blocks, with their signatures, unless the answer thinks something else."""
    content = draft.answer.thinking
    if content == _thinking_of(before):
        return [block for block in before if block.get("type") in _THINKING]
    if content is None:
        return []
    return [{"type": "thinking", "thinking": content, "signature": ""}]


def _text_blocks(before: list[dict[str, Json]], draft: Draft) -> list[dict[str, Json]]:
    """The recorded blocks, with their citations, unless the answer says something else."""
    content = draft.answer.content
    if content == _text_of(before):
        return [block for block in before if block.get("type") == "text"]
    if content:
        return [{"type": "text", "text": content}]
    return []


def _tool_use(draft: Draft, index: int, recorded: dict[str, Json]) -> dict[str, Json]:
    call = draft.answer.tool_calls[index]
    members = {"id": call_id(draft, index, recorded.get("id"), "toolu_"), "name": call.name, "input": call.arguments}
    return {**recorded, "type": "tool_use", **members}


DIALECT = ApiDialect(
    name="anthropic.messages",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: as_text(part.get("type")).endswith(_PARTS),
    minted=MintedIds(
        conversation=("messages",),
        ids=(
            "id",
            "tool_use_id",
            "tool_id",
            "signature",
            "encrypted_content",
            "encrypted_index",
            "encrypted_stdout",
        ),
        into=("content", "caller", "citations"),
        answers="tool_use_id",
        sealed=("redacted_thinking", "data"),
        state=(
            ("container",),
            ("container", "id"),
            ("diagnostics", "previous_message_id"),
            ("thread", "previous_message_id"),
        ),
    ),
)
