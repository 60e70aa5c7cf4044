"""The engine of all trials: run a candidate in many worlds, check the runs, and keep the files of failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from replaykit.candidates.attempt import Attempt, Candidate, RepeatedRuns
from replaykit.candidates.evidence import EvidenceFiles, new_workspace, write_evidence
from replaykit.candidates.pool import Pool, move_files
from replaykit.cases.case import ReplayCase
from replaykit.checks.assertions import Assertion, concerns_one_run
from replaykit.checks.questions import Answers
from replaykit.checks.verdict import LEFT_THE_TAPE, desired_in, first_with, is_offline
from replaykit.model.result import Effect, Evidence, Finding, ReplayResult, Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_lines import cut

_NAME_CHARS = 60
NO_FAULT = "no fault was triggered, so this world was not tested"


Cell = TypeVar("Cell")
"""A combination of world and input."""
Score = TypeVar("Score")


class TrialRun(Struct, frozen=True, kw_only=True):
    """One run of the agent, with its world and files."""

    case: ReplayCase
    runs: RepeatedRuns
    """The first run, and repetitions if an assertion needs them."""
    workspace: Path
    duration_s: float

    @property
    def attempt(self) -> Attempt:
        """The outcome of the first run."""
        return self.runs.first


class TrialVerdict(Struct, frozen=True, kw_only=True):
    """The verdict of a trial on one run."""

    name: str
    passed: bool
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()
    """The conditions of the run, for its summary."""


class TrialRunner:
    """Runs a candidate, each time in a separate directory. The directories are deleted with the `with` block."""

    def __init__(self, trial: str, candidate: Candidate, evidence: EvidenceFiles | None = None, jobs: int = 1) -> None:
        self._trial = trial
        self._candidate = candidate
        self._evidence = evidence
        self._pool = Pool(candidate, workers=jobs)

    def __enter__(self) -> TrialRunner:
        return self

    def __exit__(self, *error: Any) -> None:
        self._pool.__exit__(*error)

    def run_cells(
        self,
        cells: Sequence[Cell],
        world: Callable[[Cell], tuple[ReplayCase, float]],
        score: Callable[[Cell, TrialRun], Score],
        *,
        on_done: Callable[[], None],
    ) -> list[tuple[Score, TrialRun]]:
        """Run the candidate in the world of each cell, in parallel. `world` returns the case and the time limit.

        `score` is called in the cell's thread, so that repeated runs for assertions happen in parallel, too.
        """

        def run_cell(cell: Cell) -> tuple[Score, TrialRun]:
            run = self._run(*world(cell))
            result = score(cell, run)
            on_done()
            return result, run

        return list(self._pool.run(cells, run_cell))

    def _run(self, case: ReplayCase, timeout_s: float) -> TrialRun:
        workspace = self._pool.new_directory()
        began = time.perf_counter()
        runs = RepeatedRuns(case, self._candidate, workspace, timeout_s)
        _ = runs.first  # run it here, in this thread and within the measured time
        seconds = round(time.perf_counter() - began, 6)
        return TrialRun(case=case, runs=runs, workspace=workspace, duration_s=seconds)

    def keep_evidence(self, run: TrialRun, verdict: TrialVerdict) -> str:
        """Keep the evidence of a run and return its directory; empty if evidence of passed runs is not kept."""
        if self._evidence is None or (verdict.passed and not self._evidence.of_passed):
            return ""
        name = "-".join(re.findall(r"[\w.]+", f"{self._trial} {verdict.name}"))
        directory = new_workspace(self._evidence.root, name)
        move_files(run.workspace, directory)
        result = self._result(run, verdict, str(directory))
        write_evidence(directory, result, run.case.scenario.input_json, verdict.remarks)
        return str(directory)

    def _result(self, run: TrialRun, verdict: TrialVerdict, directory: str) -> ReplayResult:
        """Return the verdict in the form of a replay's result."""
        attempt = run.attempt
        if attempt.run is None:
            replay_verdict = Verdict.INCONCLUSIVE
        elif verdict.passed:
            replay_verdict = Verdict.FIXED
        else:
            replay_verdict = Verdict.BROKEN
        return ReplayResult(
            case_id=f"{self._trial} {verdict.name}",
            trial=self._trial,
            verdict=replay_verdict,
            candidate=self._candidate.label,
            desired=verdict.findings,
            deviations=attempt.deviations,
            reason=verdict.reason,
            evidence=attempt.evidence or Evidence(),
            offline=is_offline(attempt.deviations),
            consent=run.case.scenario.consent,
            run=attempt.run,
            more=run.runs.more,
            duration_s=run.duration_s,
            directory=directory,
        )


def check_run(
    run: TrialRun, assertions: Sequence[Assertion], answers: Answers | None
) -> tuple[tuple[Finding, ...], str]:
    """Return the findings of assertions on a run, and why one of them is inconclusive, if so."""
    attempt = run.attempt
    assert attempt.run is not None
    spoilt = first_with(Effect.INCONCLUSIVE, attempt.deviations)
    if spoilt is not None:  # an agent that got a wrong answer proves nothing
        return (), spoilt.text
    deviations = attempt.deviations if attempt.watched or attempt.deviations else None
    return desired_in(attempt.run, assertions, deviations, runs=run.runs, answers=answers)


def divergence_text(attempt: Attempt, assertions: Sequence[Assertion]) -> str:
    """Return how a run left the tape; empty if all assertions consider several runs and count that themselves."""
    if assertions and not any(map(concerns_one_run, assertions)):
        return ""
    for deviation in attempt.deviations:
        if deviation.kind in LEFT_THE_TAPE:
            return f"left the tape: {deviation.text}"
    return ""


def incomplete_text(run: TraceRun) -> str:
    """Return how an unsuccessful run ended; empty for success."""
    if run.status is RunStatus.SUCCESS:
        return ""
    return f"ended with {run.status.value}: {run.error or 'no error'}"


def name_of(*words: str) -> str:
    """Join words to a name, each on one line and shortened."""
    return " / ".join(cut(" ".join(word.split()), _NAME_CHARS) for word in words)
