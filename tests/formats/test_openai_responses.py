"""OpenAI responses: items, pairs, streams, and histories that the provider keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.samples import sample, unpacked
from tests.formats.story import ANSWER, PROBLEM, check_story

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace, importer_of
from replaykit.model.events import Usage
from replaykit.model.run import RunStatus

PAIRS = json.loads(unpacked(sample("openai_responses/request_response_pairs.json")))
ITEMS = json.loads(unpacked(sample("openai_responses/input_items.json")))
EVENTS = json.loads(unpacked(sample("openai_responses/stream_events.json")))
NO_RESPONSES = {"models", "system", "tokens", "times", "type of the error"}


def told(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "log.json"), format)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def response(id: str, *output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": id, "object": "response", "status": "completed", "model": "gpt-5", "output": list(output), **more}


def pair(input: Any, answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"request": {"model": "gpt-5", "input": input, **more}, "response": answer}


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("openai_responses/input_items.json", NO_RESPONSES),
        ("openai_responses/request_response_pairs.json", {"type of the error"}),
        ("openai_agents/to_input_list.json", NO_RESPONSES | {"failure"}),
    ],
)
def test_the_story_is_the_same_in_every_sample(name, lacks):
    got = import_trace(sample(name))

    assert (got.format, got.remarks) == ("openai_responses", ())
    (run,) = got.runs
    check_story(run, lacks)
    error = run.tool_calls[2].error
    assert error is not None
    assert error.type == "ToolError"


def test_tokens_count_what_was_cached_and_thinking_is_kept():
    (run,) = import_trace(sample("openai_responses/request_response_pairs.json")).runs

    counted = [one["response"]["usage"] for one in PAIRS]
    assert [(call.usage.input_tokens, call.usage.output_tokens) for call in run.llm_calls if call.usage] == [
        (usage["input_tokens"], usage["output_tokens"]) for usage in counted
    ]
    assert counted[0]["input_tokens_details"]["cached_tokens"] == 64
    assert [call.name for call in run.llm_calls] == ["gpt-5"] * 3
    assert run.llm_calls[0].result["thinking"] == "Need order and user first."
    assert run.llm_calls[0].finish_reason == "completed"
    assert run.llm_calls[0].arguments["system"] == "You are a support agent."
    assert run.tool_calls[2].error is not None
    assert run.tool_calls[2].error.message == PROBLEM


def test_a_stream_is_put_together_from_its_events():
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
    lines = b"\n".join(json.dumps(event).encode() for event in EVENTS)
    sources = [json.dumps(EVENTS).encode(), text.encode(), lines]

    for source in sources:
        got = import_source(Source(source, "stream"))
        assert got.format == "openai_responses"
        (run,) = got.runs
        (call,) = run.llm_calls
        assert [(c.name, c.arguments) for c in run.tool_calls] == [
            ("get_order", {"order_id": "W123"}),
            ("get_user", {"user_id": "u9"}),
        ]
        assert call.usage == Usage(input_tokens=130, output_tokens=45)
        assert (call.complete, run.started_at) == (True, 1760000000.0)


def test_a_stream_that_was_cut_is_not_complete():
    (run,) = told(EVENTS[:-1]).runs

    assert [c.name for c in run.tool_calls] == ["get_order", "get_user"]
    assert run.llm_calls[0].complete is False
    assert run.error is not None
    assert run.error.type == "Incomplete"


def test_what_the_model_says_until_somebody_else_does_is_one_answer():
    call = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"}
    (run,) = told(
        [
            user("go"),
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"role": "assistant", "content": "Looking."},
            call,
            {**call, "call_id": "c2"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            message("Found."),
        ]
    ).runs

    first, last = run.llm_calls
    assert (first.result["content"], first.result["thinking"]) == ("Looking.", "hm")
    assert [c.result for c in run.tool_calls] == ["one", "two"]
    assert (last.result["content"], run.output) == ("Found.", "Found.")


def test_a_history_that_the_provider_keeps_is_known_from_the_file():
    call = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "there"}
    got = told(
        [
            pair("find it", response("resp_1", call)),
            pair([result], response("resp_2", message("Found.")), previous_response_id="resp_1"),
            pair("thanks", response("resp_3", message("Welcome.")), previous_response_id="resp_2"),
        ]
    )

    (run,) = got.runs
    assert [m["role"] for m in run.llm_calls[2].arguments["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert [c.result for c in run.tool_calls] == ["there"]
    assert (run.output, replayability(run).score) == ("Welcome.", 1.0)


def test_going_on_from_an_earlier_response_is_a_run_of_its_own():
    got = told(
        [
            pair("one", response("resp_1", message("1"))),
            pair("two", response("resp_2", message("2")), previous_response_id="resp_1"),
            pair("or three", response("resp_3", message("3")), previous_response_id="resp_1"),
        ]
    )

    assert [(run.input, run.output, replayability(run).score) for run in got.runs] == [
        ("one", "2", 1.0),
        ("or three", "3", 0.0),
    ]


@pytest.mark.parametrize(
    "kept", [{"previous_response_id": "resp_0"}, {"conversation": "conv_1"}, {"conversation": {"id": "conv_1"}}]
)
def test_a_history_that_is_not_in_the_file_is_lacking_and_the_advice_says_why(kept):
    got = told([pair("thanks", response("resp_1", message("Welcome.")), **kept)])

    manifest = replayability(got.runs[0])
    assert [one.lacks for one in manifest.lacking] == [(Lack.MESSAGES,)]
    (advice,) = manifest.advice
    assert "`previous_response_id` or `conversation`" in advice


def test_a_conversation_of_the_provider_is_one_run():
    got = told(
        [
            pair("one", response("resp_1", message("1")), conversation="conv_1"),
            pair("other", response("resp_2", message("x")), conversation="conv_2"),
            pair("two", response("resp_3", message("2")), conversation={"id": "conv_1"}),
        ]
    )

    assert [(run.input, run.output) for run in got.runs] == [("one", "2"), ("other", "x")]
    assert [len(replayability(run).lacking) for run in got.runs] == [2, 1]


def test_a_reference_to_an_item_that_the_provider_keeps_lacks_it():
    got = told([pair([{"type": "item_reference", "id": "msg_1"}, user("go")], response("resp_1", message("1")))])

    assert replayability(got.runs[0]).lacking[0].lacks == (Lack.MESSAGES,)


BUILT_IN = [
    (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        ("web_search", {"type": "search", "query": "x"}, {"status": "completed"}),
    ),
    (
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "s",
            "name": "roll",
            "arguments": '{"n": 6}',
            "output": "4",
        },
        ("roll", {"n": 6}, "4"),
    ),
    (
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1+1",
            "container_id": "c",
            "status": "completed",
            "outputs": [{"type": "logs", "logs": "2"}],
        },
        ("code_interpreter", {"code": "1+1"}, {"status": "completed", "outputs": [{"type": "logs", "logs": "2"}]}),
    ),
    (
        {"type": "file_search_call", "id": "fs_1", "queries": ["x"], "status": "completed", "results": [{"text": "y"}]},
        ("file_search", {"queries": ["x"]}, {"status": "completed", "results": [{"text": "y"}]}),
    ),
    (
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
        ("image_generation", {}, {"status": "completed", "result": "aGk="}),
    ),
]


@pytest.mark.parametrize(("item", "expected"), BUILT_IN, ids=[item["type"] for item, _ in BUILT_IN])
def test_tools_that_the_provider_runs_are_inside_of_the_models_call(item, expected):
    as_response = told([pair("go", response("resp_1", item, message("Done.")))]).runs[0]
    as_items = told([user("go"), item, message("Done.")], "openai_responses").runs[0]

    for run in (as_response, as_items):
        (call,) = run.tool_calls
        assert (call.name, call.arguments, call.result) == expected
        assert call.parent == run.llm_calls[0].seq
        assert (run.output, run.status, len(run.llm_calls)) == ("Done.", RunStatus.SUCCESS, 1)


def test_a_tool_of_the_provider_that_failed_is_an_error():
    wrong = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "KeyError: no such die"}]}
    item = {"type": "mcp_call", "id": "m", "server_label": "s", "name": "roll", "arguments": "{}", "error": wrong}
    (run,) = told([pair("go", response("resp_1", item, message("Sorry.")))]).runs

    assert run.tool_calls[0].error is not None
    assert (run.tool_calls[0].error.type, run.tool_calls[0].error.message) == ("KeyError", "no such die")


def test_calls_that_the_agent_makes_for_the_provider_wait_for_their_results():
    click = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {"type": "click", "x": 1}}
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c2", "action": {"command": ["ls"]}}
    custom = {"type": "custom_tool_call", "call_id": "c3", "name": "sql", "input": "select 1"}
    approval = {"type": "mcp_approval_request", "id": "a1", "name": "roll", "arguments": "{}", "server_label": "s"}
    shot = {"type": "computer_screenshot", "image_url": "data:,"}
    (run,) = told(
        [
            pair("go", response("resp_1", click, shell, custom, approval)),
            pair(
                [
                    user("go"),
                    *(click, shell, custom, approval),
                    {"type": "computer_call_output", "call_id": "c1", "output": shot},
                    {"type": "local_shell_call_output", "id": "c2", "output": "files"},
                    {"type": "custom_tool_call_output", "call_id": "c3", "output": "1"},
                    {"type": "mcp_approval_response", "approval_request_id": "a1", "approve": False},
                ],
                response("resp_2", message("Done.")),
            ),
        ]
    ).runs

    assert {call.name: call.result for call in run.tool_calls} == {
        "sql": "1",
        "computer": shot,
        "local_shell": "files",
        "mcp_approval_request": {"approval_request_id": "a1", "approve": False},
    }
    assert [call.parent for call in run.tool_calls] == [None] * 4
    assert next(call.arguments for call in run.tool_calls if call.name == "computer") == {"type": "click", "x": 1}


def test_a_refusal_a_failure_and_an_answer_that_was_too_long():
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    (run,) = told([pair("go", response("resp_1", refusal))]).runs
    assert (run.output, run.llm_calls[0].result["refusal"]) == ("No.", "No.")

    failed = response("resp_1", status="failed", error={"code": "server_error", "message": "sorry"})
    (run,) = told([pair("go", failed)]).runs
    assert run.error is not None
    assert (run.status, run.error.type, run.error.message) == (RunStatus.ERROR, "server_error", "sorry")

    long = response("resp_1", message("It is"), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    (run,) = told([pair("go", long)]).runs
    assert (run.llm_calls[0].finish_reason, run.output) == ("max_output_tokens", "It is")


def test_what_the_api_lists_newest_first_is_put_in_order():
    listed = {"object": "list", "data": ITEMS[::-1], "first_id": "x", "last_id": "y", "has_more": False}
    (run,) = told(listed).runs
    check_story(run, NO_RESPONSES)

    (run,) = told({**listed, "data": ITEMS}).runs
    check_story(run, NO_RESPONSES)


def test_batches_are_runs_of_their_own():
    lines = [{"custom_id": "q1", "method": "POST", "url": "/v1/responses", "body": PAIRS[0]["request"]}]
    lines += [{"custom_id": "q1", "response": {"status_code": 200, "body": PAIRS[2]["response"]}, "error": None}]
    got = import_source(Source(b"\n".join(json.dumps(line).encode() for line in lines), "batch.jsonl"))

    assert [(run.name, run.output) for run in got.runs] == [("q1", None), ("q1", ANSWER)]


def test_a_request_for_vectors_is_not_taken_for_one_of_these():
    with pytest.raises(InvalidFile, match="not a trace of a known format"):
        importer_of(Source(b'{"model": "text-embedding-3", "input": "hello"}', "log.json"))


def test_messages_without_a_sign_of_items_are_chat_messages():
    assert told([user("go"), {"role": "assistant", "content": "1"}]).format == "openai_chat"
