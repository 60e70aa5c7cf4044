"""OpenAI text completions and embeddings: a prompt in, texts or vectors out."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.values import Json
from replaykit.wire.dialect import ApiDialect, Draft, FoldedStream, WireRequest, WireResponse, split_request
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_objects, as_text, dump, without
from replaykit.wire.model_calls import ModelAnswer
from replaykit.wire.openai_chat import chat_usage
from replaykit.wire.stream_events import StreamEvents

_DONE = b"[DONE]"


def _response(
    body: dict[str, Json], answers: tuple[ModelAnswer, ...], finish_reason: str | None = None
) -> WireResponse:
    return WireResponse(
        answers=answers,
        finish_reason=finish_reason,
        usage=chat_usage(body),
        id=as_text(body.get("id")),
        model=as_text(body.get("model")),
    )


def _read_completion(body: dict[str, Json]) -> WireResponse:
    choices = as_objects(body.get("choices"))
    answers = tuple(ModelAnswer(content=as_text(choice.get("text")) or None) for choice in choices)
    return _response(body, answers, as_text(choices[0].get("finish_reason")) or None if choices else None)


def _fold_completion(frames: Iterable[Frame]) -> FoldedStream:
    events = StreamEvents(frames, done=_DONE)
    top: dict[str, Json] = {}
    choices: dict[int, dict[str, Json]] = {}
    texts: dict[int, list[str]] = {}
    for chunk in events:
        if chunk.get("error"):
            events.error = chunk
        top |= {name: value for name, value in without(chunk, "choices", "error").items() if value is not None}
        for choice in as_objects(chunk.get("choices")):
            if type(choice.get("index")) is int:
                index = choice["index"]
            else:
                index = 0
            texts.setdefault(index, []).append(as_text(choice.get("text")))
            response = {name: value for name, value in choice.items() if value is not None}
            choices.setdefault(index, {}).update(response)
    bodies = [choices[index] | {"index": index, "text": "".join(texts[index])} for index in sorted(choices)]
    finished = bool(bodies) and all(body.get("finish_reason") for body in bodies)
    return events.folded(top | {"choices": bodies} if top else {}, ended=finished or events.done)


def _fill_completion(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
    others = as_objects(recorded.get("choices"))[1:]
    reason = draft.finish_reason or "stop"
    choice = {"index": 0, "text": draft.answer.content or "", "logprobs": None, "finish_reason": reason}
    tokens_in, tokens_out = draft.tokens
    counts = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    envelope = {"id": draft.mint("cmpl-"), "object": "text_completion", "created": 0, "model": draft.request.model}
    if not recorded:
        envelope["usage"] = counts
    return envelope | recorded | {"choices": [choice, *others]}


def _unfold_completion(body: dict[str, Json], _request: WireRequest) -> list[Frame]:
    base = without(body, "choices", "usage")
    chunks = [base | {"choices": [choice]} for choice in as_objects(body.get("choices"))]
    if chunks and body.get("usage"):
        chunks[-1] = chunks[-1] | {"usage": body["usage"]}
    return [*(Frame(dump(chunk)) for chunk in chunks), Frame(_DONE)]


def _read_embeddings(body: dict[str, Json]) -> WireResponse:
    vectors = body.get("data")
    return _response(body, (ModelAnswer(parts=tuple(vectors)),) if type(vectors) is list else ())


def _fill_embeddings(recorded: dict[str, Json], draft: Draft) -> dict[str, Json]:
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
    fold=_fold_completion,  # nothing streams vectors
    fill=_fill_embeddings,
    unfold=_unfold_completion,
    carries=frozenset({"parts"}),
)
