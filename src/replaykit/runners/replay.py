"""`replay`: run a candidate inside a case's frozen world, and say what that means."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from replaykit.cases.case import ReplayCase, load_case
from replaykit.checks.verdict import failed_to_run, judge_run
from replaykit.config import MAX_TIMEOUT_S
from replaykit.errors import UsageError
from replaykit.model.result import ReplayResult
from replaykit.model.run import TraceRun
from replaykit.runners.attempt import Attempt, Candidate
from replaykit.runners.command import CommandCandidate
from replaykit.runners.evidence import new_workspace, write_evidence

CandidateLike: TypeAlias = Candidate | Callable[..., Any] | str


def replay(
    case: ReplayCase | TraceRun | str | os.PathLike[str],
    candidate: CandidateLike,
    *,
    timeout_s: float | None = None,
    evidence: str | os.PathLike[str] | None = None,
) -> ReplayResult:
    """Run a candidate (a callable, a command, or a `Candidate`) against a case or a recorded run.

    `evidence` names the directory under which the replay leaves its files; without it none are kept.
    """
    subject = case if isinstance(case, ReplayCase) else _subject(case)
    runner = _candidate(candidate, case if isinstance(case, TraceRun) else None)
    if evidence is not None:
        workspace = new_workspace(Path(evidence), subject.id)
        result = msgspec.structs.replace(_once(subject, runner, workspace, timeout_s), evidence=str(workspace))
        write_evidence(workspace, result)
        return result
    with tempfile.TemporaryDirectory(prefix="replaykit-") as directory:
        return _once(subject, runner, Path(directory), timeout_s)


def _subject(case: TraceRun | str | os.PathLike[str]) -> ReplayCase:
    if isinstance(case, TraceRun):
        from replaykit.cases.scaffold import case_of  # noqa: PLC0415 (brings in all detectors; few replays need them)

        return case_of(case)
    return load_case(case)


def _candidate(candidate: CandidateLike, run: TraceRun | None) -> Candidate:
    """What runs: a callable in this process, a command, or a candidate as it is."""
    if isinstance(candidate, str):
        runner: Candidate = CommandCandidate(candidate)
    elif isinstance(candidate, Candidate):  # before callable(): a candidate may be both
        runner = candidate
    elif callable(candidate):
        from replaykit.runners.inprocess import CallableCandidate  # noqa: PLC0415 (brings in the seam)

        return CallableCandidate(candidate, calls=None if run is None else run.calls)
    else:
        raise UsageError(f"a {type(candidate).__name__} is not a candidate: give a callable, a command or a Candidate")
    if run is not None:
        raise UsageError("a run is replayed against a callable; scaffold a case for other candidates")
    return runner


def _once(case: ReplayCase, candidate: Candidate, workspace: Path, timeout_s: float | None) -> ReplayResult:
    limit = case.scenario.timeout_s if timeout_s is None else timeout_s
    if not 0 < limit <= MAX_TIMEOUT_S:
        raise UsageError(f"timeout_s is {limit}; it must be above 0 and at most {MAX_TIMEOUT_S}")
    began = time.perf_counter()
    attempt = candidate.run(case, workspace, limit)
    result = _judge(case, candidate, attempt)
    return msgspec.structs.replace(result, duration_s=round(time.perf_counter() - began, 6))


def _judge(case: ReplayCase, candidate: Candidate, attempt: Attempt) -> ReplayResult:
    if attempt.run is None:
        return failed_to_run(case.id, attempt.reason, candidate.label, deviations=attempt.deviations)
    return judge_run(
        case_id=case.id,
        observed=case.observed,
        desired=case.desired,
        semantic=case.semantic,
        run=attempt.run,
        deviations=attempt.deviations,
        candidate=candidate.label,
    )
