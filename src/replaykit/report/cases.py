"""Cases and their problems as text and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.fixtures import FIXTURES
from replaykit.cases.lint import Problem
from replaykit.checks.assertions import Assertion
from replaykit.documents.shape import FlawSeverity
from replaykit.model.result import Verdict
from replaykit.model.values import JsonObject
from replaykit.report.layout import JsonResult, counted, indented, short, to_json
from replaykit.terminal import style, visible
from replaykit.value_files import VALUES

if TYPE_CHECKING:
    from replaykit.candidates.case_check import CaseCheck


class CheckedBy(Struct, frozen=True, kw_only=True):
    """One check of a new case."""

    candidate: str
    """The recorded run, or the agent that was run."""
    verdict: Verdict
    """`reproduced` where the case shows the failure."""


class NewCase(JsonResult, frozen=True, kw_only=True):
    """A case that was made of a failed run."""

    id: str
    """The id of the case."""
    directory: str
    """The directory of the case."""
    files: Sequence[str]
    """The files of the case, relative to its directory."""
    observed: Sequence[JsonObject]
    """The failure signatures, each as `{kind: value}`."""
    desired: Sequence[JsonObject]
    """The assertions that a fix must pass, each as `{kind: value}`."""
    semantic: Sequence[str]
    """The sentences that a judge has to answer."""
    ready: bool
    """True when every check reproduced the failure."""
    problem: str
    """Why the case is not ready; empty if it is."""
    checks: Sequence[CheckedBy]
    """The checks of the new case, in the order they ran."""


class LintProblems(JsonResult, frozen=True, kw_only=True):
    """The problems of the files that were checked."""

    problems: Sequence[Problem]
    """Every problem, in the order of files and lines; empty if all is well."""


def case_text(case: ReplayCase, command: Sequence[str] = (), *, is_ready: bool = True) -> str:
    """A new case: its files, what it looks for, and what to do next; `command` is the program that was recorded."""
    lines = [f"Created {style(str(case.directory), bold=True)}", *indented(_shown_files(case))]
    lines += ["", "Observed failure signatures:", *_assertions(case.observed, "none detected: fill in `observed`")]
    lines += ["Desired assertions:", *_assertions(case.desired, "none")]
    if case.semantic:
        lines += ["Semantic checks:", *indented(case.semantic, "  - ")]
    if is_ready:
        candidate = f"-- {shlex.join(command)}" if command else "--agent MODULE:FUNCTION"
        lines += ["", f"Next: replaykit replay {case.directory} {candidate}"]
    return "\n".join(lines)


def check_text(check: CaseCheck) -> str:
    """Return whether a new case reproduces the run it was made of."""
    if check.is_ready:
        names = " and ".join(result.candidate for result in check.results)
        return f"{style('Ready', fg='green')}: reproduced by {names}"
    first, *more = check.problem.splitlines()
    return "\n".join([f"{style('Not ready', fg='red', bold=True)}: {first}", *indented(more)])


def case_json(case: ReplayCase, check: CaseCheck) -> str:
    """A new case for programs."""
    return to_json(
        NewCase(
            id=case.id,
            directory=str(case.directory),
            files=_files(case),
            observed=_documents(case.observed),
            desired=_documents(case.desired),
            semantic=case.semantic,
            ready=check.is_ready,
            problem=check.problem,
            checks=[CheckedBy(candidate=result.candidate, verdict=result.verdict) for result in check.results],
        )
    )


def problems_text(problems: Sequence[Problem], count: int, what: str = "case") -> str:
    """Return lint problems, each with file, line and advice."""
    lines = []
    errors = 0
    for problem in problems:
        is_error = problem.severity is FlawSeverity.ERROR
        errors += is_error
        where = f"{problem.file}:{problem.line}" if problem.line else problem.file
        word = style(problem.severity.value, fg="red" if is_error else "yellow")
        lines.append(f"{visible(where)}: {word}: {visible(problem.message)} [{problem.code}]")
        if problem.hint:
            lines.append(f"    {visible(problem.hint)}")
    found = style("ok", fg="green")
    if problems:
        found = f"{counted(errors, 'error')}, {counted(len(problems) - errors, 'warning')}"
    return "\n".join([*lines, f"{counted(count, what)}: {found}"])


def problems_json(problems: Sequence[Problem]) -> str:
    """Return lint problems as JSON."""
    return to_json(LintProblems(problems=problems))


def _files(case: ReplayCase) -> list[str]:
    return sorted(str(file.relative_to(case.directory)) for file in case.directory.rglob("*") if file.is_file())


def _shown_files(case: ReplayCase) -> list[str]:
    """The files of a case; of large values only how many there are."""
    folder = f"{FIXTURES}/{VALUES}/"
    shown, values = [], 0
    for file in _files(case):
        name = file.replace("\\", "/")
        if name.startswith(folder):
            values += 1
        else:
            shown.append(name)
    if values:
        shown.append(f"{folder} ({counted(values, 'large value')})")
    return sorted(shown)


def _documents(assertions: Sequence[Assertion]) -> list[JsonObject]:
    return [{assertion.kind: assertion.value} for assertion in assertions]


def _assertions(assertions: Sequence[Assertion], otherwise: str) -> list[str]:
    """The assertions as one would write them into the case."""
    lines = []
    for assertion in assertions:
        value = assertion.value
        if not isinstance(value, str):
            value = short(orjson.dumps(value).decode(), 100)
        lines.append(f"  - {assertion.kind}: {value}")
    return lines or [f"  ({otherwise})"]
