"""Gemini `generateContent`: contents made of parts; Gemini API and Vertex."""

from __future__ import annotations

from replaykit.errors import UsageError
from replaykit.model.values import Json
from replaykit.wire.dialect import ApiDialect, Draft, MintedIds, WireRequest, WireResponse, split_request
from replaykit.wire.gemini_stream import fold, unfold
from replaykit.wire.json_fields import as_object, as_objects, as_text, joined, nth, without
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.usage import usage_of

_PARTS = frozenset(
    ("inlineData", "fileData", "executableCode", "codeExecutionResult", "functionResponse", "toolCall", "toolResponse")
)
"""Members of an answer's other parts."""
_INPUTS = ("promptTokenCount", "toolUsePromptTokenCount")
_OUTPUTS = ("candidatesTokenCount", "thoughtsTokenCount")


def _read_request(body: dict[str, Json]) -> WireRequest:
    return split_request(
        body, "contents", system="system_instruction" if "system_instruction" in body else "systemInstruction"
    )


def _read_response(body: dict[str, Json]) -> WireResponse:
    candidates = as_objects(body.get("candidates"))
    feedback = as_object(body.get("promptFeedback"))
    answers = tuple(_answer(_parts(candidate)) for candidate in candidates)
    if (refusal := _refusal(feedback)) and not answers:
        answers = (ModelAnswer(refusal=refusal),)
    return WireResponse(
        answers=answers,
        finish_reason=as_text(candidates[0].get("finishReason") if candidates else feedback.get("blockReason")) or None,
        usage=usage_of(body.get("usageMetadata"), inputs=_INPUTS, outputs=_OUTPUTS),
        id=as_text(body.get("responseId")),
        model=as_text(body.get("modelVersion")),
    )


def _refusal(feedback: dict[str, Json]) -> str | None:
    return as_text(feedback.get("blockReasonMessage")) or as_text(feedback.get("blockReason")) or None


def _parts(candidate: dict[str, Json]) -> list[dict[str, Json]]:
    return as_objects(as_object(candidate.get("content")).get("parts"))


def _answer(parts: list[dict[str, Json]]) -> ModelAnswer:
    return ModelAnswer(
        content=_text(parts, thought=False),
        tool_calls=tuple(_call(part) for part in parts if _is_call(part)),
        thinking=_text(parts, thought=True),
        parts=tuple(part for part in parts if "text" not in part and not _is_call(part) and set(part) != _SIGNATURE),
    )


_SIGNATURE = {"thoughtSignature"}


def _text(parts: list[dict[str, Json]], *, thought: bool) -> str | None:
    return joined(as_text(part.get("text")) for part in parts if bool(part.get("thought")) is thought)


def _is_call(part: dict[str, Json]) -> bool:
    return type(part.get("functionCall")) is dict


def _call(part: dict[str, Json]) -> ToolUse:
    call = part["functionCall"]
    return ToolUse(id=as_text(call.get("id")), name=as_text(call.get("name")), arguments=as_object(call.get("args")))


def _fill(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
    tokens_in, tokens_out = draft.tokens
    counts = {
        "promptTokenCount": tokens_in,
        "candidatesTokenCount": tokens_out,
        "totalTokenCount": tokens_in + tokens_out,
    }
    envelope: dict[str, Json] = {"modelVersion": draft.request.model, "responseId": draft.mint("")}
    if not recorded:
        envelope["usageMetadata"] = counts
    rest = without(recorded, "promptFeedback", "candidates")
    if draft.answer.refusal:
        return envelope | rest | {"promptFeedback": _blocked(as_object(recorded.get("promptFeedback")), draft)}
    first, *others = as_objects(recorded.get("candidates")) or [{}]
    return envelope | rest | {"candidates": [_candidate(_parts(first), draft), *others]}


def _blocked(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
    """A prompt that was blocked: the one form of refusal that has a text, and it has no answer beside it."""
    answer = draft.answer
    if answer.content or answer.thinking or answer.tool_calls or answer.parts:
        raise UsageError("an answer of gemini.generate is refused or says something, not both")
    if _refusal(recorded) == answer.refusal:
        return recorded
    return {"blockReason": draft.finish_reason or "OTHER", "blockReasonMessage": answer.refusal}


def _candidate(before: list[dict[str, Json]], draft: Draft) -> dict[str, Json]:
    calls = [part for part in before if _is_call(part)]
    answer = draft.answer
    parts = [
        *_texts(before, answer.thinking, thought=True),
        *answer.parts,
        *_texts(before, answer.content, thought=False),
        *(_function_call(call, nth(calls, index) or {}) for index, call in enumerate(answer.tool_calls)),
    ]
    content = {"parts": parts, "role": "model"}
    return {"content": content, "finishReason": draft.finish_reason or "STOP", "index": 0}


def _texts(before: list[dict[str, Json]], content: str | None, *, thought: bool) -> list[dict[str, Json]]:
    """The recorded parts, with their signatures, unless the answer says something else."""
    if content == _text(before, thought=thought):
        return [part for part in before if "text" in part and bool(part.get("thought")) is thought]
    if not content:
        return []
    return [{"text": content, "thought": True} if thought else {"text": content}]


def _function_call(call: ToolUse, recorded: dict[str, Json]) -> dict[str, Json]:
    if type(call.arguments) is not dict:
        raise UsageError(f"tool call {call.name!r}: this API takes its arguments as an object")
    identity = call.id or as_text(as_object(recorded.get("functionCall")).get("id"))
    members: dict[str, Json] = {"id": identity} if identity else {}
    return recorded | {"functionCall": members | {"name": call.name, "args": call.arguments}}


DIALECT = ApiDialect(
    name="gemini.generate",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: not _PARTS.isdisjoint(part),
    minted=MintedIds(
        conversation=("contents",),
        ids=("id", "thoughtSignature", "thought_signature"),
        into=(
            "parts",
            *("functionCall", "functionResponse", "toolCall", "toolResponse", "executableCode", "codeExecutionResult"),
            *("function_call", "function_response"),
        ),
    ),
)
