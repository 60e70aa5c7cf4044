"""OpenAI chat completions, in all the shapes that people log them in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.samples import sample, unpacked
from tests.formats.story import ANSWER, QUESTION, check_story

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace, importer_of
from replaykit.model.events import Note, Usage
from replaykit.model.run import RunStatus

NO_RESPONSES = {"models", "tokens", "times"}
PAIRS = json.loads(unpacked(sample("openai_chat/request_response_pairs.json")))
MESSAGES = json.loads(unpacked(sample("openai_chat/messages.json")))


def told(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "log.json"), format)


def on_lines(*values: Any) -> Imported:
    return import_source(Source(b"\n".join(json.dumps(value).encode() for value in values), "log.jsonl"))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def completion(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-5-x", "choices": [choice], **more}


def pair(messages: list[dict[str, Any]], response: Any, **more: Any) -> dict[str, Any]:
    return {"request": {"model": "gpt-5", "messages": messages}, "response": response, **more}


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("openai_chat/messages.json", NO_RESPONSES),
        ("openai_chat/request_response_pairs.json", set()),
        ("openai_chat/stream_chunks.json", set()),
        ("langchain/openai_messages.json", NO_RESPONSES | {"system", "type of the error"}),
    ],
)
def test_the_story_is_the_same_in_every_sample(name, lacks):
    got = import_trace(sample(name))

    assert (got.format, got.remarks) == ("openai_chat", ())
    (run,) = got.runs
    check_story(run, lacks)


def test_the_error_of_a_request_is_a_run_that_failed_with_it():
    (run,) = import_trace(sample("openai_chat/error.json")).runs

    assert run.status is RunStatus.ERROR
    assert run.error == run.llm_calls[0].error
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("RateLimitError", "Rate limit reached for requests")
    assert json.loads(bytes(run.error.attributes_json)) == {"status": 429, "code": "rate_limit_exceeded"}


def test_usage_counts_what_was_cached_and_finish_reasons_and_parameters_are_kept():
    (run,) = import_trace(sample("openai_chat/request_response_pairs.json")).runs

    first = run.llm_calls[0]
    assert first.usage == Usage(input_tokens=120, output_tokens=31)
    assert (first.name, first.finish_reason) == ("gpt-4o-mini", "tool_calls")
    assert first.arguments["parameters"] == {"temperature": 0}
    assert [tool["function"]["name"] for tool in first.arguments["tools"]] == ["get_order", "get_user", "refund_order"]
    assert run.metadata["response_ids"] == ["chatcmpl-fake0", "chatcmpl-fake1", "chatcmpl-fake2"]


@pytest.mark.parametrize(
    "shape",
    [
        lambda p: p,
        lambda p: {"body": p["request"], "response": p["response"]},
        lambda p: {**p["request"], "response": p["response"]},
        lambda p: {
            "request": {"method": "POST", "body": p["request"]},
            "response": {"status": 200, "body": p["response"]},
        },
        lambda p: {"request": json.dumps(p["request"]), "response": json.dumps(p["response"])},
        lambda p: {"request": {"kwargs": p["request"]}, "response": p["response"]},
        lambda p: {"request_body": p["request"], "response_body": p["response"]},
    ],
)
def test_pairs_are_found_in_what_they_were_logged_in(shape):
    for got in (told([shape(one) for one in PAIRS]), on_lines(*map(shape, PAIRS))):
        assert (got.format, got.remarks) == ("openai_chat", ())
        (run,) = got.runs
        check_story(run)


def test_a_stream_is_put_together_from_data_lines():
    chunks = json.loads(unpacked(sample("openai_chat/stream_chunks.json")))[2]["chunks"]
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"

    alone = import_source(Source(text.encode(), "stream.txt"))
    paired = told([{"request": PAIRS[2]["request"], "response": text}])

    assert alone.format == "openai_chat"
    assert [run.output.strip() for got in (alone, paired) for run in got.runs] == [ANSWER, ANSWER]
    assert replayability(alone.runs[0]).lacking[0].lacks == (Lack.MESSAGES,)
    assert replayability(alone.runs[0]).advice == (
        "The requests are not in the file. Log each request beside its response.",
    )
    assert replayability(paired.runs[0]).score == 1.0


def test_streams_that_follow_each_other_are_told_apart():
    streams = [one["chunks"] for one in json.loads(unpacked(sample("openai_chat/stream_chunks.json")))]
    chunks = [chunk for stream in streams for chunk in stream]

    for got in (told(chunks), on_lines(*chunks)):
        assert [len(run.llm_calls) for run in got.runs] == [1, 1, 1]
        assert [call.name for run in got.runs for call in run.tool_calls] == ["get_order", "get_user", "refund_order"]


def test_a_stream_that_was_cut_is_not_complete():
    chunks = json.loads(unpacked(sample("openai_chat/stream_chunks.json")))[2]["chunks"][:6]
    (run,) = told([{"request": PAIRS[2]["request"], "chunks": chunks}]).runs

    last = run.llm_calls[-1]
    assert last.complete is False
    assert last.result["content"].startswith("I could")
    assert run.error is not None
    assert (run.status, run.error.type) == (RunStatus.ERROR, "Incomplete")
    assert replayability(run).lacking[0].lacks == (Lack.CUT,)


def test_the_history_before_the_first_pair_is_part_of_the_run():
    (run,) = told([PAIRS[2]]).runs

    check_story(run, {"tokens", "times"})
    assert [call.usage is not None for call in run.llm_calls] == [False, False, True]


def test_an_answer_whose_pair_is_missing_still_counts_once():
    (run,) = told([PAIRS[0], PAIRS[2]]).runs

    check_story(run, {"tokens", "times"})


def test_pairs_that_do_not_go_on_from_each_other_are_runs_of_their_own():
    got = told(
        [
            pair([user("one")], completion(says("1"))),
            pair([user("two")], completion(says("2"))),
            pair([user("one"), says("1"), user("more")], completion(says("1+"))),
            pair([user("one")], completion(says("1"))),
        ]
    )

    assert [(run.input, run.output, len(run.llm_calls)) for run in got.runs] == [
        ("one", "1+", 2),
        ("two", "2", 1),
        ("one", "1", 1),
    ]


def test_a_request_that_failed_and_was_made_again_is_one_run():
    error = {"error": {"message": "later", "type": "server_error", "param": None, "code": None}}
    got = told([pair([user("one")], {"status_code": 503, "body": error}), pair([user("one")], completion(says("1")))])

    (run,) = got.runs
    assert [call.error.type if call.error else None for call in run.llm_calls] == ["server_error", None]
    assert (run.status, run.output) == (RunStatus.SUCCESS, "1")


def test_a_history_that_was_cut_goes_on_by_the_result_of_its_call():
    call = says("", tool_calls=[{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}])
    result = {"role": "tool", "tool_call_id": "c1", "content": "there"}
    got = told(
        [
            pair([user("a long story"), user("find it")], completion(call)),
            pair([user("In short: find it"), call, result], completion(says("Found."))),
        ]
    )

    (run,) = got.runs
    assert [(c.name, c.result) for c in run.tool_calls] == [("find", "there")]
    assert [m["content"] for m in run.llm_calls[1].arguments["messages"]] == ["In short: find it", None, "there"]


def test_a_log_of_requests_alone_is_the_conversation_that_they_repeat():
    requests = [one["request"] for one in PAIRS]
    (run,) = told(requests).runs

    assert [call.name for call in run.tool_calls] == ["get_order", "get_user", "refund_order"]
    assert len(run.llm_calls) == 3
    assert not run.llm_calls[2].answered
    assert run.error is not None
    assert run.error.type == "Unfinished"


def test_a_request_alone_waits_for_its_answer():
    (run,) = told({"model": "gpt-5", "messages": [user("one")], "temperature": 1}).runs

    (call,) = run.llm_calls
    assert (call.name, call.answered, call.arguments["parameters"]) == ("gpt-5", False, {"temperature": 1})


def test_a_response_alone_lacks_what_was_asked():
    (run,) = told(completion(says("1"), created=1760000000)).runs

    assert (run.output, run.llm_calls[0].name, run.started_at) == ("1", "gpt-5-x", 1760000000)
    assert replayability(run).lacking[0].lacks == (Lack.MESSAGES,)


@pytest.mark.parametrize(
    ("response", "output"),
    [
        ("1", "1"),
        (says("1"), "1"),
        (completion(says("1")), "1"),
        ('{"count": 1}', '{"count": 1}'),
        ("[1] says so", "[1] says so"),
    ],
)
def test_messages_beside_what_was_kept_of_the_response(response, output):
    (run,) = told({"messages": [user("one")], "response": response}).runs

    assert (run.input, run.output, len(run.llm_calls)) == ("one", output, 1)


def test_a_response_that_cannot_be_read_is_told_and_the_request_stays():
    got = told([pair([user("one")], {"text": "1"}), pair([user("two")], completion(says("2")))])

    assert [(run.input, run.llm_calls[0].answered) for run in got.runs] == [("one", False), ("two", True)]
    assert got.notes == ("log.json:1: the response holds no answer",)
    assert got.runs[0].metadata["problems"] == ["the response holds no answer"]


def test_lines_of_fine_tuning_data_are_runs_of_their_own():
    lines = [{"messages": [user("one"), says("1")]}, {"messages": [user("one"), says("1"), user("two"), says("2")]}]
    got = on_lines(*lines, {"messages": MESSAGES, "tools": PAIRS[0]["request"]["tools"]})

    assert [(run.output, len(run.llm_calls)) for run in got.runs[:2]] == [("1", 1), ("2", 2)]
    check_story(got.runs[2], NO_RESPONSES)
    assert len(got.runs[2].llm_calls[0].arguments["tools"]) == 3


def test_conversations_in_lists_and_messages_on_lines():
    assert [run.output for run in told([[user("one"), says("1")], [user("two"), says("2")]]).runs] == ["1", "2"]
    assert [run.output for run in on_lines([user("one"), says("1")], [user("two"), says("2")]).runs] == ["1", "2"]
    (run,) = on_lines(*MESSAGES).runs
    check_story(run, NO_RESPONSES)


def test_batches_are_runs_named_by_their_ids():
    asked = [
        {"custom_id": f"q{n}", "method": "POST", "url": "/v1/chat/completions", "body": PAIRS[0]["request"]}
        for n in "12"
    ]
    body = {"status_code": 200, "request_id": "r", "body": completion(says("1"))}
    bad = {"status_code": 400, "request_id": "r", "body": {"error": {"message": "no", "type": "bad"}}}
    done = [
        {"id": "b1", "custom_id": "q1", "response": body, "error": None},
        {"id": "b2", "custom_id": "q2", "response": bad, "error": None},
        {"id": "b3", "custom_id": "q3", "response": None, "error": {"code": "batch_expired", "message": "too late"}},
    ]

    given, came = on_lines(*asked), on_lines(*done)

    assert [(run.name, run.input, run.llm_calls[0].answered) for run in given.runs] == [
        ("q1", QUESTION, False),
        ("q2", QUESTION, False),
    ]
    assert [(run.name, run.output, run.error and run.error.type) for run in came.runs] == [
        ("q1", "1", None),
        ("q2", None, "bad"),
        ("q3", None, "batch_expired"),
    ]


def test_functions_from_before_there_were_tools():
    call = {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": '{"id": 7}'}}
    (run,) = told([user("go"), call, {"role": "function", "name": "find", "content": "there"}, says("Found.")]).runs

    assert [(c.name, c.arguments, c.result) for c in run.tool_calls] == [("find", {"id": 7}, "there")]


def test_custom_tools_refusals_thinking_and_other_answers():
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    (run,) = told(
        [user("go"), says("", tool_calls=[custom]), {"role": "tool", "tool_call_id": "c1", "content": "1"}]
    ).runs
    assert [(c.name, c.arguments, c.result) for c in run.tool_calls] == [("sql", "select 1", "1")]

    (run,) = told([user("go"), {"role": "assistant", "content": None, "refusal": "No."}]).runs
    assert (run.output, run.status) == ("No.", RunStatus.SUCCESS)

    thinking = completion(says("Yes.", reasoning_content="hm"))
    thinking["choices"].append({"index": 1, "message": says("Or no."), "finish_reason": "stop"})
    (run,) = told(pair([user("go")], thinking)).runs
    assert run.llm_calls[0].result["thinking"] == "hm"
    (note,) = (event for event in run.events if isinstance(event, Note))
    assert [other["content"] for other in note.content] == ["Or no."]


def test_arguments_that_are_no_json_stay_text():
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": '}}
    (run,) = told([user("go"), says("", tool_calls=[call])]).runs

    assert run.tool_calls[0].arguments == '{"id": '


def test_times_and_durations_of_the_log_are_used():
    (run,) = told(pair([user("go")], completion(says("1")), timestamp="2026-01-01T00:00:00Z", latency_ms=1500)).runs

    assert (run.started_at, run.duration_s) == (1767225600.0, 1.5)


def test_a_bad_line_is_left_out_and_the_rest_is_read():
    lines = [json.dumps(one).encode() for one in PAIRS]
    got = import_source(Source(b"\n".join([*lines[:2], b'{"request": ', b"[1]", b'{"x": 1}', *lines[2:]]), "log.jsonl"))

    check_story(got.runs[0])
    assert [problem.split(": ")[0] for problem in got.left_out] == ["log.jsonl:3", "log.jsonl:4", "log.jsonl:5"]
    assert "got an object with `x`" in got.left_out[2]


def test_the_same_file_has_the_same_ids_and_other_runs_have_others():
    once, again = told(PAIRS), told(PAIRS)

    assert [run.id for run in once.runs] == [run.id for run in again.runs]
    assert once.runs[0].id.startswith("openai_chat-")
    assert told(PAIRS[:2]).runs[0].id != once.runs[0].id


@pytest.mark.parametrize(
    "value", [{"a": 1}, [1, 2], "text", {"messages": ["hello"]}, {"messages": {"a": "b"}}, [[[user("x")]]], [], 5]
)
def test_what_is_something_else_is_not_recognised_and_refused_in_words(value):
    source = Source(json.dumps(value).encode(), "log.json")

    with pytest.raises(InvalidFile, match="not a trace of a known format"):
        importer_of(source)
    with pytest.raises(InvalidFile):
        import_source(source, "openai_chat")
