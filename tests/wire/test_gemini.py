"""Gemini: every event is a response with the next parts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replaykit.model.events import Usage
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse
from replaykit.wire.routes import api_of

GEMINI = api_of("POST", "/v1beta/models/g:streamGenerateContent?alt=sse")
ARRAY = api_of("POST", "/v1beta/models/g:streamGenerateContent")
BODY = api_of("POST", "/v1beta/models/g:generateContent")
assert GEMINI is not None
assert ARRAY is not None
assert BODY is not None
REQUEST = b'{"contents": [{"parts": [{"text": "hi"}]}], "system_instruction": {"parts": []}, "tools": []}'


def parts(*held: Any, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(held)}} | more]}


def stream(*events: Any) -> ModelCall:
    text = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events)
    return GEMINI.read(REQUEST, 200, [text.encode()])


def body(response: Any) -> ModelCall:
    return BODY.read(REQUEST, 200, [json.dumps(response).encode()])


def piece(path: str, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value}


def test_the_request_may_be_spelled_in_either_case() -> None:
    camel = REQUEST.replace(b"system_instruction", b"systemInstruction")

    assert GEMINI.read(REQUEST, 200, []).system == GEMINI.read(camel, 200, []).system == {"parts": []}


def test_texts_go_on_and_thoughts_are_apart() -> None:
    call = stream(
        parts({"text": "Let me ", "thought": True}),
        parts({"text": "think.", "thought": True}, {"text": "It "}),
        parts({"text": "is."}, finishReason="STOP"),
    )

    assert call.answer == ModelAnswer(content="It is.", thinking="Let me think.")
    assert (call.finish_reason, call.complete, call.model) == ("STOP", True, "g")


def test_parts_that_are_no_text_are_kept() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}

    assert body(parts({"text": "See:"}, image, code, {"thoughtSignature": "s"})).answer == ModelAnswer(
        content="See:", parts=(image, code)
    )


def test_arguments_may_come_in_pieces_each_with_its_path() -> None:
    def more(*pieces: Any, **call: Any) -> dict[str, Any]:
        return parts({"functionCall": {"partialArgs": list(pieces), "willContinue": True, **call}})

    call = stream(
        parts({"functionCall": {"name": "book", "id": "f1", "willContinue": True}, "thoughtSignature": "s"}),
        more(piece("$.city", stringValue="Zü", willContinue=True)),
        more(piece("$.city", stringValue="rich"), piece("$.days", numberValue=3)),
        more(piece("$.guests[0].name", stringValue="Ada"), piece("$.guests[1].name", stringValue="Bob")),
        more(piece("$['odd key']", boolValue=True), piece("$.none", nullValue="NULL_VALUE")),
        more(piece("$.guests[9].name", stringValue="lost"), piece("nonsense", stringValue="lost")),
        parts({"functionCall": {}}),
        parts({"functionCall": {"name": "pay", "args": {"sum": 1}}}, finishReason="STOP"),
    )

    booked = {"city": "Zürich", "days": 3, "guests": [{"name": "Ada"}, {"name": "Bob"}], "odd key": True, "none": None}
    assert call.answer.tool_calls == (
        ToolUse(id="f1", name="book", arguments=booked),
        ToolUse(name="pay", arguments={"sum": 1}),
    )


def test_calls_that_follow_each_other_whole_are_two() -> None:
    one = {"functionCall": {"name": "f", "args": {"n": 1}}}
    two = {"functionCall": {"name": "f", "args": {"n": 2}}}

    assert [c.arguments for c in stream(parts(one), parts(two)).answer.tool_calls] == [{"n": 1}, {"n": 2}]


def test_a_blocked_prompt_is_a_refusal() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}

    for call in (stream(blocked), body(blocked)):
        assert call.answer == ModelAnswer(refusal="SAFETY")
        assert (call.finish_reason, call.complete, call.usage) == ("SAFETY", True, Usage(input_tokens=4))


def test_several_candidates_are_one_answer_and_its_alternatives() -> None:
    two = {"candidates": [{"index": 1, "content": {"parts": [{"text": "B"}]}}, parts({"text": "A"})["candidates"][0]]}

    assert (stream(two).answer, stream(two).alternatives) == (ModelAnswer(content="A"), (ModelAnswer(content="B"),))


def test_thinking_counts_as_output() -> None:
    usage = {"promptTokenCount": 5, "toolUsePromptTokenCount": 2, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}

    assert body(parts({"text": "x"}) | {"usageMetadata": usage}).usage == Usage(input_tokens=7, output_tokens=7)


@pytest.mark.parametrize("end", [b"]", b"\n]\n"])
def test_a_stream_may_be_one_array(end: bytes) -> None:
    text = b"[" + json.dumps(parts({"text": "It "}), indent=2).encode() + b",\r\n"
    text += json.dumps(parts({"text": "is."}, finishReason="STOP")).encode()

    whole, cut = ARRAY.read(REQUEST, 200, [text + end]), ARRAY.read(REQUEST, 200, [text])

    assert (whole.answer, whole.complete) == (ModelAnswer(content="It is."), True)
    assert not cut.complete


def test_an_error_in_a_stream_is_the_error_of_the_call() -> None:
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}

    for call in (stream(parts({"text": "So"}), error), ARRAY.read(REQUEST, 200, [json.dumps([error]).encode()])):
        assert (call.error.type, call.error.message) == ("UNAVAILABLE", "overloaded")
