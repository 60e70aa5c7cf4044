"""An agent in broken worlds: each scenario with many seeds, what was injected, and whether the agent held."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.chaos.attacks import attacked
from replaykit.checks.assertions import Assertion
from replaykit.checks.questions import Answers
from replaykit.contracts.conditions import Conditions, conditions_of
from replaykit.contracts.contract import Contract
from replaykit.contracts.matrix import ChaosScenario
from replaykit.errors import ExitCode, NothingSelected, gravest
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import Finding
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, canonical
from replaykit.runners.attempt import Attempt, Candidate
from replaykit.runners.many import side_by_side
from replaykit.runners.worlds import calls_of, live_case, with_chaos
from replaykit.trials.trying import NO_FAULT, EvidenceFiles, Judged, Tried, Trying, found_in, left_in, name_of

CHAOS = "chaos"
"""The name of the scenario that is a project's own faults."""


class ChaosVerdict(StrEnum):
    """What a run under chaos says."""

    HELD = "held"  # it did what it must
    BROKE = "broke"  # it did not
    ERROR = "error"  # cannot tell: the candidate gave no usable answer


class Struck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault that was injected: its name, and the call it struck."""

    fault: str
    call: str = ""
    """Nothing where it changed the input."""
    path: str = ""
    step: str | None = None
    seq: int | None = None
    """The number of the call's event."""

    @property
    def text(self) -> str:
        """The fault and where it struck, in words."""
        return f"{self.fault} in {f'{self.call} (event {self.seq})' if self.call else 'the input'}"


class ChaosRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the agent under one plan."""

    scenario: str
    seed: int
    """Of this run: with it alone the same faults strike again."""
    verdict: ChaosVerdict
    input: str = ""
    faults: tuple[Struck, ...] = ()
    """In the order of the paths they struck at, which is the same whatever came first."""
    reason: str = ""
    after: Struck | None = None
    """The last fault before it broke."""
    conditions: Conditions = Conditions()
    """What was wrong, by which it is decided what of the contract is asked."""
    asked: int = 0
    """How many invariants of the contract were asked."""
    failures: tuple[Finding, ...] = ()
    run: TraceRun | None = None
    evidence: str = ""
    """The directory with its files, where they were kept."""


class ChaosResult(Struct, frozen=True, kw_only=True):
    """What all runs add up to."""

    replaykit: int = 1
    """Version of this form."""
    agent: str
    contract: str = ""
    runs: tuple[ChaosRun, ...]
    duration_s: float = 0.0

    @property
    def untested(self) -> tuple[str, ...]:
        """Scenarios whose faults struck nothing in any run: nothing can be said of them."""
        struck = {run.scenario for run in self.runs if run.faults}
        return tuple(dict.fromkeys(run.scenario for run in self.runs if run.scenario not in struck))

    @property
    def score(self) -> float:
        """The share of runs that held, from 0 to 100; of scenarios in which something was injected."""
        return self._share(ChaosVerdict.HELD)

    @property
    def best_score(self) -> float:
        """The score that there would be if all runs of which nobody can tell had held."""
        return self._share(ChaosVerdict.HELD, ChaosVerdict.ERROR)

    def _share(self, *verdicts: ChaosVerdict) -> float:
        told = [run for run in self.runs if run.scenario not in self.untested]
        return round(100 * sum(run.verdict in verdicts for run in told) / len(told), 2) if told else 0.0

    @property
    def exit_code(self) -> ExitCode:
        """Passed only where every scenario had its faults, and every run held."""
        return gravest([*(_CODES[run.verdict] for run in self.runs), *(ExitCode.NOTHING for _ in self.untested)])


_CODES = {
    ChaosVerdict.HELD: ExitCode.PASSED,
    ChaosVerdict.BROKE: ExitCode.FAILED,
    ChaosVerdict.ERROR: ExitCode.CANNOT,
}


class ChaosTrial(Struct, frozen=True, kw_only=True):
    """What an agent is tried with."""

    scenarios: tuple[ChaosScenario, ...]
    inputs: tuple[Json, ...] = ()
    """What it is asked in a live world."""
    cases: tuple[ReplayCase, ...] = ()
    """Recorded worlds that it is put into as well."""
    contract: Contract | None = None
    """What it must keep; without one it has to complete."""
    runs: int = 1
    """How often each scenario is run with each input; each time with the next seed."""
    answers: Answers | None = None
    """What judges said."""
    timeout_s: float | None = None


class _Cell(Struct, frozen=True):
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
    """How the candidate does under the trial's plans; `NothingSelected` when there is nothing to ask."""
    began = time.perf_counter()
    cells = list(_cells(trial))

    with Trying(CHAOS, candidate, evidence) as trying:

        def one(cell: _Cell) -> tuple[ChaosRun, Tried]:
            tried = _tried(trial, trying, cell)
            told = _judged(trial, cell, tried)
            on_done()
            return told, tried

        both = side_by_side(cells, one, candidate, jobs=jobs)
        runs = tuple(told for told, _ in both)
        if trial.contract is not None and not any(run.asked or run.verdict is ChaosVerdict.ERROR for run in runs):
            raise _nothing_asked(trial.contract)
        result = ChaosResult(
            agent=candidate.label, contract="" if trial.contract is None else trial.contract.name, runs=runs
        )
        untested = set(result.untested)
        kept = tuple(_with_evidence(trying, told, tried, told.scenario in untested) for told, tried in both)
    return msgspec.structs.replace(result, runs=kept, duration_s=round(time.perf_counter() - began, 6))


def count_of(trial: ChaosTrial) -> int:
    """How many runs there will be."""
    return len(trial.scenarios) * (len(trial.inputs) + len(trial.cases)) * trial.runs


def _cells(trial: ChaosTrial) -> Iterator[_Cell]:
    worlds = [live_case(given, timeout_s=trial.timeout_s or DEFAULT_TIMEOUT_S) for given in trial.inputs]
    worlds += trial.cases
    scenarios = [scenario for scenario in trial.scenarios if not scenario.plan.is_calm]
    if not scenarios:
        hint = "Name a profile (--profile api_outage), or write faults under `chaos:`."
        raise NothingSelected("no fault is planned", hint=hint)
    if not worlds:
        raise NothingSelected("nothing to ask the agent", hint="Give --input TEXT, or --case CASE.")
    for scenario in scenarios:
        for world in worlds:
            for number in range(trial.runs):
                plan = msgspec.structs.replace(scenario.plan, seed=scenario.plan.seed + number)
                yield _Cell(scenario, plan, world)


def _tried(trial: ChaosTrial, trying: Trying, cell: _Cell) -> Tried:
    limit = cell.case.scenario.timeout_s if trial.timeout_s is None else trial.timeout_s
    return trying.run(with_chaos(cell.case, cell.plan), limit)


def _with_evidence(trying: Trying, told: ChaosRun, tried: Tried, is_unstruck: bool) -> ChaosRun:
    scenario = [] if told.scenario == CHAOS else [told.scenario]
    judged = Judged(
        name=name_of(*scenario, f"seed {told.seed}", told.input),
        passed=told.verdict is ChaosVerdict.HELD and not is_unstruck,
        reason=told.reason or (NO_FAULT if is_unstruck else ""),
        findings=told.failures,
        remarks=(
            f"scenario: {told.scenario}, seed {told.seed}",
            *(f"fault: {struck.text}" for struck in told.faults),
        ),
    )
    kept = trying.keep(tried, judged)
    return msgspec.structs.replace(told, evidence=kept) if kept else told


def _judged(trial: ChaosTrial, cell: _Cell, tried: Tried) -> ChaosRun:
    attempt = tried.attempt
    told = ChaosRun(
        scenario=cell.scenario.name,
        seed=cell.plan.seed,
        verdict=ChaosVerdict.HELD,
        input=_text(cell.case.scenario.input),
        faults=tuple(struck_in(attempt.run, cell.case.scenario.input, cell.plan)),
        run=attempt.run,
    )
    if attempt.run is None:
        return msgspec.structs.replace(told, verdict=ChaosVerdict.ERROR, reason=attempt.reason)
    told = msgspec.structs.replace(told, conditions=conditions_of(names_of(told.faults), calls_of(cell.case)))
    asked = () if trial.contract is None else trial.contract.assertions(told.conditions)
    found, untold = found_in(tried, asked, trial.answers)
    failures = tuple(finding for finding in found if not finding.holds)
    # Where the contract asks nothing of a run, it still has to complete.
    reason = _why(attempt, failures, asked) or ("" if asked or untold else _incomplete(attempt.run))
    told = msgspec.structs.replace(told, asked=len(asked))
    if not reason:
        return msgspec.structs.replace(told, verdict=ChaosVerdict.ERROR, reason=untold) if untold else told
    last = max((struck for struck in told.faults if struck.seq is not None), key=lambda s: s.seq or 0, default=None)
    return msgspec.structs.replace(
        told,
        verdict=ChaosVerdict.BROKE,
        reason=reason,
        failures=failures,
        after=last or next(iter(told.faults), None),
    )


def struck_in(run: TraceRun | None, given: Json, plan: ChaosPlan) -> Iterator[Struck]:
    """The faults that were injected: into the input, and into calls, by their paths."""
    for name in attacked(given, plan)[1]:
        yield Struck(fault=name)
    calls = [] if run is None else sorted(run.calls, key=lambda call: (call.path, call.seq))
    for call in calls:
        for name in call.faults:
            yield Struck(fault=name, call=call.name, path=call.path, step=call.step, seq=call.seq)


def names_of(faults: Iterable[Struck]) -> Iterator[str]:
    """The names of faults."""
    return (struck.fault for struck in faults)


def _nothing_asked(contract: Contract) -> NothingSelected:
    message = f"no invariant of the contract {contract.name!r} was asked: none applies to what was wrong"
    return NothingSelected(message, hint="Add one with `when: always` or `when: any_chaos_active`.")


def _why(attempt: Attempt, failures: Sequence[Finding], asked: Sequence[Assertion]) -> str:
    """Why the agent did not hold, in one sentence; nothing when it did."""
    left = left_in(attempt, asked)
    if left:
        return f"left the tape: {left}"
    if failures:
        first = failures[0]
        name = f"invariant {first.id!r}" if first.id else first.kind
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return f"{name}: expected {first.expected}, got {first.actual}{more}" if first.expected else first.text + more
    return ""


def _incomplete(run: TraceRun) -> str:
    """How the agent ended, where that is not well."""
    return "" if run.status is RunStatus.SUCCESS else f"ended with {run.status.value}: {run.error or 'no error'}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()
