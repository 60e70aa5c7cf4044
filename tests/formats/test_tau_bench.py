"""Results of tau-bench."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import corpus, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.labels import ExpectedCall, labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.tool_errors import is_raised

FILE = corpus("tau-bench/gpt-4o-airline-trials-0-1.json")
RESULTS: list[dict[str, Any]] = json.loads(unpacked(FILE))
UNTOUCHED, CHANGED = "hash-0", "hash-1"


@pytest.fixture(scope="module")
def runs() -> tuple[TraceRun, ...]:
    return import_trace(FILE).runs


def result(task: int = 1, *, reward: float = 0.0, actions: Any = (), outputs: Any = (), state: str = "") -> Any:
    traj = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Cancel order 7."},
        {"role": "assistant", "content": None, "tool_calls": [asked("c1", "get_order", {"id": 7})]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_order", "content": '{"id": 7}'},
        {"role": "assistant", "content": None, "tool_calls": [asked("c2", "cancel_order", {"id": 7})]},
        {"role": "tool", "tool_call_id": "c2", "name": "cancel_order", "content": "Error: it was sent"},
        {"role": "assistant", "content": "It was sent already."},
        {"role": "user", "content": "###STOP###"},
    ]
    told = [{"name": name, "kwargs": given} for name, given in actions]
    info = {
        "task": {"actions": told, "outputs": list(outputs), "instruction": "You want order 7 cancelled."},
        "user_cost": 0.01,
        "reward_info": {"reward": reward, "info": {"gt_data_hash": state}},
    }
    return {"task_id": task, "reward": reward, "trial": 0, "traj": traj, "info": info}


def asked(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def of(value: Any) -> Imported:
    return import_source(Source(json.dumps(value, indent=1).encode(), "results.json"))


def test_the_corpus_counts_as_its_file_does(runs):
    messages = [message for one in RESULTS for message in one["traj"]]
    results = [message["content"] for message in messages if message["role"] == "tool"]

    assert len(runs) == len(RESULTS) == 100
    assert sum(run.status is RunStatus.ERROR for run in runs) == sum(one["reward"] < 1 for one in RESULTS) == 57
    asked = [len(message.get("tool_calls") or ()) for message in messages]
    assert sum(len(run.tool_calls) for run in runs) == sum(asked) == 572
    failed = [call for run in runs for call in run.tool_calls if call.error is not None]
    assert len(failed) == sum(content.startswith("Error") for content in results) == 33
    answers = [message for message in messages if message["role"] == "assistant"]
    assert sum(len(run.llm_calls) for run in runs) == len(answers)
    assert len({run.id for run in runs}) == 100
    assert all(replayability(run).score == 1.0 for run in runs)


def test_which_tools_change_something_is_told_by_the_data(runs):
    changing = {labels_of(run)[0].changing_tools for run in runs}

    assert changing == {
        (
            "book_reservation",
            "cancel_reservation",
            "send_certificate",
            "update_reservation_baggages",
            "update_reservation_flights",
            "update_reservation_passengers",
        )
    }


def test_a_result_is_a_run_with_its_reward():
    (run,) = of([result(actions=[("get_order", {"id": 7}), ("cancel_order", {"id": 7})], outputs=["7"])]).runs

    assert run.name == "task 1, trial 0"
    assert run.input == "Cancel order 7."
    assert run.output == "It was sent already."
    assert [(call.name, call.arguments) for call in run.tool_calls] == [
        ("get_order", {"id": 7}),
        ("cancel_order", {"id": 7}),
    ]
    assert run.tool_calls[0].result == '{"id": 7}'
    assert run.tool_calls[1].error == ErrorInfo(type="ToolError", message="it was sent")
    assert (run.tool_calls[1].result, is_raised(run.tool_calls[1])) == ("Error: it was sent", False)
    told = run.llm_calls[-1].arguments["messages"][-1]
    assert (told["content"], told.get("status")) == ("Error: it was sent", None), "as the model was told"
    assert run.metadata["instruction"] == "You want order 7 cancelled."
    (label,) = labels_of(run)
    assert (label.name, label.value, label.failed, label.why) == ("reward", 0.0, True, "")
    assert label.expected_calls == (ExpectedCall(name="cancel_order", arguments={"id": 7}),)
    assert label.expected_output == ("7",)
    assert label.said_anywhere


def test_a_tool_that_leaves_the_database_as_no_action_does_changes_nothing():
    handed_over = result(2, actions=[("transfer_to_human", {})], state=UNTOUCHED)
    changing = result(3, actions=[("send_mail", {})], state=CHANGED)

    alone = of([handed_over, changing]).runs
    beside = of([result(1, state=UNTOUCHED), handed_over, changing]).runs

    assert labels_of(alone[0])[0].changing_tools == ("cancel_order", "send_mail", "transfer_to_human")
    assert labels_of(beside[0])[0].changing_tools == ("cancel_order", "send_mail")
    assert labels_of(beside[1])[0].expected_calls == ()


def test_a_transfer_ends_the_talk_and_the_answer_is_what_was_said_before():
    ended = result()
    ended["traj"] = ended["traj"][:7]
    ended["traj"] += [
        {"role": "user", "content": "Then give me a human."},
        {"role": "assistant", "content": None, "tool_calls": [asked("c3", "transfer", {})]},
        {"role": "tool", "tool_call_id": "c3", "name": "transfer", "content": "Transfer successful"},
    ]

    assert of([ended]).runs[0].output == "It was sent already."


def test_a_talk_that_was_cut_off_has_no_answer():
    cut = result()
    cut["info"]["reward_info"] = None
    cut["traj"] = cut["traj"][:6]

    (run,) = of([cut]).runs

    assert not run.output_json
    assert run.error is not None
    assert run.error.message == "reward is 0.0: cut off after 2 answers, before the user was done"


def test_a_reward_is_no_failure():
    (run,) = of([result(reward=1.0)]).runs

    assert (run.status, run.error) == (RunStatus.SUCCESS, None)


def test_one_result_a_list_and_one_on_each_line_are_the_same():
    first, second = result(1), result(2)
    expected = of([first, second]).runs

    lines = import_source(Source(as_lines([first, second]), "results.jsonl"))

    assert (lines.format, lines.runs) == ("tau_bench", expected)
    assert of(first).runs == expected[:1]
    assert [run.id for run in of([first, second]).runs] == [run.id for run in expected]


def test_a_bad_result_is_told_and_the_others_are_read():
    bad, silent = result(2), result(3)
    bad["traj"][1] = "hello"
    silent["traj"] = []

    found = of([result(1), bad, silent, {"reward": 1}])

    assert len(found.runs) == 1
    assert [problem.partition(": ")[2] for problem in found.left_out] == [
        "expected a message, got a text",
        "traj: expected a conversation and its reward",
        "expected a conversation and its reward",
    ]
    assert all(problem.startswith("results.json:") for problem in found.left_out)


@pytest.mark.parametrize("value", [{}, [], [[]], 7, {"traj": 7, "reward": 1}, {"messages": []}])
def test_something_else_is_refused(value):
    source = Source(json.dumps(value).encode(), "x.json")

    with pytest.raises(InvalidFile, match=r"tau-bench|reward|holds no run"):
        import_source(source, "tau_bench")


SMALL = [RESULTS[0], RESULTS[1]]


@given(damaged(SMALL))
@settings(max_examples=examples(60))
def test_damage_never_ends_in_a_traceback(document):
    read_without_a_traceback("tau_bench", json.dumps(document).encode())
    if isinstance(document, list):
        read_without_a_traceback("tau_bench", as_lines(document))


@given(truncated(json.dumps(SMALL).encode()))
@settings(max_examples=examples(20))
def test_a_truncated_file_is_told_as_such(content):
    assert read_without_a_traceback("tau_bench", content) == []
