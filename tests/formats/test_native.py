"""The native trace, as in the quick start and as loggers write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import InvalidFile, ReplayKitError
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import Decision, ErrorEvent, LlmCall, Message, Note, State
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import decode

TRACES = Path(__file__).parents[2] / "examples" / "traces"


def imported(*events: Any, **top: Any) -> Imported:
    trace = {"run_id": "r1", "status": "success", "events": list(events), **top}
    return import_source(Source(json.dumps(trace).encode(), "trace.json"), "replaykit")


def run_of(*events: Any, **top: Any) -> TraceRun:
    return imported(*events, **top).runs[0]


def call(tool: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool_name": tool, "tool_args": arguments or {}, **more}


def result(output: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "output": output, **more}


def test_the_trace_of_the_quick_start_becomes_a_run():
    run = import_trace(TRACES / "search-loop.json").runs[0]

    assert (run.id, run.status, run.input) == ("run-billing-2024-0312", RunStatus.ERROR, "Why was I charged $49.99?")
    assert [c.name for c in run.tool_calls] == ["lookup_billing"] * 5
    assert {bytes(c.arguments_json) for c in run.tool_calls} == {b'{"user_id":"usr_8821"}'}
    assert {c.result for c in run.tool_calls} == {"Error: billing service timeout"}
    assert run.error is not None
    assert run.error.message == "Max tool call limit exceeded. Agent terminated."
    assert run.output is None
    assert run.origin.format == "replaykit"
    assert run.duration_s == pytest.approx(28.225)


@pytest.mark.parametrize("file", sorted(TRACES.glob("*.json")), ids=lambda file: file.stem)
def test_every_example_trace_is_read_without_anything_left_over(file):
    got = import_trace(file)

    assert got.notes == ()
    assert got.runs[0].metadata == {}
    assert [event.seq for event in got.runs[0].events] == list(range(len(got.runs[0].events)))
    assert 7 <= len(json.loads(file.read_text())["events"]) <= 25


def test_every_kind_of_event_has_its_place():
    run = run_of(
        {"type": "input_message", "content": "Hi"},
        {"type": "message", "role": "system", "content": "Be kind"},
        {
            "type": "llm_call",
            "model": "gpt-4o",
            "messages": [{"role": "user", "content": "Hi"}],
            "response": {"content": "Hello"},
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.01},
            "finish_reason": "stop",
        },
        {"type": "state", "state": {"turn": 1}},
        {"type": "decision", "content": "answer"},
        {"type": "note", "name": "metric", "content": 3},
        {"type": "error", "error": {"type": "KeyError", "message": "'x'", "line": 3}},
        {"type": "final_output", "content": "Hello"},
    )

    kinds = [type(event) for event in run.events]
    assert kinds == [Message, Message, LlmCall, State, Decision, Note, ErrorEvent, Message]
    llm = run.llm_calls[0]
    assert llm.arguments == {"messages": [{"role": "user", "content": "Hi"}]}
    assert (llm.result, llm.finish_reason) == ({"content": "Hello"}, "stop")
    assert llm.usage is not None
    assert (llm.usage.input_tokens, llm.usage.output_tokens, llm.usage.cost_usd) == (5, 2, 0.01)
    assert run.output == "Hello"
    assert run.error is None, "a run that recovered did not end with its error"


def test_parallel_calls_are_paired_by_their_ids():
    run = run_of(
        call("a", tool_call_id="1"),
        call("b", tool_call_id="2"),
        result("for b", tool_call_id="2"),
        result("for a", tool_call_id="1"),
    )

    assert [(c.name, c.result) for c in run.tool_calls] == [("a", "for a"), ("b", "for b")]


def test_parallel_calls_without_ids_are_answered_in_order():
    run = run_of(call("a"), call("b"), result(1), result(2))

    assert [(c.name, c.result) for c in run.tool_calls] == [("a", 1), ("b", 2)]


def test_a_result_that_names_its_tool_goes_there():
    run = run_of(call("a"), call("b"), result(2, tool_name="b"), result(1))

    assert [(c.name, c.result) for c in run.tool_calls] == [("a", 1), ("b", 2)]


def test_a_call_that_never_came_back_does_not_take_a_later_result():
    run = run_of(call("lost"), {"type": "note", "content": "gave up"}, call("b"), result(2))

    lost, answered = run.tool_calls
    assert not lost.answered
    assert answered.result == 2


def test_a_result_without_a_call_is_kept_as_a_note_and_named():
    got = imported(result("for nobody", tool_call_id="9"))

    (note,) = got.runs[0].events
    assert isinstance(note, Note)
    assert note.content == {"type": "tool_result", "output": "for nobody", "tool_call_id": "9"}
    assert "answers no call" in got.notes[0]


def test_an_unknown_event_is_kept_whole_as_a_note_and_named():
    event = {"type": "guardrail", "verdict": {"ok": False}, "timestamp": 5}

    got = imported(event)

    (note,) = got.runs[0].events
    assert isinstance(note, Note)
    assert (note.name, note.content, note.at) == ("guardrail", event, 5.0)
    assert "guardrail" in got.notes[0]


def test_unknown_fields_are_kept_in_the_metadata():
    run = run_of(call("a", latency=3), result(1, region="eu"), region="us", metadata={"x": 1})

    unmapped = {"run": {"region": "us"}, "events": {"0": {"latency": 3}, "1": {"region": "eu"}}}
    assert run.metadata == {"x": 1, "unmapped": unmapped}


def test_a_failed_result_is_an_error_outcome():
    run = run_of(call("a"), result(None, error="TimeoutError: 30 s"), call("b"), result("no such file", is_error=True))

    first, second = run.tool_calls
    assert first.error is not None
    assert (first.error.type, first.error.message) == ("TimeoutError", "30 s")
    assert second.error is not None
    assert (second.error.type, second.error.message) == ("ToolError", "no such file")


def test_a_call_may_carry_its_own_result():
    run = run_of({**call("a"), "result": {"ok": 1}, "duration_ms": 1500})

    assert run.tool_calls[0].result == {"ok": 1}
    assert run.tool_calls[0].duration_s == 1.5


def test_a_result_of_nothing_is_still_a_result():
    run = run_of(call("a"), {"type": "tool_result"})

    assert run.tool_calls[0].answered
    assert run.tool_calls[0].result is None


def test_arguments_are_canonical_and_results_keep_their_order():
    run = run_of(call("a", {"b": 1, "a": 2}), result({"z": 1, "a": 2}))

    assert bytes(run.tool_calls[0].arguments_json) == b'{"a":2,"b":1}'
    assert bytes(run.tool_calls[0].result_json) == b'{"z":1,"a":2}'


def test_arguments_logged_as_text_are_read():
    run = run_of(call("a", '{"b": 1}'), call("c", "plain words"))

    assert [c.arguments for c in run.tool_calls] == [{"b": 1}, "plain words"]


def test_large_integers_survive():
    assert run_of(call("a", {"n": 2**80})).tool_calls[0].arguments == {"n": 2**80}


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ("2024-03-12T14:32:00Z", 1710253920.0),
        ("2024-03-12T14:32:00", 1710253920.0),
        ("2024-03-12T15:32:00+01:00", 1710253920.0),
        (1710253920, 1710253920.0),
        (1710253920000, 1710253920.0),
    ],
)
def test_times_come_in_many_forms(given, at):
    assert run_of(call("a", timestamp=given)).events[0].at == at


def test_how_long_a_call_took_is_known_from_its_result():
    assert run_of(call("a", timestamp=10), result(1, timestamp=12.5)).tool_calls[0].duration_s == 2.5


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("ok", "success"),
        ("Completed", "success"),
        ("FAILED", "error"),
        ("timed out", "timeout"),
        ("timed_out", "timeout"),
        ("canceled", "cancelled"),
        ("in-progress", "running"),
    ],
)
def test_statuses_have_many_names(word, status):
    assert run_of(status=word).status == status


def test_the_last_word_of_the_assistant_is_the_output_of_a_chat():
    chat = [
        {"type": "message", "role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": "Yo"},
    ]

    assert (run_of(*chat).input, run_of(*chat).output) == ("Hi", "Yo")
    assert run_of(*chat, status="error").output is None


def test_an_output_message_counts_when_the_final_output_is_left_empty():
    said = {"type": "output_message", "content": "Hello"}

    assert run_of(said, final_output=None).output == "Hello"
    assert run_of(said, final_output="Bye").output == "Bye"
    assert run_of(said, final_output="").output == ""


def test_steps_and_ids_may_be_numbers():
    run = run_of(call("a", tool_call_id=1, step=3), call("b", tool_call_id=2, step="plan"), result("x", tool_call_id=1))

    assert [(c.step, c.answered) for c in run.tool_calls] == [("step_3", True), ("plan", False)]


def test_a_file_may_hold_several_traces():
    traces = [{"run_id": f"r{n}", "status": "ok", "events": []} for n in range(3)]

    got = import_source(Source(json.dumps(traces).encode(), "t.json"))

    assert [run.id for run in got.runs] == ["r0", "r1", "r2"]


WRONG = [
    ('{"run_id": "r", "status": "ok",\n "events": 3}', 2, "events: expected a list"),
    ('{"run_id": "r",\n "status": "ok",\n "events": [\n {"type": "note"},\n 5]}', 5, "expected an event"),
    ('{"run_id": "r",\n "status": "ok",\n "events": [\n {"tool_name": "x"}]}', 4, "'type' is missing"),
    ('{"run_id": "r",\n "status": "ok",\n "events": [\n {"type": "tool_call"}]}', 4, "'tool_name' is missing"),
    ('{"run_id": "r",\n "status": "ok",\n "events": [{"type": "tool_call",\n "tool_name": 4}]}', 4, "expected a text"),
    ('{"run_id": "r",\n "status": "oky",\n "events": []}', 2, "unknown status 'oky'; did you mean 'ok'?"),
    ('{"run_id": "r",\n "events": []}', 1, "'status' is missing"),
    ('{"run_id": 5,\n "status": "ok", "events": []}', 1, "run_id: expected a text, got a number"),
    ('{"run_id": "r", "status": "ok", "tags":\n [3], "events": []}', 1, "tags: expected a list of texts"),
    ('{"run_id": "r", "status": "ok", "events": [\n{"type": "note",\n"timestamp": "noon"}]}', 3, "got 'noon'"),
    ('{"run_id": "r", "status": "ok", "events": [\n{"type": "note",\n"duration_ms": "1"}]}', 3, "expected a number"),
    ('{"run_id": "r", "status": "ok", "events": [\n{"type": "note",\n"duration_ms": 1e300}, 1]}', 3, "an event"),
]


@pytest.mark.parametrize(("text", "line", "message"), WRONG)
def test_a_wrong_shape_is_told_with_its_line(text, line, message):
    with pytest.raises(InvalidFile) as caught:
        import_source(Source(text.encode(), "trace.json"))

    assert message in caught.value.reason
    assert (caught.value.file, caught.value.line) == ("trace.json", line)


def test_what_is_nested_too_deeply_to_keep_is_told_not_cut_off():
    deep: Any = 1
    for _level in range(280):
        deep = [deep]

    with pytest.raises(InvalidFile, match="nested too deeply"):
        run_of(call("a", {"x": deep}))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_what_a_tool_was_given_and_gave_comes_back_as_it_was(arguments, output):
    # Text of a whole object is read as that object; anything else stays.
    if isinstance(arguments, str) or arguments is None:
        arguments = {"text": arguments}

    (made,) = run_of({"type": "tool_call", "tool_name": "t", "tool_args": arguments}, result(output)).tool_calls

    assert (decode(made.arguments_json), made.result) == (arguments, output)


EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(["tool_call", "tool_result", "llm_call", "error", "input_message", "state", "zzz", 7])},
    optional=dict.fromkeys(
        ("tool_name", "tool_args", "output", "error", "timestamp", "duration_ms", "usage", "is_error"), JSON
    ),
)


@given(st.lists(EVENT | JSON, max_size=5), st.dictionaries(st.sampled_from(["tags", "metadata", "max_steps"]), JSON))
def test_any_trace_is_read_or_refused_in_words(events, top):
    try:
        run_of(*events, **top)
    except ReplayKitError as error:
        assert "trace.json:" in str(error)  # noqa: PT017 (either way is fine, a crash is not)
