"""Annotated failures of Who&When."""

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
from replaykit.formats.core.replayability import Lack, replayability
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun

FILES = corpora_below("who-and-when")
TALK: dict[str, Any] = {
    "question": "What is 2 + 2?",
    "question_ID": "q1",
    "level": 1,
    "ground_truth": "4",
    "is_correct": False,
    "mistake_agent": "Math_Expert",
    "mistake_step": "2",
    "mistake_reason": "It multiplied.",
    "system_prompt": {"Math_Expert": "You count."},
    "history": [
        {"role": "assistant", "name": "Math_Expert", "content": "Let us see.\n```python\nprint(2+)\n```"},
        {"role": "user", "name": "Computer_terminal", "content": "exitcode: 1 (execution failed)\nSyntaxError"},
        {"role": "assistant", "name": "Math_Expert", "content": "It is 5."},
        {"role": "user", "name": "Verification_Expert", "content": "TERMINATE"},
    ],
}
TEAM: dict[str, Any] = {
    **{name: TALK[name] for name in ("question", "ground_truth", "mistake_reason")},
    "is_corrected": False,
    "mistake_agent": "WebSurfer",
    "mistake_step": 3,
    "history": [
        {"role": "human", "content": "What is 2 + 2?"},
        {"role": "Orchestrator (thought)", "content": "Ask the web."},
        {"role": "Orchestrator (-> WebSurfer)", "content": "Search for 2 + 2."},
        {"role": "WebSurfer", "content": "I found 5."},
    ],
}


def of(value: Any) -> TraceRun:
    found = import_source(Source(json.dumps(value, indent=1).encode(), "x.json"))
    assert found.format == "who_and_when"
    (run,) = found.runs
    return run


@pytest.mark.parametrize("name", FILES)
def test_the_corpus_counts_as_its_files_do(name):
    value = json.loads(unpacked(corpus(name)))
    said = [entry.get("name") or entry["role"] for entry in value["history"]]
    outputs = [e["content"] for e in value["history"] if e.get("name") == "Computer_terminal"]
    found = import_trace(corpus(name))

    assert (found.format, len(found.runs), found.remarks) == ("who_and_when", 1, ())
    (run,) = found.runs
    assert run.status is RunStatus.ERROR
    assert run.input == value["question"]
    assert len(run.tool_calls) == len(outputs)
    failed = [call for call in run.tool_calls if call.error is not None and call.error.type == "ExitCode"]
    assert len(failed) == sum(text.startswith("exitcode: 1") for text in outputs)
    assert len(run.llm_calls) == len(said) - len(outputs) - said.count("human")


def test_the_mistake_points_into_the_run():
    blamed = []
    for name in FILES:
        (run,), value = import_trace(corpus(name)).runs, json.loads(unpacked(corpus(name)))
        step = f"{value['mistake_step']} {value['mistake_agent']}"
        blamed += [name for call in run.llm_calls if call.step == step]

    assert set(FILES) - set(blamed) == {"who-and-when/Algorithm-Generated__14.json"}, "which names another's step"
    assert len(blamed) == 22


def test_a_talk_with_a_terminal():
    run = of(TALK)

    assert (run.name, run.input, run.output) == ("q1", "What is 2 + 2?", "It is 5.")
    (ran,) = run.tool_calls
    assert (ran.name, ran.arguments) == ("Computer_terminal", {"code": "print(2+)\n"})
    assert ran.error == ErrorInfo(type="ExitCode", message="exitcode: 1 (execution failed)\nSyntaxError")
    assert [call.step for call in run.llm_calls] == ["0 Math_Expert", "2 Math_Expert", "3 Verification_Expert"]
    assert run.llm_calls[0].arguments["system"] == {"Math_Expert": "You count."}
    assert run.metadata["agents"] == ["Math_Expert", "Computer_terminal", "Verification_Expert"]


def test_a_team_with_an_orchestrator():
    run = of(TEAM)

    assert [call.step for call in run.llm_calls] == ["1 Orchestrator", "2 Orchestrator", "3 WebSurfer"]
    assert [message["content"] for message in run.llm_calls[0].arguments["messages"]] == ["What is 2 + 2?"]
    assert run.output == "I found 5."


def test_the_annotation_is_the_label():
    run = of(TALK)

    (label,) = labels_of(run)
    assert (label.name, label.value, label.failed) == ("is_correct", False, True)
    assert label.why == "Math_Expert at step 2: It multiplied."
    assert (label.expected_output, label.expected_answer) == ((), "4")
    assert not label.said_anywhere
    assert run.error is not None
    assert run.error.message == "is_correct is false: Math_Expert at step 2: It multiplied."


def test_a_right_answer_is_no_failure():
    assert of({**TALK, "is_correct": True}).status is RunStatus.SUCCESS


def test_an_answer_of_several_lines_is_several_texts():
    (label,) = labels_of(of({**TALK, "ground_truth": "Ada\n\n Grace "}))

    assert label.expected_output == ("Ada", "Grace")


def test_what_models_were_asked_is_not_told():
    told = replayability(of(TALK))

    assert {one.lacks for one in told.lacking} == {(Lack.MESSAGES,)}
    assert told.exact == 1, "the terminal's"
    assert "not what their models were asked" in told.advice[0]


def test_annotated_talks_may_stand_on_a_line_each():
    found = import_source(Source(as_lines([TALK, {"mistake_step": 1}, TEAM]), "all.jsonl"))

    assert len(found.runs) == 2
    assert found.left_out == ("all.jsonl:2: expected a history and its mistake_step",)


@pytest.mark.parametrize("value", [{}, [], 7, {"history": []}, {"history": [], "mistake_step": 1}])
def test_something_else_is_refused(value):
    with pytest.raises(InvalidFile, match=r"Who&When|mistake_step"):
        import_source(Source(json.dumps(value).encode(), "x.json"), "who_and_when")


@given(damaged(TALK))
@settings(max_examples=examples(60))
def test_damage_never_ends_in_a_traceback(document):
    read_without_a_traceback("who_and_when", json.dumps(document).encode())


@given(truncated(json.dumps(TEAM).encode()))
@settings(max_examples=examples(20))
def test_a_truncated_file_is_told_as_such(content):
    assert read_without_a_traceback("who_and_when", content) == []
