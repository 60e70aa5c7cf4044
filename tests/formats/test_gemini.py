"""Gemini contents, requests, responses and streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.story import ANSWER, CALLS, PROBLEM, QUESTION, TOKENS, check_story

from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source
from replaykit.model.events import Usage
from replaykit.model.run import RunStatus

LACKS = {"call ids"}


def told(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "log.json"), format)


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args}}


def returned(name: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response}}


def response(content: dict[str, Any], tokens: int = 1, **more: Any) -> dict[str, Any]:
    usage = {
        "promptTokenCount": tokens,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 2,
        "cachedContentTokenCount": 1,
    }
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x-001", **more}


def story() -> list[dict[str, Any]]:
    """The story as this API tells it: no ids, results by name."""
    order = {"order_id": "W123", "total": 59.9, "status": "delivered"}
    return [
        user({"text": QUESTION}),
        model(*(call(name, given) for name, given in CALLS[:2])),
        user(returned("get_order", order), returned("get_user", {"user_id": "u9", "name": "Ana"})),
        model(call(*CALLS[2])),
        user(returned("refund_order", {"error": f"TimeoutError: {PROBLEM}"})),
        model({"text": ANSWER}),
    ]


def pairs() -> list[dict[str, Any]]:
    turns = story()
    system = {"parts": [{"text": "You are a support agent."}]}
    return [
        {
            "request": {"model": "gemini-x", "contents": turns[:end], "systemInstruction": system},
            "response": response(turns[end], tokens, responseId=f"r{end}", createTime="2026-01-01T00:00:00Z"),
        }
        for end, tokens in zip((1, 3, 5), TOKENS, strict=True)
    ]


def snake(value: Any, *, opaque: bool = False) -> Any:
    """As the Python SDK dumps it: names with underscores, and null for what is not there."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict) or opaque:
        return value
    spelled = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): item for name, item in value.items()}
    return {name: snake(item, opaque=name in ("args", "response")) for name, item in spelled.items()} | {"unset": None}


def test_the_story_told_by_pairs():
    got = told(pairs())

    assert (got.format, got.remarks) == ("gemini", ())
    (run,) = got.runs
    check_story(run, LACKS)
    assert [c.usage for c in run.llm_calls] == [Usage(input_tokens=n, output_tokens=7) for n in TOKENS]
    assert run.llm_calls[0].name == "gemini-x"
    assert run.metadata["response_ids"] == ["r1", "r3", "r5"]


def test_the_story_told_by_contents_alone():
    (run,) = told(story()).runs

    check_story(run, LACKS | {"models", "system", "tokens", "times"})


def test_names_with_underscores_are_the_same():
    spelled = [{"request": snake(one["request"]), "response": snake(one["response"])} for one in pairs()]
    got = told(spelled)

    assert got.format == "gemini"
    (run,) = got.runs
    check_story(run, LACKS)
    assert [c.finish_reason for c in run.llm_calls] == ["STOP"] * 3


def test_the_sdks_own_arguments_have_the_rest_in_a_config():
    asked = {"model": "gemini-x", "contents": "go", "config": {"system_instruction": "Be kind.", "temperature": 0}}
    (run,) = told([{"request": asked, "response": response(model({"text": "1"}))}]).runs

    assert run.input == "go"
    assert run.llm_calls[0].arguments["system"] == "Be kind."
    assert run.llm_calls[0].arguments["parameters"] == {"temperature": 0}


def test_a_stream_is_put_together():
    pieces = [response(model({"text": text})) for text in ("I could ", "not.")]
    del pieces[0]["candidates"][0]["finishReason"]
    data = "".join(f"data: {json.dumps(piece)}\r\n\r\n" for piece in pieces)

    for source in (json.dumps(pieces).encode(), data.encode()):
        (run,) = import_source(Source(source, "stream")).runs
        assert (run.output, len(run.llm_calls), run.origin.format) == ("I could not.", 1, "gemini")

    (run,) = told([{"request": {"contents": [user({"text": "go"})]}, "chunks": pieces[:1]}]).runs
    assert (run.llm_calls[0].complete, run.output) == (False, "I could ")


def test_responses_that_follow_each_other_are_told_apart():
    got = told([response(model({"text": "1"}), responseId="a"), response(model({"text": "2"}), responseId="b")])
    assert [run.output for run in got.runs] == ["1", "2"]

    got = told([response(model({"text": "1"})), response(model({"text": "2"}))])
    assert [run.output for run in got.runs] == ["1", "2"]
    assert replayability(got.runs[0]).lacking[0].lacks == (Lack.MESSAGES,)


@pytest.mark.parametrize(
    ("given", "result", "error"),
    [
        ({"result": 5}, 5, None),
        ({"output": "there"}, "there", None),
        ({"result": 5, "unit": "m"}, {"result": 5, "unit": "m"}, None),
        ({"error": "gone"}, {"error": "gone"}, "ToolError: gone"),
    ],
)
def test_results_are_unwrapped_and_errors_seen(given, result, error):
    (run,) = told([user({"text": "go"}), model(call("find", {})), user(returned("find", given))]).runs

    assert run.tool_calls[0].result == result
    assert (run.tool_calls[0].error and str(run.tool_calls[0].error)) == error


def test_ids_are_used_where_there_are_some():
    asked = [{"functionCall": {"id": name, "name": "find", "args": {"of": name}}} for name in "ab"]
    answers = [{"functionResponse": {"id": name, "name": "find", "response": {"result": name}}} for name in "ba"]
    (run,) = told([user({"text": "go"}), model(*asked), user(*answers)]).runs

    assert [(c.arguments["of"], c.result) for c in run.tool_calls] == [("a", "a"), ("b", "b")]


def test_thoughts_and_code_that_the_provider_ran():
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    parts = [
        {"text": "hm", "thought": True},
        code,
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        code,
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError: no"}},
        {"text": "Two."},
    ]
    (run,) = told([{"request": {"contents": [user({"text": "go"})]}, "response": response(model(*parts))}]).runs

    good, bad = run.tool_calls
    assert (good.name, good.result["output"], good.parent) == ("code_execution", "2", 0)
    assert bad.error is not None
    assert bad.error.type == "ZeroDivisionError"
    assert (run.llm_calls[0].result["thinking"], run.output) == ("hm", "Two.")


def test_a_prompt_that_was_blocked_is_refused():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    (run,) = told([{"request": {"contents": [user({"text": "go"})]}, "response": blocked}]).runs

    assert (run.output, run.llm_calls[0].finish_reason) == ("SAFETY", "SAFETY")


def test_errors_and_batches():
    error = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    (run,) = told(error).runs
    assert run.error is not None
    assert (run.status, run.error.type, run.origin.format) == (RunStatus.ERROR, "RESOURCE_EXHAUSTED", "gemini")

    lines = [
        {"key": "q1", "request": {"contents": [user({"text": "go"})]}, "response": response(model({"text": "1"}))},
        {"key": "q2", "response": response(model({"text": "2"}))},
    ]
    got = import_source(Source(b"\n".join(json.dumps(line).encode() for line in lines), "batch.jsonl"))
    assert [(run.name, run.input, run.output) for run in got.runs] == [("q1", "go", "1"), ("q2", None, "2")]


def test_parts_that_have_a_type_are_another_formats():
    assert told([{"role": "user", "parts": [{"text": "go"}]}, model({"text": "1"})]).format == "gemini"
    with pytest.raises(Exception, match="not a trace of a known format"):
        told([{"role": "user", "parts": [{"type": "text", "content": "go"}]}])
