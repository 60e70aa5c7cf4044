"""Tasks, messages and streams of A2A."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import sample, unpacked
from tests.formats.story import QUESTION
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import Note, ToolCall
from replaykit.model.run import RunStatus, TraceRun

TASK, STREAM = sample("a2a/task_v1.json"), sample("a2a/stream_responses_v1.json")


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def only(value: Any) -> TraceRun:
    imported = of(value)
    assert (imported.format, imported.left_out) == ("a2a", ())
    (run,) = imported.runs
    return run


def message(role: str, text: str, message_id: str = "", **more: Any) -> dict[str, Any]:
    about = {"messageId": message_id or f"{role} {text}", "role": f"ROLE_{role.upper()}"}
    return {**about, "parts": [{"text": text}], **more}


def task(state: str, *history: dict[str, Any], **more: Any) -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}", **more.pop("status", {})}
    return {"id": "t1", "contextId": "x1", "status": status, "history": list(history), **more}


def artifact(text: str, **more: Any) -> dict[str, Any]:
    return {"artifactId": "a1", "parts": [{"text": text}], **more}


def update(kind: str, **more: Any) -> dict[str, Any]:
    return {kind: {"taskId": "t1", "contextId": "x1", **more}}


def state(word: str, **more: Any) -> dict[str, Any]:
    return update("statusUpdate", status={"state": f"TASK_STATE_{word}", **more})


ASK = message("user", "q")
DONE = task("COMPLETED", ASK, artifacts=[artifact("done")])


def test_the_task_is_read() -> None:
    imported = import_trace(TASK)
    assert (imported.format, imported.left_out, imported.notes) == ("a2a", (), ())
    (run,) = imported.runs
    assert (run.id, run.name, run.input, run.status) == ("task-1", "ctx-1", QUESTION, RunStatus.ERROR)
    assert str(run.error) == "TaskFailed: payment gateway timed out"
    (call,) = run.tool_calls
    assert call.name == "send_message"
    assert call.arguments == {"message": {"role": "user", "parts": [{"text": QUESTION}]}}
    assert call.error == run.error
    notes = [event.content for event in run.events if isinstance(event, Note)]
    assert notes[-1] == [{"text": "partial"}]
    assert {"data": {"order_id": "W123"}} in notes[0]["parts"]
    assert run.ended_at == 1794765600.0


def test_what_can_be_replayed_is_the_whole_and_the_manifest_says_so() -> None:
    told = replayability(import_trace(TASK).runs[0])
    assert (told.calls, told.score) == (1, 1.0)
    assert "not which tools and models it called" in told.advice[0]


def test_the_stream_is_read() -> None:
    imported = import_trace(STREAM)
    assert (imported.format, imported.left_out, imported.notes) == ("a2a", (), ())
    (run,) = imported.runs
    assert (run.id, run.input, run.status) == ("task-1", None, RunStatus.ERROR)
    assert run.error is not None
    assert run.error.type == "TaskFailed"
    assert [event.content for event in run.events if isinstance(event, Note)] == [[{"text": "par"}]]


def test_a_stream_without_what_was_sent_lacks_it() -> None:
    told = replayability(import_trace(STREAM).runs[0])
    assert [one.lacks for one in told.lacking] == [(Lack.ARGUMENTS,)]
    assert any("historyLength" in advice for advice in told.advice)


def test_the_stream_on_lines_and_as_events_is_the_same_run() -> None:
    items = json.loads(unpacked(STREAM))
    events = b"".join(b"data: " + json.dumps(item).encode() + b"\n\n" for item in items)
    for text in (as_lines(items), events):
        imported = import_source(Source(text, "f"))
        assert imported.format == "a2a"
        assert imported.runs == import_trace(STREAM).runs


class TestTasks:
    def test_what_was_made_is_the_output(self) -> None:
        run = only(DONE)
        assert (run.input, run.output, run.status) == ("q", "done", RunStatus.SUCCESS)
        assert run.tool_calls[0].result == {"state": "completed", "artifacts": [artifact("done")]}
        assert replayability(run).score == 1.0

    def test_a_task_without_artifacts_gives_what_was_said_last(self) -> None:
        assert only(task("COMPLETED", ASK, message("agent", "there"))).output == "there"

    def test_parts_that_are_no_text_are_kept_whole(self) -> None:
        data = {"artifactId": "a", "parts": [{"data": {"n": 1}}]}
        assert only(task("COMPLETED", ASK, artifacts=[data])).output == [{"data": {"n": 1}}]

    @pytest.mark.parametrize(
        ("word", "status", "answered"),
        [
            ("SUBMITTED", RunStatus.RUNNING, False),
            ("WORKING", RunStatus.RUNNING, False),
            ("INPUT_REQUIRED", RunStatus.RUNNING, True),
            ("AUTH_REQUIRED", RunStatus.RUNNING, True),
            ("COMPLETED", RunStatus.SUCCESS, True),
            ("CANCELED", RunStatus.CANCELLED, True),
            ("REJECTED", RunStatus.ERROR, True),
            ("FAILED", RunStatus.ERROR, True),
        ],
    )
    def test_how_a_task_stands(self, word: str, status: RunStatus, answered: bool) -> None:
        run = only(task(word, ASK))
        assert (run.status, run.tool_calls[0].answered) == (status, answered)

    def test_each_message_that_was_sent_is_a_call(self) -> None:
        run = only(
            task("COMPLETED", ASK, message("agent", "which one?"), message("user", "W123"), message("agent", "ok"))
        )
        first, second = run.tool_calls
        assert (run.input, run.output) == ("q", "ok")
        assert first.result["messages"][0]["parts"] == [{"text": "which one?"}]
        assert second.arguments["message"]["parts"] == [{"text": "W123"}]

    def test_each_task_of_a_list_is_a_run(self) -> None:
        assert [run.id for run in of({"tasks": [DONE, {**DONE, "id": "t2"}]}).runs] == ["t1", "t2"]

    def test_a_task_of_version_0_3_is_the_same(self) -> None:
        old = {
            "kind": "task",
            "id": "t1",
            "contextId": "x1",
            "status": {"state": "failed", "message": {**message("agent", "no"), "role": "agent", "kind": "message"}},
            "history": [
                {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "q"}]}
            ],
        }
        run = only({"jsonrpc": "2.0", "id": 1, "result": old})
        assert (run.id, run.input, str(run.error)) == ("t1", "q", "TaskFailed: no")


class TestStreams:
    def test_artifacts_grow_and_are_replaced(self) -> None:
        grown = [
            update("artifactUpdate", artifact=artifact(piece), append=append)
            for piece, append in (("old", False), ("he", False), ("llo", True))
        ]
        run = only([{"message": ASK}, {"task": task("SUBMITTED")}, *grown, state("COMPLETED")])
        assert (run.input, run.output) == ("q", "hello")

    def test_the_reason_of_the_last_state_is_the_error(self) -> None:
        early = state("WORKING", message=message("agent", "on it"))
        run = only([{"task": task("SUBMITTED", ASK)}, early, state("FAILED", message=message("agent", "too late"))])
        assert str(run.error) == "TaskFailed: too late"

    def test_a_reason_that_was_given_before_is_not_the_error(self) -> None:
        early = state("WORKING", message=message("agent", "on it"))
        run = only([{"task": task("SUBMITTED", ASK)}, early, state("FAILED")])
        assert (run.error and run.error.message) == ""

    def test_items_of_version_0_3_are_read(self) -> None:
        about = {"taskId": "t1", "contextId": "x1"}
        sent = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "q"}]}
        made = {"artifactId": "a", "parts": [{"kind": "text", "text": "done"}]}
        results = [
            {"kind": "task", "id": "t1", "contextId": "x1", "status": {"state": "submitted"}},
            {"kind": "artifact-update", **about, "artifact": made},
            {"kind": "status-update", **about, "status": {"state": "completed"}, "final": True},
        ]
        asked = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": sent}}
        run = only([asked, *({"jsonrpc": "2.0", "id": 1, "result": result} for result in results)])
        assert (run.input, run.output, run.status) == ("q", "done", RunStatus.SUCCESS)

    def test_an_answer_without_a_task_is_a_run(self) -> None:
        run = only([{"message": ASK}, {"message": message("agent", "hello")}])
        assert (run.input, run.output, run.status) == ("q", "hello", RunStatus.SUCCESS)
        assert run.id.startswith("a2a-")

    def test_questions_of_their_own_are_runs_of_their_own(self) -> None:
        runs = of([{"message": ASK}, {"message": message("agent", "a")}, {"message": message("user", "other")}]).runs
        assert [(run.input, run.status) for run in runs] == [("q", RunStatus.SUCCESS), ("other", RunStatus.RUNNING)]

    def test_an_error_of_the_call_is_the_error_of_the_run(self) -> None:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": ASK}}
        error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Task not found"}}
        run = only([asked, error])
        assert (run.status, str(run.error)) == (RunStatus.ERROR, "JsonRpcError -32001: Task not found")
        assert isinstance(run.events[0], ToolCall)

    def test_what_was_said_counts_once(self) -> None:
        whole = {"task": task("COMPLETED", ASK, message("agent", "ok"))}
        assert len(only([{"message": ASK}, {"task": task("WORKING", ASK)}, whole]).tool_calls) == 1


def test_a_bad_item_is_told_with_its_line_and_the_others_are_read() -> None:
    late = {"statusUpdate": {"taskId": "t1", "status": {"state": "TASK_STATE_WORKING", "timestamp": "late"}}}
    text = as_lines([{"task": task("SUBMITTED", ASK)}]) + b"{broken\n" + as_lines([{"x": 1}, late, {"task": DONE}])
    imported = import_source(Source(text, "trace.jsonl"))
    assert [problem.split(":")[1] for problem in imported.left_out] == ["2", "3", "4"]
    assert imported.runs[0].output == "done"


def test_another_file_is_told_apart_with_words() -> None:
    with pytest.raises(InvalidFile, match=r"trace\.json: expected a task, a message or an item"):
        of([{"role": "user", "content": "hi"}], "a2a")


@pytest.mark.parametrize(
    "value",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
        {"id": "1", "status": {"state": "failed"}},
        {"message": {"role": "user", "content": "hi"}},
        [],
    ],
)
def test_what_others_write_is_left_to_them(value: Any) -> None:
    assert not IMPORTERS.get("a2a").recognises(Source(json.dumps(value).encode(), "f"))


@pytest.mark.parametrize("other", ["langchain", "pydantic_ai", "ai_sdk", "ag_ui"])
@pytest.mark.parametrize("path", [TASK, STREAM])
def test_other_importers_leave_the_samples_alone(other: str, path: Any) -> None:
    assert not IMPORTERS.get(other).recognises(Source(unpacked(path), "f"))


ITEMS = [{"message": ASK}, *json.loads(unpacked(STREAM)), {"jsonrpc": "2.0", "id": 1, "result": {"task": DONE}}]


@settings(max_examples=examples(60))
@given(document=st.sampled_from([ITEMS, json.loads(unpacked(TASK))]).flatmap(damaged), on_lines=st.booleans())
def test_damage_is_told_in_words(document: Any, on_lines: bool) -> None:
    lines = on_lines and isinstance(document, list)
    read_without_a_traceback("a2a", as_lines(document) if lines else json.dumps(document).encode())


@settings(max_examples=examples(30))
@given(text=truncated(unpacked(TASK)))
def test_a_file_that_was_cut_is_told_in_words(text: bytes) -> None:
    assert read_without_a_traceback("a2a", text) == []
