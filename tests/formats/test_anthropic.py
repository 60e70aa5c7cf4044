"""Anthropic messages, in all the shapes that people log them in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.samples import sample, unpacked
from tests.formats.story import check_story

from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import Usage
from replaykit.model.run import RunStatus

PAIRS = json.loads(unpacked(sample("anthropic_messages/request_response_pairs.json")))
MESSAGES = json.loads(unpacked(sample("anthropic_messages/messages.json")))
EVENTS = json.loads(unpacked(sample("anthropic_messages/stream_events.json")))
NO_RESPONSES = {"models", "system", "tokens", "times"}


def told(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "log.json"), format)


def message(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x"}
    return {**head, "content": list(content), "stop_reason": "end_turn", **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def pair(messages: list[Any], response: Any, **more: Any) -> dict[str, Any]:
    return {"request": {"model": "claude-x", "max_tokens": 9, "messages": messages, **more}, "response": response}


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("anthropic_messages/messages.json", NO_RESPONSES),
        ("anthropic_messages/request_response_pairs.json", {"times"}),
    ],
)
def test_the_story_is_the_same_in_every_sample(name, lacks):
    got = import_trace(sample(name))

    assert (got.format, got.remarks) == ("anthropic", ())
    (run,) = got.runs
    check_story(run, lacks)
    asked = [use["id"] for call in run.llm_calls for use in call.result["tool_calls"]]
    assert asked == ["toolu_A1", "toolu_B2", "toolu_C3"]


def test_input_tokens_count_what_came_from_the_cache():
    (run,) = import_trace(sample("anthropic_messages/request_response_pairs.json")).runs

    assert [call.usage for call in run.llm_calls] == [Usage(input_tokens=400 + 128, output_tokens=52)] * 3
    first = run.llm_calls[0]
    assert (first.name, first.finish_reason) == ("claude-sonnet-4-5", "tool_use")
    assert first.arguments["system"] == "You are a support agent."
    assert first.arguments["parameters"] == {"max_tokens": 1024}
    assert len(first.arguments["tools"]) == 3


def test_the_error_of_a_request_is_a_run_that_failed_with_it():
    (run,) = import_trace(sample("anthropic_messages/error.json")).runs
    assert run.error is not None
    assert (run.status, run.error.type, run.error.message) == (RunStatus.ERROR, "OverloadedError", "Overloaded")

    (run,) = told({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).runs
    assert run.error is not None
    assert (run.origin.format, run.error.type) == ("anthropic", "overloaded_error")


def test_a_stream_is_put_together_from_its_events():
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
    lines = b"\n".join(json.dumps(event).encode() for event in [*EVENTS, *EVENTS])

    for source, count in [(json.dumps(EVENTS).encode(), 1), (data.encode(), 1), (lines, 2)]:
        got = import_source(Source(source, "stream"))
        assert (got.format, len(got.runs)) == ("anthropic", count)
        run = got.runs[0]
        assert [(c.name, c.arguments) for c in run.tool_calls] == [
            ("get_order", {"order_id": "W123"}),
            ("get_user", {"user_id": "u9"}),
        ]
        assert run.llm_calls[0].usage == Usage(input_tokens=528, output_tokens=52)
        assert run.llm_calls[0].complete is True


def test_a_stream_that_was_cut_is_not_complete():
    (run,) = told([{"request": PAIRS[0]["request"], "chunks": EVENTS[:5]}]).runs

    assert (run.llm_calls[0].complete, run.llm_calls[0].result["content"]) == (False, "Let me look ")
    assert run.error is not None
    assert run.error.type == "Incomplete"


def test_a_history_is_known_when_marks_for_the_cache_move_in_it():
    cached = {"cache_control": {"type": "ephemeral"}}
    got = told(
        [
            pair([{"role": "user", "content": [text("one", **cached)]}], message(text("1 "))),
            pair(
                [
                    {"role": "user", "content": "one"},
                    {"role": "assistant", "content": [text("1")]},
                    {"role": "user", "content": [text("two", **cached)]},
                ],
                message(text("2")),
            ),
        ]
    )

    (run,) = got.runs
    assert [call.result["content"] for call in run.llm_calls] == ["1 ", "2"]
    assert (run.input, run.output) == ("one", "2")


def test_results_and_words_in_one_message_are_told_apart():
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {"id": 7}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("there"), text("or here")]}
    image = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
    (run,) = told(
        [
            {"role": "user", "content": [text("look"), image]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, use]},
            {"role": "user", "content": [result, text("and hurry")]},
            {"role": "assistant", "content": "Found."},
        ]
    ).runs

    assert run.input == [text("look"), image]
    assert [(c.name, c.result) for c in run.tool_calls] == [("find", "there\nor here")]
    assert run.llm_calls[0].result["thinking"] == "hm"
    assert [m["role"] for m in run.llm_calls[1].arguments["messages"]] == ["user", "assistant", "tool", "user"]


def test_a_result_that_is_marked_as_an_error_is_one_whatever_it_says():
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "nothing there", "is_error": True}
    (run,) = told([{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]).runs

    assert run.tool_calls[0].error is not None
    assert str(run.tool_calls[0].error) == "ToolError: nothing there"


def test_tools_that_the_provider_runs_are_inside_of_the_models_call():
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "mcp_tool_use", "id": "m1", "name": "roll", "server_name": "s", "input": {"n": 6}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [text("KeyError: no die")]},
        {"type": "server_tool_use", "id": "s2", "name": "web_fetch", "input": {"url": "u"}},
        {"type": "web_fetch_tool_result", "tool_use_id": "s2", "content": {"type": "web_fetch_tool_error"}},
        {"type": "server_tool_use", "id": "s3", "name": "code_execution", "input": {}},
        text("Done."),
    ]
    (run,) = told([pair([{"role": "user", "content": "go"}], message(*content))]).runs

    assert [(c.name, c.parent) for c in run.tool_calls] == [
        ("web_search", 0),
        ("roll", 0),
        ("web_fetch", 0),
        ("code_execution", 0),
    ]
    search, roll, fetch, code = run.tool_calls
    assert search.result == [{"type": "web_search_result", "url": "u"}]
    assert roll.error is not None
    assert (roll.error.type, roll.error.message) == ("KeyError", "no die")
    assert fetch.error is not None
    assert not code.answered
    assert [one.seq for one in replayability(run).lacking] == [code.seq]
    assert run.output == "Done."


def test_a_refusal_is_an_answer():
    refused = message(stop_reason="refusal", stop_details={"type": "refusal", "explanation": "No."})
    (run,) = told([pair([{"role": "user", "content": "go"}], refused)]).runs

    assert (run.output, run.llm_calls[0].finish_reason) == ("No.", "refusal")


def test_batches_are_runs_named_by_their_ids():
    asked = [{"custom_id": "q1", "params": PAIRS[0]["request"]}]
    came = [
        {"custom_id": "q1", "result": {"type": "succeeded", "message": message(text("1"))}},
        {
            "custom_id": "q2",
            "result": {"type": "errored", "error": {"type": "error", "error": {"type": "bad", "message": "no"}}},
        },
        {"custom_id": "q3", "result": {"type": "expired"}},
    ]
    lines = [b"\n".join(json.dumps(line).encode() for line in some) for some in (asked, came)]
    given, done = (import_source(Source(some, "batch.jsonl")) for some in lines)

    assert [(run.name, run.llm_calls[0].answered, given.format) for run in given.runs] == [("q1", False, "anthropic")]
    assert [(run.name, run.output, run.error and run.error.type) for run in done.runs] == [
        ("q1", "1", None),
        ("q2", None, "bad"),
        ("q3", None, "expired"),
    ]


def test_a_response_alone_and_one_appended_to_the_messages():
    assert told(message(text("1"))).runs[0].output == "1"

    (run,) = told([{"role": "user", "content": "go"}, message(text("1"))]).runs
    assert (run.input, run.output, len(run.llm_calls)) == ("go", "1", 1)


def test_the_same_file_has_the_same_ids():
    assert told(PAIRS).runs[0].id == told(PAIRS).runs[0].id
    assert told(MESSAGES).runs[0].id != told(PAIRS).runs[0].id
