"""Subjects: what a configuration leads to, each once, and each with its contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.cases.case_shape import ModelMode
from replaykit.cases.find import Unusable
from replaykit.errors import InvalidFile, NothingSelected
from replaykit.project.case_selection import select_cases

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

    (case,) = select_cases(project(), [Path("s.yaml")]).cases

    assert [assertion.id for assertion in case.desired] == asked
    assert {assertion.severity for assertion in case.desired} == {"medium"}


def test_checks_of_the_project_are_desired_besides() -> None:
    session("s.yaml")

    (case,) = select_cases(project(checks=[{"status_is": "success"}]), [Path("s.yaml")]).cases

    assert [assertion.kind for assertion in case.desired][-1] == "status_is"


def test_models_and_the_agents_time_limit_hold_for_sessions() -> None:
    session("s.yaml")
    agent = {"type": "python", "endpoint": "a:b", "timeout": 1500}

    (case,) = select_cases(project(agent=agent, replays={"models": "live"}), [Path("s.yaml")]).cases

    assert (case.scenario.models, case.scenario.timeout_s) == (ModelMode.LIVE, 1.5)


def test_a_session_that_is_named_twice_is_one_subject() -> None:
    session("replays/a.yaml")
    session("replays/b.yaml")

    found = select_cases(project(cases=["replays"], replays={"sessions": [{"file": "replays/a.yaml"}]}))

    assert [subject.id for subject in found.all] == ["a", "b"]
    assert found.notices == ()


def test_two_of_one_id_are_errors_with_both_places_and_the_others_stay() -> None:
    Path("replays").mkdir()
    Path("replays/a.yaml").write_text("input: x\ncontract: c\nid: same\n")
    Path("replays/b.yaml").write_text("id: same\ninput: x\ncontract: c\n")
    session("replays/c.yaml")

    found = select_cases(project(), [Path("replays")])

    assert [case.id for case in found.cases] == ["c"]
    assert [wrong.reason.splitlines()[0] for wrong in found.unusable] == [
        "replays/a.yaml:3: the id 'same' is also that of replays/b.yaml:1",
        "replays/b.yaml:1: the id 'same' is also that of replays/a.yaml:3",
    ]
    assert all(wrong.error.exit_code == 2 for wrong in found.unusable)


def test_a_case_and_a_session_of_one_id_are_errors_too() -> None:
    session("replays/a.yaml", id="same")
    Path("cases/one").mkdir(parents=True)
    case = "replaykit: 1\nid: same\nscenario: {input: x}\ndesired: [{status_is: success}]\n"
    Path("cases/one/case.yaml").write_text(case)

    found = select_cases(project(cases=["cases", "replays"]))

    assert [wrong.reason.splitlines()[0] for wrong in found.unusable] == [
        "cases/one/case.yaml:2: the id 'same' is also that of replays/a.yaml:1",
        "replays/a.yaml:1: the id 'same' is also that of cases/one/case.yaml:2",
    ]


def test_three_sessions_of_one_id_in_the_configuration_have_their_own_lines() -> None:
    text = "replaykit: 1\ncontract: " + json.dumps(CONTRACT) + "\nreplays:\n  sessions:\n"
    Path("replaykit.yaml").write_text(
        text + "".join("    - {id: same, contract: c,\n       input: x}\n" for _ in range(3))
    )

    found = select_cases(rk.load_project("replaykit.yaml"))

    wrong = found.unusable[1].reason.splitlines()[0]
    assert wrong == "replaykit.yaml:7: the id 'same' is also that of replaykit.yaml:5, replaykit.yaml:9"
    assert not found.cases


def test_a_file_that_several_paths_lead_to_is_no_double() -> None:
    session("replays/a.yaml")
    Path("linked.yaml").symlink_to("replays/a.yaml")

    found = select_cases(project(), [Path("replays"), Path("replays/a.yaml").absolute(), Path("linked.yaml")])

    assert [(case.id, case.file) for case in found.cases] == [("a", Path("replays/a.yaml"))]
    assert not found.unusable


def test_an_empty_directory_is_no_error_where_there_are_sessions() -> None:
    Path("cases").mkdir()
    session("replays/a.yaml")

    found = select_cases(project(cases=["cases", "replays"]))

    assert [case.id for case in found.cases] == ["a"]
    assert found.notices == ("'cases' contains no case and no session",)


def test_nothing_but_empty_directories_is_an_error_that_names_one() -> None:
    Path("cases").mkdir()

    with pytest.raises(NothingSelected, match="'cases' contains no case and no session"):
        select_cases(project(cases=["cases"]))


def test_a_directory_that_is_not_there_is_an_error_at_its_line() -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\ncases:\n  - casses\n")

    with pytest.raises(InvalidFile, match=r"replaykit\.yaml:3: cases: 'casses' does not exist"):
        select_cases(rk.load_project("replaykit.yaml"))


def test_a_session_of_the_configuration_that_cannot_be_read_is_named_by_its_place() -> None:
    found = select_cases(project(replays={"sessions": [{"file": "nowhere.yaml"}]}))

    assert [(wrong.id, "nowhere.yaml" in wrong.reason) for wrong in found.unusable] == [("replays.sessions[0]", True)]


def test_what_is_of_a_newer_format_is_one_error_among_others() -> None:
    session("d/a.yaml")
    Path("d/new").mkdir()
    Path("d/new/case.yaml").write_text("replaykit: 9\nid: new\n")

    found = select_cases(project(), [Path("d")])

    assert [type(subject) for subject in found.all] == [rk.ReplayCase, Unusable]
    assert "case format 9" in found.unusable[0].reason


def test_a_session_by_its_file_is_replayed_with_the_configuration_that_lies_here() -> None:
    project()
    session("s.yaml")

    assert rk.replay("s.yaml", lambda question: "here you are").passed
    session("s.yaml", contract="unknown")
    with pytest.raises(InvalidFile, match=r"s\.yaml:1: contract: no contract 'unknown'"):
        rk.replay("s.yaml", lambda question: "here you are")
