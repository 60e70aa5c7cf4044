"""W24: a run of LangSmith comes with its tools' answers, chat-shaped inputs too, and one bad run stops no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaykit.cases.case import load_case
from replaykit.formats.files import import_trace

Run = Callable[..., Any]

AGENT = """
    def question_of(given):
        return given if isinstance(given, str) else given["messages"][-1]["content"]

    def careful(given):
        try:
            market_data_api(question_of(given))
        except TimeoutError as error:
            return f"{web_search(question_of(given))}; the figure is unavailable ({error})"

    def asking_more(given):
        careful(given)
        return web_search("anything else")
"""


def exported(run_id: str = "run-a", inputs: Any = None) -> dict[str, Any]:
    """A run as `read_run(load_child_runs=True)` dumps it: it asks a model, and its two tools are below a chain."""
    question = {"input": "ACME"} if inputs is None else inputs
    common = {"trace_id": run_id, "status": "success", "error": None, "extra": {}, "tags": []}

    def child(name: str, run_type: str, second: int, **more: Any) -> dict[str, Any]:
        times = {"start_time": f"2026-02-15T14:32:{second:02}", "end_time": f"2026-02-15T14:32:{second + 2:02}"}
        return {**common, "id": f"{run_id}-{name}", "name": name, "run_type": run_type, **times, **more}

    failed = {"outputs": {}, "status": "error", "error": "TimeoutError('no data')Traceback (most recent call last):\n"}
    tools = [
        child("web_search", "tool", 12, inputs={"query": "ACME"}, outputs={"output": "Nothing was found"}),
        child("market_data_api", "tool", 8, inputs={"company": "ACME"}, **failed),
    ]
    said = {"choices": [{"message": {"role": "assistant", "content": "Let me look"}, "finish_reason": "stop"}]}
    model = child("ChatOpenAI", "llm", 1, inputs={"model": "gpt-4o", "messages": []}, outputs=said)
    below = [model, child("tools", "chain", 5, inputs={}, outputs={}, child_runs=tools)]
    return child("agent", "chain", 0, inputs=question, outputs={"output": "$5 billion"}, child_runs=below) | {
        "id": run_id
    }


def written(value: Any, name: str = "runs.json") -> Path:
    file = Path(name)
    file.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return file


def test_an_imported_run_has_the_answers_of_its_tools_and_no_other_run_is_taken_for_a_tool() -> None:
    (run,) = import_trace(written(exported())).runs

    assert [(call.name, call.arguments) for call in run.tool_calls] == [
        ("market_data_api", {"company": "ACME"}),
        ("web_search", {"query": "ACME"}),
    ]
    failed, found = run.tool_calls
    assert failed.error is not None
    assert (failed.error.type, failed.error.message, failed.duration_s) == ("TimeoutError", "no data", 2.0)
    assert found.result == "Nothing was found"
    assert [call.name for call in run.llm_calls] == ["gpt-4o"]


@pytest.mark.parametrize("inputs", [{"input": "ACME"}, {"messages": [{"role": "user", "content": "ACME"}]}])
def test_the_case_made_of_it_replays_without_a_real_tool(files: Any, replaykit: Run, inputs: Any) -> None:
    files.agents(AGENT)
    file = written(exported(inputs=inputs))

    made = replaykit("scaffold", file, "--out", "cases/acme", "--json")
    assert (made.code, load_case("cases/acme").source.format) == (0, "langsmith")
    ran = replaykit("replay", "cases/acme", "--agent", "agents:careful", "--json")

    assert ran.result["run"]["output"] == "Nothing was found; the figure is unavailable (no data)"
    assert [event["name"] for event in ran.result["run"]["events"]] == ["market_data_api", "web_search"]
    assert [told["name"] for told in ran.result["deviations"]] == ["gpt-4o"]  # this agent asks no model
    assert not files.touched


def test_a_call_that_is_not_in_the_run_is_blocked_and_not_done_for_real(files: Any, replaykit: Run) -> None:
    files.agents(AGENT)
    replaykit("scaffold", written(exported()), "--out", "cases/acme")

    ran = replaykit("replay", "cases/acme", "--agent", "agents:asking_more", "--json")

    assert (ran.code, ran.result["verdict"]) == (1, "diverged")
    assert not files.touched


def test_one_bad_run_of_a_project_is_named_and_does_not_stop_the_others(files: Any, replaykit: Run) -> None:
    bad = {**exported("run-b"), "start_time": "yesterday"}
    file = written([exported("run-a"), bad, exported("run-c", {"messages": [["user", "Hi"]]})], "project.json")

    for run_id in ("run-a", "run-c"):
        made = replaykit("scaffold", file, "--run", run_id, "--out", f"cases/{run_id}")
        assert made.code == 0
        assert "note: left out: project.json:" in made.err
        assert "start_time: expected an ISO time or epoch seconds, got 'yesterday'" in made.err

    assert load_case("cases/run-c").scenario.input == {"messages": [["user", "Hi"]]}
    assert replaykit("lint", "cases/run-a", "cases/run-c").code == 0


def test_a_run_that_was_read_without_its_children_is_not_taken_for_one_without_tools(replaykit: Run) -> None:
    alone = {name: value for name, value in exported().items() if name != "child_runs"}

    made = replaykit("scaffold", written(alone), "--out", "cases/acme")

    assert made.code == 3  # what is left of the run did not fail
    assert "no child runs are in the file" in made.err
    assert "load_child_runs=True" in made.err
