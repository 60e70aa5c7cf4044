"""Cases of failed runs: one for each way to fail, however many runs did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from replaykit.candidates.case_check import check_case
from replaykit.cases.case import CASE_FILE, ReplayCase, load_case
from replaykit.cases.detect_outcome import mask
from replaykit.cases.promote import incompleteness, refuse_incomplete
from replaykit.cases.scaffold import scaffold
from replaykit.cases.signatures import detect
from replaykit.checks.assertions import Assertion
from replaykit.documents.slug import slug
from replaykit.errors import ReplayKitError
from replaykit.formats.core.source import read_source
from replaykit.formats.files import find_runs
from replaykit.intake.entries import FAILURES, CaseMade
from replaykit.model.run import TraceRun
from replaykit.model.values import canonical
from replaykit.redaction.files import file_redactor

_NOTHING = b"[]"
"""The observation where no detector knows the failure; two of those are never taken for the same."""


_OF_TOOLS = ("tool.ignored_error", "tool.unretried_error")
"""Signatures that name a tool and not what it said: one tool can fail in many ways."""


class _Failure(NamedTuple):
    """The features that distinguish failures."""

    agent: str = ""
    observed: bytes = _NOTHING
    reasons: tuple[str, ...] = ()
    """Error texts of tools, with `*` for parts that vary."""


_NOBODYS = _Failure()


class CaseResult(StrEnum):
    """The result of making a case of a failed run."""

    CREATED = "made"
    THERE = "there"  # it has been made before
    SAME = "same"  # another case of this agent fails in the same way


class Cases:
    """The cases of an import, in one directory."""

    def __init__(self, directory: Path, dry_run: bool = False, *, allow_incomplete: bool = False) -> None:
        self._directory = directory
        self._dry_run = dry_run
        self._allow_incomplete = allow_incomplete
        self._redactor = file_redactor(foreign=dry_run)  # who only looks makes no key
        self.suspects: list[str] = []
        """Runs that call themselves a success, and in which a detector finds something wrong."""
        self._new_cases: set[Path] = set()
        self._alike: dict[_Failure, Path] = {}
        """Failures that were looked for already, as the runs say them: looking for one is slow."""
        self._known: dict[bytes, list[tuple[_Failure | None, Path]]] = {}
        """By what is observed: the failures that look so, each with its case; one that is not read yet is None."""
        for case in _cases_in(directory):
            self._known.setdefault(_observed(case.observed), []).append((None, case.directory))

    def of(self, run: TraceRun) -> CaseMade | None:
        """Return the case of a failed run, made where its failure is not known; None for a run without a failure.

        A run that calls itself a success is left alone; where a detector finds something wrong in it, it is a suspect.
        """
        place = self._directory / slug("tool_call", run.id)
        if place in self._new_cases or (place / CASE_FILE).exists():
            return CaseMade(directory=str(place), result=CaseResult.THERE)
        failure = _failure(run)
        if run.status not in FAILURES:
            if failure.observed != _NOTHING:
                self.suspects.append(run.id)
            return None
        same = self._alike.get(failure)
        if same is None:
            clean = _failure(self._clean(run))
            same = self._same(clean)
        if same is not None:
            self._alike[failure] = same
            return CaseMade(directory=str(same), result=CaseResult.SAME, why=f"it failed as {same.name} did")
        if not self._allow_incomplete:
            refuse_incomplete(run)
        why = ""
        if not self._dry_run:
            problem = check_case(scaffold(run, place, remarks=incompleteness(run)), run).problem
            if problem:
                why = f"not ready: {problem.splitlines()[0]}"
        self._new_cases.add(place)
        self._known.setdefault(clean.observed, []).append((clean, place))
        return CaseMade(directory=str(place), result=CaseResult.CREATED, why=why)

    def _same(self, failure: _Failure) -> Path | None:
        if failure.observed == _NOTHING:
            return None
        known = self._known.get(failure.observed, [])
        for index, (other, place) in enumerate(known):
            if other is None:
                other = _failure_of_case(place)
                known[index] = (other, place)
            if (other.agent, other.reasons) == (failure.agent, failure.reasons):
                return place
        return None

    def _clean(self, run: TraceRun) -> TraceRun:
        """The run as a case keeps it: what is secret differs in each, and must not tell failures apart."""
        if self._redactor is None:
            return run
        from replaykit.redaction.events import Door  # noqa: PLC0415 (not where redaction is turned off)

        return Door(self._redactor).run(run)


def _cases_in(directory: Path) -> Iterator[ReplayCase]:
    for file in sorted(directory.glob(f"*/{CASE_FILE}")):
        try:
            yield load_case(file.parent)
        except ReplayKitError:  # it is in nobody's way: a run of its name finds it there
            continue


def _failure(run: TraceRun) -> _Failure:
    found = detect(run)
    return _Failure(
        agent=run.agent or run.name,
        observed=_observed([detection.assertion for detection in found]),
        reasons=tuple(mask(detection.text) for detection in found if detection.assertion.kind in _OF_TOOLS),
    )


def _observed(observed: Sequence[Assertion]) -> bytes:
    return canonical([[assertion.kind, assertion.value] for assertion in observed])


def _failure_of_case(directory: Path) -> _Failure:
    """The failure that a case holds; nobody's where its trace cannot be read."""
    try:
        case = load_case(directory)
        if case.trace_path is None:
            return _NOBODYS
        found = find_runs(read_source(case.trace_path), case.source.format)
        runs = (run for run in found if isinstance(run, TraceRun))
        return next((_failure(run) for run in runs if run.id == case.source.run), _NOBODYS)
    except ReplayKitError:
        return _NOBODYS
