"""The part of `ci` that tries contracts: each of the project, in each of its worlds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaykit.contracts.contract import Contract, Severity
from replaykit.contracts.score import Check, ContractResult, score_of
from replaykit.errors import ReplayKitError
from replaykit.judges.stored import ProjectAnswers
from replaykit.model.faults import ChaosPlan
from replaykit.project.chaos_config import matrix_of
from replaykit.runners.worlds import live_case, with_chaos
from replaykit.trials.chaos import struck_in
from replaykit.trials.ci_items import Crew, Ran, Setting, Watched, best_of_none, impossible, text_of
from replaykit.trials.ci_places import command, spoken
from replaykit.trials.ci_result import CiItem, Outcome, Part
from replaykit.trials.contract import Trial, cells_of, finding_of, inputs_of, run_contract
from replaykit.trials.trying import name_of

UNSTRUCK = "no fault struck: is the name right, and do the agent's calls pass through ReplayKit?"
_VERDICTS = {Outcome.PASSED: "kept", Outcome.FAILED: "broken"}


class Contracts:
    """The contracts that have something to ask: probes of their own, or the project's inputs."""

    part = Part.CONTRACT

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        made = [self._trial(contract) for contract in setting.project.contracts.values()]
        self._trials = [trial for trial in made if inputs_of(trial)]
        self.count = sum(len(cells_of(trial)) for trial in self._trials)

    def _trial(self, contract: Contract) -> Trial:
        return Trial(
            contract=contract,
            scenarios=matrix_of(contract.matrix, seed=self._setting.seed),
            inputs=self._setting.project.inputs,
            answers=ProjectAnswers(self._setting.project.directory, f"contract run {contract.name}"),
            timeout_s=self._setting.timeout_s,
        )

    def run(self, crew: Crew) -> Ran:
        """Try them all; one that cannot be tried is one item."""
        items: list[CiItem] = []
        told: list[tuple[Severity, bool | None]] = []
        for trial in self._trials:
            watched = Watched(crew.candidate)
            jobs = min(crew.jobs, self.count)
            try:
                result = run_contract(trial, watched, jobs=jobs, on_done=crew.on_done, evidence=self._setting.evidence)
            except ReplayKitError as error:
                where = self._setting.places.of_contract(trial.contract.name)
                items.append(impossible(self.part, trial.contract.name, error, where))
                continue
            items += self._items(trial, result, watched)
            told += [(check.severity, check.holds) for check in result.checks if check.was_asked]
        if not told:
            return Ran(items, best=best_of_none(items))
        score = score_of((severity, holds is True) for severity, holds in told)
        return Ran(items, score, score_of((severity, holds is not False) for severity, holds in told))

    def _items(self, trial: Trial, result: ContractResult, watched: Watched) -> Iterator[CiItem]:
        """One item for each run of the agent."""
        where = self._setting.places.of_contract(trial.contract.name)
        given = {text_of(one): one for one in inputs_of(trial)}
        plans = {scenario.name: scenario.plan for scenario in trial.scenarios}
        runs: dict[tuple[str, str], list[Check]] = {}
        for check in result.checks:
            if not check.was_asked:
                continue  # a promise for other worlds than this one
            runs.setdefault((check.scenario, check.probe), []).append(check)
        for (scenario, probe), checks in runs.items():
            plan = plans.get(scenario, ChaosPlan())
            case = with_chaos(live_case(given[probe]), plan)
            failed = [check for check in checks if check.holds is False]
            outcome = _outcome(checks, is_struck=scenario not in result.untested)
            if watched.run_of(case) is None:
                outcome = Outcome.ERROR
            yield self._item(
                trial.contract.name,
                (scenario, probe),
                outcome,
                **watched.members(case),
                faults=tuple(struck.text for struck in struck_in(watched.run_of(case), given[probe], plan)),
                evidence=next((check.evidence for check in checks), ""),
                file=where.file,
                line=where.line,
                command=command(
                    "contract run", self._setting.project, trial.contract.name, "--input", spoken(given[probe])
                ),
                reason=_why(outcome, checks),
                failures=tuple(map(finding_of, failed)) if outcome is Outcome.FAILED else (),
            )

    def _item(self, contract: str, cell: tuple[str, str], outcome: Outcome, **members: object) -> CiItem:
        return CiItem(
            part=self.part,
            id=name_of(contract, *cell),
            outcome=outcome,
            verdict=_VERDICTS.get(outcome, outcome.value),
            contract=contract,
            **members,  # type: ignore[arg-type]
        )


def _outcome(checks: Sequence[Check], *, is_struck: bool) -> Outcome:
    if any(check.holds is False for check in checks):
        return Outcome.FAILED
    if any(check.unjudged for check in checks):
        return Outcome.ERROR
    return Outcome.PASSED if is_struck else Outcome.UNTESTED


def _why(outcome: Outcome, checks: Sequence[Check]) -> str:
    if outcome is Outcome.UNTESTED:
        return UNSTRUCK
    failed = [check for check in checks if check.holds is False]
    if not failed:
        return next((check.unjudged for check in checks if check.unjudged), "")
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 and outcome is Outcome.FAILED else ""
    return f"{first.error or first.text}{more}"
