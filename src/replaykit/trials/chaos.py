"""Chaos trials: run an agent in worlds with faults, each scenario with many seeds, and check whether it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from replaykit.candidates.attempt import Candidate
from replaykit.candidates.case_check import check_case
from replaykit.candidates.evidence import EvidenceFiles
from replaykit.candidates.worlds import calls_of, live_case, with_chaos
from replaykit.cases.case import ReplayCase, dump_case, load_case
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.cases.scaffold import scaffold
from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.checks.questions import Answers
from replaykit.checks.reading import text_of
from replaykit.contracts.contract import ChaosScenario, Conditions, Contract, conditions_of
from replaykit.documents.slug import slug
from replaykit.errors import ExitCode, NothingSelected, gravest
from replaykit.handlers.chaos.attacks import attacked
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import Finding
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.redaction.files import file_redactor, write_clean
from replaykit.trials.trial_runs import (
    NO_FAULT,
    TrialRun,
    TrialRunner,
    TrialVerdict,
    check_run,
    divergence_text,
    incomplete_text,
    name_of,
)

CHAOS = "chaos"
"""The name of the scenario with a project's own faults."""


class ChaosVerdict(StrEnum):
    """The verdict on a run under chaos."""

    HELD = "held"  # the agent did what it must
    BROKE = "broke"  # the agent did not
    ERROR = "error"  # inconclusive: the candidate gave no usable answer


class InjectedFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault that was injected: its name, and the call it struck."""

    fault: str
    """The name of the fault, such as `tool.timeout`."""
    call: str = ""
    """Nothing where it changed the input."""
    path: str = ""
    """The causal path of the call."""
    step: str | None = None
    """The step of the call, if the agent marks steps."""
    seq: int | None = None
    """The number of the call's event."""

    @property
    def text(self) -> str:
        """The fault and where it struck, in words."""
        if self.call:
            return f"{self.fault} in {self.call} (event {self.seq})"
        return f"{self.fault} in the input"


class ChaosRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the agent under one plan."""

    scenario: str
    """The name of the scenario."""
    seed: int
    """Of this run: with it alone the same faults strike again."""
    verdict: ChaosVerdict
    input: str = ""
    """What the agent was asked."""
    faults: tuple[InjectedFault, ...] = ()
    """In the order of the paths they struck at, which is the same whatever came first."""
    reason: str = ""
    """Why it broke or could not be judged; empty if it held."""
    after: InjectedFault | None = None
    """The last fault before it broke."""
    conditions: Conditions = Conditions()
    """The faults that were active: they decide which invariants are asked."""
    invariant_count: int = field(default=0, name="asked")
    """The number of invariants that were asked."""
    failures: tuple[Finding, ...] = ()
    run: TraceRun | None = None
    evidence: str = ""
    """The directory with its files, where they were kept."""


class ChaosResult(Struct, frozen=True, kw_only=True):
    """The results of all runs."""

    replaykit: int = 1
    """Version of this form."""
    agent: str
    contract: str = ""
    runs: tuple[ChaosRun, ...]
    duration_s: float = 0.0

    @property
    def untested(self) -> tuple[str, ...]:
        """Scenarios whose faults occurred in no run."""
        struck = {run.scenario for run in self.runs if run.faults}
        return tuple(dict.fromkeys(run.scenario for run in self.runs if run.scenario not in struck))

    @property
    def score(self) -> float:
        """The percentage of runs that held, in scenarios with injected faults."""
        return self._share(ChaosVerdict.HELD)

    @property
    def best_score(self) -> float:
        """The score if all inconclusive runs had held."""
        return self._share(ChaosVerdict.HELD, ChaosVerdict.ERROR)

    def _share(self, *verdicts: ChaosVerdict) -> float:
        tested = [run.verdict for run in self.runs if run.scenario not in self.untested]
        if tested:
            return round(100 * sum(map(tested.count, verdicts)) / len(tested), 2)
        return 0.0

    @property
    def exit_code(self) -> ExitCode:
        """Passed only if faults occurred in every scenario and every run held."""
        codes = {_CODES[run.verdict] for run in self.runs}
        if self.untested:
            codes.add(ExitCode.NOTHING)
        return gravest(codes)


_CODES = {
    ChaosVerdict.HELD: ExitCode.PASSED,
    ChaosVerdict.BROKE: ExitCode.FAILED,
    ChaosVerdict.ERROR: ExitCode.CANNOT,
}


class ChaosTrial(Struct, frozen=True, kw_only=True):
    """The worlds and inputs of a trial, and the contract to keep."""

    scenarios: tuple[ChaosScenario, ...]
    inputs: tuple[Json, ...] = ()
    """Inputs for live worlds."""
    cases: tuple[ReplayCase, ...] = ()
    """Cases whose recorded worlds are used as well."""
    contract: Contract | None = None
    """The contract to keep; without one, the agent has to complete."""
    runs: int = 1
    """The number of runs per scenario and input. Each uses the next seed."""
    answers: Answers | None = None
    """Answers of judges."""
    timeout_s: float | None = None


class _ChaosCell(Struct, frozen=True):
    scenario: ChaosScenario
    plan: ChaosPlan
    case: ReplayCase


def run_chaos(
    trial: ChaosTrial,
    candidate: Candidate,
    *,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
    evidence: EvidenceFiles | None = None,
) -> ChaosResult:
    """Run a trial; raise `NothingSelected` if no invariant applied to any run."""
    result = chaos_runs(trial, candidate, jobs=jobs, on_done=on_done, evidence=evidence)
    if trial.contract is not None and not any(
        run.invariant_count or run.verdict is ChaosVerdict.ERROR for run in result.runs
    ):
        raise nothing_asked(trial.contract.name)
    return result


def chaos_runs(
    trial: ChaosTrial,
    candidate: Candidate,
    *,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
    evidence: EvidenceFiles | None = None,
) -> ChaosResult:
    """Run a trial, whether or not any invariant applies."""
    began = time.perf_counter()
    cells = list(_cells(trial))
    with TrialRunner(CHAOS, candidate, evidence, jobs) as runner:
        scored = runner.run_cells(cells, partial(_world, trial), partial(_score, trial), on_done=on_done)
        runs = tuple(result for result, _ in scored)
        contract = "" if trial.contract is None else trial.contract.name
        result = ChaosResult(agent=candidate.label, contract=contract, runs=runs)
        untested = set(result.untested)
        runs = tuple(_with_evidence(runner, chaos_run, run, untested) for chaos_run, run in scored)
    return replace(result, runs=runs, duration_s=round(time.perf_counter() - began, 6))


def count_of(trial: ChaosTrial) -> int:
    """Return the number of runs in a trial."""
    return len(trial.scenarios) * (len(trial.inputs) + len(trial.cases)) * trial.runs


def _cells(trial: ChaosTrial) -> Iterator[_ChaosCell]:
    worlds = [live_case(value, timeout_s=trial.timeout_s or DEFAULT_TIMEOUT_S) for value in trial.inputs]
    worlds += trial.cases
    scenarios = [scenario for scenario in trial.scenarios if not scenario.plan.is_calm]
    if not scenarios:
        hint = "Name a profile (--profile api_outage), or write faults under `chaos:`."
        raise NothingSelected("no fault is planned", hint=hint)
    if not worlds:
        raise NothingSelected("no input for the agent", hint="Give --input TEXT, or --case CASE.")
    for scenario in scenarios:
        for world in worlds:
            for number in range(trial.runs):
                plan = replace(scenario.plan, seed=scenario.plan.seed + number)
                yield _ChaosCell(scenario, plan, world)


def _world(trial: ChaosTrial, cell: _ChaosCell) -> tuple[ReplayCase, float]:
    timeout_s = trial.timeout_s
    if timeout_s is None:
        timeout_s = cell.case.scenario.timeout_s
    return with_chaos(cell.case, cell.plan), timeout_s


def _with_evidence(runner: TrialRunner, result: ChaosRun, run: TrialRun, untested: Collection[str]) -> ChaosRun:
    is_untested = result.scenario in untested
    words = [f"seed {result.seed}", result.input]
    if result.scenario != CHAOS:
        words.insert(0, result.scenario)
    reason = result.reason
    if is_untested and not reason:
        reason = NO_FAULT
    verdict = TrialVerdict(
        name=name_of(*words),
        passed=result.verdict is ChaosVerdict.HELD and not is_untested,
        reason=reason,
        findings=result.failures,
        remarks=remarks_of(result.scenario, result.seed, result.faults),
    )
    return replace(result, evidence=runner.keep_evidence(run, verdict))


def _score(trial: ChaosTrial, cell: _ChaosCell, run: TrialRun) -> ChaosRun:
    attempt = run.attempt
    result = ChaosRun(
        scenario=cell.scenario.name,
        seed=cell.plan.seed,
        verdict=ChaosVerdict.HELD,
        input=text_of(cell.case.scenario.input),
        faults=tuple(injected_faults(attempt.run, cell.case.scenario.input, cell.plan)),
        run=attempt.run,
    )
    if attempt.run is None:
        return replace(result, verdict=ChaosVerdict.ERROR, reason=attempt.reason)
    conditions = conditions_of(fault_names(result.faults), calls_of(cell.case))
    assertions: tuple[Assertion, ...] = ()
    if trial.contract is not None:
        assertions = trial.contract.assertions(conditions)
    result = replace(result, conditions=conditions, invariant_count=len(assertions))
    findings, inconclusive = check_run(run, assertions, trial.answers)
    failures = tuple(finding for finding in findings if not finding.holds)
    reason = divergence_text(attempt, assertions) or _failure_text(failures)
    if not reason and not assertions and not inconclusive:
        # A run without applicable invariants must at least complete.
        reason = incomplete_text(attempt.run)
    if reason:
        after = _last_fault(result.faults)
        return replace(result, verdict=ChaosVerdict.BROKE, reason=reason, failures=failures, after=after)
    if inconclusive:
        return replace(result, verdict=ChaosVerdict.ERROR, reason=inconclusive)
    return result


def _last_fault(faults: Sequence[InjectedFault]) -> InjectedFault | None:
    """Return the fault of the latest call; without calls, the first fault of the input."""
    # max() returns the first of equal items, so the first fault without a call.
    return max(faults, key=lambda fault: -1 if fault.seq is None else fault.seq, default=None)


def injected_faults(run: TraceRun | None, value: Json, plan: ChaosPlan) -> Iterator[InjectedFault]:
    """Yield the injected faults: those of the input, then those of calls, by path."""
    for name in attacked(value, plan)[1]:
        yield InjectedFault(fault=name)
    if run is None:
        return
    for call in sorted(run.calls, key=lambda call: (call.path, call.seq)):
        for name in call.faults:
            yield InjectedFault(fault=name, call=call.name, path=call.path, step=call.step, seq=call.seq)


def fault_names(faults: Iterable[InjectedFault]) -> Iterator[str]:
    """Return the names of faults."""
    return (fault.fault for fault in faults)


def remarks_of(scenario: str, seed: int, faults: Iterable[InjectedFault]) -> tuple[str, ...]:
    """Return the remarks about a run with faults."""
    return (f"scenario: {scenario}, seed {seed}", *(f"fault: {fault.text}" for fault in faults))


def nothing_asked(contract: str) -> NothingSelected:
    """Return the error for a contract without applicable invariants."""
    message = f"no invariant of the contract {contract!r} was checked: none applies under these faults"
    return NothingSelected(message, hint="Add one with `when: always` or `when: any_chaos_active`.")


def _failure_text(failures: Sequence[Finding]) -> str:
    """Return why the agent broke, in one sentence; empty if it held."""
    if not failures:
        return ""
    first = failures[0]
    text = first.text
    if first.expected:
        name = f"invariant {first.id!r}" if first.id else first.kind
        text = f"{name}: expected {first.expected}, got {first.actual}"
    if len(failures) > 1:
        text += f" (and {len(failures) - 1} more)"
    return text


_COMPLETES = parse_assertion("status_is", "success")


def save_broken(result: ChaosResult, parent: Path, contract: Contract | None = None) -> list[Path]:
    """Write a case for each run that broke, and return their directories in the order of the runs."""
    saved = []
    for run, directory in _case_directories(result, parent):
        if run.run is None:
            continue
        faults = dict.fromkeys(f"{fault.fault} in {fault.call or 'the input'}" for fault in run.faults)
        remarks = [f"Under chaos ({run.scenario}, seed {run.seed}) it broke: {run.reason}", *faults]
        case = scaffold(run.run, directory, remarks=remarks)
        assertions: tuple[Assertion, ...] = ()
        if contract is not None:
            assertions = contract.assertions(run.conditions)
        observed = case.observed or _broken_promises(run, assertions)
        case = _rewrite(case, observed=observed, desired=assertions or (_COMPLETES,))
        check_case(case, run.run)
        saved.append(directory)
    return saved


def _case_directories(result: ChaosResult, parent: Path) -> Iterator[tuple[ChaosRun, Path]]:
    used: set[str] = set()
    for run in result.runs:
        if run.verdict is not ChaosVerdict.BROKE:
            continue
        name = base = f"{slug('tool_call', run.scenario)}-{run.seed}"
        number = 2
        while name in used:
            name, number = f"{base}-{number}", number + 1
        used.add(name)
        yield run, parent / name


def _broken_promises(run: ChaosRun, assertions: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
    """Return signatures for a failure that no detector knows: the negations of the broken promises."""
    failed = {(finding.id, finding.kind) for finding in run.failures}
    return tuple(_opposite(assertion) for assertion in assertions if (assertion.id, assertion.kind) in failed)


def _opposite(assertion: Assertion) -> Assertion:
    if assertion.kind != "not":
        return parse_assertion("not", {assertion.kind: assertion.value})
    ((kind, value),) = assertion.value.items()
    return parse_assertion(kind, value)


def _rewrite(case: ReplayCase, *, observed: tuple[Assertion, ...], desired: tuple[Assertion, ...]) -> ReplayCase:
    """Rewrite the case with these assertions, so that a fix must show what the trial requires."""
    changed = replace(case, observed=observed, desired=desired)
    write_clean(case.file, dump_case(changed), file_redactor(), fail_closed=True)
    return load_case(case.directory)
