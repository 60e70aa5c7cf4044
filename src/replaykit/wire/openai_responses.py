"""OpenAI responses: a conversation of items, and an output of items."""

from __future__ import annotations

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
from replaykit.wire.openai_responses_stream import fold, unfold
from replaykit.wire.usage import usage_of

_CALLS = ("function_call", "custom_tool_call")
_PARTS = ("_call", "_call_output", "_list_tools", "_approval_request", "compaction")
"""Suffixes of the types of an output's other items."""
_UNFINISHED = ("queued", "in_progress")
RESPONSE = "resp_"
"""The prefix of response ids."""


def _read_request(body: dict[str, Json]) -> WireRequest:
    return split_request(body, "input", system="instructions")


def _read_response(body: dict[str, Json]) -> WireResponse:
    status = as_text(body.get("status"))
    reason = as_text(as_object(body.get("incomplete_details")).get("reason"))
    return WireResponse(
        answers=(_answer(as_objects(body.get("output"))),) if type(body.get("output")) is list else (),
        finish_reason=reason or status or None,
        usage=usage_of(body.get("usage"), inputs=("input_tokens",), outputs=("output_tokens",)),
        id=as_text(body.get("id")),
        model=as_text(body.get("model")),
        complete=status not in _UNFINISHED,
    )


def _answer(output: list[dict[str, Json]]) -> ModelAnswer:
    message_parts = [
        part for item in output if item.get("type") == "message" for part in as_objects(item.get("content"))
    ]
    return ModelAnswer(
        content=joined(as_text(part.get("text")) for part in message_parts),
        tool_calls=tuple(_call(item) for item in output if item.get("type") in _CALLS),
        thinking=_thinking(output),
        refusal=joined(as_text(part.get("refusal")) for part in message_parts),
        parts=tuple(item for item in output if item.get("type") not in ("message", "reasoning", *_CALLS)),
    )


def _call(item: dict[str, Json]) -> ToolUse:
    custom = item.get("type") == "custom_tool_call"
    if custom:
        arguments = as_text(item.get("input"))
    else:
        arguments = load_arguments(as_text(item.get("arguments")))
    return ToolUse(id=as_text(item.get("call_id")), name=as_text(item.get("name")), arguments=arguments)


def _thinking(output: list[dict[str, Json]]) -> str | None:
    """Return the visible reasoning: its own text or, failing that, its summary."""
    texts = []
    for item in output:
        if item.get("type") == "reasoning":
            pieces = as_objects(item.get("content")) or as_objects(item.get("summary"))
            texts += [as_text(piece.get("text")) for piece in pieces]
    return joined(texts, "\n\n")


def _fill(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
    before = as_objects(recorded.get("output"))
    calls = [item for item in before if item.get("type") in _CALLS]
    output = [
        *_reasoning(before, draft),
        *draft.answer.parts,
        *_messages(before, draft),
        *(_tool_call(draft, index, nth(calls, index) or {}) for index in range(len(draft.answer.tool_calls))),
    ]
    whole = draft.finish_reason in (None, "completed")
    state = {
        "status": "completed" if whole else "incomplete",
        "incomplete_details": None if whole else {"reason": draft.finish_reason},
        "error": None,
        "output": output,
    }
    return _envelope(draft) | recorded | state


def _envelope(draft: Draft) -> dict[str, Json]:
    """Return the members of a response that repeat its request."""
    request = draft.request
    tokens_in, tokens_out = draft.tokens
    return {
        "id": draft.mint(RESPONSE),
        "object": "response",
        "created_at": 0,
        "model": request.model,
        "instructions": request.system,
        "tools": request.tools or [],
        "tool_choice": request.parameters.get("tool_choice", "auto"),
        "parallel_tool_calls": request.parameters.get("parallel_tool_calls", True),
        "usage": {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens_in + tokens_out,
        },
    }


def _reasoning(before: list[dict[str, Json]], draft: Draft) -> list[dict[str, Json]]:
    """The recorded reasoning, with what is encrypted in it, unless the answer thinks something else."""
    recorded = [item for item in before if item.get("type") == "reasoning"]
    if draft.answer.thinking == _thinking(recorded):
        return recorded
    if draft.answer.thinking is None:
        return []
    summary = [{"type": "summary_text", "text": draft.answer.thinking}]
    return [{"id": draft.mint("rs_"), "type": "reasoning", "summary": summary}]


def _messages(before: list[dict[str, Json]], draft: Draft) -> list[dict[str, Json]]:
    recorded = [item for item in before if item.get("type") == "message"]
    recorded_answer, answer = _answer(recorded), draft.answer
    if (recorded_answer.content, recorded_answer.refusal) == (answer.content, answer.refusal):
        return recorded
    content: list[Json] = []
    if answer.content is not None:
        content.append({"type": "output_text", "text": answer.content, "annotations": [], "logprobs": []})
    if answer.refusal is not None:
        content.append({"type": "refusal", "refusal": answer.refusal})
    if not content:
        return []
    first = {"id": draft.mint("msg_"), "type": "message", "role": answer.role} | (nth(recorded, 0) or {})
    return [first | {"status": "completed", "content": content}]


def _tool_call(draft: Draft, index: int, recorded: dict[str, Json]) -> dict[str, Json]:
    call = draft.answer.tool_calls[index]
    custom = call.name in _custom_tools(draft.request.tools)
    kind, text = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
    item = {"id": draft.mint("ctc_" if custom else "fc_", index), "status": "completed"}
    return (item | without(recorded, "input", "arguments")) | {
        "type": kind,
        "call_id": call_id(draft, index, recorded.get("call_id"), "call_"),
        "name": call.name,
        text: dump_arguments(call.arguments),
    }


def _custom_tools(tools: Json) -> set[str]:
    return {as_text(tool.get("name")) for tool in as_objects(tools) if tool.get("type") == "custom"}


DIALECT = ApiDialect(
    name="openai.responses",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: as_text(part.get("type")).endswith(_PARTS),
    minted=MintedIds(
        conversation=("input",),
        ids=("id", "call_id", "encrypted_content", "approval_request_id", "container_id", "caller_id", "fingerprint"),
        into=("content", "summary", "annotations", "caller", "pending_safety_checks", "acknowledged_safety_checks"),
        answers="call_id",
        state=(("previous_response_id",), ("conversation",), ("conversation", "id")),
    ),
)
