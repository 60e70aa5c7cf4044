"""One story, told by the real SDKs of those who trace agents: it comes out as the same run, in each encoding."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.formats.samples import sample, unpacked
from tests.formats.story import check_story

from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.run import RunStatus, TraceRun

TYPE = "type of the error"
WITHOUT_TYPE = (TYPE,)  # the SDK retries by raising another, the language has no such class, or the level alone says it
STORIES: dict[str, tuple[str, ...]] = {
    "openinference/langgraph_agent": (),
    "openinference/openai_chat_agent": (),
    "openinference/openai_chat_stream": (),
    "openllmetry/openai_workflow": (),
    "langfuse/sdk_otel_spans": WITHOUT_TYPE,
    "pydantic_ai/instrument_v2": WITHOUT_TYPE,
    "pydantic_ai/instrument_v3": WITHOUT_TYPE,
    "pydantic_ai/instrument_v4": WITHOUT_TYPE,
    "pydantic_ai/instrument_v5": WITHOUT_TYPE,
    "vercel_ai_sdk/generateText": WITHOUT_TYPE,
    "vercel_ai_sdk/streamText": WITHOUT_TYPE,
    "vercel_ai_sdk_v7/generateText": WITHOUT_TYPE,
    "vercel_ai_sdk_v7/streamText": WITHOUT_TYPE,
}
"""Each with what it cannot carry."""
PRINTED = [name for name in STORIES if not name.startswith("vercel")]
TOLD_TWICE = ("otel_genai/openai_v2_semconv_latest", "otel_genai/openai_v2_legacy_events")
WITHOUT_CONTENT = ("input", "output", "answers", "call ids", "messages", "system", "replayable")


def imported(name: str, format: str = "otlp") -> list[TraceRun]:
    found = import_trace(sample(name))
    assert found.format == format
    assert found.left_out == ()
    return list(found.runs)


def once(run: TraceRun) -> TraceRun:
    """The run up to where the story is told again: with the answers whole, and then streamed."""
    return msgspec.structs.replace(run, events=run.events[: run.llm_calls[3].seq])


def with_logs(name: str) -> list[TraceRun]:
    requests = [json.loads(unpacked(sample(f"{name}.{kind}.json"))) for kind in ("otlp", "otlp_logs")]
    text = b"\n".join(json.dumps(request).encode() for request in requests)
    return list(import_source(Source(text, "both.jsonl")).runs)


@pytest.mark.parametrize("encoding", ["json", "pb"])
@pytest.mark.parametrize("name", STORIES)
def test_the_story_is_told_alike_by_all(name: str, encoding: str) -> None:
    run = imported(f"{name}.otlp.{encoding}")[0]

    check_story(run, STORIES[name])
    assert (run.origin.kind, run.origin.format) == ("imported", "otlp")


@pytest.mark.parametrize("name", PRINTED)
def test_what_the_sdk_prints_tells_the_same_story(name: str) -> None:
    printed = imported(f"{name}.sdk_to_json.json", "otel_spans")[0]

    check_story(printed, STORIES[name])
    (sent, *_) = imported(f"{name}.otlp.json")
    assert [(type(event), event.parent, event.step) for event in printed.events] == [
        (type(event), event.parent, event.step) for event in sent.events
    ]
    assert [call.arguments_json for call in printed.calls] == [call.arguments_json for call in sent.calls]
    assert [call.result_json for call in printed.calls] == [call.result_json for call in sent.calls]


def test_the_latest_conventions_hold_messages_in_attributes() -> None:
    for run in (imported(f"{TOLD_TWICE[0]}.otlp.{encoding}")[0] for encoding in ("json", "pb")):
        check_story(once(run))


@pytest.mark.parametrize("name", TOLD_TWICE)
def test_log_records_beside_the_spans_hold_what_they_do_not(name: str) -> None:
    check_story(once(with_logs(name)[0]))


def test_without_its_log_records_a_trace_says_what_it_lacks_and_what_would_help() -> None:
    found = import_trace(sample(f"{TOLD_TWICE[1]}.otlp.json"))

    check_story(once(found.runs[0]), WITHOUT_CONTENT)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true" in found.notes[0]


@pytest.mark.parametrize("encoding", ["otlp.json", "otlp.pb", "sdk_to_json.json"])
@pytest.mark.parametrize("name", ["openinference/langgraph_agent_tool_error", "pydantic_ai/errors_v2"])
def test_a_tool_that_ends_the_agent_ends_the_run(name: str, encoding: str) -> None:
    run = imported(f"{name}.{encoding}", "otel_spans" if encoding.startswith("sdk") else "otlp")[0]

    assert run.status is RunStatus.TIMEOUT
    assert str(run.error) == "TimeoutError: payment gateway timed out after 30s"
    assert run.error is not None
    assert (run.error.traceback or "").startswith("Traceback")
    assert str(run.tool_calls[-1].error) == str(run.error)
    assert run.output is None


@pytest.mark.parametrize("name", ["vercel_ai_sdk/error", "vercel_ai_sdk_v7/error"])
def test_a_model_that_refuses_ends_the_run(name: str) -> None:
    (run,) = imported(f"{name}.otlp.json")

    assert run.status is RunStatus.ERROR
    assert str(run.llm_calls[0].error) == "AI_APICallError: Rate limit reached for requests"
    assert not run.llm_calls[0].result_json


def test_a_call_of_a_model_that_is_a_trace_by_itself_is_a_run() -> None:
    answered, refused = imported("openinference/openai_responses_and_error.otlp.json")

    assert [use["name"] for use in answered.llm_calls[0].result["tool_calls"]] == ["get_order", "get_user"]
    assert answered.llm_calls[0].result["thinking"] == "Need order and user first."
    assert str(refused.error) == "RateLimitError: Error code: 429 - Rate limit reached for requests"
    assert refused.error is not None
    assert refused.error.module == "openai"


def test_a_call_that_two_libraries_trace_apart_is_a_run_of_each_with_what_it_says() -> None:
    """The SDK of the provider makes spans of its own, in traces of their own and without messages."""
    runs = imported("openllmetry/stream_error_anthropic_responses.otlp.json")

    silent = [run for run in runs if not run.llm_calls[0].arguments["messages"]]
    assert len(runs) == 5
    assert [run.metadata["scopes"] for run in silent] == [["com.anthropic.sdk.python"]]


def test_steps_of_a_loop_are_those_that_the_trace_marks() -> None:
    assert [event.step for event in imported("vercel_ai_sdk_v7/generateText.otlp.json")[0].events] == [
        *("step_1", "step_1", "step_1", "step_2", "step_2", "step_3")
    ]
    graph = [event.step for event in imported("openinference/langgraph_agent.otlp.json")[0].events]
    assert graph == ["step_1", "step_2", "step_2", "step_3", "step_4", "step_5"]


def test_a_run_says_where_it_came_from() -> None:
    run = imported(f"{TOLD_TWICE[0]}.otlp.json")[0]

    assert run.agent == "support"
    assert run.id == run.metadata["trace_id"]
    assert run.metadata["service"] == "otel-agent"
    assert run.metadata["conversation"] == "conv_1"
    assert run.metadata["dialects"] == ["genai"]


def test_what_a_model_cost_is_kept() -> None:
    costs = [call.usage.cost_usd for call in imported("pydantic_ai/instrument_v5.otlp.json")[0].llm_calls if call.usage]
    assert costs == [3.18e-05, 3.78e-05, 4.38e-05]
