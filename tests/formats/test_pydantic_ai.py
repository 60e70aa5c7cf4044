"""Pydantic AI's messages."""

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
from replaykit.model.events import Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

SAMPLE = sample("pydantic_ai/all_messages.json")
LACKS = {"type of the error"}


def raw() -> list[Any]:
    found: list[Any] = json.loads(unpacked(SAMPLE))
    return found


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def only(value: Any) -> TraceRun:
    imported = of(value)
    assert (imported.format, imported.left_out) == ("pydantic_ai", ())
    (run,) = imported.runs
    return run


def part(kind: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"part_kind": kind, **({} if content is None else {"content": content}), **more}


def request(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "request", "parts": list(parts), **more}


def response(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "response", "parts": list(parts), "model_name": "m", **more}


def use(name: str, args: Any, call_id: str) -> dict[str, Any]:
    return part("tool-call", tool_name=name, args=args, tool_call_id=call_id)


def back(content: Any, call_id: str, name: str = "f", **more: Any) -> dict[str, Any]:
    return part("tool-return", content, tool_name=name, tool_call_id=call_id, **more)


ASK, CALL = request(part("user-prompt", "q")), response(use("f", '{"a": 1}', "c1"))
DONE = response(part("text", "done"))
TALK = [ASK, CALL, request(back("r", "c1")), DONE]


def test_the_sample_tells_the_story() -> None:
    imported = import_trace(SAMPLE)
    assert (imported.format, imported.left_out, imported.notes) == ("pydantic_ai", (), ())
    (run,) = imported.runs
    check_story(run, LACKS)
    assert run.id == raw()[0]["run_id"]
    assert run.metadata["conversation_id"] == raw()[0]["conversation_id"]
    assert run.llm_calls[0].usage == Usage(input_tokens=120, output_tokens=31, cost_usd=0.0000318)
    assert run.tool_calls[2].error is not None
    assert run.tool_calls[2].error.type == "ModelRetry"
    assert run.llm_calls[0].arguments["system"] == "You are a support agent."


@pytest.mark.parametrize("lines", [raw(), [raw()]], ids=["a message on each line", "a list on a line"])
def test_the_sample_on_lines_is_the_same_run(lines: list[Any]) -> None:
    imported = import_source(Source(as_lines(lines), "trace.jsonl"), "pydantic_ai")
    assert imported.runs == import_trace(SAMPLE).runs


def test_a_list_on_each_line_is_a_run_each() -> None:
    text = as_lines([TALK, [ASK, DONE]])
    imported = import_source(Source(text, "trace.jsonl"))
    assert imported.format == "pydantic_ai"
    assert [len(run.events) for run in imported.runs] == [3, 1]


def test_each_run_of_a_conversation_is_a_run_with_those_before_as_its_history() -> None:
    first = [{**message, "run_id": "one"} for message in TALK]
    second = [{**message, "run_id": "two"} for message in (request(part("user-prompt", "and?")), DONE)]
    runs = of([*first, *second]).runs
    assert [(run.id, run.input, run.output, len(run.llm_calls)) for run in runs] == [
        ("one", "q", "done", 2),
        ("two", "and?", "done", 1),
    ]
    said = runs[1].llm_calls[0].arguments["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "user"]


def test_a_call_that_an_earlier_run_asked_for_has_its_arguments() -> None:
    first = [{**message, "run_id": "one"} for message in (ASK, CALL)]
    second = [{**message, "run_id": "two"} for message in (request(back("r", "c1")), DONE)]
    run = of([*first, *second]).runs[1]
    assert [(call.name, call.arguments, call.result) for call in run.tool_calls] == [("f", {"a": 1}, "r")]
    assert replayability(run).score == 1.0


def test_messages_without_an_id_of_a_run_are_one_run() -> None:
    run = only(TALK)
    assert run.id.startswith("pydantic_ai-")
    assert run == only(TALK)


def test_a_message_without_an_id_goes_with_the_one_before() -> None:
    assert only([{**ASK, "run_id": "one"}, CALL, request(back("r", "c1")), {**DONE, "run_id": "one"}]).id == "one"


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [("retried", "ModelRetry"), ("failed", "ToolError"), ("denied", "ToolDenied"), ("exploded", "ToolError")],
)
def test_what_became_of_a_call_is_its_error(outcome: str, kind: str) -> None:
    error = only([ASK, CALL, request(back("no", "c1", outcome=outcome)), DONE]).tool_calls[0].error
    assert error is not None
    assert (error.type, error.message) == (kind, "no")


def test_a_call_that_went_well_has_no_error_whatever_it_says() -> None:
    run = only([ASK, CALL, request(back("ValueError: in a log", "c1", outcome="success")), DONE])
    assert run.tool_calls[0].error is None


def test_the_type_of_an_error_is_taken_from_its_words() -> None:
    error = only([ASK, CALL, request(back("TimeoutError: late", "c1", outcome="failed")), DONE]).tool_calls[0].error
    assert error is not None
    assert (error.type, error.message) == ("TimeoutError", "late")


def test_a_prompt_to_try_again_is_the_error_of_the_call_it_names() -> None:
    details = [{"type": "missing", "loc": ["a"], "msg": "Field required", "input": {}}]
    retry = part("retry-prompt", details, tool_name="f", tool_call_id="c1")
    error = only([ASK, CALL, request(retry), DONE]).tool_calls[0].error
    assert error is not None
    assert (error.type, error.message) == ("ModelRetry", 'Field required at ["a"]')


def test_a_prompt_to_try_again_that_names_no_call_is_said_by_the_user() -> None:
    run = only([ASK, response(part("text", "wrong")), request(part("retry-prompt", "say a number")), DONE])
    assert run.input == "q"
    assert run.llm_calls[1].arguments["messages"][-1] == {"content": "say a number", "role": "user"}


def test_what_an_agent_gives_through_a_call_is_its_output() -> None:
    gives = response(use("final_result", {"answer": 42}, "c9"))
    run = only([ASK, gives, request(back("Final result processed.", "c9", "final_result"))])
    assert (run.status, run.output) == (RunStatus.SUCCESS, {"answer": 42})


def test_tools_of_the_provider_are_inside_of_the_model_s_call() -> None:
    own = part("builtin-tool-call", tool_name="web_search", args={"query": "x"}, tool_call_id="w1")
    found = part("builtin-tool-return", [{"title": "t"}], tool_name="web_search", tool_call_id="w1")
    run = only([ASK, response(own, found, part("text", "done"))])
    (search,) = [event for event in run.events if isinstance(event, ToolCall)]
    assert (search.parent, search.arguments, search.result) == (0, {"query": "x"}, [{"title": "t"}])
    assert run.output == "done"


def test_thinking_files_and_texts_are_told_apart() -> None:
    image = part("file", {"data": "aGk=", "media_type": "image/png", "kind": "binary"})
    run = only([ASK, response(part("thinking", "hm"), part("text", "so"), image)])
    said = run.llm_calls[0].result
    assert (said["thinking"], said["content"], said["parts"]) == ("hm", "so", [image])


def test_instructions_hold_from_where_they_are_given() -> None:
    talk = [{**ASK, "instructions": "be kind"}, CALL, request(back("r", "c1"), instructions="be short"), DONE]
    assert [call.arguments["system"] for call in only(talk).llm_calls] == ["be kind", "be short"]


def test_a_system_prompt_is_part_of_the_conversation() -> None:
    run = only([request(part("system-prompt", "be kind"), part("user-prompt", "q")), DONE])
    assert [message["role"] for message in run.llm_calls[0].arguments["messages"]] == ["system", "user"]
    assert run.input == "q"


def test_times_of_old_messages_are_those_of_their_parts() -> None:
    asked = request(part("user-prompt", "q", timestamp="2026-01-01T00:00:01+00:00"))
    run = only([asked, response(part("text", "a"), timestamp="2026-01-01T00:00:03+00:00")])
    assert run.llm_calls[0].duration_s == 2.0
    assert run.duration_s == 2.0


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"request_tokens": 3, "response_tokens": 1}, Usage(input_tokens=3, output_tokens=1)),
        ({"input_tokens": 3, "cache_read_tokens": 2, "cost": 0.5}, Usage(input_tokens=3, cost_usd=0.5)),
        ({"input_tokens": 3, "cost": "lots"}, Usage(input_tokens=3)),
        ({}, None),
    ],
)
def test_tokens_and_money_are_read_as_each_version_writes_them(counts: dict[str, Any], usage: Usage | None) -> None:
    assert only([ASK, {**DONE, "usage": counts}]).llm_calls[0].usage == usage


def test_an_answer_that_was_cut_says_so() -> None:
    run = only([ASK, {**DONE, "state": "interrupted"}])
    assert run.llm_calls[0].complete is False
    assert replayability(run).lacking[0].lacks == (Lack.CUT,)


def test_what_has_no_word_here_is_a_note() -> None:
    odd = part("weather", "rain")
    run = only([request(part("user-prompt", "q"), odd), {**DONE, "failed_attempts": [{"error": "x"}]}])
    notes = {event.name: event.content for event in run.events if isinstance(event, Note)}
    assert notes == {"weather": odd, "failed_attempts": [{"error": "x"}]}


def test_a_bad_message_is_told_with_its_line_and_the_others_are_read() -> None:
    text = as_lines(TALK[:2]) + b"{broken\n" + as_lines([{"kind": "letter"}, *TALK[2:]])
    imported = import_source(Source(text, "trace.jsonl"))
    assert [problem.split(":")[1] for problem in imported.left_out] == ["3", "4"]
    assert imported.runs == (only(TALK),)


def test_a_run_that_cannot_be_read_stops_no_other() -> None:
    bad = [{**ASK, "run_id": "one", "timestamp": "yesterday"}, {**DONE, "run_id": "one"}]
    good = [{**message, "run_id": "two"} for message in (ASK, DONE)]
    imported = of([*good, *bad])
    assert [run.id for run in imported.runs] == ["two"]
    assert "timestamp: expected an ISO time" in imported.left_out[0]


def test_another_file_is_told_apart_with_words() -> None:
    with pytest.raises(InvalidFile, match=r"trace\.json: expected messages of Pydantic AI"):
        of([{"role": "user", "content": "hi"}], "pydantic_ai")


@pytest.mark.parametrize("other", ["langchain", "ai_sdk", "ag_ui", "a2a"])
def test_other_importers_leave_the_sample_alone(other: str) -> None:
    assert not IMPORTERS.get(other).recognises(Source(unpacked(SAMPLE), "f"))


@settings(max_examples=examples(60))
@given(document=st.sampled_from([TALK, raw()[:4]]).flatmap(damaged), on_lines=st.booleans())
def test_damage_is_told_in_words(document: Any, on_lines: bool) -> None:
    read_without_a_traceback("pydantic_ai", as_lines(document) if on_lines else json.dumps(document).encode())


@settings(max_examples=examples(30))
@given(text=truncated(unpacked(SAMPLE)))
def test_a_file_that_was_cut_is_told_in_words(text: bytes) -> None:
    assert read_without_a_traceback("pydantic_ai", text) == []
