"""Mutation trials: rephrase an agent's inputs, and measure how often it still keeps its contract."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.attempt import Candidate
from replaykit.candidates.evidence import EvidenceFiles
from replaykit.candidates.worlds import live_case, with_scenario
from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.checks.assertions import Assertion
from replaykit.checks.questions import Answers
from replaykit.checks.reading import text_of
from replaykit.contracts.contract import Conditions, Contract
from replaykit.errors import ExitCode, NothingSelected
from replaykit.handlers.chaos.mutations import Mutation, Mutator
from replaykit.model.result import Finding
from replaykit.model.values import Json, raw
from replaykit.trials.trial_runs import (
    TrialRun,
    TrialRunner,
    TrialVerdict,
    check_run,
    divergence_text,
    incomplete_text,
    name_of,
)


class MutationTrial(Struct, frozen=True, kw_only=True):
    """The inputs, their mutations, and the contract to keep."""

    mutator: Mutator
    count: int
    """The number of mutations per input."""
    inputs: tuple[Json, ...] = ()
    case: ReplayCase | None = None
    """A recorded world to run in; live without one."""
    contract: Contract | None = None
    """The contract to keep; without one, the agent has to complete."""
    answers: Answers | None = None
    """Answers of judges."""
    timeout_s: float = DEFAULT_TIMEOUT_S


class MutationRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One mutation, and whether the agent kept its promises."""

    mutation: Mutation
    passed: bool
    """True when the agent kept the contract."""
    reason: str = ""
    """Why it did not pass; empty if it did."""
    failures: tuple[Finding, ...] = ()
    is_error: bool = False
    """True when the candidate gave no usable answer, or it is inconclusive."""
    evidence: str = ""
    """The directory with its files, where they were kept."""


class MutationResult(Struct, frozen=True, kw_only=True):
    """The results of all mutations."""

    replaykit: int = 1
    """Version of this form."""
    agent: str
    contract: str = ""
    runs: tuple[MutationRun, ...]
    duration_s: float = 0.0

    @property
    def score(self) -> float:
        """The weighted percentage of mutations that passed."""
        return self._share(lambda run: run.passed)

    @property
    def best_score(self) -> float:
        """The score if all inconclusive mutations had passed."""
        return self._share(lambda run: run.passed or run.is_error)

    def _share(self, counts: Callable[[MutationRun], bool]) -> float:
        whole = counted = 0.0
        for run in self.runs:
            whole += run.mutation.weight
            counted += run.mutation.weight * counts(run)
        return round(100 * counted / whole, 2) if whole else 0.0

    def exit_code(self, min_score: float = 100.0) -> ExitCode:
        """Passed if the score is reached and no mutation is inconclusive."""
        if self.best_score < min_score:
            return ExitCode.FAILED
        return ExitCode.CANNOT if any(run.is_error for run in self.runs) else ExitCode.PASSED


def run_mutations(trial: MutationTrial, candidate: Candidate, **settings: Any) -> MutationResult:
    """Check how the candidate handles mutated inputs. `settings` are passed to `mutation_runs`."""
    began = time.perf_counter()
    runs = tuple(run for run, _ in mutation_runs(trial, candidate, **settings))
    return MutationResult(
        agent=candidate.label,
        contract="" if trial.contract is None else trial.contract.name,
        runs=runs,
        duration_s=round(time.perf_counter() - began, 6),
    )


def mutation_runs(
    trial: MutationTrial,
    candidate: Candidate,
    *,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
    evidence: EvidenceFiles | None = None,
) -> list[tuple[MutationRun, TrialRun]]:
    """Return the mutations with their runs; raise `NothingSelected` if no input can be mutated."""
    mutations: list[Mutation] = []
    for value in trial.inputs:
        mutations += trial.mutator.mutate(value, trial.count)
    if not mutations:
        hint = "Give an input that holds text: --input TEXT."
        raise NothingSelected("there is no mutation to ask the agent", hint=hint)

    with TrialRunner("mutation", candidate, evidence, jobs) as runner:
        scored = runner.run_cells(mutations, partial(_world, trial), partial(_score, trial), on_done=on_done)
        return [(_with_evidence(runner, result, run), run) for result, run in scored]


def _world(trial: MutationTrial, mutation: Mutation) -> tuple[ReplayCase, float]:
    if trial.case is None:
        return live_case(mutation.input, timeout_s=trial.timeout_s), trial.timeout_s
    return with_scenario(trial.case, input_json=raw(mutation.input)), trial.timeout_s


def _with_evidence(runner: TrialRunner, result: MutationRun, run: TrialRun) -> MutationRun:
    mutation = result.mutation
    verdict = TrialVerdict(
        name=name_of(mutation.kind, text_of(mutation.input)),
        passed=result.passed,
        reason=result.reason,
        findings=result.failures,
        remarks=(f"mutation: {mutation.kind}, {mutation.what}",),
    )
    return replace(result, evidence=runner.keep_evidence(run, verdict))


def _score(trial: MutationTrial, mutation: Mutation, run: TrialRun) -> MutationRun:
    attempt = run.attempt
    if attempt.run is None:
        return MutationRun(mutation=mutation, passed=False, reason=attempt.reason, is_error=True)
    assertions: tuple[Assertion, ...] = ()
    if trial.contract is not None:
        assertions = _assertions(trial.contract)
    divergence = divergence_text(attempt, assertions)
    if divergence:
        return MutationRun(mutation=mutation, passed=False, reason=divergence)
    if trial.contract is None:
        reason = incomplete_text(attempt.run)
        return MutationRun(mutation=mutation, passed=not reason, reason=reason)
    findings, inconclusive = check_run(run, assertions, trial.answers)
    failures = tuple(finding for finding in findings if not finding.holds)
    if failures:
        return MutationRun(mutation=mutation, passed=False, reason=failures[0].text, failures=failures)
    if inconclusive:
        return MutationRun(mutation=mutation, passed=False, reason=inconclusive, is_error=True)
    return MutationRun(mutation=mutation, passed=True)


def _assertions(contract: Contract) -> tuple[Assertion, ...]:
    assertions = contract.assertions(Conditions())
    if not assertions:
        message = f"no invariant of the contract {contract.name!r} applies where there is no chaos"
        raise NothingSelected(message, hint="Add one with `when: always`.")
    return assertions
