"""Verdict: the conclusion from a candidate's run about a case's failure, in one word and one sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from replaykit.checks.assertions import Assertion, concerns_one_run
from replaykit.checks.reading import first
from replaykit.checks.rule import CannotTell, Runs
from replaykit.errors import ExitCode
from replaykit.model.result import (
    EFFECTS,
    Deviation,
    Effect,
    Evidence,
    Finding,
    ReplayResult,
    SemanticCheck,
    Side,
    Verdict,
    effect_of,
)
from replaykit.model.run import RunStatus, TraceRun

if TYPE_CHECKING:
    from replaykit.checks.questions import Answers

EXIT_CODES = {
    Verdict.REPRODUCED: ExitCode.FAILED,
    Verdict.FIXED: ExitCode.PASSED,
    Verdict.BROKEN: ExitCode.FAILED,
    Verdict.DIVERGED: ExitCode.FAILED,
    Verdict.FLAKY: ExitCode.FAILED,
    Verdict.INCONCLUSIVE: ExitCode.CANNOT,
}
"""The exit code of a command for each verdict, if `fixed` is expected."""


def _kinds_with(effect: Effect) -> frozenset[str]:
    return frozenset(kind for kind, own_effect in EFFECTS.items() if own_effect is effect)


LEFT_THE_TAPE = _kinds_with(Effect.DIVERGED)
"""Deviations after which the candidate's further behaviour is unknown."""
SPOILT = _kinds_with(Effect.INCONCLUSIVE)
"""Deviations that are not the candidate's fault: it was served something other than the recording."""

UNORDERED = "unordered"
_CLOSE_CALLS = ("undecided", UNORDERED)
_TOO_CLOSE = "too close to call: "

NO_SIGNATURE = (
    "there is nothing to reproduce: the case has no failure signature, so passing it proves nothing\n"
    "Describe the failure in `observed`. To keep a good run as a golden trace: replaykit golden RUN"
)


class Facts(Struct, frozen=True, kw_only=True):
    """Everything that a verdict rests on."""

    observed: tuple[Finding, ...] = ()
    desired: tuple[Finding, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    """The deviations of the judged run."""
    evidence: Evidence = Evidence()
    uncertain: tuple[str, ...] = ()
    """Reasons to trust nothing but a visible failure, such as an order that was too close to call."""
    unjudged: str = ""
    """Why a desired assertion is inconclusive."""
    status: RunStatus = RunStatus.SUCCESS
    error: str = ""
    """The error of the run."""
    needs_signature: bool = True
    """False for a session, whose contract replaces signatures."""


class VerdictDecision(Struct, frozen=True, kw_only=True):
    """A verdict and the reason for it."""

    verdict: Verdict
    reason: str = ""
    reproduced: bool | None = None


def _inconclusive(reason: str) -> VerdictDecision:
    return VerdictDecision(verdict=Verdict.INCONCLUSIVE, reason=reason)


def decide(facts: Facts) -> VerdictDecision:
    """Return the verdict for these facts."""
    # A wrong answer may have caused everything after it, including a divergence.
    if (spoilt := first_with(Effect.INCONCLUSIVE, facts.deviations)) is not None:
        return _inconclusive(spoilt.text)
    gone = False if facts.observed else None
    if (left := first_with(Effect.DIVERGED, facts.deviations)) is not None:
        if facts.uncertain:  # another order may have caused it
            return _inconclusive(facts.uncertain[0])
        # Off the tape, the candidate was in another world than the failure, so it cannot have reproduced it.
        return VerdictDecision(
            verdict=Verdict.DIVERGED, reason=f"the candidate left the tape: {left.text}", reproduced=gone
        )
    # A person who allows live calls puts the candidate into another world, in which it took part.
    if not facts.evidence.suffices and is_offline(facts.deviations):
        return _inconclusive(_without_evidence(facts))
    decision = _inside(facts, gone)
    # A run that failed before it used the tape proves nothing: any mistake in the code looks like that.
    used_nothing = facts.evidence.recorded > 0 and facts.evidence.used == 0
    has_failed = facts.status is not RunStatus.SUCCESS and decision.verdict is not Verdict.FIXED
    if used_nothing and has_failed and is_offline(facts.deviations):
        return _inconclusive(_without_evidence(facts))
    return decision


def _inside(facts: Facts, gone: bool | None) -> VerdictDecision:
    """Return the verdict on a candidate that took part in the recorded world and stayed in it."""
    if facts.observed and all(finding.holds for finding in facts.observed):
        return VerdictDecision(verdict=Verdict.REPRODUCED, reproduced=True)
    if facts.uncertain:
        return _inconclusive(facts.uncertain[0])
    return _not_reproduced(facts, gone)


def _not_reproduced(facts: Facts, gone: bool | None) -> VerdictDecision:
    """Return the verdict inside the recorded world if the failure did not show."""
    failed = [finding for finding in facts.desired if not finding.holds]
    if failed:
        reason = _failed_in_words(failed, facts.observed)
        return VerdictDecision(verdict=Verdict.BROKEN, reason=reason, reproduced=gone)
    if facts.unjudged:
        return _inconclusive(facts.unjudged)
    if not facts.desired and facts.status is not RunStatus.SUCCESS:
        # A candidate that fails in another way has not fixed anything.
        reason = f"the case desires nothing, and the run ended with {facts.status.value}"
        return VerdictDecision(verdict=Verdict.BROKEN, reason=reason, reproduced=gone)
    if facts.needs_signature and not facts.observed:
        return _inconclusive(NO_SIGNATURE)
    return VerdictDecision(verdict=Verdict.FIXED, reproduced=gone)


def first_with(effect: Effect, deviations: Iterable[Deviation]) -> Deviation | None:
    """Return the first deviation with this effect on the verdict."""
    return first(deviations, lambda deviation: effect_of(deviation.kind) is effect)


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
    evidence: Evidence | None = None,
    uncertain: tuple[str, ...] = (),
    needs_signature: bool = True,
    runs: Runs | None = None,
    answers: Answers | None = None,
) -> ReplayResult:
    """Check both sides of a case against the run, and return the result.

    `watched` is false if nobody saw whether the candidate followed the tape, so that no deviations prove nothing.
    `runs` supplies more runs of the candidate, `answers` the answers of judges.
    """
    evidence = evidence or Evidence()

    def cannot_tell(reason: str) -> ReplayResult:
        return failed_to_run(case_id, reason, candidate, run=run, deviations=deviations, evidence=evidence)

    impossible = _cannot_tell(observed, desired, run, deviations)
    if run is None or impossible:
        return cannot_tell(impossible)
    # Deviations of an unwatched run are unknown, not absent: rules about the replay must not hold by silence.
    known = deviations if watched or deviations else None
    try:
        seen = tuple(assertion.check(run, Side.OBSERVED, known, runs=runs, answers=answers) for assertion in observed)
    except CannotTell as error:
        return cannot_tell(str(error))
    findings, unjudged = desired_in(run, desired, known, runs=runs, answers=answers)
    sentences = tuple(dict.fromkeys(semantic))
    doubts = (*uncertain, *doubts_in(deviations))
    # If every assertion looks at several runs, each run that stays outside the tape is counted there.
    is_about_first = bool(sentences) or any(map(concerns_one_run, (*observed, *desired)))
    decision = decide(
        Facts(
            observed=seen,
            desired=findings,
            deviations=tuple(deviations) if is_about_first else (),
            evidence=evidence if is_about_first else Evidence(),
            uncertain=doubts,
            unjudged=unjudged,
            status=run.status,
            error="" if run.error is None else str(run.error),
            needs_signature=needs_signature,
        )
    )
    return ReplayResult(
        case_id=case_id,
        verdict=decision.verdict,
        candidate=candidate,
        reproduced=decision.reproduced,
        observed=seen,
        desired=findings,
        semantic=tuple(SemanticCheck(text=text) for text in sentences),
        deviations=tuple(deviations),
        reason=decision.reason,
        evidence=evidence,
        offline=is_offline(deviations),
        uncertain=doubts,
        run=run,
    )


def doubts_in(deviations: Iterable[Deviation]) -> tuple[str, ...]:
    """Return the reasons in the deviations to trust nothing but a visible failure."""
    doubts = []
    for deviation in deviations:
        if effect_of(deviation.kind) is Effect.UNCERTAIN:
            start = _TOO_CLOSE if deviation.kind in _CLOSE_CALLS else ""
            doubts.append(f"{start}{deviation.text}")
    return tuple(doubts)


def desired_in(
    run: TraceRun,
    desired: Sequence[Assertion],
    deviations: Sequence[Deviation] | None,
    *,
    runs: Runs | None,
    answers: Answers | None,
) -> tuple[tuple[Finding, ...], str]:
    """Return the findings of conclusive assertions, and why the first of the others is inconclusive."""
    found: list[Finding] = []
    inconclusive = ""
    for assertion in desired:
        try:
            found.append(assertion.check(run, Side.DESIRED, deviations, runs=runs, answers=answers))
        except CannotTell as error:
            inconclusive = inconclusive or str(error)
    return tuple(found), inconclusive


def is_red(result: ReplayResult) -> bool:
    """Return whether the failure shows: it is reproduced, or, without signatures, a desired assertion fails on the
    tape."""
    if result.verdict is Verdict.BROKEN and not result.observed:
        return any(not finding.holds for finding in result.desired)
    return result.verdict is Verdict.REPRODUCED


def is_offline(deviations: Iterable[Deviation]) -> bool:
    """Return whether no call was done live."""
    return first_with(Effect.LIVE, deviations) is None


def settled(results: Sequence[ReplayResult]) -> list[ReplayResult]:
    """Return the results, marked `flaky` where repetitions of a case disagree."""
    verdicts: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        verdicts[result.case_id].append(result.verdict.value)
    return [_settled(result, verdicts[result.case_id]) for result in results]


def _settled(result: ReplayResult, verdicts: Sequence[str]) -> ReplayResult:
    if len(set(verdicts)) == 1:
        return result
    reason = f"repeated runs disagree: {', '.join(verdicts)}\nThis one was {result.verdict.value}"
    if result.reason:
        reason = f"{reason}: {result.reason}"
    return msgspec.structs.replace(result, verdict=Verdict.FLAKY, reason=reason)


def failed_to_run(
    case_id: str,
    reason: str,
    candidate: str = "",
    *,
    run: TraceRun | None = None,
    deviations: Sequence[Deviation] = (),
    evidence: Evidence | None = None,
) -> ReplayResult:
    """Return the result if nothing can be concluded: the candidate gave no usable answer, or nothing was asserted."""
    return ReplayResult(
        case_id=case_id,
        verdict=Verdict.INCONCLUSIVE,
        candidate=candidate,
        reason=reason,
        run=run,
        deviations=tuple(deviations),
        evidence=evidence or Evidence(),
        offline=is_offline(deviations),
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
    spoilt = first_with(Effect.INCONCLUSIVE, deviations)
    if spoilt is None:
        return ""
    return spoilt.text


def _without_evidence(facts: Facts) -> str:
    """Return why nothing is known about a candidate that stayed outside the recorded world."""
    unused = unused_in_words(facts.evidence)
    if facts.error:
        return f"the candidate {unused}: it failed first, with {facts.error}"
    return f"the candidate {unused}\n{_USE_THE_TAPE}"


def unused_in_words(evidence: Evidence) -> str:
    """Return in words that a candidate used nothing of a tape."""
    count = evidence.recorded
    if count == 1:
        return "did not use the recorded answer"
    return f"used none of the {count} recorded answers"


_USE_THE_TAPE = (
    "Its tools must be answered from the case: decorate them with @rk.tool, or run the program behind `--`.\n"
    "If a right answer needs none of them, say so in the case: evidence: output"
)


def _failed_in_words(failed: Sequence[Finding], seen: Sequence[Finding]) -> str:
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    gone = "the failure did not reproduce, but " if seen else ""
    return f"{gone}a desired assertion failed: expected {first.expected}, got {first.actual}{more}"
