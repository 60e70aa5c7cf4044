"""Recorded exchanges show as model calls, and mean what the vendor's own client understood."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.errors import UsageError
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse, answer_of
from replaykit.wire.routes import api_of


def understood(call: ModelCall) -> dict[str, Any]:
    assert call.answer is not None
    message = call.answer.message
    return {
        "content": message["content"],
        "thinking": message.get("thinking"),
        "tool_calls": message["tool_calls"],
        "finish_reason": call.finish_reason,
        "input_tokens": call.usage.input_tokens if call.usage else None,
        "output_tokens": call.usage.output_tokens if call.usage else None,
    }


def test_a_call_says_what_the_vendors_client_understood(exchange: Any) -> None:
    call = exchange.read()
    expected = {"thinking": None} | exchange.sdk
    got = understood(call)
    if expected["tool_calls"] and "id" not in expected["tool_calls"][0]:  # this client does not show ids
        got["tool_calls"] = [{key: one[key] for key in ("name", "arguments")} for one in got["tool_calls"]]

    assert got == expected
    assert (call.problem, call.error, call.complete, call.alternatives) == (None, None, True, ())


def test_a_call_holds_the_request_as_it_was_sent(exchange: Any) -> None:
    call = exchange.read()
    sent = json.loads(exchange.request)

    kept = [call.messages, call.tools, call.system, *call.parameters.values()]
    assert all(value in kept for name, value in sent.items() if name not in ("model", "stream"))
    assert call.model == sent.get("model", exchange.api.model)
    assert call.streamed is ("stream" in exchange.name or "array" in exchange.name)
    told = {"system": call.system, "messages": call.messages, "tools": call.tools, "parameters": call.parameters}
    assert call.arguments == {name: value for name, value in told.items() if value}
    assert call.api == exchange.api.name


@given(data=st.data())
@settings(max_examples=examples(8))
def test_how_the_bytes_came_in_chunks_does_not_matter(exchange: Any, data: st.DataObject) -> None:
    whole = exchange.response
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=40)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    assert exchange.api.read(exchange.request, 200, chunks) == exchange.read()


def test_bytes_that_come_one_by_one_are_read_alike(exchange: Any) -> None:
    single = [exchange.response[at : at + 1] for at in range(len(exchange.response))]

    assert exchange.api.read(exchange.request, 200, single) == exchange.read()


def test_a_stream_that_was_cut_anywhere_is_never_whole(streamed: Any) -> None:
    """Whatever is lost: up to the cut, an answer is called whole only when its end has come."""
    whole = streamed.read()
    for at in range(0, len(streamed.response), 23):
        call = streamed.read(streamed.response[:at])

        assert not call.complete or (call.answer, call.finish_reason) == (whole.answer, whole.finish_reason)


def test_a_stream_that_was_cut_in_the_middle_says_so_and_keeps_what_came(streamed: Any) -> None:
    whole = streamed.read()
    call = streamed.read(streamed.response[: len(streamed.response) * 2 // 5])

    assert not call.complete
    assert call.error is None
    assert call.answer is not None
    assert (whole.answer.content or "").startswith(call.answer.content or "")
    assert call.answer != whole.answer


def test_a_body_that_was_cut_is_never_whole(body: Any) -> None:
    call = body.read(body.response[:-9])

    assert not call.complete
    assert call.answer is None
    # To Ollama a body is a stream of one line.
    assert call.problem == (None if "ollama" in body.name else "the response is no whole JSON object")


def test_an_empty_response_is_a_problem(exchange: Any) -> None:
    call = exchange.api.read(exchange.request, 200, [])

    assert (call.problem, call.complete, call.answer) == ("the response is empty", False, None)


def test_a_request_that_is_no_json_is_a_problem(exchange: Any) -> None:
    call = exchange.api.read(b"\xff\xfe", 200, [exchange.response])

    assert call.problem == "the request is not a JSON object"
    assert call.answer == exchange.read().answer


def test_where_a_request_names_no_model_the_one_that_answered_counts(exchange: Any) -> None:
    api = msgspec.structs.replace(exchange.api, model="")
    request = json.dumps({key: value for key, value in json.loads(exchange.request).items() if key != "model"}).encode()

    assert api.read(request, 200, [exchange.response]).model.startswith(("gpt", "claude", "gemini", "qwen", "text"))


def test_a_request_without_a_conversation_is_a_problem(exchange: Any) -> None:
    call = exchange.api.read(b"{}", 200, [exchange.response])

    assert call.problem
    assert call.problem.startswith("the request has no `")


def test_a_body_without_an_answer_is_a_problem(exchange: Any) -> None:
    call = exchange.api.read(exchange.request, 200, [b'{"hello": "world"}'])

    assert call.problem == "the response holds no answer"


def test_a_wrong_content_type_does_not_matter_since_the_bytes_say_it() -> None:
    api = api_of("POST", "/v1/chat/completions", "text/plain; charset=utf-8")
    request = b'{"model": "m", "messages": [], "stream": true}'
    body = b'{"choices": [{"message": {"role": "assistant", "content": "not streamed after all"}}]}'

    assert api is not None
    assert api.read(request, 200, [body]).answer == ModelAnswer(content="not streamed after all")


ANSWERS = st.builds(
    ModelAnswer,
    content=st.none() | st.text(min_size=1),
    thinking=st.none() | st.text(min_size=1),
    refusal=st.none() | st.text(min_size=1),
    tool_calls=st.lists(
        st.builds(
            ToolUse,
            id=st.text(),
            name=st.text(),
            arguments=st.text() | st.dictionaries(st.text(), st.integers() | st.text()),
        ),
        max_size=3,
    ).map(tuple),
    parts=st.lists(st.dictionaries(st.text(), st.text()), max_size=2).map(tuple),
)


@given(ANSWERS)
def test_an_answer_is_its_message(answer: ModelAnswer) -> None:
    message = answer.message

    assert answer_of(message) == answer
    assert list(message)[:3] == ["role", "content", "tool_calls"]
    assert all(message[name] for name in list(message)[3:])


def test_a_text_alone_is_an_answer() -> None:
    assert answer_of("Snow.") == ModelAnswer(content="Snow.")


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"content": 5}, "$.content"),
        ({"tool_calls": [{"id": "x"}]}, "$.tool_calls[0]"),
        ({"tool_calls": [{"id": "x", "type": "function", "function": {}, "name": "f"}]}, "$.tool_calls[0]"),
        ({"contents": "x"}, "contents"),
        ([], "array"),
    ],
)
def test_a_message_of_another_shape_is_refused_with_its_place(value: Any, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        answer_of(value)

    assert where in caught.value.message
    assert "tool_calls: [{id, name, arguments}]" in str(caught.value)


def test_a_call_cannot_be_changed(exchange: Any) -> None:
    with pytest.raises(AttributeError):
        exchange.read().model = "other"

    assert msgspec.structs.replace(exchange.read(), model="other").model == "other"
