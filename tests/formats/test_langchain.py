"""LangChain's messages and LangGraph's states, streams and events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import sample, unpacked
from tests.formats.story import check_story
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.changes import StateFold
from replaykit.model.events import ErrorEvent, LlmCall, Note, State, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

DUMPS = ("messages_to_dict", "dumpd", "model_dump")
LACKS = {
    **{name: {"system", "times"} for name in DUMPS},
    "langgraph_state_history": {"system"},
    "langgraph_stream_updates": {"input", "messages", "system", "times", "replayable"},
    "astream_events_v2": {"tokens"},
}


def raw(name: str) -> list[Any]:
    found: list[Any] = json.loads(unpacked(sample(f"langchain/{name}.json")))
    return found


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def of_lines(*values: Any) -> Imported:
    return import_source(Source(as_lines(list(values)), "trace.jsonl"))


def only(value: Any) -> TraceRun:
    imported = of(value)
    assert imported.format == "langchain"
    assert not imported.left_out
    (run,) = imported.runs
    return run


def human(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "human", "content": text, **more}


def ai(text: Any = "", calls: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    asked = [{"name": name, "args": args, "id": own_id, "type": "tool_call"} for name, args, own_id in calls or ()]
    return {"type": "ai", "content": text, "tool_calls": asked, **more}


def tool(content: Any, call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool", "content": content, "tool_call_id": call_id, **more}


TALK = [human("q", id="1"), ai(calls=[("f", {"a": 1}, "c1")], id="2"), tool("r", "c1", id="3"), ai("done", id="4")]


@pytest.mark.parametrize("name", LACKS)
def test_every_sample_tells_the_story(name: str) -> None:
    imported = import_trace(sample(f"langchain/{name}.json"))
    assert (imported.format, imported.left_out, imported.notes) == ("langchain", (), ())
    (run,) = imported.runs
    check_story(run, LACKS[name])
    assert run.origin.kind == "imported"
    assert run.origin.format == "langchain"


@pytest.mark.parametrize("name", LACKS)
def test_a_sample_on_lines_is_the_same_run(name: str) -> None:
    (run,) = import_trace(sample(f"langchain/{name}.json")).runs
    imported = of_lines(*raw(name))
    assert imported.format == "langchain"
    assert imported.runs == (run,)


def test_messages_in_the_form_of_openai_are_openai_s() -> None:
    assert not IMPORTERS.get("langchain").recognises(Source(unpacked(sample("langchain/openai_messages.json")), "f"))


class TestMessages:
    def test_the_same_file_has_the_same_id_and_another_another(self) -> None:
        assert only(TALK).id == only(TALK).id
        assert only(TALK).id != only([*TALK, human("more")]).id

    def test_a_graph_s_state_is_its_messages(self) -> None:
        run = only({"messages": TALK, "left": 3})
        assert [type(event) for event in run.events] == [LlmCall, ToolCall, LlmCall, State]
        assert run.output == "done"

    def test_a_list_on_each_line_is_a_run_each(self) -> None:
        runs = of_lines(TALK, [human("other"), ai("answer")]).runs
        assert [(run.input, run.output) for run in runs] == [("q", "done"), ("other", "answer")]

    def test_a_bad_member_is_told_with_its_line_and_the_others_are_read(self) -> None:
        text = as_lines([TALK[0], {"type": "nobody"}]) + b"{broken\n" + as_lines(TALK[1:])
        imported = import_source(Source(text, "trace.jsonl"))
        assert [problem.split(":")[1] for problem in imported.left_out] == ["2", "3"]
        assert imported.runs == (only(TALK),)

    def test_what_went_wrong_in_a_tool_is_read_out_of_what_the_model_was_told(self) -> None:
        told = "Error: ValueError('it\\'s bad')\n Please fix your mistakes."
        run = only([*TALK[:2], tool(told, "c1", status="error"), ai("sorry")])
        error = run.tool_calls[0].error
        assert error is not None
        assert (error.type, error.message) == ("ValueError", "it's bad")
        assert run.llm_calls[-1].arguments["messages"][-1]["content"] == told

    def test_the_words_of_later_versions_are_read_as_well(self) -> None:
        told = "Error executing tool f with kwargs {'a': 1} with error:\n too big\n Please fix the error and try again."
        error = only([*TALK[:2], tool(told, "c1", status="error"), ai("sorry")]).tool_calls[0].error
        assert error is not None
        assert (error.type, error.message) == ("ToolError", "too big")

    def test_a_tool_that_succeeded_is_not_taken_for_one_that_failed(self) -> None:
        run = only([*TALK[:2], tool("ValueError: in a log", "c1", status="success"), ai("fine")])
        assert run.tool_calls[0].result == "ValueError: in a log"

    def test_arguments_that_the_model_wrote_wrongly_are_kept_as_it_wrote_them(self) -> None:
        wrong = {"name": "f", "args": "{bad", "id": "c1", "error": "no JSON"}
        run = only([human("q"), ai(invalid_tool_calls=[wrong]), tool("no", "c1", status="error"), ai("sorry")])
        assert run.tool_calls[0].arguments == "{bad"

    def test_content_in_blocks_is_read_as_text_thinking_and_calls(self) -> None:
        blocks = [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "c1"},
        ]
        run = only([human("q"), ai(blocks, [("f", {}, "c1")]), tool("r", "c1"), ai("done")])
        said = run.llm_calls[0].result
        assert (said["content"], said["thinking"], [use["name"] for use in said["tool_calls"]]) == ("so", "hm", ["f"])

    @pytest.mark.parametrize(
        ("counted", "expected"),
        [
            (
                {"usage_metadata": {"input_tokens": 9, "output_tokens": 2, "input_token_details": {"cache_read": 4}}},
                (9, 2),
            ),
            ({"response_metadata": {"token_usage": {"prompt_tokens": 8, "completion_tokens": 1}}}, (8, 1)),
            (
                {
                    "response_metadata": {
                        "usage": {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1},
                    }
                },
                (8, 1),
            ),
        ],
    )
    def test_input_tokens_count_what_came_from_a_cache(
        self, counted: dict[str, Any], expected: tuple[int, int]
    ) -> None:
        run = only([human("q"), ai("a", **counted)])
        assert run.llm_calls[0].usage == Usage(input_tokens=expected[0], output_tokens=expected[1])

    def test_who_speaks_in_a_chat_message_is_said_by_its_role(self) -> None:
        chat = [
            {"type": "chat", "data": {"type": "chat", "role": role, "content": role}} for role in ("user", "assistant")
        ]
        run = only([*chat, human("and?"), ai("done")])
        assert (run.input, len(run.llm_calls)) == ("user", 2)

    def test_what_a_tool_gave_beside_its_answer_is_a_note(self) -> None:
        run = only([*TALK[:2], tool("r", "c1", artifact={"rows": [1]}), ai("done")])
        (note,) = [event for event in run.events if isinstance(event, Note)]
        assert note.content["artifact"] == {"rows": [1]}

    def test_a_conversation_that_begins_with_an_answer_lacks_what_was_asked(self) -> None:
        told = replayability(only(TALK[1:]))
        assert [(one.seq, one.lacks) for one in told.lacking] == [(0, (Lack.MESSAGES,)), (2, (Lack.MESSAGES,))]

    def test_a_call_that_never_returned_is_a_run_that_did_not_end_well(self) -> None:
        run = only(TALK[:2])
        assert run.status is RunStatus.ERROR
        assert not run.tool_calls[0].answered


def snapshot(step: int, messages: list[Any] | None, **more: Any) -> dict[str, Any]:
    def place(number: int) -> dict[str, Any]:
        return {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": f"k{number:02}"}}

    return {
        "values": {} if messages is None else {"messages": messages},
        "next": [],
        "config": place(step + 1),
        "metadata": {"source": "loop" if step >= 0 else "input", "step": step},
        "created_at": f"2026-01-01T00:00:{step + 1:02}+00:00",
        "parent_config": place(step) if step >= 0 else None,
        "tasks": [],
        "interrupts": [],
        **more,
    }


def history(*messages: list[Any] | None) -> list[dict[str, Any]]:
    return [snapshot(step, said) for step, said in enumerate(messages, -1)][::-1]


THREAD = history(None, TALK[:1], TALK[:2], TALK[:3], TALK)


class TestStates:
    def test_each_state_can_be_seen_again(self) -> None:
        run, fold, seen = only(raw("langgraph_state_history")), StateFold(), []
        for event in run.events:
            if isinstance(event, State):
                fold.apply(event)
                seen.append(json.loads(fold.text))
        assert seen == [state["values"] for state in reversed(raw("langgraph_state_history"))]

    def test_steps_and_times_are_those_of_the_states(self) -> None:
        run = only(THREAD)
        assert (run.id, run.name) == ("k04", "t")
        model = run.llm_calls[0]
        assert (model.step, model.duration_s) == ("step_1", 1.0)
        assert run.tool_calls[0].duration_s == 1.0
        steps = [event.step for event in run.events if isinstance(event, State)]
        assert steps == ["input", "step_0", "step_1", "step_2", "step_3"]
        assert run.duration_s == 4.0

    def test_the_oldest_first_is_the_same_run(self) -> None:
        assert only(THREAD[::-1]) == only(THREAD)

    def test_states_as_named_tuples_are_the_same_run(self) -> None:
        assert only([list(state.values()) for state in THREAD]) == only(THREAD)

    def test_states_of_the_server_are_the_same_run(self) -> None:
        def as_server(state: dict[str, Any]) -> dict[str, Any]:
            told = {key: value for key, value in state.items() if key not in ("config", "parent_config")}
            parent = state["parent_config"]
            return {
                **told,
                "checkpoint": state["config"]["configurable"],
                "parent_checkpoint": parent and parent["configurable"],
            }

        assert only([as_server(state) for state in THREAD]) == only(THREAD)

    @pytest.mark.parametrize("named", [True, False])
    def test_a_node_that_failed_is_the_error_of_the_run(self, named: bool) -> None:
        task = {"id": "x", "name": "tools", "path": [], "error": "TimeoutError('too late')", "interrupts": []}
        failed = {**THREAD[2], "next": ["tools"], "tasks": [task if named else list(task.values())]}
        run = only([failed, *THREAD[3:]])
        assert run.status is RunStatus.TIMEOUT
        assert str(run.error) == "TimeoutError: too late"
        assert run.metadata["failed_node"] == "tools"
        assert not run.tool_calls[0].answered

    def test_an_error_that_was_got_over_is_an_event(self) -> None:
        tried = {**THREAD[2], "tasks": [{"name": "tools", "error": "OSError('busy')"}]}
        run = only([*THREAD[:2], tried, *THREAD[3:]])
        assert run.status is RunStatus.SUCCESS
        assert [str(event.error) for event in run.events if isinstance(event, ErrorEvent)] == ["OSError: busy"]

    def test_a_graph_that_waits_for_somebody_has_not_ended(self) -> None:
        asks = {"value": "may I?", "id": "i1"}
        run = only([{**THREAD[2], "next": ["tools"], "tasks": [{"name": "tools", "interrupts": [asks]}]}, *THREAD[3:]])
        assert run.status is RunStatus.RUNNING
        assert run.metadata["interrupts"] == [asks]

    def test_other_branches_are_counted_and_passed_over(self) -> None:
        other = snapshot(9, [*TALK[:3], ai("another way", id="5")])
        other |= {"created_at": "2025-01-01T00:00:00+00:00", "parent_config": THREAD[1]["config"]}
        imported = of([*THREAD, other])
        assert imported.runs[0].output == "done"
        assert "1 of its 6 states" in imported.notes[0]

    def test_each_thread_is_a_run(self) -> None:
        other = json.loads(json.dumps(THREAD).replace('"t"', '"u"').replace('"k0', '"m0'))
        assert [run.name for run in of([*THREAD, *other]).runs] == ["t", "u"]

    def test_messages_that_were_taken_away_are_not_asked_again(self) -> None:
        kept = [TALK[3], human("next", id="6")]
        run = only(history(None, TALK, kept, [*kept, ai("there", id="7")]))
        said = run.llm_calls[-1].arguments["messages"]
        assert [message["content"] for message in said] == ["done", "next"]
        assert len(run.llm_calls) == 3

    def test_a_graph_without_messages_is_its_states(self) -> None:
        states = [{**snapshot(step, None), "values": {"n": step}} for step in (-1, 0, 1)][::-1]
        run = only(states)
        assert (run.input, run.output, run.status) == ({"n": -1}, {"n": 1}, RunStatus.SUCCESS)
        assert len(run.events) == 3

    def test_a_bad_state_is_left_out_with_its_line(self) -> None:
        bad = {**THREAD[0], "created_at": "yesterday"}
        imported = of_lines(bad, *THREAD[1:])
        assert "trace.jsonl:1: created_at: expected an ISO time" in imported.left_out[0]
        assert len(imported.runs) == 1


class TestStreams:
    def test_updates_name_their_nodes_as_steps_and_keep_what_else_was_written(self) -> None:
        run = only([{"agent": {"messages": [TALK[1]], "left": 3}}, {"tools": {"messages": TALK[2]}}, {"agent": None}])
        assert [event.step for event in run.events] == ["agent_1", "agent_1", "agent_1"]
        (note,) = [event for event in run.events if isinstance(event, Note)]
        assert (note.name, note.content) == ("agent", {"left": 3})
        assert replayability(run).advice

    def test_updates_of_graphs_inside_of_graphs_are_read(self) -> None:
        run = only([[["sub:1"], {"agent": {"messages": [TALK[1]]}}], ["updates", {"tools": [{"messages": [TALK[2]]}]}]])
        assert run.tool_calls[0].result == "r"

    def test_a_stream_that_was_interrupted_has_not_ended(self) -> None:
        run = only([{"agent": {"messages": [TALK[1]]}}, {"__interrupt__": [{"value": "may I?"}]}])
        assert run.status is RunStatus.RUNNING

    def test_a_stream_of_values_is_one_run(self) -> None:
        run = only([{"messages": TALK[:size]} for size in (1, 2, 3, 4)])
        assert (run.input, run.output, len(run.events)) == ("q", "done", 3)

    def test_states_that_do_not_go_on_are_runs_of_their_own(self) -> None:
        assert len(of([{"messages": TALK}, {"messages": [human("x"), ai("y")]}]).runs) == 2


def event(
    name: str, run_id: str, above: list[str], data: dict[str, Any], kind: str = "f", **more: Any
) -> dict[str, Any]:
    return {"event": name, "name": kind, "run_id": run_id, "parent_ids": above, "tags": [], "data": data, **more}


def call(run_id: str, above: list[str], messages: list[Any], answer: Any) -> list[dict[str, Any]]:
    asked = {"input": {"messages": [messages]}}
    ends = event(
        "on_chat_model_end", run_id, above, {**asked, "output": answer}, "ChatX", metadata={"ls_model_name": "x"}
    )
    return [event("on_chat_model_start", run_id, above, asked, "ChatX"), ends]


def graph(root: str, *inner: dict[str, Any]) -> list[dict[str, Any]]:
    asked = {"messages": [["user", "q"]]}
    return [
        event("on_chain_start", root, [], {"input": asked}, "Graph"),
        *inner,
        event("on_chain_end", root, [], {"output": {"messages": TALK}}, "Graph"),
    ]


def tool_events(run_id: str, above: list[str], *inner: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        event("on_tool_start", run_id, above, {"input": {"a": 1}}),
        *inner,
        event("on_tool_end", run_id, above, {"output": TALK[2]}),
    ]


class TestEvents:
    def test_a_model_that_a_tool_calls_is_inside_of_that_call(self) -> None:
        inner = call("m2", ["r", "t1"], [human("sub")], ai("sub answer"))
        run = only(graph("r", *call("m1", ["r"], TALK[:1], TALK[1]), *tool_events("t1", ["r"], *inner)))
        assert [(type(e).__name__, e.parent) for e in run.events] == [
            ("LlmCall", None),
            ("ToolCall", None),
            ("LlmCall", 1),
        ]
        assert (run.id, run.input, run.output) == ("r", "q", "done")

    def test_runs_around_that_were_filtered_out_are_not_missed(self) -> None:
        found = [*call("m1", ["r", "node"], TALK[:1], TALK[1]), *tool_events("t1", ["r", "other"])]
        run = only(found)
        assert [event.parent for event in run.events] == [None, None]
        assert (run.id, run.status) == ("r", RunStatus.RUNNING)

    def test_what_was_asked_is_told_at_the_end_as_well(self) -> None:
        run = only(call("m1", ["r"], TALK[:1], TALK[3])[1:])
        assert run.llm_calls[0].arguments["messages"] == [{"content": "q", "role": "user"}]

    def test_tokens_are_those_of_the_answer_and_counted_once(self) -> None:
        answer = ai("done", usage_metadata={"input_tokens": 7, "output_tokens": 2})
        run = only(graph("r", *call("m1", ["r"], TALK[:1], answer)))
        assert [model.usage for model in run.llm_calls] == [Usage(input_tokens=7, output_tokens=2)]

    def test_ids_without_a_time_leave_the_run_without_times(self) -> None:
        root = "6f2a9f9e-7c1b-4f0e-9d2a-000000000000"
        run = only(graph(root, *call("m1", [root], TALK[:1], TALK[3])))
        assert {event.at for event in run.events} <= {0.0}
        assert run.ended_at is None

    def test_a_run_that_failed_says_why(self) -> None:
        broken = {"lc": 1, "type": "not_implemented", "id": ["builtins", "ValueError"], "repr": "ValueError('no')"}
        found = graph("r", *call("m1", ["r"], TALK[:1], TALK[1]))[:-1]
        run = only([*found, event("on_chain_error", "r", [], {"error": broken}, "Graph")])
        assert (run.status, str(run.error)) == (RunStatus.ERROR, "ValueError: no")

    def test_a_stream_that_was_cut_is_a_run_that_goes_on(self) -> None:
        found = graph("r", *call("m1", ["r"], TALK[:1], TALK[1]), *tool_events("t1", ["r"]))[:4]
        run = only(found)
        assert run.status is RunStatus.RUNNING
        assert not run.tool_calls[0].answered

    def test_each_run_is_given_as_soon_as_it_ended(self) -> None:
        lines = [*graph("a", *call("m1", ["a"], TALK[:1], TALK[3])), *graph("b", *call("m2", ["b"], TALK[:1], TALK[3]))]
        found = IMPORTERS.get("langchain").read(Source(as_lines(lines) + b"{broken", "trace.jsonl"))
        runs = [next(found), next(found)]
        assert [run.id for run in runs if isinstance(run, TraceRun)] == ["a", "b"]
        assert [type(rest) for rest in found] == [InvalidFile]


def test_another_file_is_told_apart_with_words() -> None:
    with pytest.raises(InvalidFile, match=r"trace\.json: expected messages of LangChain"):
        of([{"role": "user", "content": "hi"}], "langchain")


@pytest.mark.parametrize("name", LACKS)
def test_other_importers_leave_the_samples_alone(name: str) -> None:
    source = Source(unpacked(sample(f"langchain/{name}.json")), "trace.json")
    others = ("pydantic_ai", "ai_sdk", "ag_ui", "a2a", "langsmith")
    assert not [other for other in others if IMPORTERS.get(other).recognises(source)]


SMALL = [TALK, THREAD, [{"a": {"messages": [TALK[1]]}}, {"b": {"messages": [TALK[2]], "x": 1}}]]
SMALL.append(graph("r", *call("m1", ["r"], TALK[:1], TALK[1]), *tool_events("t1", ["r"])))


@settings(max_examples=examples(60))
@given(document=st.sampled_from(SMALL).flatmap(damaged), on_lines=st.booleans())
def test_damage_is_told_in_words(document: Any, on_lines: bool) -> None:
    lines = on_lines and isinstance(document, list)
    read_without_a_traceback("langchain", as_lines(document) if lines else json.dumps(document).encode())


@settings(max_examples=examples(30))
@given(text=truncated(unpacked(sample("langchain/dumpd.json"))))
def test_a_file_that_was_cut_is_told_in_words(text: bytes) -> None:
    assert read_without_a_traceback("langchain", text) == []
