"""An answer is written as its API would, shaped like the recorded one, and reads back as itself."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.errors import UsageError
from replaykit.wire.api import EncodedResponse, ModelApi
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.routes import api_of

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
maybe = st.none() | texts
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(names, values, max_size=3)


def answers(*, refusal: bool = True, calls: bool = True, thinking: bool = True) -> st.SearchStrategy[ModelAnswer]:
    use = st.builds(ToolUse, id=names, name=names, arguments=arguments)
    return st.builds(
        ModelAnswer,
        content=maybe,
        thinking=maybe if thinking else st.none(),
        refusal=maybe if refusal else st.none(),
        tool_calls=st.lists(use, max_size=3, unique_by=lambda use: use.id).map(tuple) if calls else st.just(()),
    )


CAN: dict[str, st.SearchStrategy[ModelAnswer]] = {
    "openai.chat": answers(),
    "openai.responses": answers(),
    "openai.completions": answers(refusal=False, calls=False, thinking=False),
    "anthropic.messages": answers(),
    "gemini.generate": answers(refusal=False) | st.builds(ModelAnswer, refusal=texts),
    "ollama.chat": answers(refusal=False),
    "ollama.generate": answers(refusal=False, calls=False),
}
PATHS = {
    "/v1/chat/completions": b'{"model": "m", "messages": []}',
    "/v1/responses": b'{"model": "m", "input": "hi"}',
    "/v1/completions": b'{"model": "m", "prompt": "hi"}',
    "/v1/messages": b'{"model": "m", "messages": []}',
    "/model/m/invoke": b'{"messages": []}',
    "/model/m/invoke-with-response-stream": b'{"messages": []}',
    "/publishers/anthropic/models/m:streamRawPredict": b'{"messages": [], "stream": true}',
    "/v1/models/m:generateContent": b'{"contents": []}',
    "/v1/models/m:streamGenerateContent?alt=sse": b'{"contents": []}',
    "/v1/models/m:streamGenerateContent": b'{"contents": []}',
    "/api/chat": b'{"model": "m", "messages": []}',
    "/api/generate": b'{"model": "m", "prompt": "hi"}',
}
FORMS = [
    (path, json.dumps(json.loads(body) | stream).encode())
    for path, body in PATHS.items()
    for stream in ([{"stream": False}, {"stream": True}] if b'"model"' in body else [{}])
]
forms = pytest.mark.parametrize(
    ("path", "request_"), FORMS, ids=[f"{path} {body[-7:-1].decode()}" for path, body in FORMS]
)


def api(path: str) -> ModelApi:
    found = api_of("POST", path)
    assert found is not None
    return found


def body_of(written: EncodedResponse) -> dict[str, Any]:
    return json.loads(b"".join(written.chunks))


@forms
@given(data=st.data())
@settings(max_examples=examples(12))
def test_an_answer_that_was_written_is_read(path: str, request_: bytes, data: st.DataObject) -> None:
    spoken = api(path)
    answer = data.draw(CAN[spoken.name])

    written = spoken.write(answer, request=request_)
    call = spoken.read(request_, 200, written.chunks)

    assert call.answer == answer
    assert (call.problem, call.error, call.complete, call.model) == (None, None, True, "m")
    assert call.streamed is (written.content_type != "application/json" or "streamGenerate" in path)


@forms
@given(data=st.data())
@settings(max_examples=examples(8))
def test_an_answer_may_be_written_over_any_other(path: str, request_: bytes, data: st.DataObject) -> None:
    spoken = api(path)
    before, after = data.draw(CAN[spoken.name]), data.draw(CAN[spoken.name])

    like = spoken.write(before, request=request_).chunks
    call = spoken.read(request_, 200, spoken.write(after, request=request_, like=like).chunks)

    assert call.answer == after
    assert call.response_id == spoken.read(request_, 200, like).response_id


def test_an_answer_that_is_not_changed_is_written_as_it_was(exchange: Any) -> None:
    call = exchange.read()

    written = exchange.api.write(call.answer, request=exchange.request, like=[exchange.response])
    again = exchange.api.read(exchange.request, 200, written.chunks)

    assert again == call


def test_a_changed_text_leaves_everything_else(exchange: Any) -> None:
    call = exchange.read()
    wanted = msgspec.structs.replace(call.answer, content="Something else. ❄")
    if exchange.api.name == "openai.embeddings":
        wanted = msgspec.structs.replace(call.answer, parts=({"index": 0, "embedding": [1.0]},))

    written = exchange.api.write(wanted, request=exchange.request, like=[exchange.response])
    changed = exchange.api.read(exchange.request, 200, written.chunks)

    assert changed == msgspec.structs.replace(call, answer=wanted)


def test_a_recording_that_was_an_error_gives_way_to_an_answer(exchange: Any) -> None:
    wanted = ModelAnswer() if exchange.api.name == "openai.embeddings" else ModelAnswer(content="Fine.")

    written = exchange.api.write(wanted, request=exchange.request, like=[b'{"error": {"message": "slow down"}}'])
    call = exchange.api.read(exchange.request, 200, written.chunks)

    assert (call.answer, call.error, call.complete) == (wanted, None, True)


def test_the_same_answer_is_written_as_the_same_bytes(exchange: Any) -> None:
    wanted = exchange.read().answer

    first, second = (exchange.api.write(wanted, request=exchange.request) for _ in range(2))

    assert first == second


CHAT, RESPONSES, MESSAGES = api("/v1/chat/completions"), api("/v1/responses"), api("/v1/messages")
GEMINI, OLLAMA = api("/v1/models/m:generateContent"), api("/api/chat")
ASKS = {CHAT.name: b'{"messages": []}', RESPONSES.name: b'{"input": "hi"}', MESSAGES.name: b'{"messages": []}'}


@pytest.mark.parametrize(
    ("spoken", "prefix"),
    [(CHAT, "call_"), (RESPONSES, "call_"), (MESSAGES, "toolu_")],
    ids=["chat", "responses", "messages"],
)
def test_calls_without_an_id_get_one_of_their_own(spoken: ModelApi, prefix: str) -> None:
    def ids(request: bytes, like: tuple[bytes, ...] = ()) -> list[str]:
        two = ModelAnswer(tool_calls=(ToolUse(name="f"), ToolUse(name="f")))
        answer = spoken.read(request, 200, spoken.write(two, request=request, like=like).chunks).answer
        assert answer is not None
        return [use.id for use in answer.tool_calls]

    request = ASKS[spoken.name]
    recorded = spoken.write(ModelAnswer(tool_calls=(ToolUse(id="recorded", name="g"),)), request=request).chunks

    assert len({*ids(request), *ids(request.replace(b"}", b', "seed": 1}'))}) == 4
    assert all(one.startswith(prefix) for one in ids(request))
    assert ids(request, recorded) == ["recorded", ids(request)[1]]


@pytest.mark.parametrize(
    ("spoken", "why"),
    [
        (CHAT, "length"),
        (RESPONSES, "max_output_tokens"),
        (MESSAGES, "max_tokens"),
        (GEMINI, "MAX_TOKENS"),
        (OLLAMA, "length"),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_the_reason_to_finish_can_be_given(spoken: ModelApi, why: str) -> None:
    request = b'{"messages": [], "input": "hi", "contents": [], "stream": true}'
    written = spoken.write(ModelAnswer(content="So"), request=request, finish_reason=why)

    assert spoken.read(request, 200, written.chunks).finish_reason == why


def test_signatures_stay_with_thinking_that_stays() -> None:
    recorded = {
        "id": "msg_1",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "Hi", "citations": [{"n": 1}]},
            {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}},
        ],
    }
    like = [json.dumps(recorded).encode()]
    answer = MESSAGES.read(b"{}", 200, like).answer
    assert answer is not None

    def content(**change: Any) -> list[Any]:
        wanted = msgspec.structs.replace(answer, **change)
        return body_of(MESSAGES.write(wanted, request=b"{}", like=like))["content"]

    blocks = recorded["content"]
    assert content(content="Ho") == [*blocks[:2], {"type": "text", "text": "Ho"}, blocks[3]]
    assert content(thinking="Ah.")[0] == {"type": "thinking", "thinking": "Ah.", "signature": ""}
    assert content(thinking=None) == blocks[2:]
    assert content(tool_calls=(ToolUse(id="t", name="g"),))[3] == blocks[3] | {"name": "g"}


def test_a_message_that_begins_does_not_yet_say_why_it_ends() -> None:
    request = b'{"messages": [], "stream": true}'
    like = [b'{"content": [], "container": {"id": "c1"}}']
    chunks = MESSAGES.write(ModelAnswer(refusal="No."), request=request, like=like).chunks

    events = [json.loads(chunk.partition(b"data: ")[2]) for chunk in chunks]
    details = {"type": "refusal", "explanation": "No."}
    ends = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details, "container": {"id": "c1"}}

    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]
    assert events[0]["message"].items() >= dict.fromkeys(ends).items()
    assert events[1]["delta"] == ends


def test_the_events_of_a_response_are_named_and_numbered() -> None:
    request = b'{"input": "hi", "stream": true}'
    wanted = ModelAnswer(content="Hi", thinking="Hm", tool_calls=(ToolUse(id="c", name="f"),))

    chunks = RESPONSES.write(wanted, request=request).chunks
    events = [json.loads(chunk.partition(b"data: ")[2]) for chunk in chunks]

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert all(
        chunk.startswith(f"event: {event['type']}\n".encode()) for chunk, event in zip(chunks, events, strict=True)
    )
    assert [event["output_index"] for event in events if event["type"] == "response.output_item.done"] == [0, 1, 2]
    assert events[0]["response"]["output"] == []
    assert events[-1]["type"] == "response.completed"


def test_encrypted_reasoning_stays_with_reasoning_that_stays() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAA"}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "phase": "final_answer", "content": []}
    like = [json.dumps({"id": "r", "status": "completed", "output": [reasoning, message]}).encode()]

    output = body_of(RESPONSES.write(ModelAnswer(content="Ho"), request=b"{}", like=like))["output"]
    thought = body_of(RESPONSES.write(ModelAnswer(thinking="Ah."), request=b"{}", like=like))["output"]

    assert output[0] == reasoning
    assert (output[1]["id"], output[1]["phase"], output[1]["content"][0]["text"]) == ("msg_1", "final_answer", "Ho")
    assert thought[0]["summary"] == [{"type": "summary_text", "text": "Ah."}]
    assert "encrypted_content" not in thought[0]


def test_signatures_of_gemini_stay_with_their_calls() -> None:
    part = {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "sig"}
    like = [json.dumps({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}).encode()]
    wanted = ModelAnswer(tool_calls=(ToolUse(name="f", arguments={"x": 2}),))

    candidate = body_of(GEMINI.write(wanted, request=b"{}", like=like))["candidates"][0]

    assert candidate["content"]["parts"] == [
        {"functionCall": {"name": "f", "args": {"x": 2}}, "thoughtSignature": "sig"}
    ]


def test_thinking_is_written_under_the_name_that_the_server_uses() -> None:
    def message(recorded: Any) -> dict[str, Any]:
        like = [json.dumps({"choices": [{"message": recorded}]}).encode()]
        written = CHAT.write(ModelAnswer(content="Hi", thinking="Hm"), request=b"{}", like=like)
        return body_of(written)["choices"][0]["message"]

    assert message({"content": "x"})["reasoning_content"] == "Hm"
    assert message({"content": "x", "reasoning": "y"})["reasoning"] == "Hm"
    assert message({"content": [{"type": "text", "text": "x"}]})["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
        {"type": "text", "text": "Hi"},
    ]


def test_other_answers_and_unknown_members_of_the_recording_stay() -> None:
    other = {"index": 1, "message": {"role": "assistant", "content": "B"}, "finish_reason": "stop"}
    recorded = {"id": "c", "system_fingerprint": "fp", "usage": {"prompt_tokens": 5}}
    first = {"index": 0, "message": {"content": "A"}, "finish_reason": "length"}
    like = [json.dumps(recorded | {"choices": [first, other]}).encode()]

    written = body_of(CHAT.write(ModelAnswer(content="Z"), request=b"{}", like=like))

    assert written.items() >= recorded.items()
    assert written["choices"][1] == other
    assert written["choices"][0]["finish_reason"] == "stop"


def test_other_answers_stay_in_a_stream_too() -> None:
    called = {"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}}  # some servers leave the type out
    other = {"index": 1, "message": {"role": "assistant", "tool_calls": [called]}, "finish_reason": "tool_calls"}
    like = [json.dumps({"choices": [{"index": 0, "message": {"content": "A"}}, other]}).encode()]
    request = b'{"messages": [], "stream": true}'

    call = CHAT.read(request, 200, CHAT.write(ModelAnswer(content="Z"), request=request, like=like).chunks)

    assert call.answer == ModelAnswer(content="Z")
    assert call.alternatives == (ModelAnswer(tool_calls=(ToolUse(id="a", name="f", arguments={"x": 1}),)),)


@pytest.mark.parametrize(
    ("path", "whole", "piece"),
    [
        ("/v1/chat/completions", {"object": "chat.completion"}, {"object": "chat.completion.chunk"}),
        ("/v1/completions", {"object": "text_completion"}, {"object": "text_completion"}),
        ("/api/chat", {"created_at": "1970-01-01T00:00:00Z", "done": True}, {"created_at": "1970-01-01T00:00:00Z"}),
    ],
)
def test_without_a_recording_the_envelope_is_made_up(path: str, whole: dict[str, Any], piece: dict[str, Any]) -> None:
    request = {"model": "m", "messages": [], "prompt": "hi"}
    asked = [json.dumps(request | {"stream": stream}).encode() for stream in (False, True)]
    body, stream = (api(path).write(ModelAnswer(content="Hi"), request=one) for one in asked)
    first = json.loads(stream.chunks[0].removeprefix(b"data: "))

    assert body_of(body).items() >= (whole | {"model": "m"}).items()
    assert first.items() >= (piece | {"model": "m"}).items()


def test_the_first_piece_of_a_stream_says_who_speaks() -> None:
    chat, ollama = (
        spoken.write(ModelAnswer(content="Hi"), request=b'{"messages": [], "stream": true}').chunks
        for spoken in (CHAT, OLLAMA)
    )

    assert json.loads(chat[0].removeprefix(b"data: "))["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert json.loads(ollama[0])["message"] == {"role": "assistant", "content": "Hi"}
    assert json.loads(ollama[-1])["message"] == {"role": "assistant", "content": ""}


def test_a_tool_that_the_request_declares_as_custom_is_called_with_its_text() -> None:
    wanted = ModelAnswer(tool_calls=(ToolUse(id="a", name="sql", arguments="select 1"),))
    chat = json.dumps({"messages": [], "tools": [{"type": "custom", "custom": {"name": "sql"}}]}).encode()
    responses = json.dumps({"input": "hi", "tools": [{"type": "custom", "name": "sql"}]}).encode()

    called = body_of(CHAT.write(wanted, request=chat))["choices"][0]["message"]["tool_calls"][0]
    item = body_of(RESPONSES.write(wanted, request=responses))["output"][0]

    assert called == {"id": "a", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    assert (item["type"], item["input"], item["call_id"]) == ("custom_tool_call", "select 1", "a")
    for spoken, request in ((CHAT, chat), (RESPONSES, responses)):
        stream = request.replace(b"{", b'{"stream": true, ', 1)
        assert spoken.read(stream, 200, spoken.write(wanted, request=stream).chunks).answer == wanted


def test_an_old_request_with_functions_gets_a_function_call() -> None:
    request = b'{"messages": [], "functions": [{"name": "f"}]}'
    wanted = ModelAnswer(tool_calls=(ToolUse(name="f", arguments={"x": 1}),))

    choice = body_of(CHAT.write(wanted, request=request))["choices"][0]

    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"x":1}'}
    assert choice["finish_reason"] == "function_call"


def test_usage_has_a_chunk_of_its_own_where_the_request_asks_for_it() -> None:
    like = [b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 5}}']

    def last(**options: Any) -> Any:
        request = json.dumps({"messages": [], "stream": True} | options).encode()
        chunks = CHAT.write(ModelAnswer(content="A"), request=request, like=like).chunks
        assert chunks[-1] == b"data: [DONE]\n\n"
        return json.loads(chunks[-2].removeprefix(b"data: "))

    assert last(stream_options={"include_usage": True})["choices"] == []
    assert last()["choices"][0]["finish_reason"] == "stop"
    assert last()["usage"] == {"prompt_tokens": 5}


@pytest.mark.parametrize(
    ("path", "answer", "what"),
    [
        ("/v1/completions", ModelAnswer(content="x", thinking="y"), "`thinking`"),
        ("/v1/completions", ModelAnswer(tool_calls=(ToolUse(name="f"),)), "`tool_calls`"),
        ("/v1/embeddings", ModelAnswer(content="x"), "`content`"),
        ("/api/generate", ModelAnswer(tool_calls=(ToolUse(name="f"),)), "`tool_calls`"),
        ("/api/generate", ModelAnswer(parts=({"images": []},)), "`parts`"),
        ("/api/chat", ModelAnswer(refusal="x"), "`refusal`"),
        ("/v1/models/m:generateContent", ModelAnswer(refusal="x", content="y"), "not both"),
    ],
)
def test_what_an_api_has_no_place_for_is_refused(path: str, answer: ModelAnswer, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        api(path).write(answer, request=b"{}")


def test_two_calls_do_not_fit_an_old_request_with_functions() -> None:
    two = ModelAnswer(tool_calls=(ToolUse(name="f"), ToolUse(name="g")))

    with pytest.raises(UsageError, match="one call only"):
        CHAT.write(two, request=b'{"messages": [], "functions": []}')


@pytest.mark.parametrize("path", ["/v1/models/m:generateContent", "/v1/models/m:streamGenerateContent"])
def test_a_blocked_prompt_stays_blocked_or_is_refused_in_other_words(path: str) -> None:
    blocked = {
        "promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []},
        "usageMetadata": {"promptTokenCount": 4},
    }
    like = [json.dumps(blocked).encode()]
    request = b'{"contents": []}'

    def read(chunks: Any) -> Any:
        return api(path).read(request, 200, chunks)

    same = api(path).write(ModelAnswer(refusal="SAFETY"), request=request, like=like).chunks
    other = api(path).write(ModelAnswer(refusal="Not that."), request=request, like=like).chunks
    answered = api(path).write(ModelAnswer(content="Well."), request=request, like=like).chunks

    assert read(same) == msgspec.structs.replace(read(like), response_id=read(same).response_id)
    assert (read(other).answer, read(other).finish_reason) == (ModelAnswer(refusal="Not that."), "OTHER")
    assert (read(answered).answer, read(answered).finish_reason) == (ModelAnswer(content="Well."), "STOP")


@pytest.mark.parametrize("spoken", [GEMINI, OLLAMA], ids=["gemini", "ollama"])
def test_arguments_that_are_no_object_are_refused_where_the_api_has_only_objects(spoken: ModelApi) -> None:
    with pytest.raises(UsageError, match="tool call 'f': this API takes its arguments as an object"):
        spoken.write(ModelAnswer(tool_calls=(ToolUse(name="f", arguments="text"),)), request=b"{}")


def test_arguments_that_are_no_json_stay_the_text_they_are() -> None:
    wanted = ModelAnswer(tool_calls=(ToolUse(id="a", name="f", arguments='{"x'),))

    for spoken, request in ((CHAT, b'{"messages": []}'), (MESSAGES, b'{"messages": [], "stream": true}')):
        assert spoken.read(request, 200, spoken.write(wanted, request=request).chunks).answer == wanted


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(UsageError, match="an answer that JSON cannot say"):
        CHAT.write(ModelAnswer(content="\ud800"), request=b"{}")


def test_a_part_is_written_where_it_was_read() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    audio = {"audio": {"id": "a"}}
    wanted = ModelAnswer(content="Hi", parts=(image, audio))

    message = body_of(CHAT.write(wanted, request=b"{}"))["choices"][0]["message"]

    assert message["content"] == [image, {"type": "text", "text": "Hi"}]
    assert message["audio"] == {"id": "a"}


def test_a_request_that_cannot_be_read_is_answered_all_the_same() -> None:
    written = CHAT.write(ModelAnswer(content="Hi"), request=b"\xff")

    assert CHAT.read(b"{}", 200, written.chunks).answer == ModelAnswer(content="Hi")
