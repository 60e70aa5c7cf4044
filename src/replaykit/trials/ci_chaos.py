"""The parts of `ci` that make it hard for the agent: faults around it, and its inputs in other words."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.contracts.matrix import ChaosScenario
from replaykit.errors import ReplayKitError
from replaykit.judges.stored import ProjectAnswers
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import Finding
from replaykit.model.values import raw
from replaykit.project.project import Mutations, Project
from replaykit.runners.worlds import live_case
from replaykit.trials.chaos import CHAOS, ChaosRun, ChaosTrial, ChaosVerdict, count_of, run_chaos
from replaykit.trials.ci_contracts import UNSTRUCK
from replaykit.trials.ci_items import Crew, Ran, Setting, Watched, best_of_none, impossible, members_of, text_of
from replaykit.trials.ci_places import Where, command, spoken
from replaykit.trials.ci_result import CiItem, Outcome, Part
from replaykit.trials.mutation import MutationRun, MutationTrial, run_mutations
from replaykit.trials.promises import promised_in_other_words, promised_under_chaos
from replaykit.trials.rewording import mutator_of
from replaykit.trials.trying import name_of

_OUTCOMES = {
    ChaosVerdict.HELD: Outcome.PASSED,
    ChaosVerdict.BROKE: Outcome.FAILED,
    ChaosVerdict.ERROR: Outcome.ERROR,
}


class Chaos:
    """The project's faults, around its inputs; around its cases and sessions where there are no inputs."""

    part = Part.CHAOS

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        project = setting.project
        plan = project.chaos or ChaosPlan()
        if setting.given_seed is not None:
            plan = msgspec.structs.replace(plan, seed=setting.given_seed)
        cases = tuple(subject for subject in setting.subjects if isinstance(subject, ReplayCase))
        worlds = () if project.inputs else cases
        self._trial = ChaosTrial(
            scenarios=(ChaosScenario(name=CHAOS, plan=plan),),
            inputs=project.inputs,
            cases=worlds,
            contract=promised_under_chaos(project, in_cases=bool(worlds)),
            timeout_s=setting.timeout_s if project.inputs else None,
            answers=ProjectAnswers(project.directory, "chaos run --contract NAME"),
        )
        self.count = 0 if plan.is_calm else count_of(self._trial)

    def run(self, crew: Crew) -> Ran:
        where = self._setting.places.of_key("chaos")
        try:
            result = run_chaos(
                self._trial,
                crew.candidate,
                jobs=min(crew.jobs, self.count),
                on_done=crew.on_done,
                evidence=self._setting.evidence,
            )
        except ReplayKitError as error:
            items = [impossible(self.part, "chaos", error, where)]
            return Ran(items, best=best_of_none(items))
        untested = set(result.untested)
        items = [self._item(run, where, run.scenario in untested) for run in result.runs]
        if len(untested) == len(self._trial.scenarios):
            return Ran(items, best=best_of_none(items))
        return Ran(items, result.score, result.best_score)

    def _item(self, run: ChaosRun, where: Where, untested: bool) -> CiItem:
        outcome = _OUTCOMES[run.verdict]
        if untested and outcome is Outcome.PASSED:
            outcome = Outcome.UNTESTED
        words = ["--seed", str(run.seed)]
        if self._trial.inputs:
            words += ["--input", run.input]
        return CiItem(
            part=self.part,
            id=name_of(f"seed {run.seed}", run.input),
            outcome=outcome,
            verdict=outcome.value if outcome is Outcome.UNTESTED else run.verdict.value,
            reason=UNSTRUCK if outcome is Outcome.UNTESTED else run.reason,
            failures=run.failures,
            faults=tuple(struck.text for struck in run.faults),
            contract=owner(self._setting.project, run.failures),
            duration_s=round((run.run.duration_s or 0.0) if run.run else 0.0, 6),
            evidence=run.evidence,
            file=where.file,
            line=where.line,
            command=command("chaos run", self._setting.project, *words),
            input_json=raw(run.input) if run.run is None else run.run.input_json,
            **members_of(run.run),
        )


class Mutated:
    """The project's inputs in other words."""

    part = Part.MUTATION

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        project = setting.project
        said = project.mutations or Mutations()
        trial = MutationTrial(
            mutator=mutator_of(project, seed=setting.seed),
            count=said.count,
            inputs=project.inputs,
            contract=promised_in_other_words(project),
            answers=ProjectAnswers(project.directory, "chaos mutate --run --contract NAME"),
        )
        limit = setting.timeout_s
        self._trial = trial if limit is None else msgspec.structs.replace(trial, timeout_s=limit)
        self.count = 0 if project.mutations is None else len(project.inputs) * said.count

    def run(self, crew: Crew) -> Ran:
        watched = Watched(crew.candidate)
        where = self._setting.places.of_key("mutations")
        try:
            result = run_mutations(
                self._trial,
                watched,
                jobs=min(crew.jobs, self.count),
                on_done=crew.on_done,
                evidence=self._setting.evidence,
            )
        except ReplayKitError as error:
            items = [impossible(self.part, "mutations", error, where)]
            return Ran(items, best=best_of_none(items))
        return Ran([self._item(run, watched, where) for run in result.runs], result.score, result.best_score)

    def _item(self, run: MutationRun, watched: Watched, where: Where) -> CiItem:
        project = self._setting.project
        text = text_of(run.mutation.input)
        outcome = Outcome.PASSED if run.passed else Outcome.ERROR if run.is_error else Outcome.FAILED
        contract = owner(project, run.failures)
        again = command("contract run", project, contract, "--input", spoken(run.mutation.input))
        words = ["--only", self.part.value, "--seed", str(self._setting.seed)]
        return CiItem(
            part=self.part,
            id=name_of(run.mutation.kind, text),
            outcome=outcome,
            verdict=outcome.value,
            reason=f"{run.reason} ({run.mutation.what})" if outcome is Outcome.FAILED else run.reason,
            failures=run.failures,
            contract=contract,
            file=where.file,
            line=where.line,
            command=again if contract else command("ci", project, *words),
            evidence=run.evidence,
            **watched.members(live_case(run.mutation.input)),
        )


def owner(project: Project, failures: Sequence[Finding]) -> str:
    """The contract whose invariant failed; the only one where none did."""
    failed = {finding.id for finding in failures}
    for contract in project.contracts.values():
        if failed & {invariant.id for invariant in contract.invariants} or len(project.contracts) == 1:
            return contract.name
    return ""
