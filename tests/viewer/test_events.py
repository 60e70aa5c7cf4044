"""Rows and pages of events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.model.events import (
    AnyEvent,
    Decision,
    ErrorEvent,
    ErrorInfo,
    LlmCall,
    Message,
    Note,
    State,
    ToolCall,
    Usage,
    WireInfo,
)
from replaykit.model.values import raw
from replaykit.viewer.events import EventPages
from replaykit.viewer.page_types import ConversationMessage, EventPage
from replaykit.viewer.rows import row_of

CHAT = [{"role": "user", "content": "Where is order 7?"}]
CALLED = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "track", "arguments": '{"order":7}'}}]}
ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": "in Lyon"}


def page_of(event: AnyEvent) -> EventPage:
    return EventPages(started_at=100.0).page(event)


def texts(message: ConversationMessage) -> list[str]:
    return [part.text or bytes(part.value).decode() for part in message.parts]


def asked(seq: int, messages: list[Any], **members: Any) -> LlmCall:
    answer = raw({"role": "assistant", "content": f"answer {seq}"})
    request = raw({"model": "gpt-5-mini", "messages": messages, **members})
    return LlmCall(seq=seq, name="gpt-5-mini", arguments_json=request, result_json=answer)


def test_a_row_says_what_was_called_and_what_came_of_it() -> None:
    call = ToolCall(
        seq=3,
        at=102.5,
        duration_s=0.25,
        step="plan",
        parent=1,
        name="track",
        arguments_json=raw({"order": 7}),
        result_json=raw("in Lyon"),
        faults=("delay",),
    )

    row = row_of(call, started_at=100.0)

    assert (row.seq, row.kind, row.step, row.parent) == (3, "tool_call", "plan", 1)
    assert (row.title, row.answer) == ("track(order=7)", "in Lyon")
    assert (row.at_s, row.duration_s) == (2.5, 0.25)
    assert row.marks == ("fault",)
    assert msgspec.json.encode(row)[:1] == b"[", "a run has many"


@pytest.mark.parametrize(
    ("event", "title", "marks"),
    [
        (Message(seq=0, role="user", content_json=raw("hello")), "user: hello", ()),
        (Decision(seq=0, content_json=raw("call track")), "call track", ()),
        (ErrorEvent(seq=0, error=ErrorInfo(type="Boom", message="now")), "Boom: now", ("error",)),
        (Note(seq=0, name="retry", content_json=raw("third")), "retry: third", ()),
        (State(seq=0, state_json=raw({"a": 1})), "checkpoint", ("state",)),
        (State(seq=0), "checkpoint (state not stored)", ()),
    ],
)
def test_every_kind_of_event_has_a_row(event: AnyEvent, title: str, marks: tuple[str, ...]) -> None:
    row = row_of(event, started_at=0.0)

    assert (row.title, row.marks, row.at_s) == (title, marks, None)


@pytest.mark.parametrize(
    ("outcome", "marks"),
    [
        ({"error": ErrorInfo(type="Boom")}, ("error",)),
        ({"result_json": raw({"error": "no such order"})}, ("error",)),
        ({"items_json": (raw(1), raw(2))}, ("stream",)),
        ({"items_json": (raw(1),), "complete": False}, ("stream", "cut")),
        ({}, ("unanswered",)),
    ],
)
def test_a_row_is_marked_by_the_outcome_of_its_call(outcome: dict[str, Any], marks: tuple[str, ...]) -> None:
    assert row_of(ToolCall(seq=0, name="track", **outcome), started_at=0.0).marks == marks


def test_a_giant_text_makes_a_short_row() -> None:
    row = row_of(
        ToolCall(seq=0, name="t", arguments_json=raw("a" * 10_000), result_json=raw("b" * 10_000)), started_at=0
    )

    assert len(row.title) <= 160
    assert len(row.answer) <= 160


def test_a_model_call_is_a_conversation_with_its_answer_at_the_end() -> None:
    call = asked(0, [*CHAT, CALLED, ANSWERED], system="Be brief.", temperature=0.5)
    page = page_of(call)

    assert [message.role for message in page.conversation] == ["system", "user", "assistant", "tool", "answer"]
    assert [texts(message) for message in page.conversation] == [
        ["Be brief."],
        ["Where is order 7?"],
        ['{"order":7}'],
        ['"in Lyon"'],
        ["answer 0"],
    ]
    assert page.conversation[2].parts[0].name == "track"
    assert [message.parts[0].kind for message in page.conversation[2:4]] == ["tool_call", "tool_result"]
    assert json.loads(bytes(page.options)) == {"temperature": 0.5}
    assert page.row.title == "gpt-5-mini 4 messages"
    assert not page.arguments, "the conversation has them"


def test_messages_that_an_earlier_request_began_with_are_not_new() -> None:
    pages = EventPages(started_at=0.0)
    other = [{"role": "user", "content": "another agent"}]

    pages.page(asked(0, CHAT))
    pages.page(asked(1, other))
    third = pages.page(asked(2, [*CHAT, CALLED, ANSWERED]))

    assert [message.is_new for message in third.conversation] == [False, True, True, True]


def test_a_conversation_that_grows_stays_linear() -> None:
    pages = EventPages(started_at=0.0)
    messages = [{"role": "user", "content": f"message {number}"} for number in range(300)]

    last = [pages.page(asked(seq, messages[: seq + 1])) for seq in range(300)][-1]

    assert [message.is_new for message in last.conversation] == [False] * 16 + [True, True]
    assert texts(last.conversation[16]) == ["message 299"]
    assert last.row.title == "gpt-5-mini 300 messages"
    assert last.facts[0] == ("earlier messages", "283 more, before these: see event 298")


@pytest.mark.parametrize(
    "request_value",
    [
        {"input": "Where is order 7?"},
        {"contents": [{"role": "user", "parts": [{"text": "Where is order 7?"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Where is order 7?"}]}]},
    ],
)
def test_requests_of_all_apis_are_conversations(request_value: Any) -> None:
    page = page_of(LlmCall(seq=0, name="m", arguments_json=raw(request_value)))

    (message,) = page.conversation
    assert (message.role, texts(message)) == ("user", ["Where is order 7?"])


@pytest.mark.parametrize(
    "request_value", ["hello", None, 7, [], {}, {"messages": []}, {"$tuple": [1]}, {"messages": 7}]
)
def test_a_request_of_no_known_form_is_shown_as_it_is(request_value: Any) -> None:
    page = page_of(LlmCall(seq=0, name="m", arguments_json=raw(request_value), result_json=raw("x")))

    assert page.arguments or page.conversation


def test_an_exception_brings_its_causes_and_members() -> None:
    @rk.tool
    def fail() -> None:
        try:
            int("x")
        except ValueError as error:
            raise ExceptionGroup("two", [KeyError("a"), OSError("b")]) from error

    with rk.record("failing", store="s.db"), pytest.raises(ExceptionGroup):
        fail()
    with rk.Store.open("s.db") as store:
        (call,) = store.load("failing").events

    errors = page_of(call).errors

    assert [(error.type, error.relation) for error in errors] == [
        ("ExceptionGroup", ""),
        ("ValueError", "cause"),
        ("KeyError", "member"),
        ("OSError", "member"),
    ]
    assert errors[1].message == "invalid literal for int() with base 10: 'x'"


def test_a_chain_of_exceptions_without_end_is_cut() -> None:
    nested: Any = {"type": "Last"}
    for _ in range(100):
        nested = {"type": "E", "attributes": {"__cause__": {"$error": nested}}}
    error = ErrorInfo(type="First", attributes_json=raw_json(nested["attributes"]))

    assert len(page_of(ErrorEvent(seq=0, error=error)).errors) == 50


def raw_json(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def test_facts_hold_what_has_no_place_of_its_own() -> None:
    wire = WireInfo(method="POST", url="https://api.example.com/v1", status=429, reason="Too Many Requests")
    call = LlmCall(
        seq=0,
        name="m",
        wire=wire,
        finish_reason="length",
        usage=Usage(input_tokens=1200, output_tokens=3),
        complete=False,
    )

    facts = dict(page_of(call).facts)

    assert facts["request"] == "POST https://api.example.com/v1"
    assert facts["HTTP status"] == "429 Too Many Requests"
    assert facts["finish reason"] == "length"
    assert facts["input tokens"] == "1,200"
    assert facts["stream"] == "left before its end"
