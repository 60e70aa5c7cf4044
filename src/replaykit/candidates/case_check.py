"""Check a new case: does it say `reproduced` of the very run it was made of?"""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from replaykit.candidates.attempt import Candidate
from replaykit.candidates.many import exit_code
from replaykit.candidates.recorded import RecordedCandidate
from replaykit.candidates.replay import replay
from replaykit.candidates.worlds import with_consent, with_take
from replaykit.cases.case import RECORDED, ReplayCase
from replaykit.cases.proof import ProofWriter
from replaykit.cases.requests import REFUSED
from replaykit.errors import ExitCode
from replaykit.model.isolation import EVERYTHING, NO_CONSENT, Consent
from replaykit.model.result import ReplayResult, Verdict
from replaykit.model.run import RunStatus, TraceRun


class CaseCheck(Struct, frozen=True, kw_only=True):
    """What a new case says of the recorded run, and of the agent where one was run."""

    results: tuple[ReplayResult, ...]
    problem: str = ""
    """Why the case is not ready, in words."""

    @property
    def is_ready(self) -> bool:
        """True when the failure was reproduced each time."""
        return not self.problem

    @property
    def exit_code(self) -> ExitCode:
        """The code of `replay --expect reproduced`."""
        return exit_code(self.results, Verdict.REPRODUCED)


def check_case(
    case: ReplayCase,
    run: TraceRun,
    candidate: Candidate | None = None,
    *,
    evidence: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    consent: Consent = NO_CONSENT,
) -> CaseCheck:
    """Judge the recorded run through the case, then replay the candidate; write what was seen into the proof."""
    # A recorded run does nothing for real, whatever the case asks for: what it did then is looked up.
    recorded = with_take(with_consent(case, EVERYTHING), RECORDED, only=True)
    judged = replay(recorded, RecordedCandidate(run))
    results = [msgspec.structs.replace(judged, consent=NO_CONSENT)]
    if candidate is not None and results[0].verdict is Verdict.REPRODUCED:
        results.append(replay(with_consent(case, consent), candidate, evidence=evidence))
    problem = _problem(case, run, results)
    if not dry_run:
        _write_proof(case, results, is_ready=not problem)
    return CaseCheck(results=tuple(results), problem=problem)


def _write_proof(case: ReplayCase, results: list[ReplayResult], *, is_ready: bool) -> None:
    """Write that the failure was seen, or that the agent did not fail again: nobody is `fixed` on such a tape."""
    last = results[-1]
    if is_ready:
        ProofWriter(case).write(red=last.candidate)
    elif len(results) > 1 and not any(deviation.kind == REFUSED for deviation in last.deviations):
        ProofWriter(case).write_not_reproduced(last.candidate, last.verdict.value)


def _problem(case: ReplayCase, run: TraceRun, results: list[ReplayResult]) -> str:
    if not case.observed:
        return _nothing_to_reproduce(run)
    last = results[-1]
    if last.verdict is Verdict.REPRODUCED:
        return ""
    reason = last.reason or "; ".join(finding.text for finding in last.desired if not finding.holds)
    verdict = f"{last.candidate} is {last.verdict.value}, expected {Verdict.REPRODUCED.value}"
    if reason:
        return f"{verdict}: {reason}"
    return verdict


def _nothing_to_reproduce(run: TraceRun) -> str:
    if run.status is RunStatus.SUCCESS:
        return (
            "nothing to reproduce: the run did not fail in a way that a detector knows\n"
            "Keep a run that went well as a golden trace: replaykit golden RUN\n"
            "If it failed all the same, say how in `observed`, and prove the case: replaykit prove"
        )
    return f"no detector knows how the run failed ({run.status.value}): say in `observed` how it went wrong"
