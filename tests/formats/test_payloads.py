"""Contents: what was asked and what was said, in the shapes that frameworks leave it in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.formats.spans.dialects.payloads import (
    agent_input,
    agent_output,
    offered_tools,
    read_request,
    read_response,
)
from replaykit.formats.spans.span import UNSET

USER = {"role": "user", "content": "q"}
TOOL = {"type": "function", "function": {"name": "f"}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("role", "content", "parts", "messages", "input", "contents", "prompt", "tools", "config", "type"),
                    *("choices", "message", "tool_calls", "candidates", "output", "generations", "additional_kwargs"),
                    *(
                        "function_call",
                        "args",
                        "kwargs",
                        "toolCallId",
                        "toolName",
                        "text",
                        "object",
                        "name",
                        "new_message",
                    ),
                ]
            ),
            inner | st.sampled_from(["user", "assistant", "tool", "function_call", "reasoning", "response", "message"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("q", [USER]),
        (json.dumps([USER]), [USER]),
        ({"messages": [USER]}, [USER]),
        ({"args": [], "kwargs": {"messages": [USER]}}, [USER]),
        ({"input": "q", "instructions": "s"}, [USER]),
        ({"prompt": "q", "system": "s"}, [USER]),
        ({"input": {"messages": [USER]}}, [USER]),
        ({"contents": [{"role": "user", "parts": [{"text": "q"}]}]}, [USER]),
        ({"new_message": {"role": "user", "parts": [{"text": "q"}]}, "user_id": "u"}, [USER]),
        (USER, [USER]),
        ({"content": "role"}, None),
        ({"input": {"topic": "x"}}, None),
        ({}, None),
        ([], None),
        (None, None),
        (7, None),
    ],
)
def test_what_was_asked(value: Any, expected: Any) -> None:
    assert read_request(value).messages == expected


def test_what_stands_beside_the_messages() -> None:
    asked = read_request({"model": "m", "system": "s", "messages": [USER], "tools": [TOOL], "top_p": 1, "seed": None})

    assert (asked.model, asked.system, asked.tools, asked.parameters) == ("m", "s", [TOOL], {"top_p": 1})


def test_tools_among_the_messages_are_tools_on_offer() -> None:
    result = {"role": "tool", "tool_call_id": "c", "content": "r"}
    asked = read_request([USER, result, {"role": "tool", "content": TOOL}])

    assert asked.tools == [TOOL]
    assert [message["role"] for message in asked.messages or []] == ["user", "tool"]


def test_contents_of_gemini() -> None:
    asked = read_request(
        {
            "contents": [
                {"role": "user", "parts": [{"text": "q"}]},
                {
                    "role": "model",
                    "parts": [{"thought": True, "text": "Hm."}, {"functionCall": {"name": "f", "args": {"a": 1}}}],
                },
                {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"x": 1}}}]},
            ]
        }
    )

    assert asked.messages == [
        USER,
        {
            "role": "assistant",
            "content": None,
            "thinking": "Hm.",
            "tool_calls": [{"id": "", "name": "f", "arguments": {"a": 1}}],
        },
        {"role": "tool", "name": "f", "tool_call_id": "", "content": {"x": 1}},
    ]


CALL = {"id": "c1", "name": "f", "arguments": {"a": 1}}


@pytest.mark.parametrize(
    ("value", "content", "calls"),
    [
        ("a", "a", []),
        ({"role": "assistant", "content": "a"}, "a", []),
        ({"choices": [{"message": {"role": "assistant", "content": "a"}}]}, "a", []),
        ({"index": 0, "message": {"role": "assistant", "content": "a"}}, "a", []),
        ([{"role": "assistant", "content": "a"}], "a", []),
        ({"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]}, "a", []),
        ({"content": {"role": "model", "parts": [{"text": "a"}]}, "finish_reason": "STOP"}, "a", []),
        ({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a"}]}, "a", []),
        ({"content": [{"type": "text", "text": "a"}], "role": "assistant"}, "a", []),
        ({"generations": [[{"text": "a"}]]}, "a", []),
        ([{"type": "message", "content": [{"type": "output_text", "text": "a"}]}], "a", []),
        ({"output": "a"}, "a", []),
        ({"text": "a", "toolCalls": [{"toolCallId": "c1", "toolName": "f", "args": {"a": 1}}]}, "a", [CALL]),
        ([{"toolCallId": "c1", "toolName": "f", "input": '{"a": 1}'}], None, [CALL]),
        (
            {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}]},
            None,
            [CALL],
        ),
        (
            {
                "role": "assistant",
                "content": "",
                "additional_kwargs": {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}]},
            },
            None,
            [CALL],
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
            None,
            [CALL],
        ),
        ([{"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}], None, [CALL]),
        ({"city": "Bonn"}, '{"city":"Bonn"}', []),
    ],
)
def test_what_was_answered(value: Any, content: Any, calls: Any) -> None:
    for told in (value, json.dumps(value) if not isinstance(value, str) else value):
        answer = read_response(told).answers[0].message
        assert (answer["content"], answer["tool_calls"]) == (content, calls)


@pytest.mark.parametrize("value", [None, "", {}, [], 5])
def test_no_answer(value: Any) -> None:
    assert read_response(value).answers == ()


def test_the_tools_that_a_response_repeats() -> None:
    assert offered_tools(json.dumps({"object": "response", "tools": [TOOL]})) == [TOOL]
    assert offered_tools({"object": "chat.completion", "tools": [TOOL]}) is None
    assert offered_tools(UNSET) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, UNSET),
        ("q", "q"),
        ({"messages": [{"role": "system", "content": "s"}, USER]}, "q"),
        ([USER], "q"),
        ({"prompt": "q", "system": "s"}, "q"),
        ({"question": "q"}, "q"),
        ({"args": ["q"], "kwargs": {}}, "q"),
        ({"input": "q", "chat_history": ["x"]}, {"input": "q", "chat_history": ["x"]}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ([USER, {"role": "assistant", "content": "a"}, USER], [USER, {"role": "assistant", "content": "a"}, USER]),
    ],
)
def test_what_an_agent_was_given(value: Any, expected: Any) -> None:
    assert agent_input(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, UNSET),
        ("a", "a"),
        ({"messages": [USER, {"role": "assistant", "content": "a"}]}, "a"),
        ([USER, {"type": "ai", "content": "a"}], "a"),
        ({"content": {"role": "model", "parts": [{"text": "a"}]}}, "a"),
        ({"raw": "a", "pydantic": None}, "a"),
        ({"answer": "a"}, {"answer": "a"}),
        ([1, 2], [1, 2]),
        ({"choices": [{"message": {"role": "assistant", "content": "a"}}]}, "a"),
    ],
)
def test_what_an_agent_gave(value: Any, expected: Any) -> None:
    assert agent_output(value) == expected


@given(JSON)
@settings(max_examples=examples(60), deadline=None)
def test_whatever_the_value_is_it_is_read(value: Any) -> None:
    asked = read_request(value)
    assert asked.messages is None or all(isinstance(message, dict) for message in asked.messages)
    for answer in read_response(value).answers:
        json.dumps(answer.message)
    agent_input(value)
    agent_output(value)


CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done", "annotations": []}]}


def test_an_item_of_the_responses_api_may_stand_alone() -> None:
    (called,) = read_response(CALL).answers
    (said,) = read_response(TEXT).answers

    assert [(use.id, use.name, use.arguments) for use in called.tool_calls] == [("c1", "f", {"a": 1})]
    assert (said.content, said.parts) == ("done", ())


@pytest.mark.parametrize("as_list", [True, False])
def test_blocks_of_anthropic_may_stand_without_their_message(as_list: bool) -> None:
    block = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}

    (answer,) = read_response([block] if as_list else block).answers

    assert [(use.id, use.name, use.arguments) for use in answer.tool_calls] == [("c1", "f", {"a": 1})]
