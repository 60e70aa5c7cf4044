"""Messages of all shapes come out in one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.formats.core.messages import ConversationCache, answer_in, messages_of, text_of

ASKED = {"id": "a", "name": "look", "arguments": {"q": 1}}
SHAPES = {
    "GenAI": {"role": "assistant", "parts": [{"type": "text", "content": "hm"}, {"type": "tool_call", **ASKED}]},
    "GenAI, arguments as text": {
        "role": "assistant",
        "parts": [{"type": "text", "content": "hm"}, {"type": "tool_call", **ASKED, "arguments": '{"q": 1}'}],
    },
    "OpenAI": {
        "role": "assistant",
        "content": "hm",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}],
    },
    "AI SDK": {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "hm"},
            {"type": "tool-call", "toolCallId": "a", "toolName": "look", "input": {"q": 1}},
        ],
    },
    "AI SDK 4": {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "hm"},
            {"type": "tool-call", "toolCallId": "a", "toolName": "look", "args": {"q": 1}},
        ],
    },
    "Anthropic": {
        "role": "assistant",
        "content": [{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "a", "name": "look", "input": {"q": 1}}],
    },
    "LangChain": {
        "type": "ai",
        "data": {"content": "hm", "tool_calls": [{"id": "a", "name": "look", "args": {"q": 1}}]},
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_model_says_and_asks_for_is_read_from_every_shape(shape: str) -> None:
    (said,) = messages_of([SHAPES[shape]]) or []

    assert said == {"role": "assistant", "content": "hm", "tool_calls": [ASKED]}
    answer = answer_in([said])
    assert answer is not None
    assert (answer.content, answer.tool_calls[0].arguments) == ("hm", {"q": 1})


RESULTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "GenAI": ({"role": "tool", "parts": [{"type": "tool_call_response", "id": "a", "response": {"n": 1}}]}, {}),
    "Pydantic AI": (
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "a", "name": "look", "result": {"n": 1}}]},
        {"name": "look"},
    ),
    "OpenAI": ({"role": "tool", "tool_call_id": "a", "content": {"n": 1}}, {}),
    "AI SDK": (
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "a",
                    "toolName": "look",
                    "output": {"type": "json", "value": {"n": 1}},
                }
            ],
        },
        {"name": "look"},
    ),
    "AI SDK, failed": (
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "a", "output": {"type": "error-json", "value": {"n": 1}}},
            ],
        },
        {"status": "error"},
    ),
    "Anthropic, failed": (
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": {"n": 1}, "is_error": True}],
        },
        {"status": "error"},
    ),
    "LangChain, failed": (
        {"type": "tool", "data": {"content": {"n": 1}, "tool_call_id": "a", "status": "error"}},
        {"status": "error"},
    ),
}


@pytest.mark.parametrize("shape", RESULTS)
def test_what_a_tool_gave_is_read_from_every_shape(shape: str) -> None:
    given_, more = RESULTS[shape]

    assert messages_of([given_]) == [{"role": "tool", "content": {"n": 1}, "tool_call_id": "a", **more}]


def test_several_results_in_one_message_are_one_message_each() -> None:
    parts = [{"type": "tool_call_response", "id": name, "response": name} for name in "ab"]

    said = messages_of([{"role": "user", "parts": [*parts, {"type": "text", "content": "go on"}]}])

    assert [(m["role"], m["content"]) for m in said or ()] == [("tool", "a"), ("tool", "b"), ("user", "go on")]


def test_thoughts_are_told_from_words_and_other_parts_are_kept() -> None:
    image = {"type": "uri", "modality": "image", "uri": "x.png"}
    parts = [{"type": "reasoning", "content": "let me see"}, {"type": "text", "content": "here"}, image]

    answer = answer_in(messages_of([{"role": "assistant", "parts": parts}]) or ())

    assert answer is not None
    assert (answer.thinking, answer.content, answer.parts) == ("let me see", "here", (image,))


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ("hi", [{"role": "user", "content": "hi"}]),
        ('[{"role": "user", "content": "hi"}]', [{"role": "user", "content": "hi"}]),
        ({"messages": [["user", "hi"]]}, [{"role": "user", "content": "hi"}]),
        ([[{"type": "human", "content": "hi"}]], [{"role": "user", "content": "hi"}]),
        (["hi", 5, None], [{"role": "user", "content": "hi"}]),
        ("", None),
        (None, None),
        (5, None),
    ],
)
def test_a_conversation_is_found_where_there_is_one(given_: Any, said: Any) -> None:
    assert messages_of(given_) == said


def test_of_several_answers_the_words_and_calls_are_put_together() -> None:
    said = messages_of([{"role": "assistant", "content": "one"}, SHAPES["GenAI"], {"role": "user", "content": "no"}])

    answer = answer_in(said or ())

    assert answer is not None
    assert (answer.content, len(answer.tool_calls)) == ("one\nhm", 1)
    assert text_of(said, "user") == "no"
    assert answer_in([{"role": "user", "content": "x"}]) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("role", "parts", "content", "type", "tool_calls", "function", "name", "arguments", "id", "text"),
                    *("messages", "output", "value", "data", "kwargs", "lc", "tool_call_id", "status"),
                ]
            ),
            inner
            | st.sampled_from(["tool_call", "tool-result", "text", "reasoning", "constructor", "human", "assistant"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_whatever_is_given_comes_out_as_messages_or_as_none(value: Any) -> None:
    said = messages_of(value)

    assert said is None or all(isinstance(m["role"], str) and "content" in m for m in said)
    answer_in(said or ())


MESSAGES = st.one_of(
    st.integers(0, 200),
    st.text(max_size=3),
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=4)}),
    st.builds(
        lambda text: {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": text}]},
        st.text(max_size=3),
    ),
)


@given(st.lists(MESSAGES, max_size=5), st.lists(st.integers(0, 5), max_size=6), st.sampled_from([",", ", "]))
def test_a_conversation_that_goes_on_is_read_as_if_it_were_read_alone(
    said: list[Any], cuts: list[int], by: str
) -> None:
    """What was read last is remembered: whatever came before, a text gives what its list gives."""
    heard = ConversationCache()
    for cut in cuts:
        for given_now in (said[:cut], [*said[:cut], 12, "x"], said):
            text = json.dumps(given_now, separators=(by, ":"))

            assert (messages_of(text, heard) or []) == (messages_of(given_now) or []), text


def test_a_conversation_of_the_same_length_is_another_one() -> None:
    first, other = (
        [{"role": "user", "content": text} for text in texts] for texts in (("aa", "bb"), ("cc", "dd", "ee"))
    )

    heard = ConversationCache()

    assert messages_of(json.dumps(first), heard) == first
    assert messages_of(json.dumps(other), heard) == other
    assert messages_of(json.dumps([*other, first[0]]), heard) == [*other, first[0]]


def test_what_was_heard_before_is_not_read_again() -> None:
    first = [{"role": "user", "content": text} for text in ("aa", "bb")]
    heard = ConversationCache()

    said = messages_of(json.dumps(first), heard) or []
    more = messages_of(json.dumps([*first, {"role": "user", "content": "cc"}]), heard) or []

    assert len(more) == 3
    assert [now is before for now, before in zip(more, said, strict=False)] == [True, True]


def test_tools_on_offer_are_read_once_for_as_long_as_they_stay_the_same() -> None:
    heard = ConversationCache()

    tools = heard.offered('[{"name": "a"}]')

    assert tools == [{"name": "a"}]
    assert heard.offered("".join(('[{"name"', ': "a"}]'))) is tools
    assert heard.offered('[{"name": "b"}]') == [{"name": "b"}]
    assert heard.offered(tools) is tools
    assert heard.offered(None) is None
