"""An agent that is asked the same in other words: how often does it still do what it must?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.chaos.mutations import Mutation, Mutator
from replaykit.checks.assertions import Assertion
from replaykit.checks.questions import Answers
from replaykit.contracts.conditions import Conditions
from replaykit.contracts.contract import Contract
from replaykit.errors import ExitCode, NothingSelected, gravest
from replaykit.model.result import Finding
from replaykit.model.run import RunStatus
from replaykit.model.values import Json, canonical, raw
from replaykit.runners.attempt import Candidate
from replaykit.runners.many import side_by_side
from replaykit.runners.worlds import live_case
from replaykit.trials.trying import EvidenceFiles, Judged, Tried, Trying, found_in, left_in, name_of


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
    answers: Answers | None = None
    """What judges said."""
    timeout_s: float = DEFAULT_TIMEOUT_S


class MutationRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One mutation, and whether the agent kept its promises."""

    mutation: Mutation
    passed: bool
    reason: str = ""
    failures: tuple[Finding, ...] = ()
    is_error: bool = False
    """True when the candidate gave no usable answer, or nobody can tell."""
    evidence: str = ""
    """The directory with its files, where they were kept."""


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
        return self._share(run for run in self.runs if run.passed)

    @property
    def best_score(self) -> float:
        """The score that there would be if all mutations of which nobody can tell had passed."""
        return self._share(run for run in self.runs if run.passed or run.is_error)

    def _share(self, runs: Iterable[MutationRun]) -> float:
        whole = sum(run.mutation.weight for run in self.runs)
        return round(100 * sum(run.mutation.weight for run in runs) / whole, 2) if whole else 0.0

    def exit_code(self, min_score: float = 100.0) -> ExitCode:
        """Passed where the score is reached, and nobody is left to tell."""
        reached = ExitCode.PASSED if self.best_score >= min_score else ExitCode.FAILED
        return gravest([reached, *(ExitCode.CANNOT for run in self.runs if run.is_error)])


def run_mutations(
    trial: MutationTrial,
    candidate: Candidate,
    *,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
    evidence: EvidenceFiles | None = None,
) -> MutationResult:
    """How the candidate does when it is asked otherwise; `NothingSelected` when nothing can be said otherwise."""
    began = time.perf_counter()
    mutations = [mutation for given in trial.inputs for mutation in trial.mutator.mutate(given, trial.count)]
    if not mutations:
        hint = "Give an input that holds text: --input TEXT."
        raise NothingSelected("there is no mutation to ask the agent", hint=hint)

    with Trying("mutation", candidate, evidence) as trying:

        def one(mutation: Mutation) -> tuple[MutationRun, Tried]:
            tried = _tried(trial, trying, mutation)
            told = _judged(trial, mutation, tried)
            on_done()
            return told, tried

        both = side_by_side(mutations, one, candidate, jobs=jobs)
        runs = tuple(_with_evidence(trying, told, tried) for told, tried in both)
    return MutationResult(
        agent=candidate.label,
        contract="" if trial.contract is None else trial.contract.name,
        runs=runs,
        duration_s=round(time.perf_counter() - began, 6),
    )


def _tried(trial: MutationTrial, trying: Trying, mutation: Mutation) -> Tried:
    if trial.case is None:
        case = live_case(mutation.input, timeout_s=trial.timeout_s)
    else:
        scenario = msgspec.structs.replace(trial.case.scenario, input_json=raw(mutation.input))
        case = msgspec.structs.replace(trial.case, scenario=scenario)
    return trying.run(case, trial.timeout_s)


def _with_evidence(trying: Trying, told: MutationRun, tried: Tried) -> MutationRun:
    mutation = told.mutation
    text = mutation.input if isinstance(mutation.input, str) else canonical(mutation.input).decode()
    judged = Judged(
        name=name_of(mutation.kind, text),
        passed=told.passed,
        reason=told.reason,
        findings=told.failures,
        remarks=(f"mutation: {mutation.kind}, {mutation.what}",),
    )
    kept = trying.keep(tried, judged)
    return msgspec.structs.replace(told, evidence=kept) if kept else told


def _judged(trial: MutationTrial, mutation: Mutation, tried: Tried) -> MutationRun:
    attempt = tried.attempt
    if attempt.run is None:
        return MutationRun(mutation=mutation, passed=False, reason=attempt.reason, is_error=True)
    asked = () if trial.contract is None else _asked(trial.contract)
    left = left_in(attempt, asked)
    if left:
        return MutationRun(mutation=mutation, passed=False, reason=f"left the tape: {left}")
    if trial.contract is None:
        well = attempt.run.status is RunStatus.SUCCESS
        reason = "" if well else f"ended with {attempt.run.status.value}: {attempt.run.error or 'no error'}"
        return MutationRun(mutation=mutation, passed=well, reason=reason)
    found, untold = found_in(tried, asked, trial.answers)
    failures = tuple(one for one in found if not one.holds)
    if untold and not failures:
        return MutationRun(mutation=mutation, passed=False, reason=untold, is_error=True)
    reason = failures[0].text if failures else ""
    return MutationRun(mutation=mutation, passed=not failures, reason=reason, failures=failures)


def _asked(contract: Contract) -> tuple[Assertion, ...]:
    asked = contract.assertions(Conditions())
    if not asked:
        message = f"no invariant of the contract {contract.name!r} applies where there is no chaos"
        raise NothingSelected(message, hint="Add one with `when: always`.")
    return asked
