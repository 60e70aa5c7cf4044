"""Calls of models that only a trace tells of are found by their conversation, and answered in the API that asks."""

from __future__ import annotations

import datetime as dt
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import replaykit as rk
from replaykit.errors import Unreplayable
from replaykit.formats.core.talk import Talk
from replaykit.handlers.replay.handler import Replayer, replaying
from replaykit.handlers.replay.tape import Tape
from replaykit.model.events import ErrorInfo, LlmCall, Usage, WireInfo
from replaykit.model.matching import MatchMode, MatchRules, ModelMatch, OnMiss
from replaykit.model.run import TraceRun
from replaykit.model.values import raw
from replaykit.wire.api import ModelApi
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.routes import api_of

Body = dict[str, Any]
SEARCH = ToolUse(id="t1", name="search", arguments={"query": "order 7"})
USAGE = Usage(input_tokens=12, output_tokens=5)
URLS = {
    "chat": "https://api.openai.com/v1/chat/completions",
    "responses": "https://api.openai.com/v1/responses",
    "anthropic": "https://api.anthropic.com/v1/messages",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent",
    "gemini stream": "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
    "ollama": "http://127.0.0.1:11434/api/chat",
}


def story() -> Talk:
    talk = Talk(system="Be kind.")
    talk.says("user", "Where is order 7?")
    asks = ModelAnswer(content="Let me see.", tool_calls=(SEARCH,), thinking="I should look.")
    talk.answers(asks, model="gpt-5", usage=USAGE, finish_reason="tool_calls")
    talk.returns({"state": "lost"}, call_id="t1")
    talk.answers(ModelAnswer(content="It is lost."), model="gpt-5", usage=USAGE, finish_reason="stop")
    return talk


def tape(talk: Talk | None = None) -> Tape:
    return Tape.of((talk or story()).run(id="r1", format="openai_chat"))


def chat(*more: Body, system: str = "Be kind.", **parameters: Any) -> Body:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Where is order 7?"}, *more]
    return {"model": "gpt-6", "messages": messages, **parameters}


def first_question(api: str) -> Body:
    asked = "Where is order 7?"
    if api.startswith("gemini"):
        return {"systemInstruction": {"parts": [{"text": "Be kind."}]}, "contents": [{"parts": [{"text": asked}]}]}
    if api == "responses":
        return {"model": "m", "instructions": "Be kind.", "input": asked}
    if api == "anthropic":
        user = [{"role": "user", "content": asked}]
        return {"model": "m", "max_tokens": 9, "system": "Be kind.", "messages": user}
    return chat()


def post(url: str, body: Body, **headers: str) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request) as response:
        return bytes(response.read())


def api(url: str) -> ModelApi:
    found = api_of("POST", url)
    assert found is not None
    return found


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ["chat", "responses", "anthropic", "gemini", "gemini stream", "ollama"])
def test_an_answer_comes_in_the_api_that_asks(name: str, streamed: bool) -> None:
    url, body = URLS[name], first_question(name)
    if not name.startswith("gemini"):
        body["stream"] = streamed

    with replaying(tape()) as replayer:
        answer = api(url).read_response(200, [post(url, body)])

    assert answer.answer is not None
    assert (answer.answer.content, answer.answer.tool_calls) == ("Let me see.", (SEARCH,))
    assert answer.answer.thinking == "I should look."
    assert answer.usage == (None if name == "chat" and streamed else USAGE)
    assert answer.complete
    assert [one.kind for one in replayer.all_deviations()] == ["unused", "unused"]


def test_a_whole_conversation_is_served_to_another_api_than_the_traced_one() -> None:
    url = URLS["anthropic"]
    with replaying(tape()) as replayer:
        body = first_question("anthropic")
        first = json.loads(post(url, body))
        (use,) = [block for block in first["content"] if block["type"] == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": '{"state": "lost"}'}
        body["messages"] += [
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [result]},
        ]
        last = json.loads(post(url, body))

    assert (first["stop_reason"], last["stop_reason"]) == ("tool_use", "end_turn")
    assert last["content"] == [{"type": "text", "text": "It is lost."}]
    assert [one.name for one in replayer.all_deviations()] == ["search"]


def test_a_request_goes_on_from_a_response_that_was_served() -> None:
    url = URLS["responses"]
    with replaying(tape()):
        first = json.loads(post(url, first_question("responses")))
        output = [{"type": "function_call_output", "call_id": "t1", "output": '{"state": "lost"}'}]
        more = {"model": "m", "instructions": "Be kind.", "input": output, "previous_response_id": first["id"]}
        last = json.loads(post(url, more))

    assert last["output"][0]["content"][0]["text"] == "It is lost."


def left(body: Body, url: str = URLS["chat"], on: Tape | None = None, rules: MatchRules | None = None) -> str:
    """The message with which a request leaves the tape."""
    with replaying(on or tape(), rules), pytest.raises(rk.ReplayKitError) as caught:
        post(url, body)
    return str(caught.value)


def test_a_changed_prompt_is_a_miss_that_shows_the_change() -> None:
    message = left(chat(system="Be kind. Never guess."))

    assert "left its recording at call 1 of 3, model `gpt-6`" in message
    assert "the system prompt is not the recorded one:" in message
    assert "- Be kind.\n    + Be kind. Never guess." in message
    assert "$." not in message


def test_a_long_prompt_is_shown_where_it_changed() -> None:
    prompt = "\n".join(f"Rule {number}." for number in range(40))
    talk = Talk(system=prompt)
    talk.says("user", "Where is order 7?")
    talk.answers(ModelAnswer(content="Hm."))

    message = left(chat(system=prompt.replace("Rule 20.", "Rule twenty.")), on=tape(talk))

    assert "      Rule 19.\n    - Rule 20.\n    + Rule twenty.\n      Rule 21." in message
    assert "Rule 3." not in message


def test_a_changed_description_of_a_tool_is_a_miss_that_shows_it() -> None:
    def offered(text: str) -> list[Body]:
        return [{"type": "function", "function": {"name": "search", "description": text}}]

    talk = Talk(system="Be kind.", tools=offered("Find orders."))
    talk.says("user", "Where is order 7?")
    talk.answers(ModelAnswer(content="Hm."))

    message = left(chat(tools=offered("Find any order.")), on=tape(talk))

    assert "the description of the tool `search` is not the recorded one" in message


def test_a_question_that_was_answered_before_is_told_as_such() -> None:
    with replaying(tape()), pytest.raises(rk.Divergence, match="every recording of it has been served"):
        post(URLS["chat"], chat())
        post(URLS["chat"], chat())


def test_an_answer_is_repeated_where_the_case_says_so() -> None:
    with replaying(tape(), MatchRules(on_miss=OnMiss.REPEAT)) as replayer:
        answers = [json.loads(post(URLS["chat"], chat())) for _ in range(2)]

    assert answers[0] == answers[1]
    assert "repeated" in [one.kind for one in replayer.all_deviations()]


@pytest.mark.parametrize(
    ("rule", "body", "is_served"),
    [
        (None, chat(), True),
        (ModelMatch.IGNORE, chat(temperature=1), True),
        (ModelMatch.EXACT, chat(), False),
        (ModelMatch.EXACT, chat() | {"model": "gpt-5"}, False),
        (ModelMatch.EXACT, chat(temperature=0.0, top_p=1) | {"model": "gpt-5"}, True),
    ],
)
def test_the_model_is_compared_where_the_case_asks_for_it(rule: ModelMatch | None, body: Body, is_served: bool) -> None:
    talk = Talk(system="Be kind.")
    talk.says("user", "Where is order 7?")
    talk.answers(ModelAnswer(content="Hm."), model="gpt-5", parameters={"temperature": 0})

    with replaying(tape(talk), MatchRules(model=rule)) as replayer:
        try:
            post(URLS["chat"], body)
        except rk.Divergence:
            assert not is_served
        else:
            assert is_served
    assert ("missing" not in [one.kind for one in replayer.all_deviations()]) is is_served


def test_members_are_ignored_by_their_path_in_the_conversation() -> None:
    rules = MatchRules(ignore=("$.messages[0].content",))

    with replaying(tape(), rules):
        assert json.loads(post(URLS["chat"], chat(system="Anything.")))["choices"]


def failed(error: ErrorInfo) -> Tape:
    talk = Talk(system="Be kind.")
    talk.says("user", "Where is order 7?")
    talk.answers(None, error=error, model="gpt-5")
    return tape(talk)


LIMIT = "Error code: 429 - {'error': {'message': 'Slow down.', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat", {"error": {"message": "Slow down.", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}}),
        ("anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}),
        ("gemini", {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}),
        ("ollama", {"error": "Slow down."}),
    ],
)
def test_an_error_of_the_api_comes_back_in_its_words(name: str, body: Body) -> None:
    on = failed(ErrorInfo(type="RateLimitError", message=LIMIT))
    with replaying(on), pytest.raises(urllib.error.HTTPError) as caught:
        post(URLS[name], first_question(name))

    with caught.value as error:
        assert error.code == 429
        assert json.loads(error.read()) == body
        assert error.headers["x-should-retry"] == "false"


def test_a_client_may_repeat_a_request_as_often_as_it_was_traced() -> None:
    talk = Talk(system="Be kind.")
    talk.says("user", "Where is order 7?")
    for _ in range(2):
        talk.answers(None, error=ErrorInfo(type="InternalServerError"), model="gpt-5")

    answers = []
    with replaying(tape(talk)):
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(URLS["chat"], chat())
            with caught.value as error:
                answers.append((error.code, error.headers["x-should-retry"]))

    assert answers == [(500, "true"), (500, "false")]


def test_an_sdk_that_repeats_a_request_by_itself_meets_the_same_error() -> None:
    with replaying(failed(ErrorInfo(type="APITimeoutError", message="Request timed out."))) as replayer:
        for headers in ({}, {"x-stainless-retry-count": "1"}):
            with pytest.raises(OSError, match="Request timed out"):
                post(URLS["chat"], chat(), **headers)

    assert not replayer.all_deviations()


def test_an_error_that_no_api_sends_is_inconclusive() -> None:
    with replaying(failed(ErrorInfo(type="OutputParserException", message="no JSON"))) as replayer:
        with pytest.raises(Unreplayable, match="OutputParserException, which no API of a model sends"):
            post(URLS["chat"], chat())

    assert [one.kind for one in replayer.all_deviations()] == ["unanswerable"]


def untold(**about: Any) -> Tape:
    return Tape([LlmCall(seq=0, name="gpt-5", arguments_json=raw(about), result_json=raw({"role": "assistant"}))])


def test_messages_that_were_not_captured_are_inconclusive_with_advice() -> None:
    message = left(chat(), on=untold(parameters={"temperature": 0}))

    assert "the trace does not hold the messages that its models were sent" in message
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true" in message


def test_messages_that_an_sdk_has_hidden_are_inconclusive() -> None:
    message = left(chat(), on=untold(messages=[{"role": "user", "content": "__REDACTED__"}]))

    assert "OPENINFERENCE_HIDE_INPUTS=false" in message


def test_an_answer_that_was_not_captured_is_inconclusive_with_advice() -> None:
    talk = Talk(system="Be kind.")
    talk.says("user", "Where is order 7?")
    talk.answers(None, model="gpt-5")
    message = left(chat(), on=tape(talk))

    assert "no outcome of it was recorded" in message
    assert "Log each request beside its response" in message


def test_a_part_of_an_answer_that_the_api_cannot_carry_is_named() -> None:
    talk = Talk(system="Be kind.")
    talk.says("user", "Where is order 7?")
    talk.answers(ModelAnswer(content="Hm.", parts=({"type": "web_search_call", "id": "ws_1"},)))

    message = left(first_question("gemini"), URLS["gemini"], tape(talk))

    assert "gemini.generate has no place for a part of its answer" in message


def test_calls_are_served_by_their_position_where_the_case_says_so() -> None:
    with replaying(untold(), MatchRules(mode=MatchMode.SEQUENCE)):
        assert json.loads(post(URLS["chat"], chat()))["choices"][0]["message"]["role"] == "assistant"


@pytest.fixture
def recorded() -> Iterator[TraceRun]:
    """A run of which the bytes were recorded."""
    body = b'{"id":"x","object":"chat.completion","choices":[{"message":{"role":"assistant","content":"Hm."}}]}'
    wire = WireInfo(method="POST", url=URLS["chat"], status=200)
    asked = {**chat(), "model": "gpt-5"}
    call = LlmCall(
        seq=0,
        name="gpt-5",
        arguments_json=raw(asked),
        result_json=raw(ModelAnswer(content="Hm.").message),
        items_json=(raw(body.decode()),),
        wire=wire,
    )
    return TraceRun(id="r1", events=(call,), event_count=1)


def test_recorded_bytes_answer_the_very_same_request_alone(recorded: TraceRun) -> None:
    assert "$.model" in left(chat(), on=Tape.of(recorded))

    with replaying(Tape.of(recorded)):
        assert json.loads(post(URLS["chat"], chat() | {"model": "gpt-5"}))["id"] == "x"


def test_another_model_is_given_the_recorded_answer_where_the_case_says_so(recorded: TraceRun) -> None:
    rules = MatchRules(model=ModelMatch.IGNORE)
    with replaying(Tape.of(recorded), rules):
        assert json.loads(post(URLS["chat"], chat()))["id"] == "x"
    with replaying(Tape.of(recorded), rules):
        other = json.loads(post(URLS["anthropic"], first_question("anthropic")))
        assert other["content"] == [{"type": "text", "text": "Hm."}]


def test_a_prompt_that_changed_since_the_recording_is_shown_as_text(recorded: TraceRun) -> None:
    message = left(chat(system="Be brief.") | {"model": "gpt-5"}, on=Tape.of(recorded))

    assert "the system prompt is not the recorded one:\n    - Be kind.\n    + Be brief." in message


def test_the_same_prompt_with_the_current_time_in_it_is_found() -> None:
    talk = Talk(system="It is 2024-03-12T14:32:05Z.")
    talk.says("user", "Where is order 7?")
    talk.answers(ModelAnswer(content="Hm."), at=1710253925.0)
    run = talk.run(id="r1", format="openai_chat", started_at=1710253924.0)
    replayer = Replayer(Tape.of(run))

    with replayer.at_work(keeps_time=False):
        now = dt.datetime.now(dt.UTC).isoformat()
        assert json.loads(post(URLS["chat"], chat(system=f"It is {now}.")))["choices"]
