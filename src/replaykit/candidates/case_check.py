"""Check a new or upgraded case: it must judge the run that it was made from as `reproduced`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.candidates.attempt import Candidate
from replaykit.candidates.inprocess import RecordedCandidate
from replaykit.candidates.replay import exit_code, replay
from replaykit.candidates.worlds import source_run, with_consent, with_take
from replaykit.cases.case import RECORDED, ReplayCase, load_case
from replaykit.cases.proof import ProofWriter, read_proof
from replaykit.cases.requests import REFUSED
from replaykit.cases.scaffold import scaffold as write_case
from replaykit.cases.upgrade import outdated_files, write_files
from replaykit.errors import ExitCode
from replaykit.model.isolation import EVERYTHING, NO_CONSENT, Consent
from replaykit.model.result import ReplayResult, Verdict
from replaykit.model.run import RunStatus, TraceRun


class CaseCheck(Struct, frozen=True, kw_only=True):
    """The verdicts of a new case on its recorded run and, if given, on the agent."""

    results: tuple[ReplayResult, ...]
    problem: str = ""
    """The reason why the case is not ready."""

    @property
    def is_ready(self) -> bool:
        """Whether the failure was reproduced every time."""
        return not self.problem

    @property
    def exit_code(self) -> ExitCode:
        """The exit code, as for `replay --expect reproduced`."""
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
    """Judge the recorded run with the case, then replay the candidate, and write the findings to the proof."""
    # Allow everything: a recorded run performs nothing, and its live calls are looked up as well.
    recorded = with_take(with_consent(case, EVERYTHING), RECORDED, only=True)
    judged = replay(recorded, RecordedCandidate(run))
    results = [replace(judged, consent=NO_CONSENT)]
    if candidate is not None and results[0].verdict is Verdict.REPRODUCED:
        results.append(replay(with_consent(case, consent), candidate, evidence=evidence))
    problem = _problem(case, run, results)
    if not dry_run:
        _write_proof(case, results, is_ready=not problem)
    return CaseCheck(results=tuple(results), problem=problem)


def _write_proof(case: ReplayCase, results: list[ReplayResult], *, is_ready: bool) -> None:
    """Record in the proof that the failure was seen, or that the agent did not fail again and so cannot be `fixed`."""
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
            "To keep a good run as a golden trace: replaykit golden RUN\n"
            "If it did fail, describe the failure in `observed`, and prove the case: replaykit prove"
        )
    return f"no detector knows how the run failed ({run.status.value}): describe the failure in `observed`"


@checked('rk.scaffold(store.load(run_id), "cases/billing")')
def scaffold(
    run: TraceRun,
    out: str | os.PathLike[str],
    *,
    source_text: bytes | None = None,
    source_format: str | None = None,
    case_id: str | None = None,
    title: str | None = None,
    remarks: Sequence[str] = (),
    force: bool = False,
    redact: bool | None = None,
) -> ReplayCase:
    """Turn a run into a case, and write it to the directory `out`.

    `source_text` is the trace the run was read from; without it the run log is kept in its place. `remarks` go
    into the notes. When no detector knows the failure, the case's `observed` is empty and the notes say so. The run is
    judged through the finished case, and where that reproduces the failure, `proof.json` says so.

    Nothing secret gets into the case: it is redacted as it is made, whatever the run's store was opened with, and a
    finding that is left refuses it. `redact=False` is for made-up data; without it the environment decides.

    >>> case = rk.scaffold(store.load(failed_id), "cases/new")
    >>> [assertion.kind for assertion in case.observed]
    ['status_is', 'run.error', 'final_output_exists']
    """
    case = write_case(
        run,
        out,
        source_text=source_text,
        source_format=source_format,
        case_id=case_id,
        title=title,
        remarks=remarks,
        force=force,
        redact=redact,
    )
    check_case(case, run)
    return case


class Upgraded(Struct, frozen=True, kw_only=True):
    """The changes that were made to a case, or would be."""

    directory: str
    """The directory of the case."""
    rewritten: tuple[str, ...] = ()
    """The files that an older version wrote."""
    proven: bool = False
    """True when the case got a proof that it did not have."""
    unproven: str = ""
    """Why it has none, in words."""


def upgrade_case(directory: Path, *, dry_run: bool) -> Upgraded:
    """Rewrite outdated files of a case and, unless it has been proven red, do so with its source trace."""
    files = outdated_files(directory)
    if not dry_run:
        write_files(files)
    case = load_case(directory)
    proven, unproven = _prove_red(case, dry_run=dry_run)
    return Upgraded(
        directory=str(directory), rewritten=tuple(str(one.file) for one in files), proven=proven, unproven=unproven
    )


def _prove_red(case: ReplayCase, *, dry_run: bool) -> tuple[bool, str]:
    """Return whether a proof was written, and otherwise the reason, which is empty if the case already had one."""
    if read_proof(case).red is not None:
        return False, ""
    run = source_run(case) if case.trace_path and case.trace_path.is_file() else None
    if run is None:
        return False, "it has no source trace to check it with"
    check = check_case(case, run, dry_run=dry_run)
    return check.is_ready, check.problem
