"""Chat completions as OpenAI and its many imitators write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replaykit.model.events import Usage
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ToolUse
from replaykit.wire.routes import api_of

REQUEST = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]}'
CHAT = api_of("POST", "/v1/chat/completions")
assert CHAT is not None


def events(*chunks: Any, done: bool = True) -> bytes:
    lines = [f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def chunk(delta: Any, finish_reason: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "model": "m-1",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}],
    } | more


def stream(*chunks: Any, done: bool = True) -> ModelCall:
    return CHAT.read(REQUEST, 200, [events(*chunks, done=done)])


def body(message: Any, **more: Any) -> ModelCall:
    whole = {"id": "c1", "model": "m-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]} | more
    return CHAT.read(REQUEST, 200, [json.dumps(whole).encode()])


def called(name: str = "", arguments: str = "", **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}} | more]}


TWO = (ToolUse(id="a", name="f", arguments={"x": 1}), ToolUse(id="b", name="g", arguments={"y": 2}))


@pytest.mark.parametrize(
    "deltas",
    [
        [called("f", '{"x"', id="a", index=0), called("g", '{"y": 2}', id="b", index=1), called("", ": 1}", index=0)],
        [called("f", '{"x": 1}', id="a", index=0), called("g", '{"y": 2}', id="b", index=0)],
        [called("f", '{"x"', id="a"), called("", ": 1}"), called("g", '{"y"', id="b"), called("", ": 2}")],
        [
            called("f", '{"x"', id="a", index=0),
            called("f", ": 1}", id="a", index=0),
            called("g", '{"y": 2}', id="b", index=1),
        ],
        [
            called("f", '{"x"', id="a", index=0),
            called("", ": 1}", id="z", index=0),
            called("g", '{"y": 2}', id="b", index=1),
        ],
        [
            {
                "tool_calls": [
                    called("f", '{"x": 1}', id="a")["tool_calls"][0],
                    called("g", '{"y": 2}', id="b")["tool_calls"][0],
                ]
            }
        ],
    ],
    ids=["interleaved", "one-index-for-all", "no-index", "name-repeated", "id-changes-midway", "in-one-chunk"],
)
def test_parallel_calls_are_told_apart_however_a_server_numbers_them(deltas: list[Any]) -> None:
    call = stream(*(chunk(delta) for delta in deltas), chunk({}, "tool_calls"))

    assert call.answer == ModelAnswer(tool_calls=TWO)
    assert call.problem is None


def test_a_name_may_come_in_pieces() -> None:
    call = stream(chunk(called("get_", id="a", index=0)), chunk(called("weather", "{}", index=0)), chunk({}, "stop"))

    assert call.answer.tool_calls == (ToolUse(id="a", name="get_weather"),)


@pytest.mark.parametrize(("text", "arguments"), [("", {}), ("{", "{"), ("[1]", [1]), ("5", "5"), ("null", "null")])
def test_arguments_are_an_object_or_the_text_they_are(text: str, arguments: Any) -> None:
    call = stream(chunk(called("f", text, id="a", index=0)), chunk({}, "tool_calls"))

    assert call.answer.tool_calls[0].arguments == arguments


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_is_read_under_the_names_that_gateways_use(name: str) -> None:
    thinking = stream(chunk({name: "The "}), chunk({name: "sky."}), chunk({"content": "Blue."}), chunk({}, "stop"))

    assert thinking.answer == ModelAnswer(content="Blue.", thinking="The sky.")
    assert body({"role": "assistant", "content": "Blue.", name: "The sky."}).answer == thinking.answer


def test_thinking_may_be_a_part_of_the_content() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "The sky."}]}
    text = {"type": "text", "text": "Blue."}
    call = stream(
        chunk({"content": [thought]}), chunk({"content": "So: "}), chunk({"content": [text]}), chunk({}, "stop")
    )

    assert call.answer == ModelAnswer(content="So: Blue.", thinking="The sky.")
    assert body({"content": [thought, text]}).answer == ModelAnswer(content="Blue.", thinking="The sky.")


def test_a_refusal_is_not_content() -> None:
    call = stream(chunk({"refusal": "I "}), chunk({"refusal": "won't."}), chunk({}, "stop"))

    assert call.answer == ModelAnswer(refusal="I won't.")
    assert body({"content": None, "refusal": "I won't."}).answer == call.answer


def test_what_has_no_word_of_its_own_is_kept_as_a_part() -> None:
    call = stream(
        chunk({"role": "assistant", "content": "Hi"}),
        chunk({"audio": {"id": "au1", "data": "AB"}, "annotations": [{"n": 1}]}),
        chunk({"audio": {"data": "CD", "expires_at": 5}, "annotations": [{"n": 2}]}),
        chunk({}, "stop"),
    )

    assert call.answer == ModelAnswer(
        content="Hi",
        parts=({"audio": {"id": "au1", "data": "ABCD", "expires_at": 5}}, {"annotations": [{"n": 1}, {"n": 2}]}),
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert body({"content": [{"type": "text", "text": "Hi"}, image], "audio": None}).answer.parts == (image,)


def test_legacy_function_calls_and_custom_tools_are_calls_too() -> None:
    legacy = stream(
        chunk({"function_call": {"name": "f", "arguments": '{"x"'}}),
        chunk({"function_call": {"arguments": ": 1}"}}),
        chunk({}, "function_call"),
    )
    custom = {"id": "a", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    streamed = stream(
        chunk({"tool_calls": [{"index": 0, **custom, "custom": {"name": "sql", "input": "select"}}]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": " 1"}}]}),
        chunk({}, "tool_calls"),
    )

    assert legacy.answer.tool_calls == (ToolUse(name="f", arguments={"x": 1}),)
    assert streamed.answer.tool_calls == (ToolUse(id="a", name="sql", arguments="select 1"),)
    assert body({"tool_calls": [custom]}).answer == streamed.answer


def test_functions_are_the_tools_of_an_old_request() -> None:
    request = b'{"model": "m", "messages": [], "functions": [{"name": "f"}]}'

    assert CHAT.read(request, 200, [b"{}"]).tools == [{"name": "f"}]


def test_several_answers_are_one_and_its_alternatives() -> None:
    call = stream(
        chunk({"content": "B"}, index=1), chunk({"content": "A"}), chunk({}, "stop"), chunk({}, "length", index=1)
    )

    assert (call.answer, call.alternatives) == (ModelAnswer(content="A"), (ModelAnswer(content="B"),))
    assert call.finish_reason == "stop"


def test_an_answer_of_which_one_alternative_never_ended_is_not_complete() -> None:
    assert not stream(chunk({"content": "B"}, index=1), chunk({"content": "A"}, "stop"), done=False).complete


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7}, Usage(input_tokens=5, output_tokens=7)),
        ({"prompt_tokens": 5, "cost": 0.25}, Usage(input_tokens=5, cost_usd=0.25)),
        ({"cost": {"total_cost": 0.5, "currency": "USD"}}, Usage(cost_usd=0.5)),
        ({"completion_tokens": 1, "cost_in_usd_ticks": 37_756_000}, Usage(output_tokens=1, cost_usd=0.0037756)),
        ({"prompt_tokens": -1, "completion_tokens": "7", "cost": "1"}, None),
        ({"prompt_tokens": 2**70, "cost": -1}, None),
        ([], None),
    ],
)
def test_usage_and_cost_are_what_the_wire_shows(usage: Any, expected: Usage | None) -> None:
    assert body({"content": "x"}, usage=usage).usage == expected
    assert stream(chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage}).usage == expected
    assert stream(chunk({"content": "x"}, "stop", x_groq={"usage": usage})).usage == expected


def test_the_end_is_a_reason_to_finish_or_the_word_done() -> None:
    assert stream(chunk({"content": "x"}, "stop"), done=False).complete
    assert stream(chunk({"content": "x"})).complete
    assert not stream(chunk({"content": "x"}), done=False).complete
    assert CHAT.read(REQUEST, 200, [events(chunk({"content": "x"}), done=False) + b"data: [DONE]"]).complete


def test_what_follows_the_reason_to_finish_must_be_whole_too() -> None:
    whole = events(chunk({"content": "x"}, "stop"), done=False)

    assert not CHAT.read(REQUEST, 200, [whole + b'data: {"choices": [], "usa']).complete


def test_an_error_in_a_stream_is_the_error_of_the_call() -> None:
    call = stream(chunk({"content": "So"}), {"error": {"message": "overloaded", "type": "server_error", "code": 502}})

    assert (call.error.type, call.error.message) == ("server_error", "overloaded")
    assert call.answer == ModelAnswer(content="So")
    assert call.problem is None


def test_an_error_with_status_200_is_an_error() -> None:
    call = CHAT.read(REQUEST, 200, [b'{"error": {"message": "no credits", "code": 402}}'])

    assert (call.error.message, call.answer, call.problem) == ("no credits", None, None)


def test_chunks_that_say_nothing_are_passed_over() -> None:
    call = CHAT.read(
        REQUEST,
        200,
        [
            b": PROCESSING\n\n",
            events({"choices": [], "prompt_filter_results": [{}]}, chunk(None), chunk({"content": "x"}), done=False),
            events({"choices": [{"index": 0, "finish_reason": "stop", "content_filter_results": {}}]}),
        ],
    )

    assert (call.answer, call.finish_reason, call.problem) == (ModelAnswer(content="x"), "stop", None)


def test_an_event_that_is_no_json_is_told_and_the_rest_is_read() -> None:
    call = stream(chunk({"content": "a"}), "{oops", chunk({"content": "b"}, "stop"))

    assert call.answer == ModelAnswer(content="ab")
    assert call.problem == "an event that is not a JSON object: b'{oops'"
