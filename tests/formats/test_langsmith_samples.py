"""The story as LangSmith keeps it, and its runs on lines of their own."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.formats.samples import sample, unpacked
from tests.formats.story import QUESTION, check_story

from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.run import RunStatus, TraceRun

# Its tools are called by one function of the agent, which the trace shows: name and arguments are that function's.
BY_ONE_FUNCTION = ("input", "tools", "results")
STORIES = ("merged_runs_1_support_agent", "merged_runs_2_support_agent_stream")
ENDED = ("status", "input", "output", "models", "answers", "messages", "tokens")  # the tool's error ends the agent


def merged(name: str) -> list[dict[str, Any]]:
    value = json.loads(unpacked(sample(f"langsmith/{name}.json")))
    found: list[dict[str, Any]] = value["runs"] if isinstance(value, dict) else value
    return found


@pytest.mark.parametrize("name", STORIES)
def test_the_story_is_told_with_the_calls_that_the_agent_made(name: str) -> None:
    found = import_trace(sample(f"langsmith/{name}.json"))

    assert found.remarks == ()
    (run,) = found.runs
    check_story(run, BY_ONE_FUNCTION)
    assert run.input == {"q": QUESTION}
    assert [call.arguments["n"] for call in run.tool_calls] == ["get_order", "get_user", "refund_order"]


def test_a_graph_that_a_tool_ends_is_a_failure() -> None:
    (run,) = import_trace(sample("langsmith/merged_runs_0_LangGraph.json")).runs

    check_story(run, ENDED)
    assert run.status is RunStatus.TIMEOUT
    assert run.error is not None
    assert run.error.type == "TimeoutError"


def test_the_bodies_that_an_sdk_sends_are_the_same_runs() -> None:
    sent = import_trace(sample("langsmith/runs_batch_bodies.json")).runs

    names = ("merged_runs_0_LangGraph", *STORIES)
    kept = [import_trace(sample(f"langsmith/{name}.json")).runs[0] for name in names]
    assert [plain(run) for run in sent] == [plain(run) for run in kept]


def test_runs_on_lines_of_their_own_are_the_same_runs_in_any_order() -> None:
    names = ("merged_runs_0_LangGraph", *STORIES)
    whole = [import_trace(sample(f"langsmith/{name}.json")).runs[0] for name in names]
    runs = [run for name in names for run in merged(name)]
    for order in (runs, runs[::-1], sorted(runs, key=lambda run: str(run["id"])[::-1])):
        text = b"\n".join(json.dumps(run).encode() for run in order)

        found = import_source(Source(text, "runs.jsonl"))

        assert found.remarks == ()
        assert {run.id: plain(run) for run in found.runs} == {run.id: plain(run) for run in whole}


def test_runs_that_name_no_trace_but_a_parent_are_put_together_all_the_same() -> None:
    (whole,) = import_trace(sample(f"langsmith/{STORIES[0]}.json")).runs
    lines = []
    for run in merged(STORIES[0]):
        parents = run["dotted_order"].split(".")[:-1]
        parent = {"parent_run_id": parents[-1].partition("Z")[2]} if parents else {}
        without = {
            name: item for name, item in run.items() if name not in ("trace_id", "dotted_order", "parent_run_ids")
        }
        lines.append(json.dumps({**without, "session_id": "s", **parent}).encode())

    (run,) = import_source(Source(b"\n".join(lines), "runs.jsonl")).runs

    assert [(type(event), event.parent) for event in run.events] == [(type(e), e.parent) for e in whole.events]


def test_a_bad_run_on_a_line_is_named_with_it_and_stops_no_other_trace() -> None:
    lines = [json.dumps(run).encode() for name in STORIES for run in merged(name)]
    bad = json.dumps({**merged("merged_runs_0_LangGraph")[0], "start_time": "soon"}).encode()

    found = import_source(Source(b"\n".join([*lines, b"{oops", bad]), "runs.jsonl"))

    assert len(found.runs) == 2
    assert [problem.split(": ")[0] for problem in found.left_out] == [
        f"runs.jsonl:{len(lines) + 1}",
        f"runs.jsonl:{len(lines) + 2}",
    ]
    assert "start_time" in found.left_out[1]


def plain(run: TraceRun) -> TraceRun:
    """Without what the two ways to keep a run have each of their own."""
    return msgspec.structs.replace(run, metadata_json=msgspec.Raw(b"{}"), tags=())
