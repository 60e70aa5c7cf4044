"""The runs of a trial and the files they leave, until it is known which of them somebody will want to look at."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.checks.assertions import Assertion
from replaykit.checks.inside import is_about_one_run
from replaykit.checks.questions import Answers
from replaykit.checks.verdict import LEFT_THE_TAPE, desired_in, first_with, is_offline
from replaykit.errors import StoreError
from replaykit.model.result import Effect, Evidence, Finding, ReplayResult, Verdict
from replaykit.runners.again import Again
from replaykit.runners.attempt import Attempt, Candidate
from replaykit.runners.evidence import new_workspace, write_evidence

_NAME_CHARS = 60
NO_FAULT = "no fault struck: nothing is known of this world"


class EvidenceFiles(Struct, frozen=True, kw_only=True):
    """Where the runs of a trial leave their files."""

    root: Path
    of_passed: bool = False
    """True when those that pass leave them as well."""


class Tried(Struct, frozen=True, kw_only=True):
    """One run of the agent: in which world, what came of it, and where its files are."""

    case: ReplayCase
    runs: Again
    """It, and more like it where an assertion asks for several."""
    workspace: Path
    duration_s: float

    @property
    def attempt(self) -> Attempt:
        """What came of the run that is looked at."""
        return self.runs.first


class Judged(Struct, frozen=True, kw_only=True):
    """What a trial says about one run."""

    name: str
    passed: bool
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()
    """What it was tried with."""


class Trying:
    """Runs a candidate, each time in a directory of its own; what is not kept is gone when the `with` block ends."""

    def __init__(self, trial: str, candidate: Candidate, evidence: EvidenceFiles | None = None) -> None:
        self._trial = trial
        self._candidate = candidate
        self._evidence = evidence
        self._numbers = itertools.count()

    def __enter__(self) -> Trying:
        self._directory = tempfile.TemporaryDirectory(prefix="replaykit-", ignore_cleanup_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def run(self, case: ReplayCase, timeout_s: float) -> Tried:
        """Run the candidate once in the world of a case."""
        workspace = Path(self._directory.name) / str(next(self._numbers))
        workspace.mkdir()
        began = time.perf_counter()
        runs = Again(case, self._candidate, workspace, timeout_s)
        seconds = round(time.perf_counter() - began, 6)
        return Tried(case=case, runs=runs, workspace=workspace, duration_s=seconds)

    def keep(self, tried: Tried, judged: Judged) -> str:
        """The directory with the evidence of a run; nothing where it passed and nobody asked for that."""
        if self._evidence is None or (judged.passed and not self._evidence.of_passed):
            return ""
        kept = new_workspace(self._evidence.root, "-".join(re.findall(r"[\w.]+", f"{self._trial} {judged.name}")))
        try:
            for file in tried.workspace.iterdir():
                shutil.move(file, kept / file.name)
        except OSError as error:
            raise StoreError(f"{kept}: the evidence cannot be written: {error.strerror}") from None
        write_evidence(kept, self._result(tried, judged, str(kept)), tried.case.scenario.input_json, judged.remarks)
        return str(kept)

    def _result(self, tried: Tried, judged: Judged, evidence: str) -> ReplayResult:
        """What a replay says of its run, said of this one."""
        attempt = tried.attempt
        verdict = Verdict.FIXED if judged.passed else Verdict.BROKEN
        return ReplayResult(
            case_id=f"{self._trial} {judged.name}",
            trial=self._trial,
            verdict=Verdict.INCONCLUSIVE if attempt.run is None else verdict,
            candidate=self._candidate.label,
            desired=judged.findings,
            deviations=attempt.deviations,
            reason=judged.reason,
            evidence=attempt.evidence or Evidence(),
            offline=is_offline(attempt.deviations),
            consent=tried.case.scenario.consent,
            run=attempt.run,
            more=tried.runs.more,
            duration_s=tried.duration_s,
            directory=evidence,
        )


def found_in(tried: Tried, asked: Sequence[Assertion], answers: Answers | None) -> tuple[tuple[Finding, ...], str]:
    """What assertions find in a run, and why one of them cannot tell; nothing where all can."""
    attempt = tried.attempt
    assert attempt.run is not None
    spoilt = first_with(Effect.INCONCLUSIVE, attempt.deviations)
    if spoilt is not None:  # what the agent did with another answer than the recorded one says nothing
        return (), spoilt.text
    known = attempt.deviations if attempt.watched or attempt.deviations else None
    return desired_in(attempt.run, asked, known, runs=tried.runs, answers=answers)


def left_in(attempt: Attempt, asked: Sequence[Assertion]) -> str:
    """Where a run left the tape; nothing where every assertion counts that among several runs."""
    if asked and not any(map(is_about_one_run, asked)):
        return ""
    return next((told.text for told in attempt.deviations if told.kind in LEFT_THE_TAPE), "")


def name_of(*words: str) -> str:
    """A name of several words, each on one line and not too long."""
    lines = (" ".join(word.split()) for word in words)
    return " / ".join(line if len(line) <= _NAME_CHARS else line[: _NAME_CHARS - 1] + "…" for line in lines)
