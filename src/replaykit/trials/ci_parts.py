"""The parts of `ci`: contracts, faults around the agent, mutations of its inputs, and replays of its cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from replaykit.candidates.pool import replay_many
from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.cases.find import Unusable
from replaykit.checks.reading import text_of
from replaykit.contracts.contract import ChaosScenario, Contract, Severity
from replaykit.contracts.score import InvariantCheck, score_of
from replaykit.errors import ExitCode, ReplayKitError
from replaykit.judges.judgement_store import ProjectAnswers
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import Finding, ReplayResult, Verdict
from replaykit.model.values import raw
from replaykit.project.chaos_config import matrix_of
from replaykit.project.project import Mutations, Project
from replaykit.trials.chaos import CHAOS, ChaosRun, ChaosTrial, ChaosVerdict, count_of, injected_faults, run_chaos
from replaykit.trials.ci_items import (
    CiSettings,
    CiWorkers,
    Location,
    PartResult,
    command,
    first_divergence,
    input_argument,
    prove_command,
    replay_command,
    run_members,
    trial_members,
    untried,
    untried_item,
    without_score,
)
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName
from replaykit.trials.contract import (
    ContractRun,
    ContractTrial,
    cells_of,
    chaos_contract,
    contract_runs,
    finding_of,
    inputs_of,
    mutation_contract,
)
from replaykit.trials.model_mutations import mutator_of
from replaykit.trials.mutation import MutationResult, MutationRun, MutationTrial, mutation_runs
from replaykit.trials.trial_runs import TrialRun, name_of

NO_FAULT_TRIGGERED = "no fault struck: is the name right, and do the agent's calls pass through ReplayKit?"
UNPROVEN = "unproven"
"""The word for a replay that is `fixed` and rests on no red, where `--require-proof` asks for one."""
NOT_ISOLATED = "not isolated"
"""The word for a replay that is `fixed`, but less isolated than `--require-isolation` asks for."""

_CONTRACT_VERDICTS = {CiOutcome.PASSED: "kept", CiOutcome.FAILED: "broken"}
_CHAOS_OUTCOMES = {
    ChaosVerdict.HELD: CiOutcome.PASSED,
    ChaosVerdict.BROKE: CiOutcome.FAILED,
    ChaosVerdict.ERROR: CiOutcome.ERROR,
}
_REPLAY_OUTCOMES = {Verdict.FIXED: CiOutcome.PASSED, Verdict.INCONCLUSIVE: CiOutcome.ERROR}
"""Every other verdict is a failure."""


class _TrialPart:
    """One part of `ci`; `count` is 0 where nothing of it is configured."""

    part: CiPartName
    count = 0

    def __init__(self, settings: CiSettings) -> None:
        self._settings = settings
        self._project = settings.project

    def _answers(self, verb: str) -> ProjectAnswers:
        return ProjectAnswers(self._project.directory, verb)

    def _trial_settings(self, workers: CiWorkers) -> dict[str, Any]:
        jobs = min(workers.jobs, self.count)
        return {"jobs": jobs, "on_done": workers.on_done, "evidence": self._settings.evidence}

    def _item(self, outcome: CiOutcome, where: Location, **members: Any) -> CiItem:
        return CiItem(part=self.part, outcome=outcome, file=where.file, line=where.line, **members)


class ContractPart(_TrialPart):
    """The contracts that have something to ask: probes of their own, or the project's inputs."""

    part = CiPartName.CONTRACT

    def __init__(self, settings: CiSettings) -> None:
        super().__init__(settings)
        self._trials = list(filter(inputs_of, map(self._trial, self._project.contracts.values())))
        self.count = sum(len(cells_of(trial)) for trial in self._trials)

    def _trial(self, contract: Contract) -> ContractTrial:
        return ContractTrial(
            contract=contract,
            scenarios=matrix_of(contract.matrix, seed=self._settings.seed),
            inputs=self._project.inputs,
            answers=self._answers(f"contract run {contract.name}"),
            timeout_s=self._settings.timeout_s,
        )

    def run(self, workers: CiWorkers) -> PartResult:
        """Try them all; one that cannot be tried is one item."""
        items: list[CiItem] = []
        outcomes: list[tuple[Severity, bool | None]] = []
        for trial in self._trials:
            name = trial.contract.name
            where = self._settings.places.of_contract(name)
            try:
                runs = contract_runs(trial, workers.candidate, **self._trial_settings(workers))
            except ReplayKitError as error:
                items.append(untried_item(self.part, name, error, where))
                continue
            for run in runs:
                # A promise for other worlds than this one is not asked.
                checks = [check for check in run.checks if check.was_asked]
                outcomes += [(check.severity, check.holds) for check in checks]
                if checks:
                    items.append(self._contract_item(trial.contract, run, checks, where))
        if not outcomes:
            return without_score(items)
        score = score_of((severity, holds is True) for severity, holds in outcomes)
        return PartResult(items, score, score_of((severity, holds is not False) for severity, holds in outcomes))

    def _contract_item(
        self, contract: Contract, run: ContractRun, checks: Sequence[InvariantCheck], where: Location
    ) -> CiItem:
        """Return the item for one run of the agent."""
        trace = run.run.attempt.run
        failed = [check for check in checks if check.holds is False]
        outcome = _contract_outcome(run, checks, failed)
        failures: tuple[Finding, ...] = ()
        if outcome is CiOutcome.FAILED:
            failures = tuple(map(finding_of, failed))
            index = [invariant.id for invariant in contract.invariants].index(failed[0].invariant)
            where = self._settings.places.of_contract(contract.name, invariant=index)
        faults = injected_faults(trace, run.input, run.scenario.plan)
        return self._item(
            outcome,
            where,
            id=name_of(contract.name, run.scenario.name, text_of(run.input)),
            verdict=_CONTRACT_VERDICTS.get(outcome, outcome.value),
            contract=contract.name,
            reason=_contract_reason(outcome, checks, failed),
            failures=failures,
            faults=tuple(fault.text for fault in faults),
            evidence=checks[0].evidence,
            command=command("contract run", self._project, contract.name, "--input", input_argument(run.input)),
            **trial_members(run.run),
        )


def _contract_outcome(
    run: ContractRun, checks: Sequence[InvariantCheck], failed: Sequence[InvariantCheck]
) -> CiOutcome:
    if run.run.attempt.run is None:
        return CiOutcome.ERROR
    if failed:
        return CiOutcome.FAILED
    if any(check.unjudged for check in checks):
        return CiOutcome.ERROR
    if run.is_untested:
        return CiOutcome.UNTESTED
    return CiOutcome.PASSED


def _contract_reason(outcome: CiOutcome, checks: Sequence[InvariantCheck], failed: Sequence[InvariantCheck]) -> str:
    if outcome is CiOutcome.UNTESTED:
        return NO_FAULT_TRIGGERED
    if not failed:
        return next((check.unjudged for check in checks if check.unjudged), "")
    reason = failed[0].error or failed[0].text
    if len(failed) > 1 and outcome is CiOutcome.FAILED:
        return f"{reason} (and {len(failed) - 1} more)"
    return reason


class ChaosPart(_TrialPart):
    """The project's faults, around its inputs; around its cases and sessions where there are no inputs."""

    part = CiPartName.CHAOS

    def __init__(self, settings: CiSettings) -> None:
        super().__init__(settings)
        project = self._project
        plan = project.chaos or ChaosPlan()
        if settings.seed_override is not None:
            plan = replace(plan, seed=settings.seed_override)
        worlds: tuple[ReplayCase, ...] = ()
        if not project.inputs:
            worlds = tuple(subject for subject in settings.subjects if isinstance(subject, ReplayCase))
        self._trial = ChaosTrial(
            scenarios=(ChaosScenario(name=CHAOS, plan=plan),),
            inputs=project.inputs,
            cases=worlds,
            contract=chaos_contract(project, in_cases=bool(worlds)),
            timeout_s=settings.timeout_s if project.inputs else None,
            answers=self._answers("chaos run --contract NAME"),
        )
        if not plan.is_calm:
            self.count = count_of(self._trial)

    def run(self, workers: CiWorkers) -> PartResult:
        where = self._settings.places.of_key("chaos")
        try:
            result = run_chaos(self._trial, workers.candidate, **self._trial_settings(workers))
        except ReplayKitError as error:
            return untried(self.part, "chaos", error, where)
        items = [self._chaos_item(run, where, run.scenario in result.untested) for run in result.runs]
        if len(result.untested) == len(self._trial.scenarios):
            return without_score(items)
        return PartResult(items, result.score, result.best_score)

    def _chaos_item(self, run: ChaosRun, where: Location, untested: bool) -> CiItem:
        outcome = _CHAOS_OUTCOMES[run.verdict]
        verdict, reason = run.verdict.value, run.reason
        if untested and outcome is CiOutcome.PASSED:
            outcome = CiOutcome.UNTESTED
            verdict, reason = outcome.value, NO_FAULT_TRIGGERED
        input_json, duration_s = raw(run.input), 0.0
        if run.run is not None:
            input_json, duration_s = run.run.input_json, run.run.duration_s or 0.0
        words = ["--seed", str(run.seed)]
        if self._trial.inputs:
            words += ["--input", run.input]
        return self._item(
            outcome,
            where,
            id=name_of(f"seed {run.seed}", run.input),
            verdict=verdict,
            reason=reason,
            failures=run.failures,
            faults=tuple(fault.text for fault in run.faults),
            contract=failed_contract(self._project, run.failures),
            duration_s=round(duration_s, 6),
            evidence=run.evidence,
            command=command("chaos run", self._project, *words),
            input_json=input_json,
            **run_members(run.run),
        )


class MutationPart(_TrialPart):
    """The project's inputs in other words."""

    part = CiPartName.MUTATION

    def __init__(self, settings: CiSettings) -> None:
        super().__init__(settings)
        project = self._project
        mutations = project.mutations or Mutations()
        self._trial = MutationTrial(
            mutator=mutator_of(project, seed=settings.seed),
            count=mutations.count,
            inputs=project.inputs,
            contract=mutation_contract(project),
            answers=self._answers("chaos mutate --run --contract NAME"),
            timeout_s=settings.timeout_s or DEFAULT_TIMEOUT_S,
        )
        if project.mutations is not None:
            self.count = len(project.inputs) * mutations.count

    def run(self, workers: CiWorkers) -> PartResult:
        where = self._settings.places.of_key("mutations")
        try:
            scored = mutation_runs(self._trial, workers.candidate, **self._trial_settings(workers))
        except ReplayKitError as error:
            return untried(self.part, "mutations", error, where)
        result = MutationResult(agent=workers.candidate.label, runs=tuple(run for run, _ in scored))
        return PartResult([self._mutation_item(*pair, where) for pair in scored], result.score, result.best_score)

    def _mutation_item(self, run: MutationRun, trial_run: TrialRun, where: Location) -> CiItem:
        mutation, reason = run.mutation, run.reason
        if run.passed:
            outcome = CiOutcome.PASSED
        elif run.is_error:
            outcome = CiOutcome.ERROR
        else:
            outcome = CiOutcome.FAILED
            reason = f"{reason} ({mutation.what})"
        contract = failed_contract(self._project, run.failures)
        again = command("ci", self._project, "--only", self.part.value, "--seed", str(self._settings.seed))
        if contract:
            again = command("contract run", self._project, contract, "--input", input_argument(mutation.input))
        return self._item(
            outcome,
            where,
            id=name_of(mutation.kind, text_of(mutation.input)),
            verdict=outcome.value,
            reason=reason,
            failures=run.failures,
            contract=contract,
            command=again,
            evidence=run.evidence,
            **trial_members(trial_run),
        )


def failed_contract(project: Project, failures: Sequence[Finding]) -> str:
    """Return the contract whose invariant failed; the only one where none did."""
    failed = {finding.id for finding in failures}
    for contract in project.contracts.values():
        if len(project.contracts) == 1 or not failed.isdisjoint(invariant.id for invariant in contract.invariants):
            return contract.name
    return ""


class ReplayPart(_TrialPart):
    """All cases and sessions."""

    part = CiPartName.REPLAY

    def __init__(self, settings: CiSettings) -> None:
        super().__init__(settings)
        self.count = len(settings.subjects)

    def run(self, workers: CiWorkers) -> PartResult:
        """Replay them all; what is wrong with one is one item."""
        settings = self._settings
        wrong = [subject.error for subject in settings.subjects if isinstance(subject, Unusable)]
        results = replay_many(
            settings.subjects,
            workers.candidate,
            evidence=None if settings.evidence is None else settings.evidence.root,
            jobs=min(workers.jobs, self.count),
            on_done=workers.on_done,
            on_wrong=wrong.append,
        )
        wrong_files = {str(error) for error in wrong if error.exit_code is ExitCode.USAGE}
        items = [self._replay_item(*pair, wrong_files) for pair in zip(settings.subjects, results, strict=True)]
        outcomes = [item.outcome for item in items]
        passed, failed = outcomes.count(CiOutcome.PASSED), outcomes.count(CiOutcome.FAILED)
        best = round(100 * (len(items) - failed) / len(items), 2)
        return PartResult(items, round(100 * passed / len(items), 2), best)

    def _replay_item(self, subject: ReplayCase | Unusable, result: ReplayResult, wrong_files: set[str]) -> CiItem:
        item = CiItem(
            part=self.part,
            id=result.case_id,
            outcome=_REPLAY_OUTCOMES.get(result.verdict, CiOutcome.FAILED),
            verdict=result.verdict.value,
            duration_s=result.duration_s,
            evidence=result.directory or "",
            tape=result.evidence if result.evidence.recorded else None,
            offline=result.offline,
            isolation=result.isolation.level.value,
            file=str(subject.file),
            unproven=result.unproven,
            **run_members(result.run),
        )
        if isinstance(subject, ReplayCase):
            scenario = subject.scenario
            item = replace(item, input_json=scenario.input_json, context_json=scenario.context_json)
        changes = self._refusal(item, subject, result)
        if not changes and item.outcome is CiOutcome.PASSED:  # only what failed is looked up in its file: most do not
            return item
        changes = changes or {
            "reason": result.reason or "; ".join(finding.text for finding in result.observed),
            "expected_failure": result.expected_failure,
            "divergence": first_divergence(result.deviations),
            "failures": tuple(finding for finding in result.desired if not finding.holds),
            "command": replay_command(self._project, subject),
            "is_wrong_file": item.outcome is CiOutcome.ERROR and result.reason in wrong_files,
        }
        where = self._settings.places.of_subject(subject)
        return replace(item, contract=where.contract, file=where.file, line=where.line, **changes)

    def _refusal(self, item: CiItem, subject: ReplayCase | Unusable, result: ReplayResult) -> dict[str, Any]:
        """Return what changes in an item that passed, where that is not enough; nothing where it is."""
        required = self._settings.required_isolation
        if item.unproven and self._settings.requires_proof:
            verdict, reason = UNPROVEN, f"fixed, but {item.unproven}"
            closer = prove_command(self._project, subject)
        elif item.outcome is CiOutcome.PASSED and result.isolation.level.strength < required.strength:
            reason = f"fixed, but its isolation was {item.isolation}; `{required.value}` is required"
            verdict, reason = NOT_ISOLATED, f"{reason}\n{'; '.join(result.isolation.notes)}"
            closer = "replaykit doctor"
        else:
            return {}
        return {"outcome": CiOutcome.FAILED, "verdict": verdict, "reason": reason, "command": closer}
