"""Ollama: a line per piece, and a last one that counts."""

from __future__ import annotations

import json
from typing import Any

from replaykit.model.events import Usage
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse
from replaykit.wire.routes import api_of

CHAT = api_of("POST", "/api/chat")
GENERATE = api_of("POST", "/api/generate")
assert CHAT is not None
assert GENERATE is not None
REQUEST = b'{"model": "m", "messages": [], "options": {"seed": 1}}'


def lines(*events: Any) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def chat(*events: Any) -> ModelCall:
    return CHAT.read(REQUEST, 200, [lines(*events)])


def piece(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", **message}, "done": False}


DONE = {
    "model": "m",
    "message": {"content": ""},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 3,
    "eval_count": 4,
}


def test_an_answer_streams_unless_the_request_says_otherwise() -> None:
    assert chat(DONE).streamed
    assert not CHAT.read(b'{"messages": [], "stream": false}', 200, [lines(DONE)]).streamed


def test_pieces_go_on_until_one_is_done() -> None:
    image = "iVBORw0KGgo="
    call = chat(
        piece(thinking="Hm, "),
        piece(thinking="snow."),
        piece(content="It "),
        piece(content="snows.", images=[image]),
        piece(tool_calls=[{"function": {"name": "f", "arguments": {"id": 1}}}]),
        piece(tool_calls=[{"id": "c2", "function": {"name": "g", "arguments": {}}}]),
        DONE,
    )

    assert call.answer == ModelAnswer(
        content="It snows.",
        thinking="Hm, snow.",
        tool_calls=(ToolUse(name="f", arguments={"id": 1}), ToolUse(id="c2", name="g")),
        parts=({"images": [image]},),
    )
    assert (call.finish_reason, call.usage, call.complete) == ("stop", Usage(input_tokens=3, output_tokens=4), True)


def test_without_the_last_line_it_is_not_complete() -> None:
    call = chat(piece(content="It "))

    assert (call.answer, call.complete, call.problem) == (ModelAnswer(content="It "), False, None)


def test_an_error_in_a_stream_is_a_text() -> None:
    call = chat(piece(content="It "), {"error": "model runner has stopped"})

    assert (call.error.message, call.answer) == ("model runner has stopped", ModelAnswer(content="It "))


def test_a_body_over_several_lines_is_a_body() -> None:
    whole = piece(content="It snows.") | {"done": True}

    assert CHAT.read(REQUEST, 200, [json.dumps(whole, indent=2).encode()]).answer == ModelAnswer(content="It snows.")


def test_a_prompt_alone_is_answered_with_a_text() -> None:
    request = b'{"model": "m", "prompt": "hi", "system": "Be brief."}'
    call = GENERATE.read(request, 200, [lines({"response": "Ho", "thinking": "Hm"}, {"response": "!", "done": True})])

    assert (call.answer, call.complete) == (ModelAnswer(content="Ho!", thinking="Hm"), True)
    assert (call.system, call.messages) == ("Be brief.", "hi")
