"""Langfuse: exports of traces and observations."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.examples import langfuse_trace as story
from tests.formats.samples import corpora_below, corpus, unpacked
from tests.formats.story import check_story
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.files import find_runs, import_source, import_trace
from replaykit.model.events import Note, Usage
from replaykit.model.run import RunStatus, TraceRun

TRACES = [name for name in corpora_below("langfuse") if name.endswith(".trace.json")]


def document(name: str) -> Any:
    return json.loads(unpacked(corpus(name)))


def framework(name: str) -> Any:
    return document(next(trace for trace in TRACES if name in trace))


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def only(value: Any) -> TraceRun:
    (run,) = of(value).runs
    return run


def observation(
    own_id: str, kind: str = "SPAN", above: str | None = None, *, at: int = 0, **more: Any
) -> dict[str, Any]:
    return {
        "id": own_id,
        "traceId": "t1",
        "type": kind,
        "name": own_id,
        "parentObservationId": above,
        "startTime": f"2026-01-01T00:00:{at:02}.000Z",
        "endTime": f"2026-01-01T00:00:{at + 1:02}.000Z",
        "level": "DEFAULT",
        **more,
    }


def trace(*observations: Any, **more: Any) -> dict[str, Any]:
    about = {"id": "t1", "timestamp": "2026-01-01T00:00:00Z", "htmlPath": "/t1", "observations": list(observations)}
    return {**about, **more}


def test_the_story() -> None:
    found = of(story())

    assert (found.format, found.left_out, found.notes) == ("langfuse", (), ())
    (run,) = found.runs
    check_story(run, {"type of the error"})
    assert (run.id, run.name, run.agent) == (story()["id"], "support-agent", "support-agent")
    assert run.metadata["conversation"] == "s1"
    assert run.llm_calls[0].arguments["parameters"] == {
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "service_tier": "default",
        "temperature": 0,
        "top_p": 1,
    }


def _flat(told: dict[str, Any]) -> bytes:
    return as_lines(told["observations"])


def _snake(told: dict[str, Any]) -> bytes:
    def named(value: dict[str, Any]) -> dict[str, Any]:
        return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): item for name, item in value.items()}

    return json.dumps({**named(told), "observations": [named(one) for one in told["observations"]]}).encode()


@pytest.mark.parametrize(
    "form",
    [
        _flat,
        _snake,
        lambda told: as_lines([told]),
        lambda told: json.dumps({"data": told["observations"], "meta": {"page": 1}}).encode(),
        lambda told: json.dumps(told["observations"][::-1]).encode(),
        lambda told: json.dumps({"data": [told]}).encode(),
        lambda told: json.dumps({"trace": {**told, "observations": []}, "observations": told["observations"]}).encode(),
        lambda told: as_lines([{**told, "observations": [o["id"] for o in told["observations"]]}]) + _flat(told),
    ],
    ids=["lines", "snake", "trace-a-line", "page", "list", "page-of-traces", "download", "trace-and-observations"],
)
def test_the_story_in_every_form(form: Callable[[dict[str, Any]], bytes]) -> None:
    found = import_source(Source(form(story()), "traces.json"))

    assert (found.format, found.left_out, found.notes) == ("langfuse", (), ())
    (run,) = found.runs
    check_story(run, {"type of the error"})
    assert run.events == only(story()).events


@pytest.mark.parametrize("name", TRACES)
def test_the_corpus_counts_what_its_files_count(name: str) -> None:
    told = document(name)
    calls = [o for o in told["observations"] if o["type"] == "GENERATION" and o["name"] != "ai.generateText"]
    tools = [o for o in told["observations"] if o["type"] == "TOOL" or o["name"] == "Web-Search"]
    bad = {"correctness": lambda value: value == 0, "hallucination": lambda v: v >= 0.5, "toxicity": lambda v: v >= 0.5}
    scores = told["trace"].get("scores") or []

    found = import_trace(corpus(name))

    assert (found.format, found.left_out, found.notes) == ("langfuse", (), ())
    (run,) = found.runs
    assert (run.id, run.name) == (told["trace"]["id"], told["trace"]["name"])
    assert len(run.llm_calls) == len(calls)
    assert sum(call.usage.input_tokens or 0 for call in run.llm_calls if call.usage) == sum(
        o["usageDetails"]["input"] for o in calls
    )
    assert sum(call.usage.output_tokens or 0 for call in run.llm_calls if call.usage) == sum(
        o["usageDetails"]["output"] for o in calls
    )
    assert sum(call.usage.cost_usd or 0 for call in run.llm_calls if call.usage) == pytest.approx(
        sum(o["totalCost"] for o in calls)
    )
    assert len(run.tool_calls) == len(tools)
    assert all(call.answered and call.error is None for call in run.tool_calls)
    assert (run.status is RunStatus.ERROR) == any(bad[score["name"]](score["value"]) for score in scores)
    assert len(labels_of(run)) == len(scores) + len(told["trace"].get("corrections") or [])
    assert all(call.result for call in run.llm_calls)


@pytest.mark.parametrize("name", [name for name in corpora_below("langfuse") if name.endswith(".chatml.json")])
def test_what_langfuse_shows_of_a_trace_is_no_trace(name: str) -> None:
    (said,) = find_runs(read_source(corpus(name)))

    assert isinstance(said, str)
    assert said == "it is what Langfuse shows of a trace's messages, and no trace: import the trace itself"
    with pytest.raises(InvalidFile, match="the file holds no run"):
        import_trace(corpus(name))


def test_langgraph_through_langfuse() -> None:
    run = only(framework("langgraph"))

    assert run.input == "Search the web for 'example' and summarize."
    assert run.output.startswith('The search for "example"')
    assert [event.step for event in run.events] == ["step_1", "step_2", "step_3"]
    first, search, last = run.events
    assert [tool["function"]["name"] for tool in first.arguments["tools"]] == ["Web-Search"]
    assert [message["role"] for message in first.arguments["messages"]] == ["user", "user"]
    assert (search.name, search.arguments) == ("Web-Search", {"query": "example"})
    assert search.result == [{"url": "https://example.com", "title": "Example Result", "q": "example"}]
    assert [message["role"] for message in last.arguments["messages"]] == ["user", "user", "assistant", "tool"]


def test_googles_adk_through_langfuse() -> None:
    run = only(framework("google-adk"))

    assert (run.input, run.output) == ("hi", "Hello Langfuse 👋!\n")
    first, tool, last = run.events
    assert first.arguments["system"].startswith("Always greet")
    assert first.result["tool_calls"] == [{"id": "", "name": "say_hello", "arguments": {}}]
    assert (tool.name, tool.result, tool.parent) == ("say_hello", {"greeting": "Hello Langfuse 👋"}, None)
    assert last.arguments["messages"][2]["content"] == {"greeting": "Hello Langfuse 👋"}
    assert last.finish_reason == "STOP"


def test_the_ai_sdk_through_langfuse_counts_a_call_once() -> None:
    run = only(framework("vercel"))

    (call,) = run.llm_calls
    assert (call.name, call.finish_reason) == ("gpt-5", "tool-calls")
    assert call.usage == Usage(input_tokens=62, output_tokens=85, cost_usd=0.000927499999)
    assert call.arguments["tools"][0]["name"] == "getWeather"
    (tool,) = run.tool_calls
    assert (tool.name, tool.arguments) == ("getWeather", {"location": "San Francisco"})
    assert run.input == "What is the weather like today in San Francisco?"


def test_openai_agents_through_langfuse() -> None:
    run = only(framework("openai-agents"))

    first, tool, last = run.events
    assert first.arguments["system"] == "You are a helpful agent."
    assert first.arguments["tools"][0]["name"] == "get_weather"
    assert (tool.arguments, tool.result) == ({"city": "Tokyo"}, "The weather in Tokyo is sunny.")
    assert [message["role"] for message in last.arguments["messages"]] == ["user", "assistant", "tool"]
    assert run.output.startswith("The weather in Tokyo is currently sunny.")


def test_a_models_input_that_was_lost_on_the_way_is_told() -> None:
    run = only(framework("claude-agent"))

    told = replayability(run)
    assert [one.lacks for one in told.lacking] == [(Lack.MESSAGES,)] * 3
    assert "the instrumentation lost them" in told.advice[0]
    assert [call.arguments for call in run.tool_calls] == [{"city": "Berlin"}, {"city": "New York"}]
    assert run.error is not None
    assert run.error.type == "Judged"
    assert run.error.message.startswith("correctness is 0: The generation does not")


def test_other_frameworks_through_langfuse() -> None:
    assert only(framework("pydantic-ai")).llm_calls[0].result["content"].startswith("Langfuse is a tool")
    assert [m["role"] for m in only(framework("crewai")).llm_calls[0].arguments["messages"]] == ["system", "user"]
    assert only(framework("autogen")).llm_calls[0].result["content"] == "Hello World!"


def test_an_observation_of_level_error_is_an_error() -> None:
    run = only(
        trace(
            observation("agent", "AGENT", level="ERROR", statusMessage="TimeoutError: late", input={"q": "Hi"}),
            observation("find", "TOOL", "agent", at=1, level="ERROR", statusMessage="no such order", input={"id": 1}),
            observation("odd", "SPAN", "agent", at=2, level="WARNING", statusMessage="slow"),
        )
    )

    assert run.status is RunStatus.TIMEOUT
    assert str(run.error) == "TimeoutError: late"
    (tool,) = run.tool_calls
    assert str(tool.error) == "Error: no such order"
    assert run.metadata["warnings"] == ["odd: slow"]


@pytest.mark.parametrize(
    ("score", "value", "failed"),
    [
        ({"name": "correctness", "value": 0, "dataType": "NUMERIC"}, 0, True),
        ({"name": "correctness", "value": 0.4, "dataType": "NUMERIC"}, 0.4, False),
        ({"name": "ok", "value": 0, "dataType": "BOOLEAN"}, False, True),
        ({"name": "ok", "value": 1, "dataType": "BOOLEAN", "stringValue": "True"}, True, False),
        ({"name": "verdict", "value": 0, "dataType": "CATEGORICAL", "stringValue": "incorrect"}, "incorrect", True),
        ({"name": "verdict", "data_type": "CATEGORICAL", "string_value": "fine"}, "fine", False),
        ({"name": "hallucination", "value": 0, "dataType": "NUMERIC"}, 0, False),
        ({"name": "latency", "value": 0, "dataType": "NUMERIC"}, 0, False),
    ],
)
def test_scores_are_labels(score: dict[str, Any], value: Any, failed: bool) -> None:
    run = only(trace(observation("a", "AGENT", output="x"), scores=[{"id": "s", "comment": "Because.", **score}]))

    (label,) = labels_of(run)
    assert (label.name, label.value, label.failed, label.why) == (score["name"], value, failed, "Because.")
    assert (run.status is RunStatus.ERROR) == failed


def test_a_correction_that_differs_from_the_output_is_a_failure() -> None:
    correction = {"id": "c", "name": "output", "dataType": "CORRECTION", "longStringValue": "right"}
    told = trace(observation("a", "AGENT"), corrections=[correction], output="wrong")

    assert str(only(told).error) == 'Judged: correction is "right"'
    assert only(told | {"output": "right"}).error is None


def test_a_score_that_is_told_twice_counts_once() -> None:
    score = {"id": "s", "name": "x", "value": 1}
    told = {"trace": {"id": "t1", "scores": [score]}, "scores": [score], "observations": [observation("a", "AGENT")]}

    assert len(labels_of(only(told))) == 1


def test_observations_without_their_input_and_output_say_which_fields_to_ask_for() -> None:
    bare = [
        observation("agent", "AGENT", traceName="mine", sessionId="s", tags=["x"], environment="prod"),
        observation("gpt", "GENERATION", "agent", at=1),
        observation("find", "TOOL", "agent", at=2),
    ]

    run = only({"data": bare, "meta": {"cursor": None}})

    told = replayability(run)
    assert {one.name: set(one.lacks) for one in told.lacking} == {
        "gpt": {Lack.MESSAGES, Lack.RESULT},
        "find": {Lack.ARGUMENTS, Lack.RESULT},
    }
    assert "fields=core,basic,time,io,metadata,model,usage" in told.advice[0]
    assert (run.name, run.tags) == ("mine", ("x",))
    assert (run.metadata["conversation"], run.metadata["environment"]) == ("s", "prod")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input": 5, "output": 2, "total": 7}, (5, 2)),
        ({"input": 56, "input_cached_tokens": 64, "output": 31, "total": 151}, (120, 31)),
        ({"input": 56, "input_cache_read": 64, "output": 20, "output_reasoning": 11, "total": 151}, (120, 31)),
        ({"input": 4, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 6, "output": 3}, (100, 3)),
        ({"input": 190, "prompt_details.cache_read": 40, "output": 164, "total": 354}, (190, 164)),
    ],
)
def test_input_tokens_count_what_was_cached_once(usage: dict[str, int], expected: tuple[int, int]) -> None:
    run = only(trace(observation("g", "GENERATION", model="m", input="q", output="a", usageDetails=usage)))

    assert run.llm_calls[0].usage == Usage(input_tokens=expected[0], output_tokens=expected[1])


def test_older_observations_count_under_usage() -> None:
    told = observation("g", "GENERATION", usage={"input": 3, "output": 1, "unit": "TOKENS"}, calculatedTotalCost=0.5)

    assert only(trace(told)).llm_calls[0].usage == Usage(input_tokens=3, output_tokens=1, cost_usd=0.5)


def test_a_cost_of_nothing_is_one_that_langfuse_does_not_know() -> None:
    told = observation("g", "GENERATION", usageDetails={"input": 3, "output": 1}, totalCost=0, costDetails={"total": 0})

    assert only(trace(told)).llm_calls[0].usage == Usage(input_tokens=3, output_tokens=1)


def test_arguments_that_a_tools_observation_lacks_are_those_the_model_asked_for() -> None:
    asked = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}]}
    run = only(
        trace(
            observation("g", "GENERATION", input="q", output=asked),
            observation("f", "TOOL", at=2, output="r"),
        )
    )

    assert run.tool_calls[0].arguments == {"a": 1}
    assert replayability(run).score == 1.0


def test_events_and_judges_are_notes_and_prompts_are_kept() -> None:
    run = only(
        trace(
            observation("g", "GENERATION", input="q", output="a", promptName="greet", promptVersion=3),
            observation("clicked", "EVENT", at=1, endTime=None, input={"x": 1}),
            observation("judge", "EVALUATOR", at=2),
        )
    )

    assert [event.name for event in run.events if isinstance(event, Note)] == ["clicked", "judge"]
    assert run.metadata["prompts"] == ["greet v3"]


def test_several_traces_in_one_file() -> None:
    lines = [
        observation("a1", "AGENT", output="one"),
        observation("b1", "AGENT", output="two") | {"traceId": "t2"},
        observation("a2", "TOOL", "a1", at=1, input={}, output=1),
    ]

    found = import_source(Source(as_lines(lines), "observations.jsonl"))

    assert [(run.id, run.output, len(run.tool_calls)) for run in found.runs] == [("t1", "one", 1), ("t2", "two", 0)]


def test_what_is_wrong_is_told_with_its_line_and_the_rest_is_read() -> None:
    lines = as_lines([observation("a", "AGENT"), observation("b", "TOOL", "a", startTime=[1])]) + b"{nonsense\n{}\n"

    found = import_source(Source(lines, "o.jsonl"))

    assert len(found.runs) == 1
    assert sorted(found.left_out) == [
        "o.jsonl:2: startTime: expected an ISO time or epoch seconds, got a list",
        "o.jsonl:3: not JSON: unexpected character, expected a string key",
        "o.jsonl:4: neither a trace nor an observation of Langfuse",
    ]


@pytest.mark.parametrize("value", [{}, {"a": {}}, {"a": 1}, {"a": {"input": {"data": []}}}, {"messages": []}])
def test_other_objects_are_not_of_langfuse(value: Any) -> None:
    with pytest.raises(InvalidFile, match="neither a trace nor an observation of Langfuse"):
        of(value, "langfuse")


def test_a_trace_without_its_observations_says_how_to_get_them() -> None:
    with pytest.raises(InvalidFile, match=r"trace t1: its observations are not in the file.*traces/\{id\}"):
        of(trace("o1", "o2"))
    with pytest.raises(InvalidFile, match="an observation of trace t2 inside of trace t1"):
        of(trace(observation("a", "AGENT") | {"traceId": "t2"}))


def test_a_parent_that_is_not_there_is_told() -> None:
    found = of(trace(observation("g", "GENERATION", "gone", input="q", output="a")))

    assert found.notes == ("trace t1: 1 of its spans are named by others and are not there",)


@given(damaged(story()))
@settings(max_examples=examples(60), deadline=None)
def test_damage_never_ends_in_a_traceback(told: Any) -> None:
    read_without_a_traceback("langfuse", json.dumps(told).encode())


@given(damaged(framework("google-adk")))
@settings(max_examples=examples(30), deadline=None)
def test_damage_to_a_real_trace_never_ends_in_a_traceback(told: Any) -> None:
    read_without_a_traceback("langfuse", json.dumps(told).encode())


@given(truncated(_flat(story())))
@settings(max_examples=examples(30), deadline=None)
def test_truncated_lines_give_what_is_whole(content: bytes) -> None:
    read_without_a_traceback("langfuse", content)
