"""Contract trials: run the agent with every probe in every scenario, and check each invariant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.attempt import Attempt, Candidate
from replaykit.candidates.evidence import EvidenceFiles
from replaykit.candidates.worlds import calls_of, live_case, with_chaos
from replaykit.cases.case import ReplayCase
from replaykit.checks.assertions import Assertion
from replaykit.checks.combinators import needed_runs
from replaykit.checks.questions import Answers
from replaykit.checks.reading import text_of
from replaykit.checks.rule import CannotTell
from replaykit.contracts.contract import CALM, ChaosScenario, Conditions, Contract, Invariant, conditions_of
from replaykit.contracts.invariant_types import compare_with, needs_baseline
from replaykit.contracts.score import ContractResult, InvariantCheck, result_of
from replaykit.errors import NothingSelected
from replaykit.model.result import Finding
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.project.project import Project
from replaykit.trials.chaos import fault_names, injected_faults, remarks_of
from replaykit.trials.trial_runs import (
    NO_FAULT,
    TrialRun,
    TrialRunner,
    TrialVerdict,
    check_run,
    divergence_text,
    name_of,
)

_EXCERPT_CHARS = 500


class ContractTrial(Struct, frozen=True, kw_only=True):
    """A contract with the worlds and inputs to try it in."""

    contract: Contract
    scenarios: tuple[ChaosScenario, ...] = ()
    """The worlds; empty means one without faults."""
    inputs: tuple[Json, ...] = ()
    """Inputs for invariants without probes of their own."""
    case: ReplayCase | None = None
    """A case that provides the world and the only input."""
    timeout_s: float | None = None
    """The time limit per run; default: the case's own."""
    answers: Answers | None = None
    """Answers of judges."""
    min_score: float = 100.0


class _ContractCell(Struct, frozen=True):
    """One run of the agent: its scenario and its input."""

    scenario: ChaosScenario
    input: Json


class ContractRun(Struct, frozen=True):
    """One run of the agent with its checks. A run that is only a baseline has none."""

    scenario: ChaosScenario
    input: Json
    run: TrialRun
    checks: tuple[InvariantCheck, ...]
    is_untested: bool
    """True if the scenario's faults occurred in no run."""


def run_contract(trial: ContractTrial, candidate: Candidate, **settings: Any) -> ContractResult:
    """Check how well the candidate keeps the contract. `settings` are passed to `contract_runs`."""
    began = time.perf_counter()
    runs = contract_runs(trial, candidate, **settings)
    return result_of(
        trial.contract.name,
        list(chain.from_iterable(run.checks for run in runs)),
        min_score=trial.min_score,
        agent=candidate.label,
        untested=tuple(dict.fromkeys(run.scenario.name for run in runs if run.is_untested)),
        reason=next((run.run.attempt.reason for run in runs if run.run.attempt.run is None), ""),
        duration_s=round(time.perf_counter() - began, 6),
    )


def contract_runs(
    trial: ContractTrial,
    candidate: Candidate,
    *,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
    evidence: EvidenceFiles | None = None,
) -> list[ContractRun]:
    """Return the runs of a trial with their checks; raise `NothingSelected` if there is no input."""
    cells = cells_of(trial)
    found = []
    with TrialRunner("contract", candidate, evidence, jobs) as runner:
        # Checks compare with baselines, so they wait for all cells. Repeated runs for them happen here, in parallel.
        ran = runner.run_cells(cells, partial(_world, trial), partial(_repeat, trial), on_done=on_done)
        pairs = [(cell, run) for cell, (_, run) in zip(cells, ran, strict=True)]
        untested = _untested(pairs)
        for cell, run, checks in _checked(trial, pairs):
            directory = runner.keep_evidence(run, _verdict(trial, cell, run, checks, untested))
            located = tuple(replace(check, evidence=directory) for check in checks)
            found.append(ContractRun(cell.scenario, cell.input, run, located, cell.scenario.name in untested))
    return found


def scenarios_of(trial: ContractTrial) -> tuple[ChaosScenario, ...]:
    """Return the worlds of a trial. An empty matrix means one world without faults."""
    return trial.scenarios or (CALM,)


def cells_of(trial: ContractTrial) -> list[_ContractCell]:
    """Return the runs of a trial: each input once per scenario, with a run without faults as the baseline."""
    inputs = inputs_of(trial)
    if not inputs:
        raise NothingSelected(
            f"the contract {trial.contract.name!r} has no probe, and no input was given",
            hint="Give one: --input TEXT, or write `probes:` into an invariant.",
        )
    scenarios = scenarios_of(trial)
    is_compared = any(needs_baseline(invariant.assertion) for invariant in trial.contract.invariants)
    if is_compared and not any(scenario.plan.is_calm for scenario in scenarios):
        scenarios = (replace(CALM, name="baseline"), *scenarios)
    return [_ContractCell(scenario, value) for scenario in scenarios for value in inputs]


def inputs_of(trial: ContractTrial) -> list[Json]:
    """Return all distinct inputs."""
    if trial.case is not None:
        return [trial.case.scenario.input]
    probes = trial.contract.probes
    general: Sequence[Json] = ()
    if any(not invariant.probes for invariant in trial.contract.invariants):
        general = trial.inputs or probes
    return list({text_of(value): value for value in (*general, *probes)}.values())


def _invariants_for(trial: ContractTrial, cell: _ContractCell) -> list[Invariant]:
    """Return the invariants to check with the cell's input."""
    if trial.case is not None:
        return list(trial.contract.invariants)
    others = trial.inputs or trial.contract.probes
    return [invariant for invariant in trial.contract.invariants if cell.input in (invariant.probes or others)]


def _world(trial: ContractTrial, cell: _ContractCell) -> tuple[ReplayCase, float]:
    case = with_chaos(trial.case or live_case(cell.input), cell.scenario.plan)
    return case, trial.timeout_s or case.scenario.timeout_s


def _repeat(trial: ContractTrial, cell: _ContractCell, run: TrialRun) -> None:
    """Make the repeated runs that invariants need, while cells run in parallel."""
    if run.attempt.run is None:
        return
    conditions = _conditions(trial, cell, run.attempt)
    count = 1
    for invariant in _invariants_for(trial, cell):
        if not conditions.why_not(invariant.when):
            count = max(count, needed_runs(invariant.assertion))
    with suppress(CannotTell):  # reported when the invariant is checked
        for number in range(2, count + 1):
            run.runs(number)


def _checked(
    trial: ContractTrial, pairs: Sequence[tuple[_ContractCell, TrialRun]]
) -> Iterator[tuple[_ContractCell, TrialRun, list[InvariantCheck]]]:
    """Yield each run with its checks. A run that is only a baseline has none."""
    baselines = {text_of(cell.input): run.attempt for cell, run in pairs if cell.scenario.plan.is_calm}
    scenarios = {scenario.name for scenario in scenarios_of(trial)}
    for cell, run in pairs:
        checks = []
        if cell.scenario.name in scenarios:
            baseline = baselines.get(text_of(cell.input))
            for invariant in _invariants_for(trial, cell):
                checks.append(_check(trial, invariant, cell, run, baseline))
        yield cell, run, checks


def _verdict(
    trial: ContractTrial,
    cell: _ContractCell,
    run: TrialRun,
    checks: Sequence[InvariantCheck],
    untested: Sequence[str],
) -> TrialVerdict:
    plan = cell.scenario.plan
    reasons, unjudged = [], []
    for check in checks:
        if check.holds is False:
            reasons.append(check.error or check.text)
        if check.unjudged:
            unjudged.append(check.unjudged)
    reasons += unjudged
    if cell.scenario.name in untested:
        reasons.append(NO_FAULT)
    return TrialVerdict(
        name=name_of(trial.contract.name, cell.scenario.name, text_of(cell.input)),
        passed=run.attempt.run is not None and not reasons,
        reason=run.attempt.reason or next(iter(reasons), ""),
        findings=tuple(finding_of(check) for check in checks if check.holds is not None),
        remarks=remarks_of(cell.scenario.name, plan.seed, injected_faults(run.attempt.run, cell.input, plan)),
    )


def finding_of(check: InvariantCheck) -> Finding:
    """Convert a check to an assertion's finding."""
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
        where=check.where,
    )


def _check(
    trial: ContractTrial, invariant: Invariant, cell: _ContractCell, run: TrialRun, baseline: Attempt | None
) -> InvariantCheck:
    attempt = run.attempt
    check = InvariantCheck(
        scenario=cell.scenario.name,
        invariant=invariant.id,
        type=invariant.type,
        severity=invariant.severity,
        probe=text_of(cell.input),
        where=invariant.assertion.where,
    )
    if attempt.run is None:
        return replace(check, unjudged=attempt.reason or "the agent gave no run")
    why_not = _conditions(trial, cell, attempt).why_not(invariant.when)
    if why_not:
        return replace(check, skipped=why_not)
    assertion = _compared(invariant.assertion, baseline)
    findings, inconclusive = check_run(run, (assertion,), trial.answers)
    check = replace(check, output=_output(attempt.run))
    if not findings:
        return replace(check, unjudged=inconclusive)
    (finding,) = findings
    divergence = divergence_text(attempt, (assertion,))
    error = str(attempt.run.error) if attempt.run.error else ""
    return replace(
        check,
        holds=finding.holds and not divergence,
        text=finding.text,
        expected=finding.expected,
        actual=finding.actual,
        seq=finding.seq,
        run=finding.run,
        error=divergence or error,
    )


def _output(run: TraceRun) -> str:
    """Return the beginning of the agent's answer."""
    if run.output_json:
        return text_of(run.output)[:_EXCERPT_CHARS]
    return ""


def _conditions(trial: ContractTrial, cell: _ContractCell, attempt: Attempt) -> Conditions:
    """Return what went wrong in a run: injected faults, and recorded calls that had failed."""
    recorded = () if trial.case is None else calls_of(trial.case)
    return conditions_of(_fault_names(cell, attempt), recorded)


def _fault_names(cell: _ContractCell, attempt: Attempt) -> list[str]:
    return list(fault_names(injected_faults(attempt.run, cell.input, cell.scenario.plan)))


def _untested(pairs: Sequence[tuple[_ContractCell, TrialRun]]) -> list[str]:
    """Return the scenarios whose faults occurred in no run."""
    ran: dict[str, None] = {}
    tested = set()
    for cell, run in pairs:
        name = cell.scenario.name
        if run.attempt.run is not None:
            ran.setdefault(name)
        if cell.scenario.plan.is_calm or _fault_names(cell, run.attempt):
            tested.add(name)
    return [name for name in ran if name not in tested]


def _compared(assertion: Assertion, baseline: Attempt | None) -> Assertion:
    if not needs_baseline(assertion) or baseline is None or baseline.run is None:
        return assertion
    return compare_with(assertion, baseline.run.output if baseline.run.output_json else None)


def general_contract(contracts: Iterable[Contract]) -> Contract | None:
    """Return the invariants that apply to any input: those without probes and baselines."""
    names = []
    invariants = []
    for contract in contracts:
        names.append(contract.name)
        for invariant in contract.invariants:
            if not invariant.probes and not needs_baseline(invariant.assertion):
                invariants.append(invariant)
    if not invariants:
        return None
    return Contract(name=", ".join(names), invariants=tuple(invariants))


def chaos_contract(project: Project, *, in_cases: bool) -> Contract | None:
    """Return the contract for the project's agent under faults; None if it only has to complete.

    In the worlds of cases, several contracts are not combined, because each session keeps only one of them.
    """
    if in_cases and len(project.contracts) > 1:
        return None
    return general_contract(project.contracts.values())


def mutation_contract(project: Project) -> Contract | None:
    """Return the contract for the project's agent with rephrased inputs."""
    contract = general_contract(project.contracts.values())
    if contract is not None and contract.assertions(Conditions()):
        return contract
    return None
