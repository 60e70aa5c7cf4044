"""Messages: blocks that start, grow and stop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replaykit.model.events import Usage
from replaykit.wire.eventstream import encode_frames
from replaykit.wire.frames import Frame
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse
from replaykit.wire.routes import api_of

REQUEST = b'{"model": "m", "stream": true, "system": "Be brief.", "messages": [], "max_tokens": 9}'
MESSAGES = api_of("POST", "/v1/messages")
BEDROCK = api_of("POST", "/model/claude/invoke-with-response-stream")
assert MESSAGES is not None
assert BEDROCK is not None


def stream(*events: dict[str, Any]) -> ModelCall:
    text = "".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in events)
    return MESSAGES.read(REQUEST, 200, [text.encode()])


def body(*content: Any, **more: Any) -> ModelCall:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": list(content)} | more
    return MESSAGES.read(REQUEST, 200, [json.dumps(message).encode()])


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


START = {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 3}}}
STOP = {"type": "message_stop"}


def test_the_system_prompt_stands_above_the_conversation() -> None:
    call = body({"type": "text", "text": "Hi"})

    assert (call.system, call.messages, call.parameters) == ("Be brief.", [], {"max_tokens": 9})


def test_blocks_become_one_message() -> None:
    used = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    call = body(
        {"type": "thinking", "thinking": "One.", "signature": "s"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "thinking", "thinking": "Two.", "signature": "s"},
        {"type": "text", "text": "It is "},
        used,
        {"type": "text", "text": "cold.", "citations": [{"n": 1}]},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"id": 7}},
    )

    assert call.answer == ModelAnswer(
        content="It is cold.",
        thinking="One.\n\nTwo.",
        tool_calls=(ToolUse(id="t1", name="f", arguments={"id": 7}),),
        parts=(used,),
    )


def test_blocks_grow_by_their_index() -> None:
    call = stream(
        START,
        start(0, type="text", text=""),
        start(1, type="tool_use", id="t1", name="f", input={}),
        delta(1, "input_json_delta", partial_json=""),
        delta(0, "text_delta", text="It "),
        delta(1, "input_json_delta", partial_json='{"x": '),
        delta(0, "text_delta", text="is"),
        delta(1, "input_json_delta", partial_json="1}"),
        delta(0, "citations_delta", citation={"n": 1}),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        STOP,
    )

    assert call.answer == ModelAnswer(content="It is", tool_calls=(ToolUse(id="t1", name="f", arguments={"x": 1}),))
    assert (call.finish_reason, call.complete) == ("tool_use", True)
    assert call.usage == Usage(input_tokens=3, output_tokens=9)


def test_a_tool_without_arguments_has_an_empty_object() -> None:
    assert (
        stream(START, start(0, type="tool_use", id="t", name="f", input={}), STOP).answer.tool_calls[0].arguments == {}
    )


def test_arguments_that_were_cut_are_the_text_that_came() -> None:
    call = stream(
        START, start(0, type="tool_use", id="t", name="f", input={}), delta(0, "input_json_delta", partial_json='{"x')
    )

    assert (call.answer.tool_calls[0].arguments, call.complete) == ('{"x', False)


@pytest.mark.parametrize(
    ("kind", "more", "answer"),
    [
        ("text_delta", {"text": "a"}, ModelAnswer(content="a")),
        ("thinking_delta", {"thinking": "a"}, ModelAnswer(thinking="a")),
        (
            "input_json_delta",
            {"partial_json": '{"a": 1}'},
            ModelAnswer(tool_calls=(ToolUse(name="", arguments={"a": 1}),)),
        ),
    ],
)
def test_a_block_whose_start_was_lost_is_known_by_what_it_grows(kind: str, more: Any, answer: ModelAnswer) -> None:
    assert stream(START, delta(0, kind, **more), STOP).answer == answer


def test_input_tokens_count_what_was_read_from_the_cache() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 4}

    assert body(usage=usage).usage == Usage(input_tokens=123, output_tokens=4)


def test_counts_that_a_later_event_leaves_out_or_leaves_open_stay() -> None:
    later = {"type": "message_delta", "delta": {}, "usage": {"input_tokens": None, "output_tokens": 9}}

    assert stream(START, later, STOP).usage == Usage(input_tokens=3, output_tokens=9)


def test_a_refusal_says_why_where_it_says_it() -> None:
    details = {"type": "refusal", "explanation": "Not this."}

    assert body(stop_reason="refusal", stop_details=details).answer == ModelAnswer(refusal="Not this.")
    assert body(stop_reason="end_turn", stop_details=details).answer == ModelAnswer()
    assert body({"type": "text", "text": "I"}, stop_reason="refusal").finish_reason == "refusal"


def test_an_error_in_a_stream_is_the_error_of_the_call() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    call = stream(START, start(0, type="text", text=""), delta(0, "text_delta", text="So"), error)

    assert (call.error.type, call.error.message) == ("overloaded_error", "Overloaded")
    assert (call.answer, call.complete) == (ModelAnswer(content="So"), True)


def test_pings_and_unknown_events_are_passed_over() -> None:
    call = stream(START, {"type": "ping"}, {"type": "new_event", "index": 0}, delta(0, "new_delta", x=1), STOP)

    assert (call.problem, call.complete) == (None, True)


def test_a_compaction_grows_like_a_text() -> None:
    call = stream(START, start(0, type="compaction", content=None), delta(0, "compaction_delta", content="Sum"), STOP)

    assert call.answer.parts == ({"type": "compaction", "content": "Sum"},)


def test_a_frame_of_bedrock_that_is_damaged_ends_the_reading() -> None:
    frames = encode_frames(
        [Frame(json.dumps(event).encode()) for event in (START, delta(0, "text_delta", text="a"), STOP)]
    )
    damaged = frames[1][:-1] + b"!"

    call = BEDROCK.read(REQUEST, 200, [frames[0], damaged, frames[2]])

    assert (call.complete, call.problem) == (False, "a damaged frame in an AWS event stream")


def test_another_models_body_on_bedrock_is_a_problem() -> None:
    api = api_of("POST", "/model/amazon.titan/invoke")
    assert api is not None

    call = api.read(b'{"inputText": "hi"}', 200, [b'{"results": [{"outputText": "ho"}]}'])

    assert call.problem == "the request has no `messages`"
    assert call.answer is None
