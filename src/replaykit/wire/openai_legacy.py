"""OpenAI text completions and embeddings: a prompt in, texts or vectors out."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.values import JsonObject
from replaykit.wire.dialect import (
    ApiDialect,
    Draft,
    FoldedStream,
    StreamEvents,
    WireRequest,
    WireResponse,
    split_request,
)
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_index, dump, objects_in, text_at, without, without_nulls
from replaykit.wire.model_calls import ModelAnswer
from replaykit.wire.openai_chat import openai_counts, openai_response

_DONE = b"[DONE]"


def _read_completion(body: JsonObject) -> WireResponse:
    answers = [ModelAnswer(content=text_at(choice, "text") or None) for choice in objects_in(body, "choices")]
    return openai_response(body, answers)


def _fold_completion(frames: Iterable[Frame]) -> FoldedStream:
    events = StreamEvents(frames, done=_DONE)
    top: JsonObject = {}
    choices: dict[int, JsonObject] = {}
    texts: dict[int, list[str]] = {}
    for chunk in events:
        if chunk.get("error"):
            events.error = chunk
        top |= without_nulls(without(chunk, "choices", "error"))
        for choice in objects_in(chunk, "choices"):
            index = as_index(choice.get("index"))
            texts.setdefault(index, []).append(text_at(choice, "text"))
            choices.setdefault(index, {}).update(without_nulls(choice))
    bodies = [choices[index] | {"index": index, "text": "".join(texts[index])} for index in sorted(choices)]
    finished = bool(bodies) and all(body.get("finish_reason") for body in bodies)
    if top:
        top["choices"] = bodies
    return events.folded(top, ended=finished or events.done)


def _fill_completion(recorded: JsonObject, draft: Draft) -> JsonObject:
    others = objects_in(recorded, "choices")[1:]
    reason = draft.finish_reason or "stop"
    choice = {"index": 0, "text": draft.answer.content or "", "logprobs": None, "finish_reason": reason}
    envelope = {"id": draft.mint("cmpl-"), "object": "text_completion", "created": 0, "model": draft.request.model}
    if not recorded:
        envelope["usage"] = openai_counts(draft)
    return envelope | recorded | {"choices": [choice, *others]}


def _unfold_completion(body: JsonObject, _request: WireRequest) -> list[Frame]:
    base = without(body, "choices", "usage")
    chunks = [base | {"choices": [choice]} for choice in objects_in(body, "choices")]
    if chunks and body.get("usage"):
        chunks[-1] = chunks[-1] | {"usage": body["usage"]}
    return [*(Frame(dump(chunk)) for chunk in chunks), Frame(_DONE)]


def _read_embeddings(body: JsonObject) -> WireResponse:
    vectors = body.get("data")
    answers = []
    if type(vectors) is list:
        answers.append(ModelAnswer(parts=tuple(vectors)))
    return openai_response(body, answers)


def _fill_embeddings(recorded: JsonObject, draft: Draft) -> JsonObject:
    envelope = {"object": "list", "model": draft.request.model, "usage": {"prompt_tokens": 0, "total_tokens": 0}}
    return envelope | recorded | {"data": list(draft.answer.parts)}


COMPLETIONS = ApiDialect(
    name="openai.completions",
    read_request=lambda body: split_request(body, "prompt"),
    read_response=_read_completion,
    fold=_fold_completion,
    fill=_fill_completion,
    unfold=_unfold_completion,
    carries=frozenset({"content"}),
)
EMBEDDINGS = ApiDialect(
    name="openai.embeddings",
    read_request=lambda body: split_request(body, "input"),
    read_response=_read_embeddings,
    fold=_fold_completion,  # vectors are never streamed
    fill=_fill_embeddings,
    unfold=_unfold_completion,
    carries=frozenset({"parts"}),
)
