"""Conversations, told message by message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.formats.core import talk as talk_module
from replaykit.formats.core.messages import fingerprints
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.talk import UNFINISHED, UNSET, Talk, content_id
from replaykit.model.changes import StateFold
from replaykit.model.events import ErrorEvent, ErrorInfo, LlmCall, Note, State, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.tool_errors import is_raised
from replaykit.model.values import canonical, decode
from replaykit.wire.model_calls import ModelAnswer, ToolUse

BROKEN = ErrorInfo(type="Overloaded", message="later")


def hear_all(talk, messages):
    for message in messages:
        talk.hear(message)


def asks(*names: str, content: str | None = None) -> ModelAnswer:
    """An answer that calls these tools; the id of each is its name in capitals."""
    return ModelAnswer(
        content=content, tool_calls=tuple(ToolUse(id=name.upper(), name=name, arguments={"of": name}) for name in names)
    )


def ended(talk: Talk, **about: Any) -> TraceRun:
    return talk.run(id="r1", format="test", **about)


def roles(call: LlmCall) -> list[str]:
    return [message["role"] for message in call.arguments["messages"]]


def test_every_answer_is_a_models_call_with_all_that_was_said_before_it():
    talk = Talk(system="Be kind.", tools=[{"name": "find"}])
    talk.says("user", "Where is it?")
    talk.answers(asks("find"), model="m", usage=Usage(input_tokens=3), parameters={"temperature": 0})
    talk.returns("there", call_id="FIND")
    talk.answers(ModelAnswer(content="It is there."), model="m", finish_reason="stop")

    run = ended(talk, name="n")

    assert [(e.seq, type(e)) for e in run.events] == [(0, LlmCall), (1, ToolCall), (2, LlmCall)]
    first, last = run.llm_calls
    assert first.arguments == {
        "messages": [{"role": "user", "content": "Where is it?"}],
        "parameters": {"temperature": 0},
        "system": "Be kind.",
        "tools": [{"name": "find"}],
    }
    assert roles(last) == ["user", "assistant", "tool"]
    assert (run.input, run.output, run.status, run.error) == ("Where is it?", "It is there.", RunStatus.SUCCESS, None)
    assert (run.origin.kind, run.origin.format, run.name) == ("imported", "test", "n")
    assert replayability(run).score == 1.0


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_results_find_their_calls_by_id_in_any_order(order):
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("a", "b"))
    for name in order:
        talk.returns(f"of {name}", call_id=name.upper())

    assert [(call.name, call.result) for call in ended(talk).tool_calls] == [("a", "of a"), ("b", "of b")]


def test_results_without_ids_find_their_calls_by_name_and_else_by_place():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(ModelAnswer(tool_calls=(ToolUse(name="a"), ToolUse(name="b"), ToolUse(name="b", arguments={"n": 2}))))
    talk.returns("first b", name="b")
    talk.returns("the a")
    talk.returns("second b")

    assert [(c.name, c.result) for c in ended(talk).tool_calls] == [("a", "the a"), ("b", "first b"), ("b", "second b")]


def test_a_result_with_an_id_finds_a_call_that_was_told_without_one():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(ModelAnswer(tool_calls=(ToolUse(name="a"), ToolUse(name="b"))))
    talk.returns("the b", call_id="made-later", name="b")

    assert [call.result for call in ended(talk).tool_calls] == [None, "the b"]


def test_a_result_never_takes_the_place_of_a_call_with_another_id():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("a"))
    talk.returns("stray", call_id="OTHER", name="a")
    run = ended(talk)

    asked, stray = run.tool_calls
    assert not asked.answered
    assert (stray.name, stray.result) == ("a", "stray")
    assert {one.seq: one.lacks for one in replayability(run).lacking} == {
        asked.seq: (Lack.RESULT,),
        stray.seq: (Lack.ARGUMENTS,),
    }


def test_a_call_that_never_returns_has_no_outcome_and_the_run_did_not_end():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("a"))
    run = ended(talk)

    assert (run.status, run.error, run.output) == (RunStatus.ERROR, UNFINISHED, None)
    assert not run.tool_calls[0].answered


def test_a_run_that_ends_with_a_failed_call_has_its_error():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(None, error=BROKEN)
    run = ended(talk)

    assert (run.status, run.error) == (RunStatus.ERROR, BROKEN)

    talk.answers(ModelAnswer(content="here"))
    assert (ended(talk).status, ended(talk).error) == (RunStatus.SUCCESS, None)


def test_a_refusal_is_an_answer():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(ModelAnswer(refusal="I will not."))

    assert (ended(talk).output, ended(talk).status) == ("I will not.", RunStatus.SUCCESS)


@pytest.mark.parametrize(
    ("content", "failed", "error"),
    [
        ("TimeoutError: too late", None, ("TimeoutError", "too late")),
        ("TimeoutError: too late", False, None),
        ("Error: TimeoutError: too late", True, ("TimeoutError", "too late")),
        ("gone", True, ("ToolError", "gone")),
        ("gone", None, None),
        ({"isError": True, "content": [{"type": "text", "text": "KeyError: x"}]}, None, ("KeyError", "x")),
    ],
)
def test_errors_of_tools_are_seen_in_every_disguise(content, failed, error):
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("a"))
    talk.returns(content, call_id="A", failed=failed)
    call = ended(talk).tool_calls[0]

    assert (call.error and (call.error.type, call.error.message)) == error
    assert call.result == content, "what the model was told is kept"
    assert is_raised(call) == (failed is True), "a failure that only the text tells of was returned"


def test_a_stream_that_was_cut_is_not_complete_and_says_so():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(ModelAnswer(content="It is"), complete=False)
    run = ended(talk)

    assert run.llm_calls[0].complete is False
    assert replayability(run).lacking[0].lacks == (Lack.CUT,)


def test_what_the_provider_runs_is_inside_of_the_models_call():
    talk = Talk()
    talk.says("user", "go")
    turn = talk.answers(ModelAnswer(content="Found."), at=5.0)
    talk.uses(turn, ToolUse(name="web_search", arguments={"query": "x"}), {"sources": []})
    talk.uses(turn, ToolUse(name="fetch"), "no such page", failed=True)
    run = ended(talk)

    search, fetch = run.tool_calls
    assert (search.parent, search.result, search.at) == (0, {"sources": []}, 5.0)
    assert (fetch.parent, fetch.error) == (0, ErrorInfo(type="ToolError", message="no such page"))
    assert run.output == "Found."


def test_sub_agents_are_inside_of_the_call_that_started_them():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("task"))
    turn = talk.turn_of("TASK")
    assert turn is not None
    inner = talk.inside(turn, system="You are small.")
    inner.says("user", "part of it")
    inner.answers(asks("look"))
    inner.returns("seen", call_id="LOOK")
    inner.answers(ModelAnswer(content="Done."))
    talk.returns("Done.", call_id="TASK")
    talk.answers(ModelAnswer(content="All done."))
    run = ended(talk)

    task = run.tool_calls[0]
    assert [(type(e).__name__, e.parent) for e in run.events] == [
        ("LlmCall", None),
        ("ToolCall", None),
        ("LlmCall", task.seq),
        ("ToolCall", task.seq),
        ("LlmCall", task.seq),
        ("LlmCall", None),
    ]
    assert [call.name for call in run.tool_calls] == ["task"]
    assert (run.input, run.output) == ("go", "All done.")
    assert roles(run.llm_calls[1]) == ["user"]
    assert run.llm_calls[1].arguments["system"] == "You are small."


def test_times_of_tools_are_between_the_calls_of_the_model():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("a", "b"), at=10.0, duration_s=2.0)
    talk.returns("x", call_id="A", at=15.0)
    talk.returns("y", call_id="B", at=16.0, duration_s=1.5)
    run = ended(talk)

    assert [(call.at, call.duration_s) for call in run.tool_calls] == [(12.0, 3.0), (14.5, 1.5)]
    assert (run.started_at, run.ended_at) == (10.0, 16.0)


def test_a_result_that_alone_has_a_time_gives_it_to_its_call():
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("a"))
    talk.returns("x", call_id="A", at=15.0)

    assert (ended(talk).tool_calls[0].at, ended(talk).tool_calls[0].duration_s) == (15.0, 0.0)


def test_notes_and_errors_are_events_in_their_place():
    talk = Talk()
    talk.says("user", "go")
    talk.notes("seen", {"a": 1})
    talk.fails(BROKEN)
    run = ended(talk)

    assert [type(event) for event in run.events] == [Note, ErrorEvent]


def test_a_message_keeps_its_parts_and_its_thinking():
    talk = Talk()
    hear_all(
        talk,
        [
            {"role": "user", "content": "draw"},
            {
                "role": "assistant",
                "content": "Here.",
                "tool_calls": [],
                "thinking": "a cat",
                "parts": [{"type": "image"}],
            },
        ],
    )

    said = ended(talk).llm_calls[0].result
    assert (said["content"], said["thinking"], said["parts"]) == ("Here.", "a cat", [{"type": "image"}])


def test_what_is_not_given_in_the_metadata_is_left_out():
    talk = Talk()
    talk.says("user", "go")

    assert ended(talk, metadata={"a": 1, "b": None, "c": "", "d": 0}).metadata == {"a": 1, "d": 0}


def test_the_same_content_has_the_same_id():
    assert content_id("chat", b"x") == content_id("chat", b"x")
    assert content_id("chat", b"x") != content_id("chat", b"y")
    assert content_id("chat", b"x").startswith("chat-")


def test_a_conversation_that_begins_with_an_answer_lacks_what_was_asked():
    talk = Talk()
    talk.answers(asks("a"))
    talk.returns("x", call_id="A")
    talk.answers(ModelAnswer(content="Done."))
    run = ended(talk)

    assert [(one.seq, one.lacks) for one in replayability(run).lacking] == [
        (0, (Lack.MESSAGES,)),
        (2, (Lack.MESSAGES,)),
    ]
    told = Talk()
    told.instructs("Do it.")
    told.answers(ModelAnswer(content="Done."))
    assert replayability(ended(told)).score == 1.0


def test_a_call_that_the_agent_makes_itself_is_waited_for():
    talk = Talk()
    talk.says("user", "go")
    talk.calls(ToolUse(id="c1", name="find", arguments={"id": 7}), at=3.0, step="look")
    talk.returns("there", call_id="c1", at=4.0)
    (call,) = ended(talk).tool_calls

    assert (call.name, call.arguments, call.result) == ("find", {"id": 7}, "there")
    assert (call.at, call.duration_s, call.step) == (3.0, 1.0, "look")


def test_states_are_events_that_hold_what_changed():
    talk = Talk()
    talk.says("user", "go")
    talk.keeps({"a": 1, "b": [1]}, step="one")
    talk.keeps({"a": 2, "b": [1, 2]}, step="two")
    talk.keeps(UNSET)
    states = [event for event in ended(talk).events if isinstance(event, State)]

    fold = StateFold()
    for state in states[:2]:
        fold.apply(state)
    assert decode(fold.text) == {"a": 2, "b": [1, 2]}
    assert [state.is_kept for state in states] == [True, True, False]


# What the next request repeats


HISTORY = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "A", "name": "a", "arguments": {"of": "a"}}]},
]


def waiting() -> Talk:
    talk = Talk()
    talk.says("user", "go")
    talk.answers(asks("a"))
    return talk


def test_a_repeated_history_counts_once():
    talk = waiting()
    talk.catches_up([*HISTORY, {"role": "tool", "tool_call_id": "A", "content": "found"}])
    talk.answers(ModelAnswer(content="Done."))
    run = ended(talk)

    assert [(call.name, call.result) for call in run.tool_calls] == [("a", "found")]
    assert len(run.llm_calls) == 2
    assert roles(run.llm_calls[1]) == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    "first",
    [
        {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]},
        {"role": "human", "content": " go\n"},
        {"role": "user", "content": ["go"]},
    ],
)
@pytest.mark.parametrize(
    "second",
    [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "a", "arguments": '{"of": "a"}'}]},
        {"role": "model", "tool_calls": [{"id": "other", "name": "a", "arguments": {"of": "a"}}]},
    ],
)
def test_a_history_is_known_however_it_is_spelled(first, second):
    talk = waiting()

    assert talk.knows([first, second]) == 2
    assert talk.knows([first, second, {"role": "user", "content": "more"}]) == 2


@pytest.mark.parametrize(
    "other",
    [
        [{"role": "user", "content": "stop"}, HISTORY[1]],
        [HISTORY[0], {"role": "assistant", "tool_calls": [{"name": "b", "arguments": {"of": "a"}}]}],
        [HISTORY[0], {"role": "assistant", "tool_calls": [{"name": "a", "arguments": {"of": "b"}}]}],
        [{"role": "system", "content": "go"}, HISTORY[1]],
        [HISTORY[0]],
        [],
    ],
)
def test_another_history_is_not_known(other):
    assert waiting().knows(other) is None


def test_a_history_that_was_cut_short_is_what_the_next_call_has_and_nothing_counts_twice():
    talk = waiting()
    cut = [{"role": "user", "content": "In short: go."}, HISTORY[1]]
    talk.catches_up([*cut, {"role": "tool", "tool_call_id": "A", "content": "found"}])
    talk.answers(ModelAnswer(content="Done."))
    run = ended(talk)

    assert [call.result for call in run.tool_calls] == ["found"]
    assert [m["content"] for m in run.llm_calls[1].arguments["messages"]] == ["In short: go.", None, "found"]
    assert run.input == "go"


def test_in_a_changed_history_an_older_result_is_not_taken_for_a_new_one():
    talk = Talk()
    talk.says("user", "go")
    for number in (1, 2):
        talk.answers(ModelAnswer(tool_calls=(ToolUse(id="same", name="a", arguments={"n": number}),)))
        if number == 1:
            talk.returns("old", call_id="same")
    asked = [{"role": "assistant", "tool_calls": [{"id": "same", "name": "a", "arguments": {"n": n}}]} for n in (1, 2)]
    told = [{"role": "tool", "tool_call_id": "same", "content": text} for text in ("old", "new")]
    talk.catches_up([{"role": "user", "content": "changed"}, asked[0], told[0], asked[1], told[1]])

    assert [call.result for call in ended(talk).tool_calls] == ["old", "new"]


def test_results_of_calls_that_are_not_waited_for_are_only_history():
    talk = Talk()
    talk.catches_up([*HISTORY, {"role": "tool", "tool_call_id": "A", "content": "found"}])
    talk.answers(ModelAnswer(content="Done."))
    run = ended(talk)

    assert run.tool_calls == []
    assert roles(run.llm_calls[0]) == ["user", "assistant", "tool"]


def test_beyond_the_budget_calls_hold_what_is_new_and_say_what_they_lack(monkeypatch):
    monkeypatch.setattr(talk_module, "_MAX_HISTORY_BYTES", 1000)
    talk = Talk()
    for number in range(20):
        talk.says("user", f"{number} " + "x" * 100)
        talk.answers(ModelAnswer(content=str(number)))
    run = ended(talk)

    lacking = {one.seq for one in replayability(run).lacking}
    whole = [call for call in run.llm_calls if call.seq not in lacking]
    assert 3 <= len(whole) < 10
    assert all(len(call.arguments["messages"]) == 2 * n + 1 for n, call in enumerate(whole))
    cut = [call for call in run.llm_calls if call.seq in lacking]
    assert all(roles(call) == ["assistant", "user"] for call in cut)
    assert replayability(run).lacking[0].lacks == (Lack.MESSAGES,)


def test_beyond_the_budget_a_history_that_was_cut_is_new_from_where_it_was_cut(monkeypatch):
    monkeypatch.setattr(talk_module, "_MAX_HISTORY_BYTES", 0)
    talk = Talk()
    for word in ("one", "two", "three"):
        talk.says("user", word)
        talk.answers(ModelAnswer(content=word))
    talk.catches_up([{"role": "user", "content": text} for text in ("one", "in short", "four")])
    talk.answers(ModelAnswer(content="four"))

    assert [m["content"] for m in ended(talk).llm_calls[-1].arguments["messages"]] == ["in short", "four"]


def test_the_budget_counts_only_what_is_repeated(monkeypatch):
    monkeypatch.setattr(talk_module, "_MAX_HISTORY_BYTES", 1000)
    talk = Talk()
    talk.says("user", "x" * 5000)
    talk.answers(ModelAnswer(content="long"))

    assert replayability(ended(talk)).score == 1.0


# Laws

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)


@st.composite
def rounds(draw: st.DrawFn) -> list[tuple[str, list[str], list[int]]]:
    """What is said, the tools that are called for it, and the order in which they return."""
    told = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(NAMES, max_size=3))
        told.append((draw(TEXTS), names, draw(st.permutations(range(len(names))))))
    return told


def messages_of(told: list[tuple[str, list[str], list[int]]], *, ids: bool = True) -> list[dict[str, Any]]:
    """The conversation, with an answer to each round."""
    messages: list[dict[str, Any]] = []
    for number, (text, names, order) in enumerate(told):
        messages.append({"role": "user", "content": text})
        calls = [
            {"id": f"{number}.{place}" if ids else "", "name": name, "arguments": {"round": number, "place": place}}
            for place, name in enumerate(names)
        ]
        if calls:
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            for place in order if ids else sorted(order):
                messages.append({"role": "tool", "content": f"{number}.{place}", "name": names[place]})
                if ids:
                    messages[-1]["tool_call_id"] = calls[place]["id"]
        messages.append({"role": "assistant", "content": f"answer {number}", "tool_calls": []})
    return messages


@settings(max_examples=examples(60))
@given(rounds(), st.booleans())
def test_every_message_counts_once_and_every_result_is_joined(told, ids):
    messages = messages_of(told, ids=ids)
    talk = Talk()
    hear_all(talk, messages)
    run = ended(talk)

    answers = [m for m in messages if m["role"] == "assistant"]
    assert len(run.llm_calls) == len(answers)
    assert [call.result["content"] for call in run.llm_calls] == [m["content"] for m in answers]
    asked = [call["arguments"] for m in answers for call in m["tool_calls"]]
    assert [call.arguments for call in run.tool_calls] == asked
    assert [call.result for call in run.tool_calls] == [f"{a['round']}.{a['place']}" for a in asked]
    assert [len(call.arguments["messages"]) for call in run.llm_calls] == [
        index for index, m in enumerate(messages) if m["role"] == "assistant"
    ]
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    assert replayability(run).score == 1.0


@settings(max_examples=examples(60))
@given(rounds())
def test_told_by_requests_that_repeat_everything_it_is_the_same_run(told):
    messages = messages_of(told)
    plain, repeated = Talk(), Talk()
    hear_all(plain, messages)
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            repeated.catches_up(messages[:index])
            repeated.hear(message)

    assert ended(repeated).events == ended(plain).events
    assert ended(repeated) == ended(plain)


@settings(max_examples=examples(60))
@given(rounds(), st.data())
def test_whatever_history_a_request_has_is_what_the_next_call_has_and_calls_return_once(told, data):
    messages = messages_of(told)
    end = data.draw(st.integers(0, len(messages)))
    talk = Talk()
    hear_all(talk, messages[:end])
    before = ended(talk)
    kept = data.draw(st.lists(st.sampled_from(messages), max_size=8))
    talk.catches_up(kept)
    talk.answers(ModelAnswer(content="the end"))
    run = ended(talk)

    assert len(run.llm_calls) == len(before.llm_calls) + 1
    assert len(run.tool_calls) == len(before.tool_calls)
    assert [m["content"] for m in run.llm_calls[-1].arguments["messages"]] == [m["content"] for m in kept]
    for was, call in zip(before.tool_calls, run.tool_calls, strict=True):
        assert not was.answered or was.result == call.result


@settings(max_examples=examples(60))
@given(rounds(), rounds())
def test_marks_are_equal_for_equal_conversations_only(one, other):
    first, second = messages_of(one), messages_of(other)

    assert fingerprints(first) == fingerprints(first)
    assert (fingerprints(first)[-1] == fingerprints(second)[-1]) == (_blankless(first) == _blankless(second))


def _blankless(messages: list[dict[str, Any]]) -> bytes:
    said = [[m["role"], "".join((m["content"] or "").split()), m.get("tool_calls")] for m in messages]
    return canonical([[r, c, [[x["name"], x["arguments"]] for x in calls or []]] for r, c, calls in said])


KEYS = st.sampled_from(["role", "content", "tool_calls", "name", "type", "text"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(40))
@given(ANYTHING)
def test_any_value_has_a_mark(value):
    assert len(fingerprints([value])[0]) == 16
