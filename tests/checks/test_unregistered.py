"""Checks in Python that nobody has registered: found before a replay, where that can be known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaykit.cases.lint import FlawSeverity, Problem, lint_case
from replaykit.checks.custom import CHECKS, register_check
from replaykit.cli import run as cli
from replaykit.contracts.find import lint_contracts

CONTRACT = """\
name: money
invariants:
  - {id: ends, type: completes}
  - {id: once, type: custom.python, value: charged_onse}
  - {id: unsure, type: custom.python, value: {check: charged_once}}
"""


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHECKS, "_entries", {})
    register_check("charged_once", lambda run: True)


def linted(*desired: Any, observed: Any = ()) -> list[Problem]:
    lines = ["replaykit: 1", "id: c", f"observed: {json.dumps(list(observed))}", "desired:"]
    directory = Path("c")
    directory.mkdir()
    (directory / "case.yaml").write_text("\n".join([*lines, *(f"  - {json.dumps(one)}" for one in desired)]))
    return [problem for problem in lint_case(directory) if problem.code == "unknown-check"]


def test_a_name_that_nobody_registered_is_a_warning_with_its_line_and_the_nearest() -> None:
    (problem,) = linted({"status_is": "success"}, {"custom.python": "charged_onse"})

    assert (problem.line, problem.severity) == (6, FlawSeverity.WARNING)
    assert problem.message == "no check 'charged_onse' is registered here; did you mean 'charged_once'?"
    assert "rk.register_check" in problem.hint


def test_one_that_is_registered_is_none() -> None:
    assert linted({"custom.python": "charged_once"}, {"custom.python": {"check": "charged_once", "limit": 3}}) == []


def test_names_are_found_inside_of_other_assertions_and_on_both_sides() -> None:
    deep = {"any": [{"not": {"custom.python": "a"}}, {"repeat": {"times": 2, "of": {"custom.python": "b"}}}]}

    problems = linted({"status_is": "success"}, deep, observed=[{"custom.python": "c"}])

    assert [(problem.line, problem.message.split("'")[1]) for problem in problems] == [(3, "c"), (6, "a"), (6, "b")]


@pytest.mark.parametrize("head", ["", "replaykit: 1\ncontract:\n", "replaykit: 1\ncontracts:\n"])
def test_a_contract_is_looked_at_as_well(head: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = CONTRACT.splitlines(keepends=True)
    if "contracts" in head:
        text = head + "  - " + "    ".join(lines)
    else:
        text = head + "".join(f"  {line}" if head else line for line in lines)
    Path("contract.yaml").write_text(text)

    (problem,) = lint_contracts("contract.yaml")

    assert (problem.code, problem.line) == ("unknown-check", 4 + head.count("\n"))
    assert cli(["contract", "lint", "contract.yaml"]) == 0, "only Python code can know"
    assert "did you mean 'charged_once'?" in capsys.readouterr().out


def test_a_contract_that_is_wrong_is_told_that_first() -> None:
    Path("contract.yaml").write_text(CONTRACT.replace("completes", "complets"))

    assert [problem.code for problem in lint_contracts("contract.yaml")] == ["unknown-type"]
    assert cli(["contract", "lint", "contract.yaml"]) == 1
