"""Results of tau2-bench."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.formats.damage import damaged, read_without_a_traceback, truncated
from tests.formats.samples import corpora_below, corpus, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import ExpectedCall, Label, labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import ErrorInfo, Note, Usage
from replaykit.model.run import RunStatus

EMPTY = "tau2/a692e29.json"
FILES = [name for name in corpora_below("tau2") if name != EMPTY]


def raw_file(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(unpacked(corpus(name)))
    return found


def said(role: str, content: str | None, at: int, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": f"2026-01-01T00:00:{at:02}", "turn_idx": at, **more}


def asked(call_id: str, name: str, arguments: Any, requestor: str = "assistant") -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments, "requestor": requestor}


MESSAGES = [
    said("assistant", "Hi! How can I help?", 0, usage=None, raw_data=None, tool_calls=None),
    said("user", "Cancel order 7.", 1, cost=0.5, usage={"prompt_tokens": 999, "completion_tokens": 9}),
    said(
        "assistant",
        None,
        2,
        tool_calls=[asked("c1", "cancel_order", {"id": 7})],
        usage={"prompt_tokens": 120, "completion_tokens": 8},
        cost=0.25,
        raw_data={"finish_reason": "stop", "message": {"content": "```tool_code\ncancel_order(id=7)\n```"}},
    ),
    said("tool", "Error: it was sent", 4, id="c1", requestor="assistant", error=True),
    said("user", None, 5, tool_calls=[asked("u1", "check_phone", {}, "user")]),
    said("tool", "no signal", 6, id="u1", requestor="user", error=False),
    said("assistant", "It was sent.", 7, usage={"prompt_tokens": 160, "completion_tokens": 5}, tool_calls=None),
    said("user", "###STOP###", 8),
]
ACTIONS = [
    {
        "name": "cancel_order",
        "arguments": {"id": 7, "reason": "late"},
        "compare_args": ["id"],
        "requestor": "assistant",
    },
    {"name": "get_order", "arguments": {"id": 7}, "compare_args": None, "requestor": "assistant"},
    {"name": "restart_phone", "arguments": {}, "compare_args": None, "requestor": "user"},
]


def results(*, basis: list[str], reward: float = 0.0, **judged: Any) -> dict[str, Any]:
    criteria = {"actions": ACTIONS, "communicate_info": ["sent"], "nl_assertions": ["It is kind."]}
    simulation = {
        "id": "s1",
        "task_id": "t",
        "trial": 0,
        "seed": 3,
        "start_time": "2026-01-01T00:00:00",
        "end_time": "2026-01-01T00:00:09",
        "termination_reason": "user_stop",
        "agent_cost": 0.25,
        "user_cost": 0.5,
        "reward_info": {"reward": reward, "reward_basis": basis, **judged},
        "messages": MESSAGES,
    }
    info = {
        "git_commit": "abc",
        "agent_info": {"implementation": "llm_agent", "llm": "gpt-5", "llm_args": {"temperature": 0.0}},
        "environment_info": {"domain_name": "shop", "policy": "Be kind.", "tool_defs": None},
    }
    return {"info": info, "tasks": [{"id": "t", "evaluation_criteria": criteria}], "simulations": [simulation]}


def of(value: Any) -> Imported:
    return import_source(Source(json.dumps(value, indent=1).encode(), "results.json"))


def label_of(**about: Any) -> Label:
    (label,) = labels_of(of(results(**about)).runs[0])
    return label


@pytest.mark.parametrize("name", FILES)
def test_the_corpus_counts_as_its_files_do(name):
    simulations = raw_file(name)["simulations"]
    found = import_trace(corpus(name))

    assert found.format == "tau2"
    assert found.remarks == ()
    assert [run.id for run in found.runs] == [one["id"] for one in simulations]
    for run, one in zip(found.runs, simulations, strict=True):
        messages = one["messages"]
        assert (run.status is RunStatus.ERROR) == (one["reward_info"]["reward"] < 1)
        spoken = [message for message in messages if message["role"] == "assistant"]
        calls = [call for message in spoken for call in message["tool_calls"] or ()]
        assert [(call.name, call.arguments) for call in run.tool_calls] == [(c["name"], c["arguments"]) for c in calls]
        returned = [m for m in messages if m["role"] == "tool"]
        mine = [m for m in returned if m["requestor"] == "assistant"]
        assert sum(call.error is not None for call in run.tool_calls) == sum(m["error"] for m in mine)
        notes = [event for event in run.events if isinstance(event, Note)]
        assert len(notes) == len(returned) - len(mine)
        used = [m["usage"] for m in spoken if m["usage"]]
        assert sum(call.usage.input_tokens for call in run.llm_calls if call.usage) == sum(
            u["prompt_tokens"] for u in used
        )
        assert sum(call.usage.output_tokens for call in run.llm_calls if call.usage) == sum(
            u["completion_tokens"] for u in used
        )
        assert replayability(run).score == 1.0


def test_a_file_without_simulations_says_so():
    with pytest.raises(InvalidFile, match="the file holds no run") as caught:
        import_trace(corpus(EMPTY))

    assert caught.value.hint == "no simulation was run"


def test_a_simulation_is_a_run():
    (run,) = of(results(basis=["DB"], reward=1.0)).runs

    assert (run.id, run.name, run.agent, run.agent_version) == ("s1", "shop t", "llm_agent", "abc")
    assert (run.input, run.output) == ("Cancel order 7.", "It was sent.")
    assert run.duration_s == 9.0
    first, last = run.llm_calls
    assert first.name == "gpt-5"
    assert first.usage == Usage(input_tokens=120, output_tokens=8, cost_usd=0.25)
    assert first.finish_reason == "stop"
    assert first.arguments["system"] == "Be kind."
    assert first.arguments["parameters"] == {"temperature": 0.0}
    assert [message["role"] for message in first.arguments["messages"]] == ["assistant", "user"], "the greeting counts"
    assert first.result["content"] == "```tool_code\ncancel_order(id=7)\n```"
    (call,) = run.tool_calls
    assert call.error == ErrorInfo(type="ToolError", message="it was sent", raised=True)
    assert call.result == "Error: it was sent"
    assert call.duration_s == 2.0
    assert last.result["content"] == "It was sent."
    assert (run.metadata["agent_cost"], run.metadata["user_cost"]) == (0.25, 0.5)


def test_what_the_user_does_is_a_note_and_no_call_of_the_agent():
    (run,) = of(results(basis=[], reward=1.0)).runs

    (note,) = [event for event in run.events if isinstance(event, Note)]
    assert note.name == "user_tool_call"
    assert note.content == {"name": "check_phone", "arguments": {}, "result": "no signal"}
    assert [call.name for call in run.tool_calls] == ["cancel_order"]


def test_the_label_says_which_checks_were_not_met():
    label = label_of(
        basis=["DB", "ACTION", "NL_ASSERTION"],
        db_check={"db_match": False},
        action_checks=[{"action": ACTIONS[0], "action_match": False}, {"action": ACTIONS[1], "action_match": True}],
        nl_assertions=[{"nl_assertion": "It is kind.", "met": False, "justification": "It is not."}],
        env_assertions=[{"env_assertion": {"func_name": "is_open", "message": None}, "met": False}],
        communicate_checks=[{"info": "sent", "met": True}],
    )

    assert (label.value, label.failed) == (0.0, True)
    assert label.why == (
        "the database is not as expected; cancel_order was not called as expected; is_open; It is kind.: It is not."
    )
    assert label.criteria == ("It is kind.",)


CANCEL, GET = (
    ExpectedCall(name="cancel_order", arguments={"id": 7}),
    ExpectedCall(name="get_order", arguments={"id": 7}),
)


@pytest.mark.parametrize(
    ("basis", "is_right", "calls", "changing", "output"),
    [
        (["DB"], False, (CANCEL,), ("cancel_order",), ()),
        (["DB"], True, (CANCEL,), (), ()),
        (["DB", "ACTION"], False, (CANCEL, GET), ("cancel_order",), ()),
        (["ACTION"], False, (CANCEL, GET), (), ()),
        (["COMMUNICATE"], False, None, (), ("sent",)),
    ],
)
def test_what_is_expected_is_what_the_reward_is_made_of(basis, is_right, calls, changing, output):
    label = label_of(basis=basis, db_check={"db_match": is_right})

    assert (label.expected_calls, label.changing_tools, label.expected_output) == (calls, changing, output)


def test_a_tool_without_which_the_database_is_right_changes_nothing():
    value = results(basis=["DB"], db_check={"db_match": False})
    value["tasks"][0]["evaluation_criteria"]["actions"] = [*ACTIONS, {"name": "hand_over", "arguments": {}}]
    right = copy.deepcopy(value["simulations"][0])
    right |= {"id": "s2", "reward_info": {"reward": 1.0, "reward_basis": ["DB"], "db_check": {"db_match": True}}}

    alone = labels_of(of(value).runs[0])[0]
    beside = labels_of(of({**value, "simulations": [*value["simulations"], right]}).runs[0])[0]

    assert alone.changing_tools == ("cancel_order", "hand_over")
    assert beside.changing_tools == ("cancel_order",)


@pytest.mark.parametrize("reason", ["max_steps", "too_many_errors", "agent_error"])
def test_a_simulation_that_was_stopped_failed_by_itself(reason):
    value = results(basis=[])
    value["simulations"][0]["termination_reason"] = reason

    (run,) = of(value).runs

    assert (run.status, run.error) == (RunStatus.ERROR, ErrorInfo(type="Terminated", message=reason))


def test_a_simulation_without_a_reward_is_no_failure():
    value = results(basis=[])
    value["simulations"][0]["reward_info"] = None

    (run,) = of(value).runs

    assert (run.status, labels_of(run)) == (RunStatus.SUCCESS, ())


def test_a_bad_simulation_is_told_and_the_others_are_read():
    value = results(basis=[])
    bad = copy.deepcopy(value["simulations"][0])
    bad["messages"][2]["tool_calls"] = "none"

    found = of({**value, "simulations": [bad, value["simulations"][0], 7]})

    assert len(found.runs) == 1
    assert [problem.partition(": ")[2] for problem in found.left_out] == [
        "tool_calls: expected a list, got a text",
        "expected a simulation, got a number",
    ]


@pytest.mark.parametrize("value", [{}, [], 7, {"simulations": 7}, {"tasks": []}])
def test_something_else_is_refused(value):
    with pytest.raises(InvalidFile, match="tau2-bench"):
        import_source(Source(json.dumps(value).encode(), "x.json"), "tau2")


@given(damaged(results(basis=["DB", "ACTION", "COMMUNICATE"], db_check={"db_match": False})))
@settings(max_examples=examples(60))
def test_damage_never_ends_in_a_traceback(document):
    read_without_a_traceback("tau2", json.dumps(document).encode())


@given(truncated(json.dumps(results(basis=["DB"])).encode()))
@settings(max_examples=examples(20))
def test_a_truncated_file_is_told_as_such(content):
    assert read_without_a_traceback("tau2", content) == []
