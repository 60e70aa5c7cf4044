"""Verdict: what a candidate's run says about a case's failure, in one word and one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from replaykit.checks.inside import is_about_one_run
from replaykit.checks.parsing import Assertion
from replaykit.checks.rule import CannotTell, Runs
from replaykit.model.result import Deviation, Finding, ReplayResult, SemanticCheck, Side, Verdict
from replaykit.model.run import RunStatus, TraceRun

if TYPE_CHECKING:
    from replaykit.checks.questions import Answers

LEFT_THE_TAPE = frozenset({"missing", "blocked", "network"})
"""Deviations after which nobody knows what the candidate would have done with an answer."""


def judge_run(
    *,
    case_id: str,
    observed: Sequence[Assertion],
    desired: Sequence[Assertion],
    semantic: Iterable[str],
    run: TraceRun | None,
    deviations: Sequence[Deviation] = (),
    watched: bool = True,
    candidate: str = "",
    runs: Runs | None = None,
    answers: Answers | None = None,
) -> ReplayResult:
    """Check both sides of a case against the run, and say what that adds up to.

    `watched` is false when nobody saw whether the candidate followed the tape: then no deviations say nothing. `runs`
    gives more runs of the candidate, `answers` what judges said.
    """
    impossible = _cannot_tell(observed, desired, run, deviations)
    if run is None or impossible:
        return failed_to_run(case_id, impossible, candidate, run=run, deviations=deviations)
    known = deviations if watched or deviations else None
    try:
        seen = tuple(one.check(run, Side.OBSERVED, known, runs=runs, answers=answers) for one in observed)
    except CannotTell as error:
        return failed_to_run(case_id, str(error), candidate, run=run, deviations=deviations)
    wanted, untold = desired_in(run, desired, known, runs=runs, answers=answers)
    sentences = tuple(semantic)
    is_about_first = bool(sentences) or any(map(is_about_one_run, (*observed, *desired)))
    # Where each assertion looks at several runs, leaving the tape is counted with them, whichever run did.
    stopped = (deviation for deviation in deviations if deviation.kind in LEFT_THE_TAPE)
    left = next(stopped, None) if is_about_first else None
    # Off the tape the candidate was in another world than the failure: that is never the failure again.
    reproduced = left is None and all(finding.holds for finding in seen) if seen else None
    if untold and left is None and not reproduced and all(finding.holds for finding in wanted):
        return failed_to_run(case_id, untold, candidate, run=run, deviations=deviations)
    verdict, reason = _decide(reproduced, seen, wanted, left, run)
    return ReplayResult(
        case_id=case_id,
        verdict=verdict,
        candidate=candidate,
        reproduced=reproduced,
        observed=seen,
        desired=wanted,
        semantic=tuple(SemanticCheck(text=text) for text in sentences),
        deviations=tuple(deviations),
        reason=reason,
        run=run,
    )


def desired_in(
    run: TraceRun,
    desired: Sequence[Assertion],
    deviations: Sequence[Deviation] | None,
    *,
    runs: Runs | None,
    answers: Answers | None,
) -> tuple[tuple[Finding, ...], str]:
    """What the assertions find that can tell, and why the first of the others cannot: what failed has failed anyway."""
    found: list[Finding] = []
    untold: list[str] = []
    for one in desired:
        try:
            found.append(one.check(run, Side.DESIRED, deviations, runs=runs, answers=answers))
        except CannotTell as error:
            untold.append(str(error))
    return tuple(found), next(iter(untold), "")


def is_red(result: ReplayResult) -> bool:
    """True when the failure is there: reproduced; or, where no signature says how it looks, a desired assertion that
    fails on the tape."""
    if result.verdict is Verdict.CHANGED and not result.observed:
        left = any(deviation.kind in LEFT_THE_TAPE for deviation in result.deviations)
        return not left and any(not finding.holds for finding in result.desired)
    return result.verdict is Verdict.REPRODUCED


def failed_to_run(
    case_id: str,
    reason: str,
    candidate: str = "",
    *,
    run: TraceRun | None = None,
    deviations: Sequence[Deviation] = (),
) -> ReplayResult:
    """The result when nothing can be told: the candidate gave no usable answer, or nothing was asked."""
    return ReplayResult(
        case_id=case_id,
        verdict=Verdict.ERROR,
        candidate=candidate,
        reason=reason,
        run=run,
        deviations=tuple(deviations),
    )


def _cannot_tell(
    observed: Sequence[Assertion],
    desired: Sequence[Assertion],
    run: TraceRun | None,
    deviations: Sequence[Deviation],
) -> str:
    if not observed and not desired:
        return "the case has no assertions: fill `observed` or `desired`"
    if run is None:
        return "the candidate left no run"
    if run.status is RunStatus.RUNNING:
        return f"the run {run.id!r} has not ended"
    # An answer that the recording cannot give is our failure, not the agent's.
    return next((deviation.text for deviation in deviations if deviation.kind == "unanswerable"), "")


def _decide(
    reproduced: bool | None,
    seen: Sequence[Finding],
    wanted: Sequence[Finding],
    left: Deviation | None,
    run: TraceRun,
) -> tuple[Verdict, str]:
    if left is not None:
        return Verdict.CHANGED, f"the candidate left the tape: {left.text}"
    if reproduced:
        return Verdict.REPRODUCED, ""
    failed = [finding for finding in wanted if not finding.holds]
    if failed:
        return Verdict.CHANGED, _failed_in_words(failed, seen)
    if not wanted and run.status is not RunStatus.SUCCESS:
        # A candidate that breaks in another way has not fixed anything.
        return Verdict.CHANGED, f"the case desires nothing, and the run ended with {run.status.value}"
    return Verdict.FIXED, ""


def _failed_in_words(failed: Sequence[Finding], seen: Sequence[Finding]) -> str:
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    gone = "the failure did not reproduce, but " if seen else ""
    return f"{gone}a desired assertion failed: expected {first.expected}, got {first.actual}{more}"
