"""Sessions of Anthropic's managed agents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.samples import sample, unpacked

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import Note
from replaykit.model.run import RunStatus

SAMPLES = [f"langsmith/sdk_test_data/anthropic_managed_{name}_tools.jsonl" for name in ("builtin", "custom", "mcp")]


def events_of(name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in unpacked(sample(name)).decode().split("\n") if line.strip()]
    return [payload for _call, payload in lines if isinstance(payload, dict)]


def told(events: list[Any]) -> Imported:
    return import_source(Source(b"\n".join(json.dumps(event).encode() for event in events), "events.jsonl"))


@pytest.mark.parametrize("name", SAMPLES)
def test_calls_results_and_tokens_are_those_that_the_file_counts(name):
    events = events_of(name)
    got = import_trace(sample(name))

    assert (got.format, got.remarks) == ("anthropic_sessions", ())
    (run,) = got.runs
    assert (run.id, run.agent) == (events[0]["id"], events[0]["agent"]["name"])
    used = [event["model_usage"] for event in events if event["type"] == "span.model_request_end"]
    assert [call.usage and call.usage.input_tokens for call in run.llm_calls] == [
        usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
        for usage in used
    ]
    assert [(call.name, call.arguments) for call in run.tool_calls] == [
        (event["name"], event["input"]) for event in events if event["type"].endswith("tool_use")
    ]
    results = [event["content"][0]["text"] for event in events if event["type"].endswith("tool_result")]
    assert [call.result.split("\n")[0] for call in run.tool_calls] == [text.split("\n")[0] for text in results]
    assert (run.status, replayability(run).score) == (RunStatus.SUCCESS, 1.0)
    assert run.output == next(event["content"][0]["text"] for event in events if event["type"] == "agent.message")
    assert run.llm_calls[0].name == events[0]["agent"]["model"]["id"]
    assert run.llm_calls[0].arguments["system"] == events[0]["agent"]["system"]
    times = [event.at for event in run.events]
    assert times == sorted(times)
    assert all(times)


def test_events_alone_and_in_lists_are_the_same_run_without_its_head():
    events = events_of(SAMPLES[0])[1:]
    on_lines = told(events)
    listed = import_source(Source(json.dumps({"data": events}).encode(), "events.json"))
    plain = import_source(Source(json.dumps(events).encode(), "events.json"))

    assert on_lines.runs == listed.runs == plain.runs
    assert on_lines.runs[0].id.startswith("anthropic_sessions-")
    assert len(on_lines.runs[0].tool_calls) == 1


def test_several_sessions_confirmations_and_errors():
    first, second = events_of(SAMPLES[0]), events_of(SAMPLES[2])
    wrong = {"type": "session.error", "id": "sevt_x", "error": {"type": "overloaded", "message": "later"}}
    got = told([*first, wrong, *second])

    assert [run.status for run in got.runs] == [RunStatus.ERROR, RunStatus.SUCCESS]
    assert got.runs[0].error is not None
    assert str(got.runs[0].error) == "overloaded: later"
    assert [event.name for event in got.runs[1].events if isinstance(event, Note)] == ["user.tool_confirmation"]


def test_a_session_that_waits_for_a_result_did_not_end():
    events = events_of(SAMPLES[1])
    cut = next(index for index, event in enumerate(events) if event["type"] == "user.custom_tool_result")
    (run,) = told(events[:cut]).runs

    assert run.status is RunStatus.ERROR
    assert not run.tool_calls[0].answered


def test_what_is_wrong_is_left_out_with_its_line():
    events: list[Any] = events_of(SAMPLES[0])
    got = told([*events, {"type": "agent.message", "id": "x", "content": 5}, {"type": 7}, 5])

    assert len(got.runs) == 1
    assert [problem.split(": ")[0] for problem in got.left_out] == [
        f"events.jsonl:{len(events) + number}" for number in (1, 2, 3)
    ]

    with pytest.raises(InvalidFile):
        import_source(Source(b"[1]", "x.json"), "anthropic_sessions")
