"""What Claude Code streams while it runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.errand import check_errand
from tests.formats.samples import sample, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace, importer_of
from replaykit.model.events import ErrorInfo, LlmCall, Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

INIT = {"type": "system", "subtype": "init", "session_id": "s1", "tools": ["Bash"], "model": "m", "cwd": "/w"}
DONE = {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s1"}


def answer(*blocks: Any, parent: str | None = None, id: str = "m1", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}
    message = {"id": id, "model": "claude-x", "role": "assistant", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, "session_id": "s1", **more}


def said(content: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": parent, "session_id": "s1", **more}


def result(call: str, content: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return said([{"type": "tool_result", "tool_use_id": call, "content": content}], parent, **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(call: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def only(*messages: dict[str, Any]) -> TraceRun:
    (run,) = import_source(Source(as_lines(list(messages)), "s.jsonl")).runs
    return run


def test_a_real_stream_is_the_errand_without_what_was_asked():
    (run,) = import_trace(sample("claude_code/stream_json_output.jsonl")).runs

    check_errand(run, is_asked=False)
    assert run.metadata["cost_usd"] == 0.0060552
    assert run.metadata["usage"]["output_tokens"] == 156
    assert run.llm_calls[0].usage == Usage(input_tokens=528), "the tokens of an answer that had not ended"
    manifest = replayability(run)
    assert {lacking.lacks for lacking in manifest.lacking} == {(Lack.MESSAGES,)}
    assert manifest.exact == len(run.tool_calls)
    assert "--replay-user-messages" in manifest.advice[0]


def test_a_stream_that_repeats_what_the_user_said_lacks_nothing():
    run = only(INIT, said("Go", isReplay=True), answer(text("Done.")), DONE)

    assert run.input == "Go"
    assert replayability(run).score == 1.0
    assert replayability(run).advice == ()
    assert run.llm_calls[0].arguments["tools"] == ["Bash"]


def test_the_same_messages_in_one_list_are_the_same_run():
    lines = [json.loads(line) for line in unpacked(sample("claude_code/stream_json_output.jsonl")).splitlines()]
    source = Source(json.dumps(lines).encode(), "out.json")

    assert importer_of(source).name == "claude_stream"
    assert import_source(source).runs == import_trace(sample("claude_code/stream_json_output.jsonl")).runs


def test_what_a_sub_agent_says_is_inside_of_the_call_that_started_it():
    run = only(
        INIT,
        said("Go"),
        answer(use("c1", "Task", prompt="Look")),
        said("Look", "c1"),
        answer(use("c2", "Grep"), parent="c1", id="m2"),
        result("c2", "found", "c1"),
        answer(text("Here."), parent="c1", id="m3"),
        result("c1", "Here."),
        answer(text("Done."), id="m4"),
        DONE,
    )

    (task,) = run.tool_calls
    inner = [event for event in run.events if event.parent == task.seq]
    assert [type(event) for event in inner] == [LlmCall, ToolCall, LlmCall]
    assert inner[0].arguments["messages"] == [{"role": "user", "content": "Look"}]
    assert task.result == "Here."
    assert len(run.llm_calls[-1].arguments["messages"]) == 3


def test_a_sub_agent_whose_call_never_returned_is_inside_of_it_too():
    run = only(INIT, said("Go"), answer(use("c1", "Task")), answer(text("Here."), parent="c1", id="m2"))

    assert [event.parent for event in run.events] == [None, None, 1]
    assert run.status is RunStatus.ERROR


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (
            {"subtype": "error_max_turns", "is_error": True, "num_turns": 3},
            ErrorInfo(type="error_max_turns", message="it ended with error_max_turns after 3 turns"),
        ),
        (
            {"subtype": "error_during_execution", "is_error": False, "errors": ["it broke", "twice"]},
            ErrorInfo(type="error_during_execution", message="it broke; twice"),
        ),
        (
            {"subtype": "success", "is_error": True, "result": "API Error: 500"},
            ErrorInfo(type="ApiError", message="API Error: 500"),
        ),
    ],
)
def test_a_result_that_is_an_error_makes_the_run_one(ending, error):
    run = only(INIT, answer(text("Trying.")), {"type": "result", "session_id": "s1", **ending})

    assert run.status is RunStatus.ERROR
    assert run.error == error


def test_an_error_of_the_api_is_a_call_that_failed():
    run = only(INIT, said("Go"), answer(text("Rate limited"), error="rate_limit"), {**DONE, "is_error": True})

    (call,) = run.llm_calls
    assert call.error == run.error == ErrorInfo(type="ApiError", message="Rate limited")


def test_several_sessions_are_several_runs_and_turns_of_one_session_are_one():
    other = {**DONE, "session_id": "s2", "result": "Else."}
    lines = [INIT, said("Go"), answer(text("One.")), DONE, INIT, said("On"), answer(text("Two."), id="m2"), DONE, other]

    first, second = import_source(Source(as_lines(lines), "s.jsonl")).runs

    assert (first.id, len(first.llm_calls)) == ("s1", 2)
    assert (second.id, second.output, second.events) == ("s2", "Else.", ())


def test_messages_of_other_types_are_noted_or_passed_over():
    status = {"type": "system", "subtype": "status", "status": "compacting", "session_id": "s1"}
    partial = {"type": "stream_event", "event": {"type": "message_start"}, "session_id": "s1"}
    imported = import_source(Source(as_lines([INIT, status, partial, [1], answer(text("Done."))]), "s.jsonl"))

    (run,) = imported.runs
    assert [(event.name, event.content) for event in run.events if isinstance(event, Note)] == [
        ("status", {"status": "compacting"})
    ]
    assert imported.notes == ("lines that do not belong to a stream: 1",)


def test_a_bad_line_is_told_and_the_rest_read():
    content = as_lines([INIT, said("Go")]) + b"{broken\n" + as_lines([answer(text("Done.")), DONE])

    imported = import_source(Source(content, "s.jsonl"))

    assert len(imported.left_out) == 1
    assert imported.left_out[0].startswith("s.jsonl:3: not JSON")
    assert imported.runs[0].output == "Done."


def test_something_else_is_refused_where_the_format_is_named():
    with pytest.raises(InvalidFile, match="expected messages of a Claude Code stream"):
        import_source(Source(b'{"type": "user"}\n', "s.jsonl"), "claude_stream")


STREAM = [
    INIT,
    said("Go"),
    answer(use("c1", "Task", prompt="Look"), text("Wait.")),
    answer(use("c2", "Grep"), parent="c1", id="m2"),
    result("c2", "found", "c1", tool_use_result={"stdout": "found"}),
    result("c1", "Here."),
    answer(text("Done."), id="m4"),
    DONE,
]


@settings(max_examples=examples(60), deadline=None)
@given(damaged(STREAM), st.data())
def test_damaged_streams_give_runs_or_words(lines, data):
    read_without_a_traceback("claude_stream", as_lines(lines))
    read_without_a_traceback("claude_stream", json.dumps(lines).encode())
    read_without_a_traceback("claude_stream", data.draw(truncated(as_lines(lines))) if lines else b"")
