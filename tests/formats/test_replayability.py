"""A manifest promises what a replay keeps: it asks the code that serves."""

from __future__ import annotations

import pytest

from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.talk import Talk
from replaykit.model.events import ErrorInfo, LlmCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, raw
from replaykit.wire.model_calls import ModelAnswer

ANSWER = ModelAnswer(content="Hi").message
ASKED = {"messages": [{"role": "user", "content": "Hi"}]}
HIDDEN = {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "__REDACTED__"}]}


def lacks(arguments: Json, result: Json, **about: Json) -> tuple[Lack, ...]:
    call = LlmCall(seq=0, name="gpt", arguments_json=raw(arguments), result_json=raw(result), **about)
    found = replayability(TraceRun(id="r", events=(call,), event_count=1)).lacking
    return found[0].lacks if found else ()


@pytest.mark.parametrize(
    "asked", [ASKED, {"input": "Hi"}, {"contents": [{"parts": [{"text": "Hi"}]}]}, {"prompt": "Hi"}]
)
@pytest.mark.parametrize("answer", [ANSWER, "Hi", {"choices": [{"message": {"content": "Hi"}}]}, [{"text": "Hi"}]])
def test_a_call_lacks_nothing_that_is_asked_and_answered_in_any_form(asked: Json, answer: Json) -> None:
    assert lacks(asked, answer) == ()


@pytest.mark.parametrize(
    "asked", [{}, {"parameters": {"seed": 1}}, {"messages": []}, {"messages": [{"role": "user"}]}, HIDDEN]
)
def test_a_call_lacks_messages_where_no_request_could_find_it(asked: Json) -> None:
    assert lacks(asked, ANSWER) == (Lack.MESSAGES,)


def test_a_call_lacks_a_result_where_no_api_could_send_it() -> None:
    assert lacks(ASKED, 7) == (Lack.RESULT,)
    assert lacks(ASKED, {"role": "assistant", "content": "[REDACTED]"}) == (Lack.RESULT,)
    assert lacks(ASKED, None, error=ErrorInfo(type="KeyError", message="'x'")) == (Lack.RESULT,)
    assert lacks(ASKED, None, error=ErrorInfo(type="RateLimitError")) == ()


def test_a_run_of_a_conversation_is_promised_as_a_whole() -> None:
    talk = Talk(system="Be kind.")
    talk.says("user", "Hi")
    talk.answers(ModelAnswer(content="Hi"))

    assert replayability(talk.run(id="r", format="f")).score == 1.0
