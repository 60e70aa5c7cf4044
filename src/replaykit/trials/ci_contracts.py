"""The part of `ci` that tries contracts: each of the project, in each of its worlds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaykit.candidates.worlds import live_case, with_chaos
from replaykit.contracts.contract import Contract, Severity
from replaykit.contracts.score import ContractResult, InvariantCheck, score_of
from replaykit.errors import ReplayKitError
from replaykit.judges.judgement_store import ProjectAnswers
from replaykit.model.faults import ChaosPlan
from replaykit.project.chaos_config import matrix_of
from replaykit.trials.chaos import injected_faults
from replaykit.trials.ci_items import (
    CiSettings,
    CiWorkers,
    PartResult,
    RecordingCandidate,
    untried_item,
    without_score,
)
from replaykit.trials.ci_locations import command, input_argument
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName
from replaykit.trials.contract import ContractTrial, cells_of, finding_of, inputs_of, run_contract
from replaykit.trials.trial_runs import input_text, name_of

NO_FAULT_TRIGGERED = "no fault struck: is the name right, and do the agent's calls pass through ReplayKit?"
_VERDICTS = {CiOutcome.PASSED: "kept", CiOutcome.FAILED: "broken"}


class ContractPart:
    """The contracts that have something to ask: probes of their own, or the project's inputs."""

    part = CiPartName.CONTRACT

    def __init__(self, settings: CiSettings) -> None:
        self._settings = settings
        trials = map(self._trial, settings.project.contracts.values())
        self._trials = [trial for trial in trials if inputs_of(trial)]
        self.count = sum(len(cells_of(trial)) for trial in self._trials)

    def _trial(self, contract: Contract) -> ContractTrial:
        return ContractTrial(
            contract=contract,
            scenarios=matrix_of(contract.matrix, seed=self._settings.seed),
            inputs=self._settings.project.inputs,
            answers=ProjectAnswers(self._settings.project.directory, f"contract run {contract.name}"),
            timeout_s=self._settings.timeout_s,
        )

    def run(self, workers: CiWorkers) -> PartResult:
        """Try them all; one that cannot be tried is one item."""
        items: list[CiItem] = []
        outcomes: list[tuple[Severity, bool | None]] = []
        for trial in self._trials:
            recorder = RecordingCandidate(workers.candidate)
            jobs = min(workers.jobs, self.count)
            try:
                result = run_contract(
                    trial, recorder, jobs=jobs, on_done=workers.on_done, evidence=self._settings.evidence
                )
            except ReplayKitError as error:
                where = self._settings.places.of_contract(trial.contract.name)
                items.append(untried_item(self.part, trial.contract.name, error, where))
                continue
            items += self._items(trial, result, recorder)
            outcomes += [(check.severity, check.holds) for check in result.checks if check.was_asked]
        if not outcomes:
            return without_score(items)
        score = score_of((severity, holds is True) for severity, holds in outcomes)
        return PartResult(items, score, score_of((severity, holds is not False) for severity, holds in outcomes))

    def _items(self, trial: ContractTrial, result: ContractResult, recorder: RecordingCandidate) -> Iterator[CiItem]:
        """One item for each run of the agent."""
        where = self._settings.places.of_contract(trial.contract.name)
        inputs = {input_text(value): value for value in inputs_of(trial)}
        plans = {scenario.name: scenario.plan for scenario in trial.scenarios}
        runs: dict[tuple[str, str], list[InvariantCheck]] = {}
        for check in result.checks:
            if not check.was_asked:
                continue  # a promise for other worlds than this one
            runs.setdefault((check.scenario, check.probe), []).append(check)
        for (scenario, probe), checks in runs.items():
            plan = plans.get(scenario, ChaosPlan())
            value = inputs[probe]
            argument = input_argument(value)
            case = with_chaos(live_case(value), plan)
            failed = [check for check in checks if check.holds is False]
            outcome = _outcome(checks, had_faults=scenario not in result.untested)
            if recorder.run_of(case) is None:
                outcome = CiOutcome.ERROR
            yield self._item(
                trial.contract.name,
                (scenario, probe),
                outcome,
                **recorder.members(case),
                faults=tuple(fault.text for fault in injected_faults(recorder.run_of(case), value, plan)),
                evidence=next((check.evidence for check in checks), ""),
                file=where.file,
                line=where.line,
                command=command(
                    "contract run",
                    self._settings.project,
                    trial.contract.name,
                    "--input",
                    argument,
                ),
                reason=_why(outcome, checks),
                failures=tuple(map(finding_of, failed)) if outcome is CiOutcome.FAILED else (),
            )

    def _item(self, contract: str, cell: tuple[str, str], outcome: CiOutcome, **members: object) -> CiItem:
        return CiItem(
            part=self.part,
            id=name_of(contract, *cell),
            outcome=outcome,
            verdict=_VERDICTS.get(outcome, outcome.value),
            contract=contract,
            **members,  # type: ignore[arg-type]
        )


def _outcome(checks: Sequence[InvariantCheck], *, had_faults: bool) -> CiOutcome:
    if any(check.holds is False for check in checks):
        return CiOutcome.FAILED
    if any(check.unjudged for check in checks):
        return CiOutcome.ERROR
    if had_faults:
        return CiOutcome.PASSED
    return CiOutcome.UNTESTED


def _why(outcome: CiOutcome, checks: Sequence[InvariantCheck]) -> str:
    if outcome is CiOutcome.UNTESTED:
        return NO_FAULT_TRIGGERED
    failed = [check for check in checks if check.holds is False]
    if not failed:
        return next((check.unjudged for check in checks if check.unjudged), "")
    first = failed[0]
    if len(failed) > 1 and outcome is CiOutcome.FAILED:
        more = f" (and {len(failed) - 1} more)"
    else:
        more = ""
    return f"{first.error or first.text}{more}"
