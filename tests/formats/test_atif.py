"""ATIF trajectories."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.errand import check_errand
from tests.formats.samples import sample, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import Label, labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import ErrorInfo, LlmCall, Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun


def step(source: str, message: Any = "", *, calls: Any = None, results: Any = None, **more: Any) -> dict[str, Any]:
    found = {"source": source, "message": message, **more}
    if calls is not None:
        found["tool_calls"] = calls
    if results is not None:
        found["observation"] = {"results": results}
    return found


def call(call_id: str, name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


def result(content: Any, call_id: str | None = None, **more: Any) -> dict[str, Any]:
    return {"source_call_id": call_id, "content": content, **more}


def trajectory(*steps: dict[str, Any], version: str = "v1.7", **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": index + 1, **step} for index, step in enumerate(steps)]
    agent = {"name": "terminus", "version": "2", "model_name": "gpt-x"}
    return {"schema_version": f"ATIF-{version}", "session_id": "s1", "agent": agent, "steps": numbered, **more}


def read(*documents: Any) -> Imported:
    return import_source(Source(as_lines(list(documents)), "t.json"))


def only(*documents: Any) -> TraceRun:
    (run,) = read(*documents).runs
    return run


ASK = step("user", "Fix it")
DONE = step("agent", "Done.")


def test_a_trajectory_of_claude_code_is_its_errand():
    path = sample("atif/claude_code_converted.json")
    (run,) = import_trace(path).runs

    check_errand(run)
    raw = json.loads(unpacked(path))
    assert sum(call.usage.output_tokens for call in run.llm_calls) == raw["final_metrics"]["total_completion_tokens"]
    assert sum(call.usage.cost_usd for call in run.llm_calls) == pytest.approx(0.0060552)
    assert [call.step for call in run.llm_calls] == ["2", "3", "4"]
    assert run.metadata["final_metrics"] == raw["final_metrics"]
    assert run.started_at < run.llm_calls[0].at


@pytest.mark.parametrize("version", ["v1.0", "v1.4", "v1.8"])
def test_every_version_is_recognised(version):
    assert read(trajectory(ASK, DONE, version=version)).format == "atif"


def test_calls_and_their_results_are_in_one_step():
    calls = [call("c1", cmd="ls"), call("c2", cmd="id")]
    act = step("agent", "Both.", calls=calls, results=[result("B", "c2"), result("A", "c1")], reasoning_content="hm")
    run = only(trajectory(step("system", "Be kind."), ASK, act, DONE))

    assert [(made.arguments, made.result, made.step) for made in run.tool_calls] == [
        ({"cmd": "ls"}, "A", "3"),
        ({"cmd": "id"}, "B", "3"),
    ]
    first, last = run.llm_calls
    assert [message["role"] for message in first.arguments["messages"]] == ["system", "user"]
    assert first.result["thinking"] == "hm"
    assert last.name == "gpt-x"
    assert (run.input, run.output, run.status) == ("Fix it", "Done.", RunStatus.SUCCESS)
    assert (run.agent, run.agent_version, run.id) == ("terminus", "2", "s1")


def test_results_without_an_id_belong_to_the_calls_in_their_order():
    calls = [call("c1", "a"), call("c2", "b")]
    run = only(trajectory(ASK, step("agent", "", calls=calls, results=[result("A"), result("B")]), DONE))

    assert [made.result for made in run.tool_calls] == ["A", "B"]


def test_what_an_agent_sees_without_a_call_is_told_to_it():
    run = only(trajectory(ASK, step("agent", "ls\n", results=[result("notes.txt")]), DONE))

    assert run.tool_calls == []
    assert run.llm_calls[1].arguments["messages"][-1] == {"role": "user", "content": "notes.txt"}
    assert run.status is RunStatus.SUCCESS


def test_a_trajectory_may_end_with_a_call_that_returned_and_not_with_one_that_did_not():
    ended = step("agent", "Finishing.", calls=[call("c1", "done")], results=[result("ok", "c1")])

    good = only(trajectory(ASK, ended))
    bad = only(trajectory(ASK, step("agent", "", calls=[call("c1", "done")])))
    silent = only(trajectory(ASK))

    assert (good.status, good.output) == (RunStatus.SUCCESS, "Finishing.")
    assert [run.error and run.error.type for run in (bad, silent)] == ["Unfinished", "Unfinished"]
    assert replayability(bad).lacking[0].lacks == (Lack.RESULT,)


def test_a_tool_that_failed_says_so_beside_its_result():
    flag = result("No such file", "c1", extra={"tool_result_is_error": True})
    mark = result("Exit code 3\n\n[error] tool reported failure", "c2")
    fine = result("ValueError: in a file", "c3", extra={"tool_result_is_error": False})
    words = result("ValueError: bad", "c4")
    calls = [call(f"c{number}") for number in (1, 2, 3, 4)]

    run = only(trajectory(ASK, step("agent", "", calls=calls, results=[flag, mark, fine, words]), DONE))

    assert [made.error for made in run.tool_calls] == [
        ErrorInfo(type="ToolError", message="No such file", raised=True),
        ErrorInfo(type="ToolError", message="Exit code 3", raised=True),
        None,
        ErrorInfo(type="ValueError", message="bad"),
    ]


def test_tokens_of_the_prompt_include_the_cached_ones():
    metrics = {"prompt_tokens": 100, "cached_tokens": 80, "completion_tokens": 5, "cost_usd": 0.5}

    (call,) = only(trajectory(ASK, step("agent", "Done.", metrics=metrics))).llm_calls

    assert call.usage == Usage(input_tokens=100, output_tokens=5, cost_usd=0.5)


def test_a_step_without_a_model_is_no_call_of_one():
    act = step("agent", "Setting up.", calls=[call("c1")], results=[result("ok", "c1")], llm_call_count=0)
    run = only(trajectory(ASK, act, DONE))

    assert [type(event) for event in run.events] == [ToolCall, Note, LlmCall]


def test_steps_copied_from_another_trajectory_are_heard_and_not_counted():
    copied = [
        {**ASK, "is_copied_context": True},
        step("agent", "Looking.", calls=[call("c1")], results=[result("A", "c1")], is_copied_context=True),
    ]
    run = only(trajectory(*copied, step("user", "And now?"), DONE))

    assert [type(event) for event in run.events] == [LlmCall]
    roles = [message["role"] for message in run.llm_calls[0].arguments["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]


def sub(trajectory_id: str, **more: Any) -> dict[str, Any]:
    return trajectory(step("user", "Look"), step("agent", "Here."), trajectory_id=trajectory_id, **more)


def test_a_sub_agent_is_inside_of_the_call_whose_result_refers_to_it():
    deeper = sub("t3")
    ref = result("x", "d1", subagent_trajectory_ref=[{"trajectory_id": "t3"}])
    inner = trajectory(
        step("user", "Look"),
        step("agent", "", calls=[call("d1", "task")], results=[ref]),
        step("agent", "Here."),
        trajectory_id="t2",
        subagent_trajectories=[deeper],
    )
    ref = result("Here.", "c1", subagent_trajectory_ref=[{"trajectory_id": "t2"}])
    act = step("agent", "", calls=[call("c1", "task")], results=[ref])

    run = only(trajectory(ASK, act, DONE, trajectory_id="t1", subagent_trajectories=[inner]))

    assert run.id == "t1"
    (task,) = run.tool_calls
    first, made, last = (event for event in run.events if event.parent == task.seq)
    assert first.arguments["messages"] == [{"role": "user", "content": "Look"}]
    assert last.result["content"] == "Here."
    (deepest,) = (event for event in run.events if event.parent == made.seq)
    assert deepest.result["content"] == "Here."


def test_a_sub_agent_in_another_file_is_noted_and_one_that_nobody_refers_to_a_run_of_its_own():
    ref = {"trajectory_path": "other.json", "session_id": "s9"}
    act = step("agent", "", calls=[call("c1")], results=[result("ok", "c1", subagent_trajectory_ref=[ref])])

    imported = read(trajectory(ASK, act, DONE, subagent_trajectories=[sub("t2")]))

    run, other = imported.runs
    assert [event.content for event in run.events if isinstance(event, Note)] == [ref]
    assert (other.id, other.output) == ("t2", "Here.")
    assert imported.notes == ("no step refers to trajectory t2 of a sub-agent: it is a run of its own",)


@pytest.mark.parametrize(
    ("extra", "labels", "failed"),
    [
        ({"reward": 0.0}, [Label(name="reward", value=0.0, failed=True)], True),
        ({"reward": 1}, [Label(name="reward", value=1)], False),
        ({"reward": 0.5}, [Label(name="reward", value=0.5)], False),
        ({"reward": False}, [Label(name="reward", value=False, failed=True)], True),
        ({"verifier_result": {"rewards": {"tests": 0}}}, [Label(name="tests", value=0, failed=True)], True),
        ({"reward": "high", "other": 0}, [], False),
    ],
)
def test_a_reward_is_a_label(extra, labels, failed):
    run = only(trajectory(ASK, DONE, extra=extra))

    assert list(labels_of(run)) == labels
    assert run.status is (RunStatus.ERROR if failed else RunStatus.SUCCESS)


def test_a_trajectory_without_ids_has_one_made_of_its_content():
    without_id = {key: value for key, value in trajectory(ASK, DONE).items() if key != "session_id"}
    other = {**without_id, "notes": "another"}

    one, two = read(without_id, other).runs

    assert one.id.startswith("atif-")
    assert one.id != two.id
    assert only(without_id).id == one.id


def test_parts_that_are_no_text_are_kept():
    image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    parts = [{"type": "text", "text": "See"}, image]
    act = step("agent", parts, calls=[call("c1")], results=[result(parts, "c1")])

    run = only(trajectory(step("user", [{"type": "text", "text": "Fix"}, {"type": "text", "text": "it"}]), act, DONE))

    assert run.input == "Fix\nit"
    assert run.llm_calls[0].result["content"] == "See"
    assert run.llm_calls[0].result["parts"] == [image]
    assert run.tool_calls[0].result == parts


@pytest.mark.parametrize(
    ("change", "message", "line"),
    [
        ({}, "a trajectory has steps, and this one has none", 5),
        ({"steps": 7}, "steps: expected a list, got a number", 5),
        ({"steps": [3]}, "expected a step, got a number", 6),
        ({"steps": [{"source": "robot"}]}, "source: expected one of system, user, agent, got 'robot'", 7),
        ({"steps": [{"source": "user", "timestamp": "noon"}]}, "timestamp: expected an ISO time", 8),
        ({"schema_version": 1}, "expected a `schema_version` that begins with ATIF-", 2),
    ],
)
def test_what_is_wrong_is_told_with_its_line(change, message, line):
    document = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {}, "steps": []} | change
    text = json.dumps(document, indent=1).encode()

    with pytest.raises(InvalidFile) as caught:
        import_source(Source(text, "t.json"), "atif")

    assert message in caught.value.reason
    assert caught.value.line == line


def test_one_bad_trajectory_stops_no_other():
    imported = read(trajectory(ASK, DONE), {**trajectory(ASK), "steps": "none"}, trajectory(ASK, trajectory_id="t2"))

    assert [run.id for run in imported.runs] == ["s1", "t2"]
    assert imported.left_out == ("t.json:2: steps: expected a list, got a text",)


FULL = trajectory(
    ASK,
    step(
        "agent",
        [{"type": "text", "text": "a"}],
        calls=[call("c1", "task", a=1)],
        results=[result("x", "c1", subagent_trajectory_ref=[{"trajectory_id": "t2"}], extra={"a": 1})],
        metrics={"prompt_tokens": 1, "cost_usd": 0.1},
        timestamp="2026-01-01T00:00:00Z",
    ),
    {**DONE, "is_copied_context": True},
    DONE,
    subagent_trajectories=[sub("t2")],
    extra={"reward": 1},
)


@settings(max_examples=examples(60), deadline=None)
@given(damaged(FULL), st.data())
def test_damaged_trajectories_give_runs_or_words(document, data):
    text = json.dumps(document).encode()
    read_without_a_traceback("atif", text)
    read_without_a_traceback("atif", data.draw(truncated(text)))
