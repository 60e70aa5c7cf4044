"""Responses: items in, items out, and the whole of it in the last event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse
from replaykit.wire.routes import api_of

REQUEST = b'{"model": "m", "stream": true, "instructions": "Be brief.", "input": "hi"}'
RESPONSES = api_of("POST", "/v1/responses")
assert RESPONSES is not None


def stream(*events: dict[str, Any]) -> ModelCall:
    text = "".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n" for event in events)
    return RESPONSES.read(REQUEST, 200, [text.encode()])


def whole(*output: Any, **more: Any) -> ModelCall:
    response = {"id": "r1", "model": "m-1", "status": "completed", "output": list(output)} | more
    return RESPONSES.read(REQUEST, 200, [json.dumps(response).encode()])


def message(*content: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": list(content)}


def text(said: str) -> dict[str, Any]:
    return {"type": "output_text", "text": said, "annotations": []}


CREATED = {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}}


def delta(kind: str, piece: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": piece} | more


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def test_the_instructions_stand_above_the_conversation() -> None:
    call = whole(message(text("Hello.")))

    assert (call.system, call.messages, call.response_id) == ("Be brief.", "hi", "r1")
    assert call.arguments == {"system": "Be brief.", "messages": "hi"}


def test_items_become_one_message() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    call = whole(
        {"type": "reasoning", "id": "rs", "summary": [{"text": "One."}, {"text": "Two."}], "encrypted_content": "gAA"},
        search,
        message(text("Sunny"), text(", warm.")),
        {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "f", "arguments": '{"x": 1}'},
        {"type": "custom_tool_call", "id": "ct", "call_id": "call_2", "name": "sql", "input": "{}"},
    )

    assert call.answer == ModelAnswer(
        content="Sunny, warm.",
        thinking="One.\n\nTwo.",
        tool_calls=(
            ToolUse(id="call_1", name="f", arguments={"x": 1}),
            ToolUse(id="call_2", name="sql", arguments="{}"),
        ),
        parts=(search,),
    )


def test_reasoning_in_full_comes_before_its_summary() -> None:
    reasoning = {"type": "reasoning", "summary": [{"text": "short"}], "content": [{"text": "long"}]}

    assert whole(reasoning).answer.thinking == "long"


def test_a_refusal_is_not_content() -> None:
    assert whole(message({"type": "refusal", "refusal": "No."})).answer == ModelAnswer(refusal="No.")


@pytest.mark.parametrize(
    ("status", "details", "reason", "complete"),
    [
        ("completed", None, "completed", True),
        ("incomplete", {"reason": "max_output_tokens"}, "max_output_tokens", True),
        ("in_progress", None, "in_progress", False),
        ("queued", None, "queued", False),
    ],
)
def test_the_reason_to_finish_is_the_status(status: str, details: Any, reason: str, complete: bool) -> None:
    call = whole(status=status, incomplete_details=details)

    assert (call.finish_reason, call.complete) == (reason, complete)


def test_a_response_that_failed_is_an_error() -> None:
    call = whole(status="failed", error={"code": "rate_limit_exceeded", "message": "slow down"})

    assert (call.error.type, call.error.message) == ("rate_limit_exceeded", "slow down")


def test_a_stream_that_was_cut_shows_the_items_as_far_as_they_grew() -> None:
    call = stream(
        CREATED,
        added(0, type="reasoning", summary=[]),
        delta("reasoning_summary_text", "The ", summary_index=0),
        delta("reasoning_summary_text", "sky.", summary_index=0),
        delta("reasoning_summary_text", "And rain.", summary_index=1),
        added(1, type="message", content=[]),
        delta("output_text", "It ", 1, content_index=0),
        delta("output_text", "is", 1, content_index=0),
        added(2, type="function_call", call_id="call_1", name="f", arguments=""),
        delta("function_call_arguments", '{"x', 2),
        added(3, type="custom_tool_call", call_id="call_2", name="sql", input=""),
        delta("custom_tool_call_input", "select", 3),
    )

    assert call.answer == ModelAnswer(
        content="It is",
        thinking="The sky.\n\nAnd rain.",
        tool_calls=(
            ToolUse(id="call_1", name="f", arguments='{"x'),
            ToolUse(id="call_2", name="sql", arguments="select"),
        ),
    )
    assert (call.complete, call.finish_reason, call.response_id) == (False, "in_progress", "r1")


def test_an_item_that_is_done_replaces_what_grew() -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": message(text("It is."))}

    assert stream(CREATED, added(0, type="message"), delta("output_text", "It"), done).answer == ModelAnswer(
        content="It is."
    )


def test_a_delta_of_an_item_that_was_never_added_is_read_all_the_same() -> None:
    assert stream(CREATED, delta("refusal", "No.", 7)).answer == ModelAnswer(refusal="No.")


def test_a_last_event_without_items_leaves_those_that_came() -> None:
    last = {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": []}}
    call = stream(CREATED, added(0, type="message"), delta("output_text", "Hi"), last)

    assert (call.answer, call.complete) == (ModelAnswer(content="Hi"), True)


@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "server_error", "message": "oops"}},
        },
        {"type": "error", "code": "server_error", "message": "oops", "param": None, "sequence_number": 3},
        {"type": "error", "error": {"type": "server_error", "message": "oops"}},
        {"error": {"type": "server_error", "message": "oops"}},
    ],
)
def test_an_error_in_a_stream_is_the_error_of_the_call(event: dict[str, Any]) -> None:
    call = stream(CREATED, added(0, type="message"), delta("output_text", "So"), event)

    assert (call.error.type, call.error.message) == ("server_error", "oops")
    assert call.answer == ModelAnswer(content="So")


def test_events_of_kinds_unknown_here_are_passed_over() -> None:
    call = stream(
        CREATED, {"type": "response.steer.pending", "output_index": 0}, {"type": "response.new", "error": 1}, {}
    )

    assert (call.problem, call.error) == (None, None)
