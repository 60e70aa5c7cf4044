"""From spans to a run: errors in every disguise, calls that no span tells of, sub-agents, and the law of order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.otel.spans import (
    START,
    agent,
    call,
    document,
    logs,
    model,
    read,
    record,
    said,
    span,
    story,
    told,
    tool,
)

from replaykit.formats.otel.otlp_json import read_document
from replaykit.formats.spans.runs import TraceResult, run_of
from replaykit.formats.spans.span import Span
from replaykit.model.events import ErrorEvent, Note, ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.tool_errors import is_raised


def made_of(*spans: dict[str, Any], **resource: Any) -> TraceResult:
    return run_of(read(*spans, **resource))


def run(*spans: dict[str, Any], **resource: Any) -> TraceRun:
    found = made_of(*spans, **resource).run
    assert found is not None
    return found


def test_the_story_comes_out_whole() -> None:
    found = run(*story(), **{"service.name": "shop", "service.version": "2.1"})

    assert (found.name, found.agent, found.agent_version, found.status) == ("support", "support", "2.1", "success")
    assert (found.input, found.output) == ("refund W1", "It failed.")
    assert found.started_at == (START + 1000) / 1e9
    kinds = [event.kind for event in found.calls]
    assert kinds == ["llm_call", "tool_call", "tool_call", "llm_call", "tool_call", "llm_call"]
    refund = found.tool_calls[2].error
    assert refund is not None
    assert (refund.type, refund.module, refund.message, refund.traceback) == ("GatewayError", "app", "too slow", "…")
    usage = found.llm_calls[0].usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (10, 2)


ALL: list[Span] = [
    *read(*story()),
    *read_document(
        logs(
            record(2, "gen_ai.user.message", {"content": "refund W1"}),
            record(7, "gen_ai.choice", {"finish_reason": "stop", "message": {"content": "It failed."}}),
        )
    ).spans,
    *read(tool(6, 1, "refund", {"id": "W1"}, endTimeUnixNano="0")),  # the same span, from before it ended
]


@given(st.permutations(ALL), st.lists(st.sampled_from(ALL), max_size=6), st.randoms())
def test_any_order_and_any_repetition_give_the_same_run(spans: list[Span], again: list[Span], chance: Any) -> None:
    mixed = [*spans, *again]
    chance.shuffle(mixed)

    assert run_of(mixed) == run_of(ALL)


def test_of_two_versions_of_a_span_the_one_that_ended_counts() -> None:
    open_ = agent(1, endTimeUnixNano="0")

    assert run(open_, tool(2, 1, "t", {})).status is RunStatus.RUNNING
    assert run(open_, tool(2, 1, "t", {}), agent(1)).status is RunStatus.SUCCESS


ERRORS = {
    "status": {"error": "boom"},
    "status with a type": {"error": "ValueError: boom"},
    "error.type": {"attributes": {"error.type": "ValueError"}},
    "exception and nothing after it": {"events": [("exception", {"exception.message": "boom"})]},
    "level": {"attributes": {"langfuse.observation.level": "ERROR", "langfuse.observation.status_message": "boom"}},
    "MCP": {"result": {"isError": True, "content": [{"type": "text", "text": "boom"}]}},
}


@pytest.mark.parametrize("disguise", ERRORS)
def test_an_error_of_a_tool_is_seen_in_every_disguise(disguise: str) -> None:
    found = run(agent(), tool(2, 1, "t", {}, **ERRORS[disguise])).tool_calls[0]

    assert found.error is not None
    assert found.result == ERRORS[disguise].get("result")
    assert "boom" in str(found.error) or found.error.type == "ValueError"


def test_an_exception_that_a_tool_got_over_is_no_error() -> None:
    thrown = [("exception", {"exception.type": "KeyError", "exception.message": "x"})]

    found = run(agent(), tool(2, 1, "t", {}, result={"fine": True}, events=thrown)).tool_calls[0]

    assert (found.error, found.result) == (None, {"fine": True})


def test_a_call_that_no_span_tells_of_is_told_by_the_conversation() -> None:
    asked = said("assistant", call("a", "look", {"q": 1}), call("b", "look", {"q": 2}), call("c", "look", {"q": 3}))
    results = [told("a", {"found": 1}), told("b", "Error: TimeoutError: slow"), told("c", "no", is_error=True)]

    found = run(agent(), model(2, 1, [said("user", "go")], asked), model(3, 1, [said("user", "go"), asked, *results]))

    assert [(c.arguments, c.result, c.error and str(c.error)) for c in found.tool_calls] == [
        ({"q": 1}, {"found": 1}, None),
        ({"q": 2}, "Error: TimeoutError: slow", "TimeoutError: slow"),
        ({"q": 3}, "no", "ToolError: no"),
    ]
    assert list(map(is_raised, found.tool_calls)) == [False, False, True], "raised is what was flagged"
    assert [event.seq for event in found.events] == [0, 1, 2, 3, 4]


USER = said("user", "go")
FIRST, SECOND = (said("assistant", call("call_0", "look", {"q": number})) for number in (1, 2))
ONE, TWO = told("call_0", "one"), told("call_0", "two")


@pytest.mark.parametrize(
    "last",
    [
        [USER, FIRST, ONE, SECOND, TWO],
        [said("user", "said anew"), FIRST, ONE, SECOND, TWO],
        [said("user", "a summary"), SECOND, TWO],
        [said("user", "a summary"), TWO],
    ],
)
def test_a_result_is_of_the_call_before_it_though_the_model_gives_one_id_to_all(last: list[Any]) -> None:
    spans = [agent(), model(2, 1, [USER], FIRST), model(3, 1, [USER, FIRST, ONE], SECOND), model(4, 1, last)]

    found = run(*spans).tool_calls

    assert [(c.arguments, c.result) for c in found] == [({"q": 1}, "one"), ({"q": 2}, "two")]


@pytest.mark.parametrize("history", [[USER, FIRST, ONE], [said("user", "said anew"), FIRST, ONE]])
def test_what_came_of_an_earlier_call_of_the_same_id_is_no_result_of_a_later_one(history: list[Any]) -> None:
    spans = [agent(), model(2, 1, [USER], FIRST), model(3, 1, [USER, FIRST, ONE], SECOND), model(4, 1, history)]

    assert [(c.arguments, c.result) for c in run(*spans).tool_calls] == [({"q": 1}, "one")]


BY_ID = {"gen_ai.tool.call.id": "call_0"}


@pytest.mark.parametrize("given_", [{"arguments": {"q": 2}, "result": "two"}, {"result": "two"}, {}])
def test_a_span_is_joined_with_the_last_call_of_its_id(given_: dict[str, Any]) -> None:
    spans = [
        agent(),
        model(2, 1, [USER], FIRST),  # of what came of it there is no span
        model(3, 1, [USER, FIRST, ONE], SECOND),
        tool(4, 1, "look", **given_, attributes=BY_ID),
        model(5, 1, [USER, FIRST, ONE, SECOND, TWO]),
    ]

    found = run(*spans).tool_calls

    assert [(c.arguments, c.result, c.duration_s > 0) for c in found] == [
        ({"q": 1}, "one", False),
        ({"q": 2}, "two", True),
    ]


def test_spans_of_calls_that_share_an_id_are_joined_by_what_was_asked() -> None:
    asked = said("assistant", call("call_0", "look", {"q": 1}), call("call_0", "look", {"q": 2}))
    spans = [
        agent(),
        model(2, 1, [USER], asked),
        tool(3, 1, "look", {"q": 2}, attributes=BY_ID),
        tool(4, 1, "look", {"q": 1}, attributes=BY_ID),
        model(5, 1, [USER, asked, ONE, TWO]),
    ]

    assert [(c.arguments, c.result) for c in run(*spans).tool_calls] == [({"q": 2}, "two"), ({"q": 1}, "one")]


def test_a_conversation_that_was_there_before_gives_no_results_to_new_calls() -> None:
    before = [USER, FIRST, ONE, said("user", "and again?")]
    spans = [agent(), model(2, 1, before, FIRST), model(3, 1, [*before, FIRST, TWO])]

    assert [(c.arguments, c.result) for c in run(*spans).tool_calls] == [({"q": 1}, "two")]


def test_calls_of_one_answer_that_share_an_id_get_their_results_in_order() -> None:
    asked = said("assistant", call("call_0", "look", {"q": 1}), call("call_0", "look", {"q": 2}))

    found = run(agent(), model(2, 1, [USER], asked), model(3, 1, [USER, asked, ONE, TWO]))

    assert [(c.arguments, c.result) for c in found.tool_calls] == [({"q": 1}, "one"), ({"q": 2}, "two")]


def test_agents_side_by_side_that_count_their_calls_alike_get_their_own_results() -> None:
    spans = [
        agent(),
        model(2, 1, [said("user", "a")], FIRST),
        model(3, 1, [said("user", "b")], SECOND),
        model(4, 1, [said("user", "a"), FIRST, ONE]),
        model(5, 1, [said("user", "b"), SECOND, TWO]),
    ]

    assert [(c.arguments, c.result) for c in run(*spans).tool_calls] == [({"q": 1}, "one"), ({"q": 2}, "two")]


def test_a_call_that_was_asked_for_and_never_answered_was_not_made() -> None:
    assert run(agent(), model(2, 1, [said("user", "go")], said("assistant", call("a", "look", {})))).tool_calls == []


@pytest.mark.parametrize(
    ("given_", "why"),
    [
        ({"attributes": {"gen_ai.tool.call.id": "b"}}, "by the id"),
        ({"arguments": {"q": 2}}, "by the arguments"),
        ({"arguments": ["look", "b"]}, "by the id among the arguments"),
    ],
)
def test_a_span_of_a_tool_is_joined_with_the_call_it_is(given_: dict[str, Any], why: str) -> None:
    asked = said("assistant", call("a", "look", {"q": 1}), call("b", "look", {"q": 2}))
    results = [told("a", "one"), told("b", "two")]
    spans = [
        agent(),
        model(2, 1, [said("user", "go")], asked),
        tool(3, 1, "look", given_.pop("arguments", None), **given_),
        model(4, 1, [said("user", "go"), asked, *results]),
    ]

    calls = {c.arguments["q"]: (c.result, c.duration_s > 0) for c in run(*spans).tool_calls}

    assert calls == {1: ("one", False), 2: ("two", True)}, why


def test_a_tool_that_ran_before_the_model_asked_is_another_call() -> None:
    asked = said("assistant", call("a", "look", {"q": 1}))
    spans = [
        agent(),
        tool(2, 1, "look", result="before"),
        model(3, 1, [said("user", "go")], asked),
        model(4, 1, [said("user", "go"), asked, told("a", "after")]),
    ]

    assert [(c.arguments, c.result) for c in run(*spans).tool_calls] == [({}, "before"), ({"q": 1}, "after")]


def test_messages_in_the_details_of_a_call_complete_its_span() -> None:
    details = {
        "gen_ai.input.messages": [said("user", "hi")],
        "gen_ai.output.messages": [said("assistant", "ho") | {"finish_reason": "stop"}],
        "gen_ai.request.model": "another",
    }
    records = read_document(logs(record(2, "gen_ai.client.inference.operation.details", attributes=details))).spans

    found = run_of([*read(agent(), model(2, 1, None)), *records]).run

    assert found is not None
    (call_,) = found.llm_calls
    assert (call_.name, found.input, found.output, call_.finish_reason) == ("gpt", "hi", "ho", "stop")


def test_the_span_of_a_function_that_does_all_calls_gets_the_tools_own_name() -> None:
    asked = said("assistant", call("a", "look", {"q": 1}))

    found = run(
        agent(), model(2, 1, [said("user", "go")], asked), tool(3, 1, "execute", ["look", {"q": 1}, "a"], result="one")
    )

    assert [(c.name, c.arguments, c.result) for c in found.tool_calls] == [("look", {"q": 1}, "one")]


def test_a_sub_agent_is_a_step_of_the_agent_around_it() -> None:
    found = run(
        agent(1, name="boss"),
        agent(2, 1, name="Re searcher", endTimeUnixNano=str(START + 3500)),
        tool(3, 2, "look", {}, result="a"),
        agent(4, 1, name="Re searcher"),
        tool(5, 4, "look", {}, result="b"),
        tool(6, 1, "write", {}, result="c"),
    )

    assert [(event.step, event.result) for event in found.tool_calls] == [
        ("Re_searcher", "a"),
        ("Re_searcher_2", "b"),
        (None, "c"),
    ]
    assert (found.name, found.agent) == ("boss", "boss")


def test_what_happens_inside_of_a_tool_is_the_tools_business() -> None:
    found = run(agent(), tool(2, 1, "ask", {}, result=1), agent(3, 2, name="inner"), tool(4, 3, "look", {}, result=2))

    assert [call_.name for call_ in found.tool_calls] == ["ask"]
    assert [(event.parent, event.step) for event in found.events] == [(None, None), (0, None)]


def test_a_model_call_that_two_layers_trace_is_counted_once() -> None:
    usage = {"gen_ai.usage.input_tokens": 5}
    question, answer = [said("user", "hi")], said("assistant", "ho")

    inner_silent = run(model(1, None, question, answer, attributes=usage), model(2, 1, None, attributes=usage))
    outer_silent = run(model(1, None, None, attributes=usage), model(2, 1, question, answer, attributes=usage))

    for found in (inner_silent, outer_silent):
        assert [event.result["content"] for event in found.llm_calls] == ["ho"]


def test_a_web_request_around_the_agent_is_not_the_agent() -> None:
    found = run(span(1, name="POST /chat"), agent(2, 1), tool(3, 2, "t", {}, result=1))

    assert (found.name, found.status) == ("support", "success")


def test_several_agents_under_one_root_are_one_run() -> None:
    asked = {"gen_ai.input.messages": json.dumps([said("user", "go")])}
    given_ = {"gen_ai.output.messages": json.dumps([said("assistant", "done")])}

    found = run(span(1, name="workflow"), agent(2, 1, "one", attributes=asked), agent(3, 1, "two", attributes=given_))

    assert (found.name, found.agent, found.input, found.output) == ("workflow", "", "go", "done")


def test_an_agent_whose_caller_is_elsewhere_is_a_run_and_is_not_whole() -> None:
    made = made_of(agent(2, 77), tool(3, 2, "t", {}, result=1))

    assert made.run is not None
    assert made.run.status is RunStatus.SUCCESS
    assert not made.is_whole
    assert "1 of its spans are named by others" in made.notes[0]


def test_a_trace_is_whole_when_its_root_has_ended_and_nothing_is_missing() -> None:
    assert made_of(*story()).is_whole
    assert not made_of(*story()[1:]).is_whole
    assert not made_of(agent(1, endTimeUnixNano="0")).is_whole
    aside = read_document(logs(record(99, "gen_ai.user.message", {"content": "x"}))).spans
    assert not run_of([*read(*story()), *aside]).is_whole


def test_a_trace_of_no_agent_is_no_run() -> None:
    assert made_of(span(1, name="GET /")).run is None


def test_spans_that_are_each_others_parents_are_cut_at_the_earliest() -> None:
    found = run(agent(1, 2), agent(2, 1, name="other"), tool(3, 2, "t", {}, result=1))

    assert (found.name, len(found.tool_calls)) == ("support", 1)


def test_a_child_whose_clock_is_behind_comes_after_its_parent() -> None:
    found = run(
        agent(1), tool(2, 1, "outer", {}, result=1), tool(3, 2, "inner", {}, result=2, startTimeUnixNano=str(START))
    )

    assert [event.name for event in found.calls] == ["outer", "inner"]
    assert [event.parent for event in found.events] == [None, 0]


def test_an_error_outside_of_calls_is_an_event_told_once_where_it_began() -> None:
    found = run(
        agent(1),
        span(2, 1, name="parse", error="bad"),
        span(3, 2, name="json", error="SyntaxError: bad"),
        tool(4, 1, "t"),
    )

    errors = [event for event in found.events if isinstance(event, ErrorEvent)]
    assert [str(event.error) for event in errors] == ["SyntaxError: bad"]
    assert found.status is RunStatus.SUCCESS


def test_other_work_with_models_is_a_note() -> None:
    found = run(agent(1), span(2, 1, name="embed", attributes={"gen_ai.operation.name": "embeddings"}))

    assert [event.name for event in found.events if isinstance(event, Note)] == ["embed"]


def test_spans_without_messages_say_what_to_turn_on() -> None:
    made = made_of(agent(1), model(2, 1, None), tool(3, 1, "t"))

    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true" in made.notes[0]
    assert "no result of 't'" in made.notes[1]


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "hi",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.tool_calls.0.id": "a",
            "gen_ai.completion.0.tool_calls.0.name": "look",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"q": 1}',
        },
        {
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
            "gen_ai.output.messages": [
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": "a", "name": "look", "arguments": {"q": 1}}],
                }
            ],
        },
    ],
    ids=["flat, as the first versions wrote", "as values, not as text"],
)
def test_messages_are_read_as_older_and_other_writers_write_them(attributes: dict[str, Any]) -> None:
    (found,) = run(model(1, None, None, attributes={"gen_ai.system": "openai", **attributes})).llm_calls

    assert found.arguments["messages"] == [{"role": "user", "content": "hi"}]
    assert found.result["tool_calls"] == [{"id": "a", "name": "look", "arguments": {"q": 1}}]


def test_an_export_of_our_own_gives_the_input_back_as_the_value_it_was() -> None:
    asked = {"gen_ai.input.messages": json.dumps([said("user", '{"q": 1}')])}

    assert run(agent(1, attributes=asked | {"replaykit.run.id": "x"})).input == {"q": 1}
    assert run(agent(1, attributes=asked)).input == '{"q": 1}', "what somebody typed is a text"


def test_a_long_chain_of_spans_takes_no_long_time() -> None:
    spans = [agent(1), *(span(number, number - 1) for number in range(2, 4000)), tool(4000, 3999, "t", {}, result=1)]

    assert [event.name for event in run(*spans).calls] == ["t"]


def test_a_document_of_two_traces_does_not_mix_them() -> None:
    other = [item | {"traceId": "f" * 32} for item in story()[:1]]
    reading = read_document(document(*story(), *other))

    assert {item.trace for item in reading.spans} == {story()[0]["traceId"], "f" * 32}


def test_each_model_is_asked_what_its_own_span_says_though_conversations_begin_alike() -> None:
    said = [[{"role": "user", "content": text} for text in texts] for texts in ("ab", "abc", "xbcd", "ab", "abce")]
    spans = [
        span(
            number,
            1,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "gen_ai.input.messages": json.dumps(messages),
            },
        )
        for number, messages in enumerate(said, start=2)
    ]

    run = run_of(read(agent(1), *spans)).run

    assert run is not None
    assert [call.arguments["messages"] for call in run.llm_calls] == said


@pytest.mark.parametrize("parts", [(), ("",)])
def test_an_empty_answer_is_an_empty_output(parts: tuple[str, ...]) -> None:
    given_ = {"gen_ai.output.messages": json.dumps([said("assistant", *parts) | {"finish_reason": "stop"}])}

    assert run(agent(1, attributes=given_)).output == ""


def test_arguments_that_were_cut_within_a_character_are_still_arguments() -> None:
    found = run(agent(1), tool(2, 1, "t", {"q": "cut \ud83d"}, result={"r": "half \ud83d"}))

    (made,) = found.events
    assert isinstance(made, ToolCall)
    assert (made.arguments, made.result) == ({"q": "cut \ufffd"}, {"r": "half \ufffd"})
