"""`replay`: run a candidate inside a case's frozen world, and judge it."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.candidates.attempt import Candidate, RepeatedRuns, evidence_of
from replaykit.candidates.evidence import new_workspace, write_evidence
from replaykit.candidates.take_choice import replay_takes
from replaykit.candidates.worlds import with_chaos, with_consent, with_scenario
from replaykit.cases.case import CASE_FILE, JUDGEMENTS_FILE, ReplayCase, load_case
from replaykit.cases.proof import Standing, proof_path, prove_hint, standing_of
from replaykit.checks.assertions import find_judged
from replaykit.checks.verdict import EXIT_CODES, UNORDERED, failed_to_run, judge_run
from replaykit.config import MAX_TIMEOUT_S
from replaykit.errors import ExitCode, FormatTooNew, InvalidFile, UsageError, gravest
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import ReplayResult, Side, Verdict
from replaykit.model.run import TraceRun
from replaykit.private_files import remove_tree
from replaykit.telemetry.switch import watcher

if TYPE_CHECKING:
    from replaykit.checks.questions import Answers


# The number of orders in which a verdict must hold if chance decides the order of events.
_MOST_ORDERS = 12
# The number of further replays that must agree if the recording could not control randomness. An agent that fails in a
# third of them is called fixed once in 130 times; with only seven more, once in 26.
_MORE_DRAWS = 11
_RED = (Verdict.BROKEN, Verdict.DIVERGED)

CandidateLike: TypeAlias = Candidate | Callable[..., Any] | str


@checked('rk.replay("cases/billing", agent), or rk.replay(store.load(run_id), agent)')
def replay(
    case: ReplayCase | TraceRun | str | os.PathLike[str],
    candidate: CandidateLike,
    *,
    timeout_s: float | None = None,
    evidence: str | os.PathLike[str] | None = None,
    chaos: ChaosPlan | None = None,
    live: Sequence[str] = (),
    allow_connect: Sequence[str] = (),
    allow_write: Sequence[str | os.PathLike[str]] = (),
) -> ReplayResult:
    """Run a candidate (a callable, a command, or a `Candidate`) against a case, a session or a recorded run.

    A session's contract is that of the configuration in the working directory. `evidence` names the directory under
    which the replay leaves its files, redacted as the result is then; without it none are kept. `chaos` injects faults;
    see `chaos_plan`.

    Nothing is done for real unless you say so here, whatever the case asks for: `live` names tools, models and requests
    that may be called where the case has no answer (`models` is every model, `*` is anything), `allow_connect` names
    addresses (`HOST:PORT`) that may be reached, `allow_write` names directories in which files may really be written.

    >>> rk.replay("cases/refunds", agent).verdict.value
    'fixed'
    """
    subject = case if isinstance(case, ReplayCase) else subject_of(case)
    if live or allow_connect or allow_write:
        from replaykit.candidates.consent import consent_of  # noqa: PLC0415 (few replays have live calls)

        subject = with_consent(subject, consent_of(live, allow_connect, allow_write))
    if chaos is not None:
        subject = with_chaos(subject, chaos)
    runner = candidate_for(candidate, case if isinstance(case, TraceRun) else None)
    if evidence is not None:
        workspace = new_workspace(Path(evidence), subject.id)
        result = replace(replay_once(subject, runner, workspace, timeout_s), directory=str(workspace))
        return write_evidence(workspace, result, subject.scenario.input_json)
    from tempfile import TemporaryDirectory  # noqa: PLC0415 (slow to import, and most replays leave evidence)

    with TemporaryDirectory(prefix="replaykit-", ignore_cleanup_errors=True) as directory:
        try:
            return replay_once(subject, runner, Path(directory), timeout_s)
        finally:
            remove_tree(directory)


def subject_of(case: TraceRun | str | os.PathLike[str]) -> ReplayCase:
    """Return the case for a path or a recorded run."""
    if isinstance(case, TraceRun):
        from replaykit.cases.scaffold import case_of  # noqa: PLC0415 (imports all detectors; few replays need them)

        return case_of(case)
    file = Path(case)
    if file.is_dir() or file.name == CASE_FILE or not file.is_file():
        return load_case(case)
    from replaykit.project.case_selection import load_case_or_session  # noqa: PLC0415 (brings in contracts; only sessions need them)

    return load_case_or_session(file)


def candidate_for(candidate: CandidateLike, run: TraceRun | None = None) -> Candidate:
    """Return a candidate: an existing one, a callable in this process, or a command."""
    if isinstance(candidate, str):
        from replaykit.candidates.command import CommandCandidate  # noqa: PLC0415 (imports programs)

        runner: Candidate = CommandCandidate(candidate)
    elif isinstance(candidate, Candidate):  # before callable(), because a candidate may be both
        runner = candidate
    else:
        from replaykit.candidates.inprocess import CallableCandidate  # noqa: PLC0415 (imports the seam)

        return CallableCandidate(candidate, calls=None if run is None else run.calls)
    if run is not None:
        raise UsageError("a run is replayed against a callable; scaffold a case for other candidates")
    return runner


def replay_once(case: ReplayCase, candidate: Candidate, workspace: Path, timeout_s: float | None) -> ReplayResult:
    """Return the result of one replay, which leaves its files in the workspace."""
    limit = case.scenario.timeout_s if timeout_s is None else timeout_s
    if not 0 < limit <= MAX_TIMEOUT_S:
        raise UsageError(f"timeout_s is {limit}; it must be above 0 and at most {MAX_TIMEOUT_S}")
    began = time.perf_counter()
    result = replay_takes(case, workspace, lambda one, place: _with_take(one, candidate, place, limit))
    duration_s = round(time.perf_counter() - began, 6)
    result = replace(
        result, expected_failure=case.expected_failure, duration_s=duration_s, consent=case.scenario.consent
    )
    if (listening := watcher()) is not None:
        listening.replayed(result.run, result.verdict.value, result.duration_s)
    return result


def _with_take(case: ReplayCase, candidate: Candidate, workspace: Path, limit: float) -> ReplayResult:
    """Return the result for the one take that the case names."""
    runs = RepeatedRuns(case, candidate, workspace, limit)
    case = _after_faults(case, runs.first.run)
    result = _judge(case, candidate, runs)
    if result.verdict is Verdict.INCONCLUSIVE:
        result = _in_any_order(case, candidate, runs, workspace, limit) or result
    if result.verdict in (Verdict.FIXED, Verdict.BROKEN) and case.scenario.not_held:
        result = _in_any_draw(case, candidate, runs, result, workspace, limit)
    result = replace(result, more=runs.more)
    asks_judge = any(find_judged((*case.observed, *case.desired)))
    if asks_judge or (case.semantic and os.path.lexists(case.directory / JUDGEMENTS_FILE)):
        result = _with_judgements(case, result)
    if result.verdict is Verdict.FIXED and case.scenario.chaos is None:
        result = _with_proof(case, result)
    return result


def _with_proof(case: ReplayCase, result: ReplayResult) -> ReplayResult:
    """Add to a `fixed` result what it rests on.

    If the failing agent did not fail again on this tape, no result counts as fixed.
    """
    if proof_path(case) is None:
        return result
    standing, text = standing_of(case)
    if standing is not Standing.NOT_REPRODUCED or case.scenario.was_seen_red:
        return replace(result, unproven=text)
    reason = f"{text}\nThe reason why it did not fail may look like a fix. {prove_hint(case)}"
    return replace(result, verdict=Verdict.INCONCLUSIVE, reason=reason)


def _in_any_order(
    case: ReplayCase, candidate: Candidate, runs: RepeatedRuns, workspace: Path, timeout_s: float
) -> ReplayResult | None:
    """Resolve doubt about the order of nearly simultaneous events: return the result if it is the same in other orders.

    An order in which the candidate leaves the tape is not the recorded one and says nothing about a fix.
    """
    choices = [deviation.choices for deviation in runs.first.deviations if deviation.kind == UNORDERED]
    if not any(choices):
        return None
    result = _judge(case, candidate, runs.without(UNORDERED))
    orders, is_every_order = other_orders(max(choices, key=len))
    if result.verdict is not Verdict.FIXED and not (is_every_order and result.verdict in _RED):
        return None
    for number, picks in enumerate(orders, start=1):
        other = with_scenario(case, tie_picks=picks)
        if _verdict(other, candidate, workspace / f"order-{number}", timeout_s) not in (
            result.verdict,
            Verdict.DIVERGED,
        ):
            return None
    return result


def _verdict(case: ReplayCase, candidate: Candidate, workspace: Path, timeout_s: float) -> Verdict:
    """Run the candidate again in another world and return its verdict, ignoring undecided orders."""
    workspace.mkdir()
    return _judge(case, candidate, RepeatedRuns(case, candidate, workspace, timeout_s, ignored=UNORDERED)).verdict


def other_orders(choices: Sequence[int]) -> tuple[list[tuple[int, ...]], bool]:
    """Return the picks for other orders than the recorded one, and whether they are complete.

    If there are too many, they are a sample: each tie decided differently on its own, and all ties reversed.
    """
    if math.prod(choices) <= _MOST_ORDERS:
        picks = list(itertools.product(*(range(count) for count in choices)))
        # The first picks are the recorded order.
        return picks[1:], True
    step = math.ceil(len(choices) / (_MOST_ORDERS - 1))
    swapped = [tuple(int(place == other) for place in range(len(choices))) for other in range(0, len(choices), step)]
    return [*swapped, tuple(count - 1 for count in choices)], False


def _in_any_draw(
    case: ReplayCase, candidate: Candidate, runs: RepeatedRuns, result: ReplayResult, workspace: Path, timeout_s: float
) -> ReplayResult:
    """Return the result if it is the same whatever randomness the recording could not control.

    Otherwise return a result that says what it depends on.
    """
    from replaykit.candidates.chance_check import (  # noqa: PLC0415 (few recordings could not control randomness)
        deciding_chance,
        resting_on_chance,
        unchangeable_hashes,
        unmeasurable_use,
    )

    # A replay with faults does not look for a fix, and live calls must not be repeated eleven times.
    if not deciding_chance(case) or case.scenario.chaos is not None or not result.offline:
        return result
    doubt = unmeasurable_use(case)
    if runs.first.keeps_hashes:
        doubt = doubt or unchangeable_hashes(case)
    if doubt:
        return replace(result, verdict=Verdict.INCONCLUSIVE, reproduced=None, reason=doubt)
    for draw in range(1, _MORE_DRAWS + 1):
        verdict = _verdict(with_scenario(case, draw=draw), candidate, workspace / f"draw-{draw}", timeout_s)
        if verdict is not result.verdict:
            reason = resting_on_chance(case, result.verdict, verdict)
            return replace(result, verdict=Verdict.INCONCLUSIVE, reproduced=None, reason=reason)
    return result


def _after_faults(case: ReplayCase, run: TraceRun | None) -> ReplayCase:
    """Return the case with the assertions that apply after the faults that occurred."""
    plan = case.scenario.chaos
    if plan is None or run is None or case.desired_after is None:
        return case
    from replaykit.handlers.chaos.attacks import attacks_of  # noqa: PLC0415 (few replays have attacks)

    struck = [*attacks_of(plan), *(name for call in run.calls for name in call.faults)]
    return replace(case, desired=case.desired_after(struck))


def _judge(case: ReplayCase, candidate: Candidate, runs: RepeatedRuns) -> ReplayResult:
    attempt = runs.first
    if attempt.run is None:
        result = failed_to_run(case.id, attempt.reason, candidate.label, deviations=attempt.deviations)
        return replace(result, isolation=attempt.isolation)
    result = judge_run(
        case_id=case.id,
        observed=case.observed,
        desired=case.desired,
        semantic=case.semantic,
        run=attempt.run,
        deviations=attempt.deviations,
        watched=attempt.watched,
        candidate=candidate.label,
        evidence=evidence_of(case, attempt),
        uncertain=attempt.uncertain,
        needs_signature=not case.is_session,
        runs=runs,
        answers=_answers(case),
    )
    result = replace(result, isolation=attempt.isolation)
    return _with_signature(case, _with_doubts(result, runs.uncertain))


def _with_signature(case: ReplayCase, result: ReplayResult) -> ReplayResult:
    """Return the result, which is not `fixed` if no run can satisfy all observed signatures."""
    if result.verdict is not Verdict.FIXED or len(case.observed) < 2:
        return result
    from replaykit.cases.contradictions import contradictions  # noqa: PLC0415 (few cases have a fix to check)

    clash = next(contradictions(case.observed, Side.OBSERVED), None)
    if clash is None:
        return result
    reason = f"there is nothing to reproduce: no run can have all signatures in `observed`: {clash[2]}"
    return replace(result, verdict=Verdict.INCONCLUSIVE, reproduced=None, reason=reason)


def _with_doubts(result: ReplayResult, uncertain: tuple[str, ...]) -> ReplayResult:
    """Add doubts from the repeated runs, which happen while the first is judged."""
    if uncertain == result.uncertain:
        return result
    result = replace(result, uncertain=uncertain)
    if result.verdict not in (Verdict.FIXED, Verdict.BROKEN, Verdict.DIVERGED):
        return result
    return replace(result, verdict=Verdict.INCONCLUSIVE, reason=uncertain[0])


def _answers(case: ReplayCase) -> Answers | None:
    """Return the answers stored beside the case; None for a case without a file."""
    if not any(find_judged((*case.observed, *case.desired))) or not case.file.is_file():
        return None
    from replaykit.judges.judgement_store import StoredAnswers  # noqa: PLC0415 (most cases have nothing to judge)

    return StoredAnswers(case.directory, str(case.directory if case.file_name == CASE_FILE else case.file))


def _with_judgements(case: ReplayCase, result: ReplayResult) -> ReplayResult:
    """Add the stored judgements for everything in the case that a judge decides."""
    from replaykit.judges.judgement_store import NONE, read_judgements  # noqa: PLC0415
    from replaykit.judges.semantic import with_judgements  # noqa: PLC0415 (most cases have nothing to judge)

    try:
        known = read_judgements(case.directory) if case.file.is_file() else NONE
    except (InvalidFile, FormatTooNew) as error:  # must not stop the replays of other cases
        return replace(result, verdict=Verdict.INCONCLUSIVE, reason=str(error))
    return with_judgements(case, result, known)


def exit_code(results: Sequence[ReplayResult], expected: Verdict = Verdict.FIXED) -> ExitCode:
    """Passed only if there are results and all of them are as expected."""
    if not results:
        return ExitCode.NOTHING
    codes = {**EXIT_CODES, Verdict.FIXED: ExitCode.FAILED, expected: ExitCode.PASSED}
    return gravest(codes[result.verdict] for result in results)
