"""The same question has the same key, whatever ids the provider minted; another question has another."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.wire.api import ModelApi
from replaykit.wire.request_keys import match_key
from replaykit.wire.routes import api_of

Body = dict[str, Any]
Build = Callable[[list[str]], Body]


def api(path: str) -> ModelApi:
    found = api_of("POST", path)
    assert found is not None
    return found


CHAT, RESPONSES, MESSAGES = api("/v1/chat/completions"), api("/v1/responses"), api("/v1/messages")
GEMINI, OLLAMA = api("/v1beta/models/g:generateContent"), api("/api/chat")


def chat(ids: list[str]) -> Body:
    """Two parallel calls and their results, in which the n-th id plays the n-th role."""
    made = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids[:2]]
    sealed = [
        {"type": "reasoning.encrypted", "id": ids[2], "data": ids[3]},
        {"type": "reasoning.text", "signature": ids[4]},
    ]
    said = {"role": "assistant", "content": None, "tool_calls": made, "reasoning_details": sealed}
    results = [{"role": "tool", "tool_call_id": one, "content": "ok"} for one in ids[:2]]
    signed = {"id": ids[1], "extra_content": {"google": {"thought_signature": ids[5]}}}
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}, said, *results, {"tool_calls": [signed]}]}


def responses(ids: list[str]) -> Body:
    made = [{"type": "function_call", "id": ids[2], "call_id": one, "name": "f", "arguments": "{}"} for one in ids[:2]]
    results = [{"type": "function_call_output", "call_id": one, "output": "ok"} for one in ids[:2]]
    reasoning = {"type": "reasoning", "id": ids[3], "summary": [], "encrypted_content": ids[4]}
    return {"model": "m", "previous_response_id": ids[5], "input": [reasoning, *made, *results]}


def messages(ids: list[str]) -> Body:
    made = [{"type": "tool_use", "id": one, "name": "f", "input": {"id": "mine"}} for one in ids[:2]]
    thinking = [
        {"type": "thinking", "thinking": "t", "signature": ids[2]},
        {"type": "redacted_thinking", "data": ids[3]},
        {"type": "web_search_tool_result", "tool_use_id": ids[4], "content": [{"encrypted_content": ids[5]}]},
    ]
    results = [{"type": "tool_result", "tool_use_id": one, "content": "ok"} for one in ids[:2]]
    asked = [{"role": "assistant", "content": [*thinking, *made]}, {"role": "user", "content": results}]
    return {"model": "m", "messages": asked, "container": ids[0]}


def gemini(ids: list[str]) -> Body:
    made = [{"functionCall": {"id": one, "name": "f", "args": {"id": "mine"}}} for one in ids[:2]]
    results = [{"functionResponse": {"id": one, "name": "f", "response": {"id": "mine"}}} for one in ids[:2]]
    signed = [{"text": "x", "thoughtSignature": one} for one in ids[2:4]]
    return {"contents": [{"role": "model", "parts": [*signed, *made]}, {"role": "user", "parts": results}]}


def ollama(ids: list[str]) -> Body:
    made = [{"id": one, "function": {"name": "f", "arguments": {"id": "mine"}}} for one in ids[:2]]
    results = [{"role": "tool", "tool_call_id": one, "content": "ok"} for one in ids[:2]]
    return {"model": "m", "messages": [{"role": "assistant", "tool_calls": made}, *results]}


CONVERSATIONS = [(CHAT, chat), (RESPONSES, responses), (MESSAGES, messages), (GEMINI, gemini), (OLLAMA, ollama)]
conversations = pytest.mark.parametrize(("spoken", "build"), CONVERSATIONS, ids=[one[0].name for one in CONVERSATIONS])
minted = st.lists(st.text(min_size=1, max_size=8), min_size=6, max_size=6, unique=True)


def key(spoken: ModelApi, body: Any) -> bytes:
    return match_key(spoken, json.dumps(body).encode())


def shuffled(value: Any, order: random.Random) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: shuffled(value[name], order) for name in names}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@conversations
@settings(max_examples=examples(15))
@given(one=minted, other=minted)
def test_other_minted_ids_make_no_other_key(spoken: ModelApi, build: Build, one: list[str], other: list[str]) -> None:
    assert key(spoken, build(one)) == key(spoken, build(other))


@conversations
@pytest.mark.parametrize("seed", range(8))
def test_neither_does_the_order_of_keys(spoken: ModelApi, build: Build, seed: int) -> None:
    body = build(list("abcdef"))
    other = shuffled(body, random.Random(seed))

    assert json.dumps(other) != json.dumps(body)
    assert key(spoken, other) == key(spoken, body)


@conversations
def test_a_conversation_that_answers_another_call_has_another_key(spoken: ModelApi, build: Build) -> None:
    body = build(["a", "b", "c", "d", "e", "f"])
    text = json.dumps(body)
    last = text.rindex('"a"')  # where the result of the first call refers to it
    other = f'{text[:last]}"b"{text[last + 3 :]}'

    assert key(spoken, json.loads(other)) != key(spoken, body)


@conversations
def test_minted_ids_are_numbered_and_nothing_else_is_touched(spoken: ModelApi, build: Build) -> None:
    ids = [f"minted-{letter}" for letter in "abcdef"]

    said = key(spoken, build(ids)).decode()

    assert "minted-" not in said
    assert '"#1"' in said
    assert said.count('"id":"mine"') == json.dumps(build(ids)).count('"id": "mine"')


def test_an_argument_named_id_is_the_users_own() -> None:
    def asks(given: str) -> Body:
        used = {"type": "tool_use", "id": "t", "name": "f", "input": {"id": given, "signature": "s"}}
        return {"messages": [{"role": "assistant", "content": [used]}]}

    assert key(MESSAGES, asks("order-1")) != key(MESSAGES, asks("order-2"))


def test_whitespace_makes_no_other_key() -> None:
    body = chat(list("abcdef"))

    assert match_key(CHAT, json.dumps(body, indent=4).encode()) == key(CHAT, body)


BASE = {
    "model": "m",
    "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    "temperature": 0,
}


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"temperature": 0.5},
        {"messages": BASE["messages"][::-1]},
        {"messages": BASE["messages"][:1]},
        {"messages": [{"role": "user", "content": "a "}, BASE["messages"][1]]},
        {"tools": []},
        {"stream": True},
        {"seed": 7},
        {"stream_options": {"include_usage": True}},
    ],
    ids=str,
)
def test_what_can_change_the_answer_changes_the_key(change: Body) -> None:
    assert key(CHAT, BASE | change) != key(CHAT, BASE)


@pytest.mark.parametrize(
    "change",
    [{"stream": False}, {"stream": None}, {"metadata": {"run": "1"}}, {"user": "u"}, {"prompt_cache_key": "k"}],
    ids=str,
)
def test_who_asks_and_how_no_stream_is_spelled_does_not(change: Body) -> None:
    assert key(CHAT, BASE | change) == key(CHAT, BASE)


def test_where_an_api_streams_unless_told_otherwise_so_does_its_key() -> None:
    assert key(OLLAMA, BASE) == key(OLLAMA, BASE | {"stream": True}) != key(OLLAMA, BASE | {"stream": False})


def test_what_the_path_says_is_in_the_key() -> None:
    body = gemini(list("abcdef"))
    others = [api("/v1beta/models/other:generateContent"), api("/v1beta/models/g:streamGenerateContent?alt=sse")]

    assert len({key(GEMINI, body), *(key(other, body) for other in others)}) == 3
    assert json.loads(key(others[1], body))["model"] == "g"
    assert json.loads(key(others[1], body))["stream"] is True


def test_the_response_that_is_continued_is_an_id() -> None:
    def goes_on(from_: str) -> Body:
        return {"model": "m", "input": "go on", "previous_response_id": from_}

    assert key(RESPONSES, goes_on("resp_1")) == key(RESPONSES, goes_on("resp_2"))


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}], ids=["text", "object"])
def test_a_conversation_that_the_provider_keeps_is_an_id(conversation: Any) -> None:
    other = json.loads(json.dumps(conversation).replace("conv_1", "conv_2"))

    assert key(RESPONSES, {"input": "a", "conversation": conversation}) == key(
        RESPONSES, {"input": "a", "conversation": other}
    )


def test_files_are_content_and_not_minted_for_the_conversation() -> None:
    def shows(file: str) -> Body:
        return {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": file}]}]}

    assert key(RESPONSES, shows("file-1")) != key(RESPONSES, shows("file-2"))


@pytest.mark.parametrize(
    "request_", [b"", b"\xff", b"[1]", b"5", b'{"a": NaN}', b"{" * 2000, b'{"a":' * 400 + b"1" + b"}" * 400]
)
def test_what_cannot_be_read_is_its_own_key(request_: bytes) -> None:
    assert match_key(CHAT, request_) == request_


def test_so_is_a_conversation_nested_too_deeply() -> None:
    deep = b'{"messages": ' + b'[{"content": ' * 300 + b'"x"' + b"}]" * 300 + b"}"

    assert match_key(CHAT, deep) == deep


@pytest.mark.parametrize("value", [None, 5, "x", {"id": 5}, [5, None, [{"id": "a"}], {"id": None, "content": 5}]])
@conversations
def test_a_conversation_of_another_shape_still_has_a_key(spoken: ModelApi, build: Build, value: Any) -> None:
    body = build(list("abcdef"))
    changed = body | dict.fromkeys(("messages", "input", "contents", "container", "conversation"), value)

    assert json.loads(key(spoken, changed))


def test_the_key_of_a_recorded_request_is_its_own(exchange: Any) -> None:
    said = match_key(exchange.api, exchange.request)

    assert said == match_key(exchange.api, json.dumps(json.loads(exchange.request), indent=1).encode())
    assert json.loads(said)["model"] == exchange.read().model


def answered(spoken: ModelApi, answers: list[tuple[str, str]]) -> bytes:
    """The key of a conversation in which calls `a` and `b` were made, and answered so."""
    made = ["a", "b"]
    if spoken is RESPONSES:
        asked = [{"type": "function_call", "call_id": one, "name": "f"} for one in made]
        told = [{"type": "function_call_output", "call_id": one, "output": text} for one, text in answers]
        return match_key(spoken, json.dumps({"input": [*asked, *told, {"role": "user"}]}).encode())
    if spoken is MESSAGES:
        uses = [{"type": "tool_use", "id": one, "name": "f"} for one in made]
        results = [{"type": "tool_result", "tool_use_id": one, "content": text} for one, text in answers]
        return match_key(spoken, json.dumps({"messages": [{"content": uses}, {"content": results}]}).encode())
    calls = {"role": "assistant", "tool_calls": [{"id": one} for one in made]}
    tools = [{"role": "tool", "tool_call_id": one, "content": text} for one, text in answers]
    return match_key(spoken, json.dumps({"messages": [calls, *tools, {"role": "user"}]}).encode())


@pytest.mark.parametrize("spoken", [CHAT, RESPONSES, MESSAGES, OLLAMA], ids=lambda spoken: spoken.name)
def test_which_of_several_tools_was_done_first_does_not_matter(spoken: ModelApi) -> None:
    key = answered(spoken, [("a", "1"), ("b", "2")])

    assert answered(spoken, [("b", "2"), ("a", "1")]) == key
    assert answered(spoken, [("b", "1"), ("a", "2")]) != key
    assert answered(spoken, [("a", "1")]) != key
    assert answered(spoken, [("a", "1"), ("b", "2"), ("b", "3")]) != key


def test_answers_that_name_no_known_call_and_those_of_other_turns_stay_where_they_are() -> None:
    def key(*messages: Any) -> bytes:
        return match_key(CHAT, json.dumps({"messages": messages}).encode())

    a, b, odd = ({"role": "tool", "tool_call_id": one, "content": str(one)} for one in ("a", "b", ["a"]))
    calls = {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
    said = {"role": "assistant", "content": "well"}

    assert key(a, b) != key(b, a)
    assert key(calls, a, said, b) != key(calls, b, said, a)
    assert key(calls, b, odd, a) != key(calls, a, odd, b)


def test_a_whole_number_is_the_same_however_it_is_written() -> None:
    def key(temperature: str) -> bytes:
        schema = f'{{"type": "number", "enum": [{temperature}, 0.5], "default": {temperature}}}'
        said = '[{"role": "user", "content": "version 1.0, please"}]'
        return match_key(CHAT, f'{{"temperature": {temperature}, "messages": {said}, "x": {schema}}}'.encode())

    assert key("1.0") == key("1") == key("1e0")
    assert len({key(number) for number in ("1", "1.5", "2.0", "-1.0", "true", '"1.0"', "1e300")}) == 7
    assert b"version 1.0, please" in key("1.0")


@given(st.integers(-(2**62), 2**62))
def test_no_two_whole_numbers_become_one(number: int) -> None:
    def key(value: object) -> bytes:
        return match_key(CHAT, json.dumps({"seed": value}).encode())

    assert key(number) != key(number + 1)
    assert (key(float(number)) == key(number)) == (abs(number) < 2**53)
