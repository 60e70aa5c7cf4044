"""Turn failed runs into cases: one for each kind of failure, however many runs failed that way."""

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

# The signature of a failure that no detector knows; two of those are never the same.
_NOTHING = b"[]"


# Signatures that name a tool but not its error: one tool can fail in many ways.
_OF_TOOLS = ("tool.ignored_error", "tool.unretried_error")


class _Failure(NamedTuple):
    """The features that tell failures apart."""

    agent: str = ""
    observed: bytes = _NOTHING
    reasons: tuple[str, ...] = ()
    """Error texts of tools, with `*` for the parts that vary."""


_NO_FAILURE = _Failure()


class CaseResult(StrEnum):
    """The result of turning a failed run into a case."""

    CREATED = "made"
    THERE = "there"  # the case exists already
    SAME = "same"  # another case of this agent fails in the same way


class Cases:
    """The cases in the directory that an import writes to."""

    def __init__(self, directory: Path, dry_run: bool = False, *, allow_incomplete: bool = False) -> None:
        self._directory = directory
        self._dry_run = dry_run
        self._allow_incomplete = allow_incomplete
        self._redactor = file_redactor(foreign=dry_run)  # a dry run must not create a key
        self.suspects: list[str] = []
        """Runs with status `success` in which a detector finds a failure."""
        self._new_cases: set[Path] = set()
        # Failures that were looked up before redaction: a lookup is slow.
        self._alike: dict[_Failure, Path] = {}
        # Failures with their cases, by signatures; a case that was not read yet has None.
        self._known: dict[bytes, list[tuple[_Failure | None, Path]]] = {}
        for case in _cases_in(directory):
            self._known.setdefault(_observed(case.observed), []).append((None, case.directory))

    def of(self, run: TraceRun) -> CaseMade | None:
        """Return the case of a failed run, created if its failure is new; None for a run that did not fail.

        A run with status `success` never becomes a case; if a detector finds a failure in it, it is a suspect.
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
        """Redact the run as a case would: a secret that differs in each run must not tell failures apart."""
        if self._redactor is None:
            return run
        from replaykit.redaction.events import Door  # noqa: PLC0415 (only if redaction is on)

        return Door(self._redactor).run(run)


def _cases_in(directory: Path) -> Iterator[ReplayCase]:
    for file in sorted(directory.glob(f"*/{CASE_FILE}")):
        try:
            yield load_case(file.parent)
        except ReplayKitError:  # a broken case does not matter here, unless a run has its id
            continue


def _failure(run: TraceRun) -> _Failure:
    signatures = detect(run)
    return _Failure(
        agent=run.agent or run.name,
        observed=_observed([signature.assertion for signature in signatures]),
        reasons=tuple(mask(signature.text) for signature in signatures if signature.assertion.kind in _OF_TOOLS),
    )


def _observed(observed: Sequence[Assertion]) -> bytes:
    return canonical([[assertion.kind, assertion.value] for assertion in observed])


def _failure_of_case(directory: Path) -> _Failure:
    """Return the failure that a case holds; an empty one if its trace cannot be read."""
    try:
        case = load_case(directory)
        if case.trace_path is None:
            return _NO_FAILURE
        runs = find_runs(read_source(case.trace_path), case.source.format)
        for run in runs:
            if isinstance(run, TraceRun) and run.id == case.source.run:
                return _failure(run)
        return _NO_FAILURE
    except ReplayKitError:
        return _NO_FAILURE
