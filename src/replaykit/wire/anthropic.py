"""Anthropic messages, direct, on Bedrock and on Vertex. A stream consists of blocks that start, grow and stop."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.values import Json, JsonObject
from replaykit.wire.dialect import (
    ApiDialect,
    Draft,
    FoldedStream,
    MintedIds,
    StreamEvents,
    WireRequest,
    WireResponse,
    call_id,
    split_request,
)
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import (
    as_objects,
    as_text,
    dump,
    dump_arguments,
    has_list,
    joined_at,
    load_arguments,
    not_of_type,
    nth,
    object_in,
    objects_in,
    of_type,
    text_at,
    without,
    without_nulls,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse, usage_of

_THINKING = ("thinking", "redacted_thinking")
# Suffixes of the types of other blocks in an answer.
_PARTS = ("_tool_use", "_tool_result", "container_upload", "compaction", "fallback")
_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _read_request(body: JsonObject) -> WireRequest:
    return split_request(body, "messages", system="system")


def _read_response(body: JsonObject) -> WireResponse:
    reason = text_at(body, "stop_reason") or None
    answers: tuple[ModelAnswer, ...] = ()
    if has_list(body, "content"):
        refusal = ""
        if reason == "refusal":
            refusal = text_at(object_in(body, "stop_details"), "explanation")
        answers = (_answer(as_objects(body["content"]), refusal or None),)
    return WireResponse(
        answers=answers,
        finish_reason=reason,
        usage=usage_of(body.get("usage"), inputs=_INPUTS, outputs=("output_tokens",)),
        id=text_at(body, "id"),
        model=text_at(body, "model"),
    )


def _answer(content: list[JsonObject], refusal: str | None) -> ModelAnswer:
    return ModelAnswer(
        content=_text_of(content),
        tool_calls=tuple(map(_call, of_type(content, "tool_use"))),
        thinking=_thinking_of(content),
        refusal=refusal,
        parts=not_of_type(content, "text", "tool_use", *_THINKING),
    )


def _text_of(content: list[JsonObject]) -> str | None:
    return joined_at(of_type(content, "text"), "text")


def _thinking_of(content: list[JsonObject]) -> str | None:
    return joined_at(of_type(content, "thinking"), "thinking", "\n\n")


def _call(block: JsonObject) -> ToolUse:
    arguments = block.get("input")
    if type(arguments) not in (dict, list, str):
        arguments = {}
    return ToolUse(id=text_at(block, "id"), name=text_at(block, "name"), arguments=arguments)


def _fill(recorded: JsonObject, draft: Draft) -> JsonObject:
    answer = draft.answer
    before = objects_in(recorded, "content")
    calls = of_type(before, "tool_use")
    content = [*_thinking_blocks(before, draft), *answer.parts, *_text_blocks(before, draft)]
    for index in range(len(answer.tool_calls)):
        content.append(_tool_use(draft, index, nth(calls, index)))
    reason = "end_turn"
    if answer.refusal:
        reason = "refusal"
    elif answer.tool_calls:
        reason = "tool_use"
    filled: JsonObject = {
        "role": answer.role,
        "content": content,
        "stop_reason": draft.finish_reason or reason,
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
    return envelope | without(recorded, "stop_details") | filled


def _thinking_blocks(before: list[JsonObject], draft: Draft) -> list[JsonObject]:
    """Return the recorded blocks with their signatures, unless the answer has other thoughts."""
    content = draft.answer.thinking
    if content == _thinking_of(before):
        return of_type(before, *_THINKING)
    if content is None:
        return []
    return [{"type": "thinking", "thinking": content, "signature": ""}]


def _text_blocks(before: list[JsonObject], draft: Draft) -> list[JsonObject]:
    """Return the recorded blocks with their citations, unless the answer has another text."""
    content = draft.answer.content
    if content == _text_of(before):
        return of_type(before, "text")
    if content:
        return [{"type": "text", "text": content}]
    return []


def _tool_use(draft: Draft, index: int, recorded: JsonObject) -> JsonObject:
    call = draft.answer.tool_calls[index]
    members = {"id": call_id(draft, index, recorded.get("id"), "toolu_"), "name": call.name, "input": call.arguments}
    return {**recorded, "type": "tool_use", **members}


_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_AT_STOP = ("stop_reason", "stop_sequence", "stop_details", "container")
# Delta types, and the member of each with a piece of text.
_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "compaction_delta": "content",
}


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """Return the message that the events form; it ends with `message_stop`."""
    events = StreamEvents(frames)
    message: JsonObject = {}
    blocks: dict[int, _Block] = {}
    ended = False
    for event in events:
        kind = text_at(event, "type")
        index = event.get("index")
        if kind == "message_start":
            message = dict(object_in(event, "message"))
        elif kind == "content_block_start" and type(index) is int:
            blocks[index] = _Block(object_in(event, "content_block"))
        elif kind == "content_block_delta" and type(index) is int:
            blocks.setdefault(index, _Block({})).add(object_in(event, "delta"))
        elif kind == "message_delta":
            message |= object_in(event, "delta")
            # Counts are running totals; a missing one keeps the previous value.
            message["usage"] = object_in(message, "usage") | without_nulls(object_in(event, "usage"))
        elif kind == "message_stop":
            ended = True
        elif kind == "error" or (event.get("error") and not kind):
            events.error = event
    if message or blocks:
        message["content"] = [blocks[index].body() for index in sorted(blocks)]
    return events.folded(message, ended=ended)


class _Block:
    """A growing block of a stream."""

    def __init__(self, block: JsonObject) -> None:
        self._block = block
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Json] = []
        self._rest: JsonObject = {}

    def add(self, delta: JsonObject) -> None:
        kind = text_at(delta, "type")
        if kind in _GROWS:
            self._pieces.setdefault(_GROWS[kind], []).append(text_at(delta, _GROWS[kind]))
        elif kind == "citations_delta":
            self._citations.append(delta.get("citation"))
        if kind in ("signature_delta", "compaction_delta"):
            self._rest |= without(delta, "type", "content")

    def body(self) -> JsonObject:
        block: JsonObject = {"type": _GROWN_TYPES.get(next(iter(self._pieces), ""), "text")} | self._block | self._rest
        for name, pieces in self._pieces.items():
            text = "".join(pieces)
            if name == "partial_json":
                block.setdefault("input", {})
                if text:
                    block["input"] = load_arguments(text)
            else:
                block[name] = text_at(block, name) + text
        if self._citations:
            block["citations"] = self._citations
        return block


# The type of a block without a start, by the member that grew.
_GROWN_TYPES = {"thinking": "thinking", "partial_json": "tool_use"}


def unfold(body: JsonObject, _request: WireRequest) -> list[Frame]:
    """Return the events of a message."""
    stop = {name: body[name] for name in _AT_STOP if name in body}
    # In the message that starts a stream, members that only the end determines are null.
    began = body | dict.fromkeys(stop) | {"content": []}
    events: list[JsonObject] = [{"type": "message_start", "message": began}]
    for index, block in enumerate(objects_in(body, "content")):
        empty, deltas = _grown(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    usage = {"output_tokens": 0} | object_in(body, "usage")
    events += [{"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]
    return [Frame(dump(event), as_text(event["type"])) for event in events]


def _grown(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return the empty block, and the deltas that fill it."""
    kind = block.get("type")
    if kind == "text":
        deltas = [{"type": "citations_delta", "citation": cited} for cited in objects_in(block, "citations")]
        empty: JsonObject = block | {"text": ""}
        if deltas:
            empty["citations"] = []
        return empty, [{"type": "text_delta", "text": block.get("text")}, *deltas]
    if kind == "thinking":
        return block | {"thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block.get("thinking")},
            {"type": "signature_delta", "signature": block.get("signature", "")},
        ]
    if kind in _CALLS:
        text = dump_arguments(block.get("input", {}))
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": text}]
    return block, []


DIALECT = ApiDialect(
    name="anthropic.messages",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: text_at(part, "type").endswith(_PARTS),
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
