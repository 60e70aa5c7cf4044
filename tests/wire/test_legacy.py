"""Text completions and embeddings."""

from __future__ import annotations

import json
from typing import Any

from replaykit.wire.model_calls import ModelAnswer
from replaykit.wire.routes import api_of

COMPLETIONS = api_of("POST", "/v1/completions")
EMBEDDINGS = api_of("POST", "/v1/embeddings")
assert COMPLETIONS is not None
assert EMBEDDINGS is not None
REQUEST = b'{"model": "m", "prompt": "hi", "stream": true}'


def chunk(text: str, finish_reason: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": index, "text": text, "finish_reason": finish_reason}]}


def stream(*chunks: Any) -> bytes:
    return "".join(f"data: {json.dumps(one)}\n\n" for one in chunks).encode()


def test_texts_go_on_by_their_index() -> None:
    whole = stream(chunk("It "), chunk("B", "stop", 1), chunk("is."), chunk("", "length"))
    call = COMPLETIONS.read(REQUEST, 200, [whole])

    assert (call.answer, call.alternatives) == (ModelAnswer(content="It is."), (ModelAnswer(content="B"),))
    assert (call.finish_reason, call.complete, call.messages) == ("length", True, "hi")
    assert not COMPLETIONS.read(REQUEST, 200, [stream(chunk("It "))]).complete


def test_an_error_in_a_stream_is_the_error_of_the_call() -> None:
    call = COMPLETIONS.read(REQUEST, 200, [stream(chunk("It "), {"error": {"message": "oops"}})])

    assert (call.error.message, call.answer) == ("oops", ModelAnswer(content="It "))


def test_vectors_are_parts() -> None:
    vector = {"object": "embedding", "index": 0, "embedding": "AAAA"}
    call = EMBEDDINGS.read(b'{"model": "m", "input": ["a"]}', 200, [json.dumps({"data": [vector]}).encode()])

    assert (call.messages, call.answer) == (["a"], ModelAnswer(parts=(vector,)))
