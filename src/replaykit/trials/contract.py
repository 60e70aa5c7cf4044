"""A contract on trial: the agent is asked every probe in every scenario, and each invariant of what it did."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.checks.assertions import Assertion, CannotTell
from replaykit.checks.verdict import LEFT_THE_TAPE
from replaykit.contracts.conditions import Conditions, of_session
from replaykit.contracts.contract import Contract, Invariant
from replaykit.contracts.matrix import CALM, ChaosScenario
from replaykit.contracts.score import Check, ContractResult, result_of
from replaykit.contracts.types import against, needs_baseline
from replaykit.errors import NothingSelected
from replaykit.model.result import Side
from replaykit.model.values import Json, canonical, decode
from replaykit.runners.attempt import Attempt, Candidate
from replaykit.runners.many import side_by_side
from replaykit.runners.worlds import calls_of, live_case, with_chaos
from replaykit.trials.chaos import struck_in

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
    min_score: float = 100.0


class _Cell(Struct, frozen=True):
    """One run of the agent: in which scenario, and with which input."""

    scenario: ChaosScenario
    given: Json


def run_contract(
    trial: Trial, candidate: Candidate, *, jobs: int = 1, on_done: Callable[[], None] = lambda: None
) -> ContractResult:
    """How well the candidate keeps the contract; `NothingSelected` when there is nothing to ask."""
    began = time.perf_counter()
    cells = cells_of(trial)

    def one(cell: _Cell) -> Attempt:
        attempt = _attempt(trial, candidate, cell)
        on_done()
        return attempt

    attempts = side_by_side(cells, one, candidate, jobs=jobs)
    tried = list(zip(cells, attempts, strict=True))
    baselines = {_text(cell.given): attempt for cell, attempt in tried if cell.scenario.plan.is_calm}
    asked = {scenario.name for scenario in scenarios_of(trial)}
    checks = [
        _check(trial, invariant, cell, attempt, baselines.get(_text(cell.given)))
        for cell, attempt in tried
        if cell.scenario.name in asked
        for invariant in trial.contract.invariants
        if _is_asked(trial, invariant, cell.given)
    ]
    return result_of(
        trial.contract.name,
        checks,
        min_score=trial.min_score,
        agent=candidate.label,
        untested=tuple(_untested(tried)),
        reason=next((attempt.reason for attempt in attempts if attempt.run is None), ""),
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


def _attempt(trial: Trial, candidate: Candidate, cell: _Cell) -> Attempt:
    case = with_chaos(trial.case or live_case(cell.given), cell.scenario.plan)
    with tempfile.TemporaryDirectory(prefix="replaykit-") as directory:
        return candidate.run(case, Path(directory), trial.timeout_s or case.scenario.timeout_s)


def _check(trial: Trial, invariant: Invariant, cell: _Cell, attempt: Attempt, baseline: Attempt | None) -> Check:
    check = Check(
        scenario=cell.scenario.name,
        invariant=invariant.id,
        type=invariant.type,
        severity=invariant.severity,
        probe=_text(cell.given),
    )
    if attempt.run is None:
        return msgspec.structs.replace(check, holds=False, text="The agent gave no run", error=attempt.reason)
    why_not = _conditions(trial, cell, attempt).why_not(invariant.when)
    if why_not:
        return msgspec.structs.replace(check, skipped=why_not)
    watched = attempt.deviations if attempt.watched else None
    try:
        found = _compared(invariant.assertion, baseline).check(attempt.run, Side.DESIRED, watched)
    except CannotTell as error:
        return msgspec.structs.replace(check, holds=False, text="Nobody can tell", error=str(error))
    left = next((deviation.text for deviation in attempt.deviations if deviation.kind in LEFT_THE_TAPE), "")
    failed = str(attempt.run.error) if attempt.run.error else ""
    return msgspec.structs.replace(
        check,
        holds=found.holds and not left,
        text=found.text,
        expected=found.expected,
        actual=found.actual,
        seq=found.seq,
        output=_text(attempt.run.output)[:_EXCERPT_CHARS] if attempt.run.output_json else "",
        error=f"left the tape: {left}" if left else failed,
    )


def _conditions(trial: Trial, cell: _Cell, attempt: Attempt) -> Conditions:
    """What was wrong while it ran: faults that struck, and calls of the case that failed when they were recorded."""
    recorded = of_session(calls_of(trial.case)) if trial.case is not None else Conditions()
    struck = {name.partition(".")[0] for name in _struck(cell, attempt)}
    return Conditions(
        tool_faults=recorded.tool_faults or "tool" in struck,
        llm_faults=recorded.llm_faults or "model" in struck,
        context_faults="context" in struck,
    )


def _struck(cell: _Cell, attempt: Attempt) -> list[str]:
    return [struck.fault for struck in struck_in(attempt.run, cell.given, cell.scenario.plan)]


def _untested(tried: Sequence[tuple[_Cell, Attempt]]) -> list[str]:
    """The scenarios with faults that struck in no run."""
    struck = {cell.scenario.name for cell, attempt in tried if cell.scenario.plan.is_calm or _struck(cell, attempt)}
    ran = {cell.scenario.name for cell, attempt in tried if attempt.run is not None}
    return [name for name in dict.fromkeys(cell.scenario.name for cell, _ in tried) if name in ran - struck]


def _compared(assertion: Assertion, baseline: Attempt | None) -> Assertion:
    if not needs_baseline(assertion) or baseline is None or baseline.run is None:
        return assertion
    return against(assertion, decode(baseline.run.output_json) if baseline.run.output_json else None)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()
