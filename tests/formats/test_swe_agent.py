"""Trajectories of SWE-agent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import corpora_below, corpus, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import labels_of
from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import ErrorInfo, Note
from replaykit.model.run import RunStatus, TraceRun

FILES = corpora_below("swe-agent")
DEMONSTRATION = "swe-agent/demonstrations__function_calling_simple.traj"
(CUT_HISTORY,) = [name for name in FILES if "swe-agent-test-repo" in name]
(WITH_DEMO,) = [name for name in FILES if "pydicom" in name]
BASH = "\nbash-$"


def raw_file(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(unpacked(corpus(name)))
    return found


def step(action: str, observation: str, **more: Any) -> dict[str, Any]:
    thought = f"Let us {action}."
    said = {"response": f"{thought}\n```\n{action}\n```", "thought": thought, "action": action}
    return {**said, "observation": observation, "state": '{"working_dir": "/repo"}', **more}


def answer(action: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": f"Let us {action}.", "action": action, "agent": "main", **more}


def told(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", **more}


STEPS = [step("ls", "a.py", execution_time=0.5), step("./rock", "\nEXECUTION TIMED OUT"), step("submit", "the patch")]
HISTORY = [
    told("system", "You fix bugs."),
    told("user", "A demonstration.", is_demo=True),
    told("assistant", "```\nls\n```", is_demo=True, action="ls"),
    told("user", "Fix the bug."),
    answer("ls"),
    told("user", f"a.py{BASH}"),
    answer("./rock"),
    told("user", f"EXECUTION TIMED OUT{BASH}"),
]
INFO = {"exit_status": "submitted", "submission": "the patch", "model_stats": {"tokens_sent": 70}}


def trajectory(**more: Any) -> dict[str, Any]:
    return {"environment": "repo", "trajectory": STEPS, "history": HISTORY, "info": INFO, **more}


def of(value: Any) -> TraceRun:
    found = import_source(Source(json.dumps(value, indent=1).encode(), "x.traj"))
    assert found.format == "swe_agent"
    (run,) = found.runs
    return run


@pytest.mark.parametrize("name", FILES)
def test_the_corpus_counts_as_its_files_do(name):
    value = raw_file(name)
    own = [one for one in value["history"] if one["role"] == "assistant" and not one.get("is_demo")]
    steps = value.get("trajectory") or own
    found = import_trace(corpus(name))

    assert (found.format, len(found.runs), found.remarks) == ("swe_agent", 1, ())
    (run,) = found.runs
    assert run.status is RunStatus.SUCCESS
    assert len(run.llm_calls) == len(steps)
    assert len(run.tool_calls) == sum(bool(one["action"].strip()) for one in steps)
    timeouts = sum(one.get("observation", "").strip() == "EXECUTION TIMED OUT" for one in steps)
    assert sum(call.error is not None for call in run.tool_calls) == timeouts
    if "info" in value:
        assert run.output == value["info"]["submission"]
        assert run.metadata["model_stats"] == value["info"]["model_stats"]
    assert replayability(run).score == 1.0


def test_what_a_trajectory_cost_in_all_is_kept():
    runs = [run for name in FILES for run in import_trace(corpus(name)).runs]

    assert sum(run.metadata.get("model_stats", {}).get("tokens_sent", 0) for run in runs) == 7141 + 122612


def test_steps_become_answers_and_calls_of_the_shell():
    run = of(trajectory())

    assert (run.name, run.agent, run.input, run.output) == ("repo", "SWE-agent", "Fix the bug.", "the patch")
    assert run.status is RunStatus.SUCCESS
    assert [(call.name, call.arguments) for call in run.tool_calls] == [
        ("bash", {"command": "ls"}),
        ("bash", {"command": "./rock"}),
        ("bash", {"command": "submit"}),
    ]
    listed, rock, _submitted = run.tool_calls
    assert (listed.result, listed.duration_s) == ("a.py", 0.5)
    assert rock.error == ErrorInfo(type="TimeoutError", message="EXECUTION TIMED OUT")
    first, second, _last = run.llm_calls
    assert first.result["content"] == "Let us ls.\n```\nls\n```"
    assert first.arguments["system"] == "You fix bugs."
    assert [message["content"] for message in first.arguments["messages"]] == [
        "A demonstration.",
        "```\nls\n```",
        "Fix the bug.",
    ]
    assert second.arguments["messages"][-1]["content"] == f"a.py{BASH}", "as the model was told"
    notes = [event.content for event in run.events if isinstance(event, Note)]
    assert notes == [{"working_dir": "/repo"}], "only when it changes"


def test_functions_keep_their_names_and_ids():
    run = of(raw_file(CUT_HISTORY))

    names = [call.name for call in run.tool_calls]
    assert names == ["find_file", "open", "edit", "bash", "submit"]
    assert run.tool_calls[0].arguments == {"file_name": "missing_colon.py"}
    assert run.tool_calls[-1].arguments == {}, "which the history no longer tells of"
    asked = [use["id"] for call in run.llm_calls for use in call.result["tool_calls"]]
    assert asked[0].startswith("call_")


def test_a_demonstration_is_told_by_its_history_alone():
    run = of(raw_file(DEMONSTRATION))

    assert [call.name for call in run.tool_calls] == ["find_file", "open", "edit", "bash", "submit"]
    assert run.output.lstrip().startswith("diff --git")
    assert run.input.startswith("We're currently solving the following issue")


def test_what_is_shown_as_an_example_is_not_the_question():
    assert of(raw_file(WITH_DEMO)).input.startswith("We're currently solving the following issue")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("exit_cost", "exit_cost: the cost limit was reached"),
        ("submitted (exit_context)", "submitted (exit_context): the context window is full"),
        ("exit_format", "exit_format"),
    ],
)
def test_a_run_that_was_stopped_says_how(status, message):
    run = of(trajectory(info={**INFO, "exit_status": status}))

    assert (run.status, run.error) == (RunStatus.ERROR, ErrorInfo(type="Exit", message=message))


def test_a_run_that_just_ends_is_unfinished():
    run = of(trajectory(info={}, trajectory=STEPS[:1]))

    assert run.status is RunStatus.ERROR
    assert run.error is not None
    assert run.error.type == "Unfinished"


def test_whether_it_was_resolved_is_a_label():
    run = of(trajectory(info={**INFO, "resolved": False}))

    assert run.status is RunStatus.ERROR
    assert [(label.name, label.value, label.failed) for label in labels_of(run)] == [("resolved", False, True)]
    assert of(trajectory(info={**INFO, "resolved": True})).status is RunStatus.SUCCESS


def test_an_answer_without_an_action_calls_nothing():
    run = of(trajectory(trajectory=[step("", "no command found"), *STEPS], history=HISTORY[:4]))

    assert len(run.llm_calls) == 4
    assert len(run.tool_calls) == 3
    told = run.llm_calls[1].arguments["messages"][-1]
    assert (told["role"], told["content"]) == ("user", "no command found")


def test_the_model_is_told_by_the_configuration_as_text_too():
    settings = {"agent": {"model": {"name": "gpt-5"}}}

    assert of(trajectory(replay_config=settings)).llm_calls[0].name == "gpt-5"
    assert of(trajectory(replay_config=json.dumps(settings))).llm_calls[0].name == "gpt-5"


def test_the_same_file_gives_the_same_id_and_another_another():
    assert of(trajectory()).id == of(trajectory()).id
    assert of(trajectory()).id != of(trajectory(environment="other")).id


def test_trajectories_may_stand_on_a_line_each():
    found = import_source(Source(as_lines([trajectory(), 7, trajectory(environment="b")]), "all.jsonl"))

    assert [run.name for run in found.runs] == ["repo", "b"]
    assert found.left_out == ("all.jsonl:2: expected a trajectory of SWE-agent, got a number",)


@pytest.mark.parametrize("value", [{}, [], 7, {"history": [{"role": "user", "content": "hi"}]}, {"trajectory": []}])
def test_something_else_is_refused(value):
    with pytest.raises(InvalidFile, match="SWE-agent"):
        import_source(Source(json.dumps(value).encode(), "x.json"), "swe_agent")


@given(damaged(trajectory()))
@settings(max_examples=examples(60))
def test_damage_never_ends_in_a_traceback(document):
    read_without_a_traceback("swe_agent", json.dumps(document).encode())


@given(damaged(raw_file(DEMONSTRATION)))
@settings(max_examples=examples(30))
def test_damage_to_a_demonstration_never_does_either(document):
    read_without_a_traceback("swe_agent", json.dumps(document).encode())


@given(truncated(json.dumps(trajectory()).encode()))
@settings(max_examples=examples(20))
def test_a_truncated_file_is_told_as_such(content):
    assert read_without_a_traceback("swe_agent", content) == []
