"""Trajectories of OpenHands."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import corpus, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import ErrorInfo, Note, Usage
from replaykit.model.run import RunStatus, TraceRun

EVENTS = ["openhands/trajs__basic.json", "openhands/trajs__basic_interactions.json"]
OUTPUT = "openhands/mock_output__output.jsonl"


def event(own_id: int, *, source: str = "agent", **more: Any) -> dict[str, Any]:
    return {"id": own_id, "timestamp": f"2026-01-01T00:00:{own_id:02}", "source": source, "message": "", **more}


def asked(*calls: tuple[str, str, Any], own_id: str = "r1", content: str | None = None) -> dict[str, Any]:
    uses = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for call_id, name, given in calls
    ]
    message = {"role": "assistant", "content": content, "tool_calls": uses}
    return {
        "id": own_id,
        "model": "gpt-5",
        "choices": [{"finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 100}},
    }


def metadata(call_id: str, name: str, response: Any) -> dict[str, Any]:
    return {"function_name": name, "tool_call_id": call_id, "model_response": response}


BOTH = asked(("c1", "execute_bash", {"command": "ls"}), ("c2", "think", {"thought": "hm"}), content="Two at once.")
STORY: list[Any] = [
    event(0, action="system", args={"content": "You code.", "tools": [{"name": "execute_bash"}]}),
    event(1, source="user", action="message", args={"content": "List the files."}),
    event(2, action="run", args={"command": "ls"}, tool_call_metadata=metadata("c1", "execute_bash", BOTH)),
    event(3, action="think", args={"thought": "hm"}, tool_call_metadata=metadata("c2", "think", BOTH)),
    event(5, observation="think", content="noted", cause=3, tool_call_metadata=metadata("c2", "think", BOTH)),
    event(6, observation="error", content="no such shell", cause=2, extras={}),
    event(7, observation="agent_state_changed", content="", extras={"agent_state": "finished"}),
    event(
        8,
        action="finish",
        args={"final_thought": "There is no shell.", "outputs": {}},
        tool_call_metadata=metadata("c3", "finish", asked(("c3", "finish", {}), own_id="r2")),
    ),
]


def of(value: Any, name: str = "trace.json") -> Imported:
    found = import_source(Source(json.dumps(value, indent=1).encode(), name))
    assert found.format == "openhands"
    return found


def only(value: Any) -> TraceRun:
    (run,) = of(value).runs
    return run


@pytest.mark.parametrize("name", EVENTS)
def test_event_lists_of_the_corpus_count_as_their_files_do(name):
    events = json.loads(unpacked(corpus(name)))
    found = import_trace(corpus(name))

    assert (found.format, len(found.runs), found.remarks) == ("openhands", 1, ())
    (run,) = found.runs
    answers = [one for one in events if one.get("action") and one["source"] == "agent"]
    assert len(run.llm_calls) == len(answers)
    assert len(run.tool_calls) == sum(one["action"] not in ("message", "finish") for one in answers)
    used = [one["tool_call_metadata"]["model_response"]["usage"] for one in answers if "tool_call_metadata" in one]
    assert sum(c.usage.input_tokens for c in run.llm_calls if c.usage) == sum(u["prompt_tokens"] for u in used)
    assert sum(c.usage.output_tokens for c in run.llm_calls if c.usage) == sum(u["completion_tokens"] for u in used)
    assert (run.status, run.output) == (RunStatus.SUCCESS, answers[-1]["message"])
    assert replayability(run).score == 1.0


def test_an_output_file_of_the_corpus_counts_as_it_does():
    lines = [json.loads(line) for line in unpacked(corpus(OUTPUT)).splitlines() if line.strip()]
    found = import_trace(corpus(OUTPUT))

    assert (found.format, found.remarks) == ("openhands", ())
    assert len(found.runs) == len(lines) == 2
    for run, line in zip(found.runs, lines, strict=True):
        actions = [one["action"] for one in line["history"] if "action" in one]
        assert len(run.tool_calls) == sum(action not in ("message", "finish") for action in actions)
        assert len(run.llm_calls) == len(actions) - 1, "all but what the user said"
        assert not any(call.error for call in run.tool_calls)
        assert run.input == line["instruction"]
        assert run.output == line["history"][-1]["thought"]
        assert run.metadata["metrics"]["accumulated_cost"] == line["metrics"]["accumulated_cost"]
        (label,) = labels_of(run)
        assert (label.name, label.value, label.failed) == ("success", True, False)
        assert label.why == line["result_explanation"]
    assert [run.name for run in found.runs] == ["neubig/pr-viewer/5", "neubig/pr-viewer/1"]


def test_events_become_a_run():
    run = only(STORY)

    assert (run.input, run.output, run.status) == ("List the files.", "There is no shell.", RunStatus.SUCCESS)
    first, last = run.llm_calls
    assert first.name == "gpt-5"
    assert first.usage == Usage(input_tokens=120, output_tokens=8)
    assert first.finish_reason == "tool_calls"
    assert first.arguments["tools"] == [{"name": "execute_bash"}]
    assert [message["role"] for message in first.arguments["messages"]] == ["system", "user"]
    assert [use["name"] for use in first.result["tool_calls"]] == ["execute_bash", "think"], "two calls, one answer"
    assert last.result["tool_calls"] == []
    listed, thought = run.tool_calls
    assert listed.error == ErrorInfo(type="ToolError", message="no such shell")
    assert (thought.result, thought.arguments) == ("noted", {"thought": "hm"})
    assert [event.name for event in run.events if isinstance(event, Note)] == ["agent_state_changed"]
    assert replayability(run).score == 1.0


def test_older_events_have_their_arguments_in_themselves_and_come_in_pairs():
    said = {"action": "message", "content": "List the files.", "wait_for_response": False}
    action = {"action": "run", "command": "ls", "thought": "I list them.", "is_confirmed": "confirmed"}
    seen = {"observation": "run", "content": "a.py", "exit_code": 0, "command": "ls"}
    done = {"action": "finish", "thought": "There is a.py.", "outputs": {}}

    flat, pairs = only([said, action, seen, done]), only([said, [action, seen], done])

    for run in (flat, pairs):
        assert [(call.name, call.arguments, call.result) for call in run.tool_calls] == [
            ("run", {"command": "ls"}, "a.py")
        ]
        assert run.llm_calls[0].result["content"] == "I list them."
        assert (run.input, run.output) == ("List the files.", "There is a.py.")


def test_events_may_stand_on_a_line_each():
    found = import_source(Source(as_lines(STORY), "events.jsonl"))

    assert found.format == "openhands"
    assert found.runs[0].events == only(STORY).events


@pytest.mark.parametrize(
    ("judged", "label", "status"),
    [
        ({"test_result": {"report": {"resolved": False}}}, ("resolved", False), RunStatus.ERROR),
        ({"test_result": {"resolved": True}}, ("resolved", True), RunStatus.SUCCESS),
        ({"report": {"resolved": False}}, ("resolved", False), RunStatus.ERROR),
        ({"resolved": False}, ("resolved", False), RunStatus.ERROR),
        ({"success": False, "result_explanation": ["no", "tests"]}, ("success", False), RunStatus.ERROR),
    ],
)
def test_what_was_judged_of_it_is_a_label(judged, label, status):
    run = only({"instance_id": "i1", "history": STORY, **judged})

    assert run.name == "i1"
    (found,) = labels_of(run)
    assert (found.name, found.value) == label
    assert run.status is status


def test_the_error_of_a_run_is_its_error():
    run = only({"history": STORY[:3], "error": "AgentStuckInLoopError: the agent repeats itself"})

    assert run.status is RunStatus.ERROR
    assert run.error == ErrorInfo(type="AgentStuckInLoopError", message="the agent repeats itself")


def test_an_agent_whose_state_is_an_error_failed():
    state = event(9, observation="agent_state_changed", extras={"agent_state": "error", "reason": "out of credit"})

    run = only([*STORY[:2], state])

    assert run.error == ErrorInfo(type="AgentError", message="out of credit")


def test_an_observation_of_nothing_is_a_note():
    run = only([*STORY[:2], event(4, observation="run", content="stray", cause=99)])

    assert [(event.name, event.content) for event in run.events if isinstance(event, Note)] == [("run", "stray")]


def test_long_values_are_cut_in_the_metadata():
    run = only({"history": STORY, "git_patch": "x" * 10_000})

    assert len(run.metadata["git_patch"]) == 2_001


def test_a_bad_line_is_told_and_the_others_are_read():
    bad = copy.deepcopy(STORY)
    bad[1]["timestamp"] = "soon"

    found = import_source(Source(as_lines([{"history": STORY}, {"history": bad}, {"x": 1}]), "output.jsonl"))

    assert len(found.runs) == 1
    assert found.left_out == (
        "output.jsonl:2: timestamp: expected an ISO time or epoch seconds, got 'soon'",
        "output.jsonl:3: expected the events of OpenHands",
    )


@pytest.mark.parametrize("value", [{}, [], 7, {"history": []}, {"history": [{"role": "user"}]}, [{"action": 1}]])
def test_something_else_is_refused(value):
    with pytest.raises(InvalidFile, match="OpenHands"):
        import_source(Source(json.dumps(value).encode(), "x.json"), "openhands")


@given(damaged({"instruction": "Do.", "history": STORY, "metrics": {"costs": [1]}, "success": True}))
@settings(max_examples=examples(60))
def test_damage_never_ends_in_a_traceback(document):
    read_without_a_traceback("openhands", json.dumps(document).encode())
    history = document.get("history")
    read_without_a_traceback("openhands", json.dumps(history).encode())
    if isinstance(history, list):
        read_without_a_traceback("openhands", as_lines(history))


@given(truncated(json.dumps(STORY).encode()))
@settings(max_examples=examples(20))
def test_a_truncated_file_is_told_as_such(content):
    assert read_without_a_traceback("openhands", content) == []
