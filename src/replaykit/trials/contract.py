"""A contract on trial: the agent is asked every probe in every scenario, and each invariant of what it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.checks.assertions import Assertion, CannotTell
from replaykit.checks.questions import Answers
from replaykit.checks.repeating import wanted_runs
from replaykit.contracts.conditions import Conditions, conditions_of
from replaykit.contracts.contract import Contract, Invariant
from replaykit.contracts.matrix import CALM, ChaosScenario
from replaykit.contracts.score import Check, ContractResult, result_of
from replaykit.contracts.types import against, needs_baseline
from replaykit.errors import NothingSelected
from replaykit.model.result import Finding
from replaykit.model.values import Json, canonical, decode
from replaykit.runners.attempt import Attempt, Candidate
from replaykit.runners.many import side_by_side
from replaykit.runners.worlds import calls_of, live_case, with_chaos
from replaykit.trials.chaos import names_of, struck_in
from replaykit.trials.trying import NO_FAULT, EvidenceFiles, Judged, Tried, Trying, found_in, left_in, name_of

_EXCERPT_CHARS = 500


class Trial(Struct, frozen=True, kw_only=True):
    """What a contract is tried with."""

    contract: Contract
    scenarios: tuple[ChaosScenario, ...] = ()
    """The worlds it is tried in; one without faults when there is none."""
    inputs: tuple[Json, ...] = ()
    """What is asked where an invariant has no probes of its own."""
    case: ReplayCase | None = None
    """A case whose world the agent is put into; then its input is the only one."""
    timeout_s: float | None = None
    """Per run; by default the case's own."""
    answers: Answers | None = None
    """What judges said."""
    min_score: float = 100.0


class _Cell(Struct, frozen=True):
    """One run of the agent: in which scenario, and with which input."""

    scenario: ChaosScenario
    given: Json


def run_contract(
    trial: Trial,
    candidate: Candidate,
    *,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
    evidence: EvidenceFiles | None = None,
) -> ContractResult:
    """How well the candidate keeps the contract; `NothingSelected` when there is nothing to ask."""
    began = time.perf_counter()
    cells = cells_of(trial)
    with Trying("contract", candidate, evidence) as trying:

        def one(cell: _Cell) -> Tried:
            tried = _tried(trial, trying, cell)
            _repeat(trial, cell, tried)
            on_done()
            return tried

        runs = side_by_side(cells, one, candidate, jobs=jobs)
        pairs = list(zip(cells, runs, strict=True))
        untested = _untested(pairs)
        checks = [
            check
            for cell, run, found in _checked(trial, pairs)
            for check in _with_evidence(trying, run, found, _judged(trial, cell, run, found, untested))
        ]
    return result_of(
        trial.contract.name,
        checks,
        min_score=trial.min_score,
        agent=candidate.label,
        untested=tuple(untested),
        reason=next((run.attempt.reason for run in runs if run.attempt.run is None), ""),
        duration_s=round(time.perf_counter() - began, 6),
    )


def scenarios_of(trial: Trial) -> tuple[ChaosScenario, ...]:
    """The worlds of a trial: an empty matrix is one world without faults."""
    return trial.scenarios or (CALM,)


def cells_of(trial: Trial) -> list[_Cell]:
    """The runs of a trial: each input once in each scenario; a baseline is a run without faults."""
    inputs = inputs_of(trial)
    if not inputs:
        raise NothingSelected(
            f"the contract {trial.contract.name!r} has no probe, and no input was given",
            hint="Give one: --input TEXT, or write `probes:` into an invariant.",
        )
    scenarios = scenarios_of(trial)
    is_compared = any(needs_baseline(invariant.assertion) for invariant in trial.contract.invariants)
    if is_compared and not any(scenario.plan.is_calm for scenario in scenarios):
        scenarios = (msgspec.structs.replace(CALM, name="baseline"), *scenarios)
    return [_Cell(scenario, given) for scenario in scenarios for given in inputs]


def inputs_of(trial: Trial) -> list[Json]:
    """Everything the agent is asked, each once."""
    if trial.case is not None:
        return [trial.case.scenario.input]
    probes = trial.contract.probes
    is_general = any(not invariant.probes for invariant in trial.contract.invariants)
    general = (trial.inputs or probes) if is_general else ()
    return list({_text(given): given for given in (*general, *probes)}.values())


def _is_asked(trial: Trial, invariant: Invariant, given: Json) -> bool:
    if trial.case is not None:
        return True
    return given in (invariant.probes or trial.inputs or trial.contract.probes)


def _tried(trial: Trial, trying: Trying, cell: _Cell) -> Tried:
    case = with_chaos(trial.case or live_case(cell.given), cell.scenario.plan)
    return trying.run(case, trial.timeout_s or case.scenario.timeout_s)


def _repeat(trial: Trial, cell: _Cell, tried: Tried) -> None:
    """Make the further runs that invariants ask for here, where cells run side by side."""
    if tried.attempt.run is None:
        return
    conditions = _conditions(trial, cell, tried.attempt)
    asked = [invariant for invariant in trial.contract.invariants if _is_asked(trial, invariant, cell.given)]
    wanted = [wanted_runs(one.assertion) for one in asked if not conditions.why_not(one.when)]
    with suppress(CannotTell):  # told when it is checked
        for number in range(2, max(wanted, default=1) + 1):
            tried.runs(number)


def _checked(trial: Trial, pairs: Sequence[tuple[_Cell, Tried]]) -> Iterator[tuple[_Cell, Tried, list[Check]]]:
    """Each run with its checks; one that is only a baseline has none."""
    baselines = {_text(cell.given): run.attempt for cell, run in pairs if cell.scenario.plan.is_calm}
    asked = {scenario.name for scenario in scenarios_of(trial)}
    for cell, run in pairs:
        baseline = baselines.get(_text(cell.given))
        invariants = trial.contract.invariants if cell.scenario.name in asked else ()
        here = [invariant for invariant in invariants if _is_asked(trial, invariant, cell.given)]
        yield cell, run, [_check(trial, invariant, cell, run, baseline) for invariant in here]


def _judged(trial: Trial, cell: _Cell, run: Tried, checks: Sequence[Check], untested: Sequence[str]) -> Judged:
    failed = [check for check in checks if check.holds is False]
    unjudged = next((check.unjudged for check in checks if check.unjudged), "")
    struck = [struck.text for struck in struck_in(run.attempt.run, cell.given, cell.scenario.plan)]
    unstruck = NO_FAULT if cell.scenario.name in untested else ""
    return Judged(
        name=name_of(trial.contract.name, cell.scenario.name, _text(cell.given)),
        passed=run.attempt.run is not None and not failed and not unjudged and not unstruck,
        reason=run.attempt.reason or next((check.error or check.text for check in failed), unjudged or unstruck),
        findings=tuple(finding_of(check) for check in checks if check.holds is not None),
        remarks=(
            f"scenario: {cell.scenario.name}, seed {cell.scenario.plan.seed}",
            *(f"fault: {text}" for text in struck),
        ),
    )


def _with_evidence(trying: Trying, run: Tried, checks: Sequence[Check], judged: Judged) -> Iterator[Check]:
    kept = trying.keep(run, judged)
    for check in checks:
        yield msgspec.structs.replace(check, evidence=kept) if kept else check


def finding_of(check: Check) -> Finding:
    """A check as what an assertion found."""
    return Finding(
        kind=check.type,
        holds=check.holds is True,
        text=check.text,
        expected=check.expected,
        actual=check.actual,
        seq=check.seq,
        run=check.run,
        id=check.invariant,
        severity=check.severity.value,
    )


def _check(trial: Trial, invariant: Invariant, cell: _Cell, tried: Tried, baseline: Attempt | None) -> Check:
    attempt = tried.attempt
    check = Check(
        scenario=cell.scenario.name,
        invariant=invariant.id,
        type=invariant.type,
        severity=invariant.severity,
        probe=_text(cell.given),
    )
    if attempt.run is None:
        return msgspec.structs.replace(check, unjudged=attempt.reason or "the agent gave no run")
    why_not = _conditions(trial, cell, attempt).why_not(invariant.when)
    if why_not:
        return msgspec.structs.replace(check, skipped=why_not)
    asked = _compared(invariant.assertion, baseline)
    told, untold = found_in(tried, (asked,), trial.answers)
    if not told:
        return msgspec.structs.replace(check, unjudged=untold, output=_output(attempt))
    (found,) = told
    left = left_in(attempt, (asked,))
    failed = str(attempt.run.error) if attempt.run.error else ""
    return msgspec.structs.replace(
        check,
        holds=found.holds and not left,
        text=found.text,
        expected=found.expected,
        actual=found.actual,
        seq=found.seq,
        run=found.run,
        output=_output(attempt),
        error=f"left the tape: {left}" if left else failed,
    )


def _output(attempt: Attempt) -> str:
    """The beginning of what the agent answered."""
    run = attempt.run
    return _text(run.output)[:_EXCERPT_CHARS] if run is not None and run.output_json else ""


def _conditions(trial: Trial, cell: _Cell, attempt: Attempt) -> Conditions:
    """What was wrong while it ran: faults that struck, and calls of the case that failed when they were recorded."""
    return conditions_of(_struck(cell, attempt), () if trial.case is None else calls_of(trial.case))


def _struck(cell: _Cell, attempt: Attempt) -> list[str]:
    return list(names_of(struck_in(attempt.run, cell.given, cell.scenario.plan)))


def _untested(pairs: Sequence[tuple[_Cell, Tried]]) -> list[str]:
    """The scenarios with faults that struck in no run."""
    struck = {cell.scenario.name for cell, run in pairs if cell.scenario.plan.is_calm or _struck(cell, run.attempt)}
    ran = {cell.scenario.name for cell, run in pairs if run.attempt.run is not None}
    return [name for name in dict.fromkeys(cell.scenario.name for cell, _ in pairs) if name in ran - struck]


def _compared(assertion: Assertion, baseline: Attempt | None) -> Assertion:
    if not needs_baseline(assertion) or baseline is None or baseline.run is None:
        return assertion
    return against(assertion, decode(baseline.run.output_json) if baseline.run.output_json else None)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()
