"""An agent that is asked the same in other words: how often does it still do what it must?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.chaos.mutations import Mutation, Mutator
from replaykit.checks.verdict import LEFT_THE_TAPE
from replaykit.contracts.conditions import Conditions
from replaykit.contracts.contract import Contract
from replaykit.errors import ExitCode, NothingSelected
from replaykit.model.result import Finding, Side
from replaykit.model.run import RunStatus
from replaykit.model.values import Json, raw
from replaykit.runners.attempt import Attempt, Candidate
from replaykit.runners.many import side_by_side
from replaykit.runners.worlds import live_case


class MutationTrial(Struct, frozen=True, kw_only=True):
    """What an agent is tried with."""

    mutator: Mutator
    count: int
    """Of mutations for each input."""
    inputs: tuple[Json, ...] = ()
    case: ReplayCase | None = None
    """A recorded world to ask in; a live one without."""
    contract: Contract | None = None
    """What it must keep; without one it has to complete."""
    timeout_s: float = DEFAULT_TIMEOUT_S


class MutationRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One mutation, and whether the agent kept its promises."""

    mutation: Mutation
    passed: bool
    reason: str = ""
    failures: tuple[Finding, ...] = ()
    is_error: bool = False
    """True when the candidate gave no usable answer."""


class MutationResult(Struct, frozen=True, kw_only=True):
    """What all mutations add up to."""

    replaykit: int = 1
    """Version of this form."""
    agent: str
    contract: str = ""
    runs: tuple[MutationRun, ...]
    duration_s: float = 0.0

    @property
    def score(self) -> float:
        """The weighted share of mutations that passed, from 0 to 100."""
        whole = sum(run.mutation.weight for run in self.runs)
        return round(100 * sum(run.mutation.weight for run in self.runs if run.passed) / whole, 2) if whole else 0.0

    def exit_code(self, min_score: float = 100.0) -> ExitCode:
        """Passed where the score is reached."""
        if any(run.is_error for run in self.runs):
            return ExitCode.CANNOT
        return ExitCode.PASSED if self.score >= min_score else ExitCode.FAILED


def run_mutations(
    trial: MutationTrial, candidate: Candidate, *, jobs: int = 1, on_done: Callable[[], None] = lambda: None
) -> MutationResult:
    """How the candidate does when it is asked otherwise; `NothingSelected` when nothing can be said otherwise."""
    began = time.perf_counter()
    mutations = [mutation for given in trial.inputs for mutation in trial.mutator.mutate(given, trial.count)]
    if not mutations:
        hint = "Give an input that holds text: --input TEXT."
        raise NothingSelected("there is no mutation to ask the agent", hint=hint)

    def one(mutation: Mutation) -> MutationRun:
        told = _judged(trial, mutation, _attempt(trial, candidate, mutation))
        on_done()
        return told

    return MutationResult(
        agent=candidate.label,
        contract="" if trial.contract is None else trial.contract.name,
        runs=tuple(side_by_side(mutations, one, candidate, jobs=jobs)),
        duration_s=round(time.perf_counter() - began, 6),
    )


def _attempt(trial: MutationTrial, candidate: Candidate, mutation: Mutation) -> Attempt:
    if trial.case is None:
        case = live_case(mutation.input, timeout_s=trial.timeout_s)
    else:
        scenario = msgspec.structs.replace(trial.case.scenario, input_json=raw(mutation.input))
        case = msgspec.structs.replace(trial.case, scenario=scenario)
    with tempfile.TemporaryDirectory(prefix="replaykit-") as directory:
        return candidate.run(case, Path(directory), trial.timeout_s)


def _judged(trial: MutationTrial, mutation: Mutation, attempt: Attempt) -> MutationRun:
    if attempt.run is None:
        return MutationRun(mutation=mutation, passed=False, reason=attempt.reason, is_error=True)
    left = next((told.text for told in attempt.deviations if told.kind in LEFT_THE_TAPE), "")
    if left:
        return MutationRun(mutation=mutation, passed=False, reason=f"left the tape: {left}")
    if trial.contract is None:
        well = attempt.run.status is RunStatus.SUCCESS
        reason = "" if well else f"ended with {attempt.run.status.value}: {attempt.run.error or 'no error'}"
        return MutationRun(mutation=mutation, passed=well, reason=reason)
    failures = tuple(_failures(trial.contract, attempt))
    reason = failures[0].text if failures else ""
    return MutationRun(mutation=mutation, passed=not failures, reason=reason, failures=failures)


def _failures(contract: Contract, attempt: Attempt) -> Iterator[Finding]:
    asked = contract.assertions(Conditions())
    if not asked:
        message = f"no invariant of the contract {contract.name!r} applies where there is no chaos"
        raise NothingSelected(message, hint="Add one with `when: always`.")
    for assertion in asked:
        found = assertion.check(attempt.run, Side.DESIRED) if attempt.run is not None else None
        if found is not None and not found.holds:
            yield found
