"""Events of AG-UI."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback
from tests.formats.samples import sample, unpacked
from tests.formats.story import QUESTION
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.changes import StateFold
from replaykit.model.events import ErrorEvent, LlmCall, Note, State, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

JSONL, SSE = sample("ag_ui/events.jsonl"), sample("ag_ui/events.sse")


def of(*events: dict[str, Any], format: str | None = None) -> Imported:
    return import_source(Source(as_lines(list(events)), "trace.jsonl"), format)


def only(*events: dict[str, Any]) -> TraceRun:
    imported = of(*events)
    assert (imported.format, imported.left_out) == ("ag_ui", ())
    (run,) = imported.runs
    return run


def ev(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def begins(run_id: str = "r", **more: Any) -> dict[str, Any]:
    return ev("RUN_STARTED", threadId="t", runId=run_id, **more)


def ends(run_id: str = "r", **more: Any) -> dict[str, Any]:
    return ev("RUN_FINISHED", threadId="t", runId=run_id, **more)


def says(message_id: str, *pieces: str, **more: Any) -> list[dict[str, Any]]:
    return [
        ev("TEXT_MESSAGE_START", messageId=message_id, role="assistant", **more),
        *(ev("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=piece, **more) for piece in pieces),
        ev("TEXT_MESSAGE_END", messageId=message_id, **more),
    ]


def calls(call_id: str, name: str = "f", args: str = '{"a": 1}', **more: Any) -> list[dict[str, Any]]:
    about = {key: more.pop(key) for key in ("parentMessageId",) if key in more}
    return [
        ev("TOOL_CALL_START", toolCallId=call_id, toolCallName=name, **about, **more),
        ev("TOOL_CALL_ARGS", toolCallId=call_id, delta=args, **more),
        ev("TOOL_CALL_END", toolCallId=call_id, **more),
    ]


def returns(call_id: str, content: Any = "r", **more: Any) -> dict[str, Any]:
    return ev("TOOL_CALL_RESULT", messageId=f"of {call_id}", toolCallId=call_id, content=content, **more)


def states(run: TraceRun) -> list[Any]:
    fold, found = StateFold(), []
    for event in run.events:
        if isinstance(event, State):
            fold.apply(event)
            found.append(json.loads(fold.text) if event.is_kept else "unknown")
    return found


INPUT = {"threadId": "t", "runId": "r", "messages": [{"id": "u1", "role": "user", "content": "q"}], "tools": []}
SOUND = [begins(input=INPUT), *calls("c1"), returns("c1"), *says("m2", "do", "ne"), ends()]


@pytest.mark.parametrize("path", [JSONL, SSE], ids=["lines", "an event stream"])
def test_the_samples_are_read(path: Any) -> None:
    imported = import_trace(path)
    assert (imported.format, imported.left_out, imported.notes) == ("ag_ui", (), ())
    (run,) = imported.runs
    assert (run.id, run.name, run.input, run.status) == ("r1", "t1", QUESTION, RunStatus.ERROR)
    assert str(run.error) == "TIMEOUT: payment gateway timed out"
    (model,) = run.llm_calls
    assert [message["content"] for message in model.arguments["messages"]] == [QUESTION]
    assert model.result["content"] == "Let me look"
    assert [(call.name, call.arguments, call.result) for call in run.tool_calls] == [
        ("get_order", {"order_id": "W123"}, '{"total": 59.9}'),
        ("get_user", {"user_id": "u9"}, '{"name": "Ana"}'),
    ]
    assert states(run) == [{"order": "W123"}, {"order": "W124"}]
    assert {event.step for event in run.events} == {"agent"}
    assert replayability(run).score == 1.0


def test_a_list_and_lines_and_a_stream_are_the_same_run() -> None:
    events = [json.loads(line) for line in unpacked(JSONL).splitlines()]
    listed = import_source(Source(json.dumps(events).encode(), "f")).runs
    assert listed == import_trace(JSONL).runs == import_trace(SSE).runs


def test_a_stream_with_names_comments_and_other_line_ends_is_read() -> None:
    text = b": hello\r\n\r\n" + b"".join(
        b"event: message\r\nid: 1\r\ndata: " + json.dumps(event).encode() + b"\r\n\r\n" for event in SOUND
    )
    (run,) = import_source(Source(text, "f")).runs
    assert run == only(*SOUND)


def test_events_named_in_python_s_way_are_the_same_run() -> None:
    def snake(value: Any) -> Any:
        if isinstance(value, list):
            return [snake(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {"".join(f"_{c.lower()}" if c.isupper() else c for c in k): snake(v) for k, v in value.items()}

    assert only(*[snake(event) for event in SOUND]) == only(*SOUND)


def test_a_sound_run_can_be_replayed() -> None:
    run = only(*SOUND)
    assert (run.input, run.output, run.status) == ("q", "done", RunStatus.SUCCESS)
    assert [type(event) for event in run.events] == [LlmCall, ToolCall, LlmCall]
    assert [message["role"] for message in run.llm_calls[1].arguments["messages"]] == ["user", "assistant", "tool"]
    assert replayability(run).score == 1.0


def test_a_run_without_its_input_lacks_what_was_asked() -> None:
    told = replayability(only(begins(), *SOUND[1:]))
    assert [(one.seq, one.lacks) for one in told.lacking] == [(0, (Lack.MESSAGES,)), (2, (Lack.MESSAGES,))]
    assert "MESSAGES_SNAPSHOT" in told.advice[0]


class TestCalls:
    def test_arguments_that_come_mixed_are_put_together_by_their_ids(self) -> None:
        pieces = [("c1", '{"x"'), ("c2", '{"y": '), ("c1", ": 1}"), ("c2", "2}")]
        run = only(
            begins(input=INPUT),
            *(ev("TOOL_CALL_START", toolCallId=c, toolCallName=f"f_{c}") for c in ("c1", "c2")),
            *(ev("TOOL_CALL_ARGS", toolCallId=c, delta=piece) for c, piece in pieces),
            returns("c2"),
            returns("c1"),
            ends(),
        )
        assert [(call.name, call.arguments) for call in run.tool_calls] == [("f_c1", {"x": 1}), ("f_c2", {"y": 2})]
        assert len(run.llm_calls) == 1

    def test_arguments_that_come_after_another_call_returned_are_not_lost(self) -> None:
        start = [ev("TOOL_CALL_START", toolCallId=c, toolCallName="f", parentMessageId="m1") for c in ("c1", "c2")]
        late = ev("TOOL_CALL_ARGS", toolCallId="c2", delta='{"late": 1}')
        run = only(begins(input=INPUT), *start, returns("c1"), late, returns("c2"), ends())
        assert [call.arguments for call in run.tool_calls] == [{}, {"late": 1}]

    def test_chunks_may_leave_out_the_id_they_have_in_common(self) -> None:
        run = only(
            begins(input=INPUT),
            ev("TOOL_CALL_CHUNK", toolCallId="c1", toolCallName="f", delta='{"a"'),
            ev("TOOL_CALL_CHUNK", delta=": 1}"),
            returns("c1"),
            ev("TEXT_MESSAGE_CHUNK", messageId="m2", role="assistant", delta="do"),
            ev("TEXT_MESSAGE_CHUNK", delta="ne"),
            ends(),
        )
        assert (run.output, run.tool_calls[0].arguments) == ("done", {"a": 1})

    def test_a_call_belongs_to_the_message_that_it_names(self) -> None:
        run = only(begins(input=INPUT), *says("m1", "so"), *calls("c1", parentMessageId="m1"), returns("c1"), ends())
        (model,) = run.llm_calls
        assert (model.result["content"], len(model.result["tool_calls"])) == ("so", 1)

    def test_a_call_after_a_result_is_of_another_answer(self) -> None:
        run = only(begins(input=INPUT), *calls("c1"), returns("c1"), *calls("c2"), returns("c2"), ends())
        assert [len(model.result["tool_calls"]) for model in run.llm_calls] == [1, 1]

    def test_arguments_that_are_no_json_are_kept_as_text(self) -> None:
        assert only(begins(), *calls("c1", args="{bad"), ends()).tool_calls[0].arguments == "{bad"

    def test_a_call_that_the_screen_answers_is_open_when_the_run_ends(self) -> None:
        run = only(begins(input=INPUT), *calls("c1"), ends())
        assert run.status is RunStatus.SUCCESS
        assert replayability(run).lacking[0].lacks == (Lack.RESULT,)

    def test_what_was_thought_belongs_to_the_answer_after_it(self) -> None:
        thinks = [ev("REASONING_MESSAGE_CONTENT", messageId="t1", delta=piece) for piece in ("h", "m")]
        run = only(begins(input=INPUT), *thinks, *says("m1", "so"), ends())
        assert run.llm_calls[0].result["thinking"] == "hm"

    def test_what_was_thought_and_never_said_is_a_note(self) -> None:
        run = only(begins(), ev("REASONING_MESSAGE_CONTENT", messageId="t1", delta="hm"), ends())
        assert [(e.name, e.content) for e in run.events if isinstance(e, Note)] == [("reasoning", "hm")]


class TestSnapshots:
    def test_what_was_streamed_counts_once(self) -> None:
        messages = [
            {"id": "u1", "role": "user", "content": "q"},
            {
                "id": "m1",
                "role": "assistant",
                "toolCalls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"id": "of c1", "role": "tool", "content": "r", "toolCallId": "c1"},
        ]
        streamed = [*calls("c1", parentMessageId="m1"), returns("c1")]
        run = only(begins(), *streamed, ev("MESSAGES_SNAPSHOT", messages=messages), *says("m2", "done"), ends())
        assert [type(event) for event in run.events] == [LlmCall, ToolCall, LlmCall]
        assert run.input == "q"

    def test_what_was_never_streamed_is_told_by_the_snapshot(self) -> None:
        messages = [
            {"id": "u1", "role": "user", "content": "q"},
            {
                "id": "m1",
                "role": "assistant",
                "toolCalls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"id": "x", "role": "tool", "content": "no", "toolCallId": "c1", "error": "TimeoutError: late"},
            {"id": "m2", "role": "assistant", "content": "sorry"},
        ]
        run = only(begins(), ev("MESSAGES_SNAPSHOT", messages=messages), ends())
        assert (run.input, run.output) == ("q", "sorry")
        assert str(run.tool_calls[0].error) == "TimeoutError: late"

    def test_the_error_of_a_result_is_told_by_the_snapshot_alone(self) -> None:
        told = [{"id": "of c1", "role": "tool", "content": "r", "toolCallId": "c1", "error": "no"}]
        run = only(begins(input=INPUT), *calls("c1"), returns("c1"), ev("MESSAGES_SNAPSHOT", messages=told), ends())
        assert str(run.tool_calls[0].error) == "ToolError: no"

    def test_an_earlier_turn_is_history_and_no_call_of_the_run(self) -> None:
        messages = [
            {"id": "u1", "role": "user", "content": "before"},
            {"id": "m0", "role": "assistant", "content": "answered"},
            {"id": "u2", "role": "user", "content": "and?"},
        ]
        run = only(begins(), *says("m1", "done"), ev("MESSAGES_SNAPSHOT", messages=messages), ends())
        (model,) = run.llm_calls
        assert [message["content"] for message in model.arguments["messages"]] == ["before", "answered", "and?"]
        assert run.input == "and?"

    def test_the_input_of_a_run_is_what_the_user_said_last(self) -> None:
        messages = [{"id": str(n), "role": "user", "content": said} for n, said in enumerate(("first", "last"))]
        assert only(begins(input={"messages": messages}), *says("m1", "done"), ends()).input == "last"


class TestStates:
    def test_a_change_begins_with_the_state_that_the_run_was_given(self) -> None:
        delta = ev("STATE_DELTA", delta=[{"op": "add", "path": "/b", "value": 2}])
        assert states(only(begins(input={**INPUT, "state": {"a": 1}}), delta, ends())) == [{"a": 1, "b": 2}]

    @pytest.mark.parametrize("delta", [[{"op": "remove", "path": "/x"}], [{"op": "fly"}], [7]])
    def test_a_change_that_does_not_fit_leaves_the_state_unknown(self, delta: Any) -> None:
        imported = of(begins(), ev("STATE_SNAPSHOT", snapshot="text"), ev("STATE_DELTA", delta=delta), ends())
        assert states(imported.runs[0]) == ["text", "unknown"]
        assert "a STATE_DELTA does not fit" in imported.notes[0]

    def test_a_change_that_is_none_is_told_with_its_line(self) -> None:
        imported = of(begins(), ev("STATE_DELTA", delta="x"), ends())
        assert imported.left_out == ("trace.jsonl:2: delta: expected a list, got a text",)

    def test_steps_hold_until_they_are_finished(self) -> None:
        name = {"stepName": "plan"}
        run = only(
            begins(), ev("STEP_STARTED", **name), *says("m1", "a"), ev("STEP_FINISHED", **name), *says("m2", "b")
        )
        assert [event.step for event in run.events] == ["plan", None]


class TestSubagents:
    def test_a_sub_agent_is_inside_of_the_call_that_started_it(self) -> None:
        sub = {"subagentRunId": "s1"}
        run = only(
            begins(input=INPUT),
            *calls("c1"),
            ev("SUBAGENT_STARTED", **sub, name="searcher", parentToolCallId="c1"),
            *calls("d1", "look", **sub),
            returns("d1", **sub),
            *says("m9", "found", **sub),
            ev("SUBAGENT_FINISHED", **sub, result="found"),
            returns("c1", "found"),
            *says("m2", "done"),
            ends(),
        )
        outer = next(event for event in run.events if isinstance(event, ToolCall))
        inner = [type(event).__name__ for event in run.events if event.parent == outer.seq]
        assert inner == ["Note", "LlmCall", "ToolCall", "LlmCall", "Note"]
        assert [call.name for call in run.tool_calls] == ["f"]
        assert run.output == "done"

    def test_a_sub_agent_that_no_call_started_is_a_step_of_its_own(self) -> None:
        sub = {"subagentRunId": "s1"}
        run = only(begins(input=INPUT), ev("SUBAGENT_STARTED", **sub, name="helper"), *says("m1", "hm", **sub), ends())
        assert [(event.step, event.parent) for event in run.llm_calls] == [("helper", None)]

    def test_the_error_of_a_sub_agent_is_an_event(self) -> None:
        sub = {"subagentRunId": "s1"}
        failed = ev("SUBAGENT_ERROR", **sub, message="late", code="TIMEOUT")
        run = only(
            begins(input=INPUT), *calls("c1"), ev("SUBAGENT_STARTED", **sub, name="x", parentToolCallId="c1"), failed
        )
        (event,) = [event for event in run.events if isinstance(event, ErrorEvent)]
        assert (str(event.error), event.parent) == ("TIMEOUT: late", 1)


class TestEnds:
    @pytest.mark.parametrize(
        ("outcome", "status"),
        [
            ({"type": "success"}, RunStatus.SUCCESS),
            ({"type": "cancelled"}, RunStatus.CANCELLED),
            ({"type": "interrupt", "interrupts": [{"id": "i1", "reason": "ask"}]}, RunStatus.RUNNING),
            (None, RunStatus.SUCCESS),
        ],
    )
    def test_how_a_run_ended(self, outcome: Any, status: RunStatus) -> None:
        assert only(begins(), *says("m1", "hi"), ends(outcome=outcome)).status is status

    def test_a_result_is_the_output(self) -> None:
        assert only(begins(), *says("m1", "hi"), ends(result={"n": 1})).output == {"n": 1}

    def test_a_stream_that_was_cut_is_a_failure(self) -> None:
        run = only(begins(), *calls("c1"))
        assert (run.status, run.error and run.error.type) == (RunStatus.ERROR, "Unfinished")

    def test_times_are_seconds(self) -> None:
        events = [{**event, "timestamp": 1_700_000_000_000 + 500 * n} for n, event in enumerate(SOUND)]
        run = only(*events)
        assert (run.started_at, run.duration_s) == (1_700_000_000.0, 0.5 * (len(SOUND) - 1))
        assert run.tool_calls[0].duration_s == 0.5

    def test_tokens_of_a_single_call_are_its_own(self) -> None:
        used = [{"model": "m", "inputTokens": 7, "outputTokens": 2}]
        (model,) = only(begins(), *says("m1", "hi"), ends(usage=used)).llm_calls
        assert (model.name, model.usage) == ("m", Usage(input_tokens=7, output_tokens=2))

    def test_tokens_of_several_calls_are_the_run_s(self) -> None:
        used = [{"model": "m", "inputTokens": 7}]
        run = only(*SOUND[:-1], ends(usage=used))
        assert [model.usage for model in run.llm_calls] == [None, None]
        assert run.metadata["usage"] == used

    def test_each_run_of_a_file_is_given_as_soon_as_the_next_begins(self) -> None:
        text = as_lines([*SOUND, begins("s"), *says("m1", "x"), begins("u"), *says("m1", "y")]) + b"{broken"
        found = list(IMPORTERS.get("ag_ui").read(Source(text, "trace.jsonl")))
        assert [one.id if isinstance(one, TraceRun) else type(one) for one in found] == ["r", "s", InvalidFile, "u"]

    def test_what_has_no_word_here_is_a_note_or_counted(self) -> None:
        custom = ev("CUSTOM", name="weather", value="rain")
        imported = of(begins(), custom, ev("RAW", event={}), ev("RAW", event={}), *says("m1", "hi"), ends())
        (run,) = imported.runs
        assert [(e.name, e.content) for e in run.events if isinstance(e, Note)] == [
            ("weather", {"name": "weather", "value": "rain"})
        ]
        assert imported.notes == ("run 'r': passed over 2 RAW",)


def test_a_bad_event_is_told_with_its_line_and_the_others_are_read() -> None:
    text = as_lines(SOUND[:2]) + b"{broken\n" + as_lines([{"type": 7}, ev("TOOL_CALL_RESULT"), *SOUND[2:]])
    imported = import_source(Source(text, "trace.jsonl"))
    assert [problem.split(":")[1] for problem in imported.left_out] == ["3", "4", "5"]
    assert imported.runs == (only(*SOUND),)


def test_another_file_is_told_apart_with_words() -> None:
    with pytest.raises(InvalidFile, match=r"trace\.jsonl: expected an event of AG-UI"):
        of({"type": "message"}, {"role": "user"}, format="ag_ui")


@pytest.mark.parametrize("other", ["langchain", "pydantic_ai", "ai_sdk", "a2a"])
@pytest.mark.parametrize("path", [JSONL, SSE])
def test_other_importers_leave_the_samples_alone(other: str, path: Any) -> None:
    assert not IMPORTERS.get(other).recognises(Source(unpacked(path), "f"))


EVENTS = [json.loads(line) for line in unpacked(JSONL).splitlines()]


@settings(max_examples=examples(60))
@given(document=st.sampled_from([SOUND, EVENTS]).flatmap(damaged), form=st.sampled_from(["list", "lines", "stream"]))
def test_damage_is_told_in_words(document: Any, form: str) -> None:
    texts = {
        "list": json.dumps(document).encode(),
        "lines": as_lines(document),
        "stream": b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in document),
    }
    read_without_a_traceback("ag_ui", texts[form])


@settings(max_examples=examples(30))
@given(size=st.integers(0, len(unpacked(SSE)) - 1))
def test_a_stream_that_was_cut_is_read_as_far_as_it_goes(size: int) -> None:
    runs = read_without_a_traceback("ag_ui", unpacked(SSE)[:size])
    assert len(runs) <= 1
