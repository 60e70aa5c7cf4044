"""Subjects: what a configuration leads to, each once, and each with its contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.cases.case_shape import ModelMode
from replaykit.cases.find import Unusable
from replaykit.errors import InvalidFile
from replaykit.project.subjects import find_subjects

CONTRACT = {
    "name": "c",
    "invariants": [
        {"id": "always", "type": "output_not_empty"},
        {"id": "in-need", "type": "contains", "value": "sorry", "when": "tool_faults_active"},
        {"id": "in-peace", "type": "contains", "value": "here you are", "when": "no_chaos"},
    ],
}


def session(name: str, **said: Any) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(json.dumps({"id": Path(name).stem, "input": "x", "contract": "c", **said}))


def project(**parts: Any) -> rk.Project:
    Path("replaykit.yaml").write_text(json.dumps({"replaykit": 1, "contract": CONTRACT, **parts}))
    return rk.load_project("replaykit.yaml")


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([{"tool": "t", "status": 500}], ["always", "in-need"]),
        ([{"tool": "t", "status": 200}], ["always", "in-peace"]),
        ([], ["always", "in-peace"]),
    ],
)
def test_what_is_desired_are_the_invariants_that_apply(answers: list[Any], asked: list[str]) -> None:
    session("s.yaml", tool_responses=answers)

    (case,) = find_subjects(project(), [Path("s.yaml")]).cases

    assert [assertion.id for assertion in case.desired] == asked
    assert {assertion.severity for assertion in case.desired} == {"medium"}


def test_checks_of_the_project_are_desired_besides() -> None:
    session("s.yaml")

    (case,) = find_subjects(project(checks=[{"status_is": "success"}]), [Path("s.yaml")]).cases

    assert [assertion.kind for assertion in case.desired][-1] == "status_is"


def test_models_and_the_agents_time_limit_hold_for_sessions() -> None:
    session("s.yaml")
    agent = {"type": "python", "endpoint": "a:b", "timeout": 1500}

    (case,) = find_subjects(project(agent=agent, replays={"models": "live"}), [Path("s.yaml")]).cases

    assert (case.scenario.models, case.scenario.timeout_s) == (ModelMode.LIVE, 1.5)


def test_a_session_that_is_named_twice_is_one_subject() -> None:
    session("replays/a.yaml")
    session("replays/b.yaml")

    found = find_subjects(project(cases=["replays"], replays={"sessions": [{"file": "replays/a.yaml"}]}))

    assert [subject.id for subject in found.all] == ["a", "b"]
    assert found.notices == ()


def test_two_of_one_id_are_told() -> None:
    session("replays/a.yaml", id="same")
    session("replays/b.yaml", id="same")

    found = find_subjects(project(), [Path("replays")])

    assert found.notices == ("the id 'same' is that of replays/a.yaml and of replays/b.yaml",)


def test_what_is_of_a_newer_format_is_one_error_among_others() -> None:
    session("d/a.yaml")
    Path("d/new").mkdir()
    Path("d/new/case.yaml").write_text("replaykit: 9\nid: new\n")

    found = find_subjects(project(), [Path("d")])

    assert [type(subject) for subject in found.all] == [rk.ReplayCase, Unusable]
    assert "case format 9" in found.unusable[0].reason


def test_a_session_by_its_file_is_replayed_with_the_configuration_that_lies_here() -> None:
    project()
    session("s.yaml")

    assert rk.replay("s.yaml", lambda question: "here you are").passed
    session("s.yaml", contract="unknown")
    with pytest.raises(InvalidFile, match=r"s\.yaml:1: contract: no contract 'unknown'"):
        rk.replay("s.yaml", lambda question: "here you are")
