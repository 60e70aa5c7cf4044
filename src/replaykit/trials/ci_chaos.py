"""The parts of `ci` that put the agent under stress: faults around it, and mutations of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from replaykit.candidates.worlds import live_case
from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.contracts.contract import ChaosScenario
from replaykit.errors import ReplayKitError
from replaykit.judges.judgement_store import ProjectAnswers
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import Finding
from replaykit.model.values import raw
from replaykit.project.project import Mutations, Project
from replaykit.trials.chaos import CHAOS, ChaosRun, ChaosTrial, ChaosVerdict, count_of, run_chaos
from replaykit.trials.ci_contracts import NO_FAULT_TRIGGERED
from replaykit.trials.ci_items import (
    CiSettings,
    CiWorkers,
    PartResult,
    RecordingCandidate,
    run_members,
    untried,
    without_score,
)
from replaykit.trials.ci_locations import Location, command, input_argument
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName
from replaykit.trials.default_contract import chaos_contract, mutation_contract
from replaykit.trials.model_mutations import mutator_of
from replaykit.trials.mutation import MutationRun, MutationTrial, run_mutations
from replaykit.trials.trial_runs import input_text, name_of

_OUTCOMES = {
    ChaosVerdict.HELD: CiOutcome.PASSED,
    ChaosVerdict.BROKE: CiOutcome.FAILED,
    ChaosVerdict.ERROR: CiOutcome.ERROR,
}


class ChaosPart:
    """The project's faults, around its inputs; around its cases and sessions where there are no inputs."""

    part = CiPartName.CHAOS

    def __init__(self, settings: CiSettings) -> None:
        self._settings = settings
        project = settings.project
        plan = project.chaos or ChaosPlan()
        if settings.seed_override is not None:
            plan = msgspec.structs.replace(plan, seed=settings.seed_override)
        cases = tuple(subject for subject in settings.subjects if isinstance(subject, ReplayCase))
        worlds = () if project.inputs else cases
        self._trial = ChaosTrial(
            scenarios=(ChaosScenario(name=CHAOS, plan=plan),),
            inputs=project.inputs,
            cases=worlds,
            contract=chaos_contract(project, in_cases=bool(worlds)),
            timeout_s=settings.timeout_s if project.inputs else None,
            answers=ProjectAnswers(project.directory, "chaos run --contract NAME"),
        )
        self.count = 0 if plan.is_calm else count_of(self._trial)

    def run(self, workers: CiWorkers) -> PartResult:
        where = self._settings.places.of_key("chaos")
        try:
            result = run_chaos(
                self._trial,
                workers.candidate,
                jobs=min(workers.jobs, self.count),
                on_done=workers.on_done,
                evidence=self._settings.evidence,
            )
        except ReplayKitError as error:
            return untried(self.part, "chaos", error, where)
        untested = set(result.untested)
        items = [self._item(run, where, run.scenario in untested) for run in result.runs]
        if len(untested) == len(self._trial.scenarios):
            return without_score(items)
        return PartResult(items, result.score, result.best_score)

    def _item(self, run: ChaosRun, where: Location, untested: bool) -> CiItem:
        outcome = _OUTCOMES[run.verdict]
        if untested and outcome is CiOutcome.PASSED:
            outcome = CiOutcome.UNTESTED
        verdict, reason = run.verdict.value, run.reason
        if outcome is CiOutcome.UNTESTED:
            verdict, reason = outcome.value, NO_FAULT_TRIGGERED
        input_json, duration_s = raw(run.input), 0.0
        if run.run is not None:
            input_json, duration_s = run.run.input_json, run.run.duration_s or 0.0
        words = ["--seed", str(run.seed)]
        if self._trial.inputs:
            words += ["--input", run.input]
        return CiItem(
            part=self.part,
            id=name_of(f"seed {run.seed}", run.input),
            outcome=outcome,
            verdict=verdict,
            reason=reason,
            failures=run.failures,
            faults=tuple(fault.text for fault in run.faults),
            contract=failed_contract(self._settings.project, run.failures),
            duration_s=round(duration_s, 6),
            evidence=run.evidence,
            file=where.file,
            line=where.line,
            command=command("chaos run", self._settings.project, *words),
            input_json=input_json,
            **run_members(run.run),
        )


class MutationPart:
    """The project's inputs in other words."""

    part = CiPartName.MUTATION

    def __init__(self, settings: CiSettings) -> None:
        self._settings = settings
        project = settings.project
        mutations = project.mutations or Mutations()
        self._trial = MutationTrial(
            mutator=mutator_of(project, seed=settings.seed),
            count=mutations.count,
            inputs=project.inputs,
            contract=mutation_contract(project),
            answers=ProjectAnswers(project.directory, "chaos mutate --run --contract NAME"),
            timeout_s=settings.timeout_s or DEFAULT_TIMEOUT_S,
        )
        self.count = 0
        if project.mutations is not None:
            self.count = len(project.inputs) * mutations.count

    def run(self, workers: CiWorkers) -> PartResult:
        recorder = RecordingCandidate(workers.candidate)
        where = self._settings.places.of_key("mutations")
        try:
            result = run_mutations(
                self._trial,
                recorder,
                jobs=min(workers.jobs, self.count),
                on_done=workers.on_done,
                evidence=self._settings.evidence,
            )
        except ReplayKitError as error:
            return untried(self.part, "mutations", error, where)
        return PartResult([self._item(run, recorder, where) for run in result.runs], result.score, result.best_score)

    def _item(self, run: MutationRun, recorder: RecordingCandidate, where: Location) -> CiItem:
        project = self._settings.project
        text = input_text(run.mutation.input)
        if run.passed:
            outcome = CiOutcome.PASSED
        elif run.is_error:
            outcome = CiOutcome.ERROR
        else:
            outcome = CiOutcome.FAILED
        contract = failed_contract(project, run.failures)
        again = command("ci", project, "--only", self.part.value, "--seed", str(self._settings.seed))
        if contract:
            again = command("contract run", project, contract, "--input", input_argument(run.mutation.input))
        reason = run.reason
        if outcome is CiOutcome.FAILED:
            reason = f"{reason} ({run.mutation.what})"
        return CiItem(
            part=self.part,
            id=name_of(run.mutation.kind, text),
            outcome=outcome,
            verdict=outcome.value,
            reason=reason,
            failures=run.failures,
            contract=contract,
            file=where.file,
            line=where.line,
            command=again,
            evidence=run.evidence,
            **recorder.members(live_case(run.mutation.input)),
        )


def failed_contract(project: Project, failures: Sequence[Finding]) -> str:
    """The contract whose invariant failed; the only one where none did."""
    failed = {finding.id for finding in failures}
    for contract in project.contracts.values():
        if failed & {invariant.id for invariant in contract.invariants} or len(project.contracts) == 1:
            return contract.name
    return ""
