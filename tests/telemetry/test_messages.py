"""Messages of model APIs in the shape of the conventions."""

from __future__ import annotations

from typing import Any

import pytest

from replaykit.telemetry.messages import input_messages, instructions, output_messages


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "hi"}, {"role": "user", "parts": [text("hi")]}),
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, {"role": "user", "parts": [text("hi")]}),
        ({"role": "user", "parts": [{"text": "hi"}]}, {"role": "user", "parts": [text("hi")]}),
        (
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "name": "f", "arguments": {"a": 1}}]},
        ),
        (
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]},
            {"role": "user", "parts": [{"type": "tool_call_response", "id": "f", "response": {"r": 1}}]},
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {}}]},
        ),
        (
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "ok"}]},
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}]},
        ),
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
            {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "response": "ok"}]},
        ),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}]},
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "ok"}]},
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
            {"role": "user", "parts": [{"type": "image_url", "image_url": {"url": "u"}}]},
        ),
        ("hi", {"role": "user", "parts": [text("hi")]}),
    ],
)
def test_a_message_of_any_api_becomes_parts(message: Any, expected: Any) -> None:
    assert input_messages([message]) == [expected]


def test_a_conversation_that_is_one_text_is_what_the_user_said() -> None:
    assert input_messages("hi") == [{"role": "user", "parts": [text("hi")]}]
    assert input_messages(None) == []


def test_an_answer_is_one_message_with_its_reason_to_end() -> None:
    answer = {"role": "assistant", "content": "Yes.", "tool_calls": [], "thinking": "hm", "refusal": "no"}
    assert output_messages(answer, "stop") == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                text("Yes."),
                {"type": "refusal", "content": "no"},
            ],
            "finish_reason": "stop",
        }
    ]
    assert output_messages("Yes.", None)[0]["parts"] == [text("Yes.")]
    assert output_messages({"label": 1}, None)[0]["parts"] == [text('{"label":1}')]


def test_instructions_are_parts_without_a_role() -> None:
    assert instructions("Be kind.") == [text("Be kind.")]
    assert instructions([{"type": "text", "text": "Be kind."}]) == [text("Be kind.")]
    assert instructions({"parts": [{"text": "Be kind."}]}) == [text("Be kind.")]
    assert instructions(None) == []
