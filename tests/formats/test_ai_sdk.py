"""Messages, steps and streams of Vercel's AI SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import sample, unpacked
from tests.formats.story import ANSWER, check_story
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun

UNASKED = {"input", "messages", "system", "replayable"}
LACKS = {
    "vercel_ai_sdk/generateText_steps": {"type of the error"},
    "vercel_ai_sdk/streamText_fullStream_parts": {"type of the error"},
    "vercel_ai_sdk/generateText_response_messages": {*UNASKED, "type of the error", "models", "tokens", "times"},
    "vercel_ai_sdk_v7/generateText_steps": {*UNASKED, "type of the error"},
    "vercel_ai_sdk_v7/streamText_fullStream_parts": {*UNASKED, "type of the error", "failure"},
}


def raw(name: str) -> Any:
    return json.loads(unpacked(sample(f"{name}.json")))


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def only(value: Any) -> TraceRun:
    imported = of(value)
    assert (imported.format, imported.left_out) == ("ai_sdk", ())
    (run,) = imported.runs
    return run


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(call_id: str, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": {"a": 1}, **more}


def result(call_id: str, output: Any, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "tool-result", "toolCallId": call_id, "toolName": name, "output": output, **more}


def step(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    counts = {"inputTokens": 5, "outputTokens": 2}
    return {"content": list(content), "finishReason": "stop", "usage": counts, "response": {"modelId": "m"}, **more}


def message(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


STEPS = [step(call("c1"), result("c1", {"n": 1})), step(text("done"))]
TALK = [
    {"role": "user", "content": "q"},
    message("assistant", text("so"), call("c1")),
    message("tool", result("c1", {"type": "json", "value": {"n": 1}})),
    {"role": "assistant", "content": "done"},
]


@pytest.mark.parametrize("name", LACKS)
def test_every_sample_tells_the_story(name: str) -> None:
    imported = import_trace(sample(f"{name}.json"))
    assert (imported.format, imported.left_out, imported.notes) == ("ai_sdk", (), ())
    (run,) = imported.runs
    check_story(run, LACKS[name])


@pytest.mark.parametrize("name", LACKS)
def test_a_sample_on_lines_is_the_same_run(name: str) -> None:
    imported = import_source(Source(as_lines(raw(name)), "trace.jsonl"))
    assert imported.format == "ai_sdk"
    assert imported.runs == import_trace(sample(f"{name}.json")).runs


def test_messages_of_the_last_step_alone_are_read_when_their_format_is_named() -> None:
    (run,) = import_trace(sample("vercel_ai_sdk_v7/generateText_response_messages.json"), "ai_sdk").runs
    assert (run.output, len(run.events)) == (ANSWER, 1)
    assert replayability(run).advice


class TestSteps:
    def test_a_result_is_its_steps_with_the_prompt_that_was_kept(self) -> None:
        asked = [{"role": "user", "content": "q"}]
        run = only({"text": "done", "steps": STEPS, "system": "be kind", "messages": asked})
        assert (run.input, run.output) == ("q", "done")
        assert run.llm_calls[0].arguments["system"] == "be kind"
        assert replayability(run).score == 1.0

    def test_a_prompt_may_be_a_text(self) -> None:
        assert only({"steps": STEPS, "prompt": "q"}).input == "q"

    def test_each_result_on_a_line_is_a_run(self) -> None:
        lines = as_lines([{"steps": STEPS, "prompt": "one"}, {"steps": STEPS, "prompt": "two"}])
        assert [run.input for run in import_source(Source(lines, "trace.jsonl")).runs] == ["one", "two"]

    def test_steps_of_another_call_are_another_run(self) -> None:
        found = [{**one, "callId": name} for name in ("a", "b") for one in STEPS]
        assert [(run.id, len(run.llm_calls)) for run in of(found).runs] == [("a", 2), ("b", 2)]

    def test_steps_that_are_counted_anew_are_another_run(self) -> None:
        found = [{**one, "stepNumber": number} for _run in "ab" for number, one in enumerate(STEPS)]
        assert len(of(found).runs) == 2

    def test_steps_of_version_4_are_read(self) -> None:
        asked = {"toolCallId": "c1", "toolName": "f", "args": {"a": 1}}
        counts = {"promptTokens": 5, "completionTokens": 2}
        old = {"finishReason": "tool-calls", "usage": counts, "text": "so", "toolCalls": [asked]}
        old |= {
            "toolResults": [{**asked, "result": {"n": 1}}],
            "request": {"body": '{"messages": [{"role": "user", "content": "q"}]}'},
        }
        run = only([old, {**old, "text": "done", "toolCalls": [], "toolResults": [], "request": {}}])
        assert (run.input, run.output) == ("q", "done")
        assert [(used.arguments, used.result) for used in run.tool_calls] == [({"a": 1}, {"n": 1})]
        assert run.llm_calls[0].usage == Usage(input_tokens=5, output_tokens=2)

    @pytest.mark.parametrize(
        "body",
        [
            {"system": "be kind", "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]},
            {"instructions": "be kind", "input": [{"role": "user", "content": [{"type": "input_text", "text": "q"}]}]},
            {
                "systemInstruction": {"parts": [{"text": "be kind"}]},
                "contents": [{"role": "user", "parts": [{"text": "q"}]}],
            },
        ],
        ids=["Anthropic", "OpenAI responses", "Gemini"],
    )
    def test_the_request_of_any_provider_has_the_prompt(self, body: dict[str, Any]) -> None:
        run = only([{**STEPS[0], "request": {"body": {**body, "temperature": 0}}}, STEPS[1]])
        assert run.input == "q"
        asked = run.llm_calls[0].arguments
        assert "be kind" in json.dumps(asked["system"])
        assert asked["parameters"] == {"temperature": 0}
        assert replayability(run).score == 1.0

    def test_anthropic_s_cached_tokens_are_counted_where_the_sdk_left_them_out(self) -> None:
        counts: dict[str, Any] = {"inputTokens": 5, "outputTokens": 1, "cachedInputTokens": 30}
        about = {"anthropic": {"cacheCreationInputTokens": 7}}
        (model,) = only([step(text("a"), usage=counts, providerMetadata=about)]).llm_calls
        assert model.usage is not None
        assert model.usage.input_tokens == 42
        counts["inputTokenDetails"] = {"noCacheTokens": 5}
        (model,) = only([step(text("a"), usage=counts, providerMetadata=about)]).llm_calls
        assert model.usage is not None
        assert model.usage.input_tokens == 5

    def test_an_error_that_json_hides_is_found_where_the_model_was_told_of_it(self) -> None:
        failed = {"type": "tool-error", "toolCallId": "c1", "toolName": "f", "error": {}}
        told = message("tool", result("c1", {"type": "error-text", "value": "TypeError: no"}))
        run = only([step(call("c1"), failed, response={"messages": [told]}), STEPS[1]])
        assert str(run.tool_calls[0].error) == "TypeError: no"

    def test_an_error_that_json_hides_for_good_is_said_to_be_hidden(self) -> None:
        failed = {"type": "tool-error", "toolCallId": "c1", "toolName": "f", "error": {}}
        run = only([step(call("c1"), failed), STEPS[1]])
        assert run.tool_calls[0].error is not None
        told = replayability(run)
        assert {one.seq: one.lacks for one in told.lacking}[1] == (Lack.HIDDEN,)
        assert any("error.message" in advice for advice in told.advice)

    def test_what_a_tool_reported_on_the_way_is_not_its_result(self) -> None:
        run = only([step(call("c1"), result("c1", "half", preliminary=True), result("c1", "whole")), STEPS[1]])
        assert [used.result for used in run.tool_calls] == ["whole"]

    def test_tools_of_the_provider_are_inside_of_the_model_s_call(self) -> None:
        own = call("w1", "web_search", providerExecuted=True)
        run = only([step(own, result("w1", ["page"], "web_search"), text("done"))])
        (search,) = [event for event in run.events if isinstance(event, ToolCall)]
        assert (search.parent, search.result) == (0, ["page"])

    def test_times_are_those_of_the_response_and_of_what_each_part_took(self) -> None:
        took = {"responseTimeMs": 2000, "toolExecutionMs": {"c1": 500}}
        at = {"modelId": "m", "timestamp": "2026-01-01T00:00:00Z"}
        run = only([step(call("c1"), result("c1", 1), response=at, performance=took)])
        model, used = run.events
        assert (model.duration_s, used.at - model.at, used.duration_s) == (2.0, 2.0, 0.5)

    def test_a_model_that_stopped_with_an_error_is_the_error_of_the_run(self) -> None:
        run = only([step(text("half"), finishReason="error")])
        assert run.status is RunStatus.ERROR

    def test_a_bad_step_is_told_with_its_line_and_the_others_are_read(self) -> None:
        lines = as_lines([STEPS[0]]) + b"{broken\n" + as_lines([{"finishReason": 7}, STEPS[1], STEPS[1]])
        imported = import_source(Source(lines, "trace.jsonl"))
        assert [problem.split(":")[1] for problem in imported.left_out] == ["2", "3"]
        assert len(imported.runs[0].llm_calls) == 3


def part(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


END = part("finish-step", finishReason="stop", usage={"inputTokens": 5}, response={"modelId": "m"})


class TestStreams:
    def test_texts_and_thoughts_are_put_together_by_their_ids(self) -> None:
        said = [("0", "Hel"), ("1", "wor"), ("0", "lo "), ("1", "ld")]
        parts = [part("text-delta", id=own, text=piece) for own, piece in said]
        run = only([part("start-step"), part("reasoning-delta", id="r", text="hm"), *parts, END, part("finish")])
        assert run.output == "Hello world"
        assert run.llm_calls[0].result["thinking"] == "hm"

    def test_parts_of_version_4_are_read(self) -> None:
        parts = [
            part("step-start", request={"body": '{"messages": [{"role": "user", "content": "q"}]}'}),
            part("tool-call", toolCallId="c1", toolName="f", args={"a": 1}),
            part("tool-result", toolCallId="c1", toolName="f", args={"a": 1}, result=7),
            part("step-finish", finishReason="tool-calls", usage={"promptTokens": 5, "completionTokens": 1}),
            part("step-start", request={}),
            part("text-delta", textDelta="do"),
            part("text-delta", textDelta="ne"),
            part("step-finish", finishReason="stop", usage={"promptTokens": 6, "completionTokens": 1}),
            part("finish", finishReason="stop", usage={"promptTokens": 11, "completionTokens": 2}),
        ]
        run = only(parts)
        assert (run.input, run.output, run.tool_calls[0].result) == ("q", "done", 7)
        assert [model.usage and model.usage.input_tokens for model in run.llm_calls] == [5, 6]

    def test_the_stream_to_a_browser_is_read_as_its_text(self) -> None:
        parts = [
            part("start", messageId="m1"),
            part("start-step"),
            part("tool-input-start", toolCallId="c1", toolName="f"),
            part("tool-input-available", toolCallId="c1", toolName="f", input={"a": 1}),
            part("tool-output-error", toolCallId="c1", errorText="too late"),
            part("finish-step"),
            part("start-step"),
            part("text-delta", id="0", delta="sorry"),
            part("finish-step"),
            part("finish"),
        ]
        stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in parts) + b"data: [DONE]\n\n"
        imported = import_source(Source(stream, "trace.sse"))
        assert (imported.format, imported.left_out) == ("ai_sdk", ())
        (run,) = imported.runs
        assert (run.output, str(run.tool_calls[0].error)) == ("sorry", "ToolError: too late")

    def test_a_stream_that_was_cut_is_not_complete(self) -> None:
        pieces = [part("tool-input-delta", id="c1", delta=piece) for piece in ('{"a"', ": 1}")]
        run = only([part("start-step"), part("tool-input-start", id="c1", toolName="f"), *pieces])
        assert run.status is RunStatus.ERROR
        assert run.llm_calls[0].complete is False
        assert [(used.name, used.arguments) for used in run.tool_calls] == [("f", {"a": 1})]

    def test_an_error_of_the_stream_is_the_error_of_the_run(self) -> None:
        run = only([part("start-step"), part("error", error={"name": "APICallError", "message": "busy"}), END])
        assert (run.status, str(run.error)) == (RunStatus.ERROR, "APICallError: busy")

    def test_a_stream_that_somebody_stopped_was_cancelled(self) -> None:
        run = only([part("start-step"), part("text-delta", id="0", text="ha"), part("abort")])
        assert run.status is RunStatus.CANCELLED

    def test_each_stream_of_a_file_is_a_run(self) -> None:
        one = [part("start"), part("start-step"), part("text-delta", id="0", text="a"), END, part("finish")]
        assert len(of([*one, *one]).runs) == 2


class TestMessages:
    def test_a_conversation_with_its_prompt_can_be_replayed(self) -> None:
        run = only(TALK)
        assert (run.input, run.output, run.tool_calls[0].result) == ("q", "done", {"n": 1})
        assert replayability(run).score == 1.0

    def test_a_list_on_each_line_is_a_run_each(self) -> None:
        assert len(import_source(Source(as_lines([TALK, TALK[:3]]), "trace.jsonl")).runs) == 2

    @pytest.mark.parametrize(
        ("output", "error"),
        [
            ({"type": "error-text", "value": "Error: no"}, "Error: no"),
            ({"type": "error-json", "value": {"name": "RangeError", "message": "no"}}, "RangeError: no"),
            ({"type": "execution-denied", "reason": "not now"}, "ToolError: not now"),
            ({"type": "execution-denied"}, "ToolError: execution-denied"),
        ],
    )
    def test_an_output_that_is_an_error_is_one(self, output: dict[str, Any], error: str) -> None:
        run = only([*TALK[:2], message("tool", result("c1", output)), TALK[3]])
        assert str(run.tool_calls[0].error) == error

    @pytest.mark.parametrize(
        "output", [{"type": "text", "value": "TypeError: in a log"}, {"type": "other", "value": 1}]
    )
    def test_an_output_that_is_none_is_a_result(self, output: dict[str, Any]) -> None:
        run = only([*TALK[:2], message("tool", result("c1", output)), TALK[3]])
        assert run.tool_calls[0].result == (output["value"] if output["type"] == "text" else output)

    def test_messages_of_version_4_are_read(self) -> None:
        asked = {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "args": {"a": 1}}
        back = {"type": "tool-result", "toolCallId": "c1", "toolName": "f", "result": "no", "isError": True}
        run = only([TALK[0], message("assistant", asked), message("tool", back), TALK[3]])
        assert run.tool_calls[0].arguments == {"a": 1}
        assert str(run.tool_calls[0].error) == "ToolError: no"

    def test_a_bad_message_is_told_with_its_line_and_the_others_are_read(self) -> None:
        lines = as_lines(TALK[:2]) + b"{broken\n" + as_lines([{"role": "nobody"}, *TALK[2:]])
        imported = import_source(Source(lines, "trace.jsonl"))
        assert [problem.split(":")[1] for problem in imported.left_out] == ["3", "4"]
        assert imported.runs == (only(TALK),)


def ui(role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": f"{role}-1", "role": role, "parts": list(parts), **more}


class TestUiMessages:
    def test_one_message_is_as_many_answers_as_it_has_steps(self) -> None:
        used = {
            "type": "tool-f",
            "toolCallId": "c1",
            "state": "output-available",
            "input": {"a": 1},
            "output": {"n": 1},
        }
        begins = part("step-start")
        run = only([ui("user", text("q")), ui("assistant", begins, text("so"), used, begins, text("done"))])
        assert (run.input, run.output, len(run.llm_calls)) == ("q", "done", 2)
        assert [(c.name, c.arguments, c.result) for c in run.tool_calls] == [("f", {"a": 1}, {"n": 1})]
        assert replayability(run).score == 1.0

    def test_words_after_a_result_are_another_answer_where_no_step_is_marked(self) -> None:
        used = {"type": "dynamic-tool", "toolName": "f", "toolCallId": "c1", "state": "output-error", "errorText": "no"}
        run = only([ui("user", text("q")), ui("assistant", used, text("done"))])
        assert (len(run.llm_calls), str(run.tool_calls[0].error)) == (2, "ToolError: no")

    def test_a_call_that_waits_for_its_result_has_none(self) -> None:
        used = {"type": "tool-f", "toolCallId": "c1", "state": "input-available", "input": {"a": 1}}
        run = only([ui("user", text("q")), ui("assistant", used)])
        assert not run.tool_calls[0].answered

    def test_messages_of_version_4_are_read(self) -> None:
        used = {"state": "result", "toolCallId": "c1", "toolName": "f", "args": {"a": 1}, "result": 7}
        old = {"id": "2", "role": "assistant", "content": "done", "toolInvocations": [used]}
        run = only([{"id": "1", "role": "user", "content": "q"}, old])
        assert (run.input, run.output, run.tool_calls[0].result) == ("q", "done", 7)

    def test_parts_of_version_4_are_read(self) -> None:
        used = {"state": "result", "toolCallId": "c1", "toolName": "f", "args": {"a": 1}, "result": 7}
        parts = [part("step-start"), part("tool-invocation", toolInvocation=used), part("step-start"), text("done")]
        run = only(
            [ui("user", text("q"), content="q"), ui("assistant", *parts, content="done", toolInvocations=[used])]
        )
        assert (len(run.llm_calls), len(run.tool_calls), run.output) == (2, 1, "done")

    def test_a_file_that_the_user_sent_is_kept(self) -> None:
        file = part("file", mediaType="image/png", url="data:…")
        run = only([ui("user", text("what is this?"), file), ui("assistant", part("step-start"), text("a cat"))])
        assert run.input == [text("what is this?"), file]


def test_another_file_is_told_apart_with_words() -> None:
    with pytest.raises(InvalidFile, match=r"trace\.json: expected messages, steps or parts"):
        of([{"type": "human", "content": "hi"}], "ai_sdk")


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]}],
        [{"role": "user", "parts": [{"text": "q"}]}],
        [{"type": "text", "text": "q"}],
        [],
        {},
    ],
)
def test_what_others_write_is_left_to_them(value: Any) -> None:
    assert not IMPORTERS.get("ai_sdk").recognises(Source(json.dumps(value).encode(), "f"))


STREAM = [
    part("start-step", request={"body": {"messages": TALK[:1]}}),
    call("c1"),
    result("c1", 1),
    END,
    part("finish"),
]
CHAT = [ui("user", text("q")), ui("assistant", {"type": "tool-f", "toolCallId": "c1", "state": "output-available"})]


@settings(max_examples=examples(60))
@given(document=st.sampled_from([STEPS, TALK, STREAM, CHAT, {"steps": STEPS}]).flatmap(damaged), on_lines=st.booleans())
def test_damage_is_told_in_words(document: Any, on_lines: bool) -> None:
    lines = on_lines and isinstance(document, list)
    read_without_a_traceback("ai_sdk", as_lines(document) if lines else json.dumps(document).encode())


@settings(max_examples=examples(30))
@given(content=truncated(unpacked(sample("vercel_ai_sdk_v7/generateText_steps.json"))))
def test_a_file_that_was_cut_is_told_in_words(content: bytes) -> None:
    assert read_without_a_traceback("ai_sdk", content) == []
