"""Model calls for people, in whatever API's form the answer was recorded."""

from __future__ import annotations

import pytest

from replaykit.cases.timeline import render_notes
from replaykit.model.events import LlmCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, raw
from replaykit.report.model_calls import conversation_facts

QUESTION = [{"role": "user", "content": "Where is my order?"}]
ANSWERS: dict[str, Json] = {
    "openai": {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [{"name": "find", "arguments": {"order": 7}}],
    },
    "anthropic": {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "tu_1", "name": "find", "input": {"order": 7}},
        ],
    },
}


@pytest.mark.parametrize("api", ANSWERS)
def test_an_answer_is_shown_as_words_and_tool_calls(api: str) -> None:
    call = LlmCall(seq=0, name="gpt", arguments_json=raw({"messages": QUESTION}), result_json=raw(ANSWERS[api]))

    facts = [fact for fact in conversation_facts(call) if fact[1]]

    assert facts == [
        ("model", "gpt"),
        ("user", "Where is my order?"),
        ("answer", "→ find(order=7)"),
        ("answer", "Let me look."),
    ]


@pytest.mark.parametrize("api", ANSWERS)
def test_the_notes_of_a_case_show_an_answer_as_words_and_tool_calls(api: str) -> None:
    call = LlmCall(seq=0, name="gpt", arguments_json=raw({"messages": QUESTION}), result_json=raw(ANSWERS[api]))
    run = TraceRun(id="r1", status=RunStatus.SUCCESS, events=(call,))

    notes = render_notes("A title", run, ())

    assert '> Let me look.  \n> → find({"order":7})' in notes


def test_arguments_of_a_tool_call_are_shown_in_full() -> None:
    answer = {"tool_calls": [{"name": "write", "arguments": {"text": "word " * 100}}]}
    call = LlmCall(seq=0, name="gpt", arguments_json=raw({"messages": QUESTION}), result_json=raw(answer))

    assert ("answer", f"→ write(text={'word ' * 100!r})") in list(conversation_facts(call))


@pytest.mark.parametrize(("words", "is_cut"), [(10, False), (1000, True)])
def test_notes_that_shorten_a_value_say_where_all_of_it_is(words: int, is_cut: bool) -> None:
    call = LlmCall(seq=0, name="gpt", arguments_json=raw({"messages": QUESTION}), result_json=raw("word " * words))
    run = TraceRun(id="r1", status=RunStatus.SUCCESS, events=(call,))

    assert ("`source-trace.json` has the whole run" in render_notes("A title", run, ())) == is_cut
