"""The parts of `ci`: contracts, faults around the agent, mutations of its inputs, and replays of its cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from replaykit.candidates.replay import replay_many
from replaykit.candidates.worlds import live_case, with_chaos
from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.cases.find import Unusable
from replaykit.contracts.contract import ChaosScenario, Contract, Severity
from replaykit.contracts.score import ContractResult, InvariantCheck, score_of
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
    RecordingCandidate,
    command,
    first_divergence,
    input_argument,
    prove_command,
    replay_command,
    run_members,
    untried,
    untried_item,
    without_score,
)
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName
from replaykit.trials.contract import (
    ContractTrial,
    cells_of,
    chaos_contract,
    finding_of,
    inputs_of,
    mutation_contract,
    run_contract,
)
from replaykit.trials.model_mutations import mutator_of
from replaykit.trials.mutation import MutationRun, MutationTrial, run_mutations
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
            outcome = _contract_outcome(checks, had_faults=scenario not in result.untested)
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


def _contract_outcome(checks: Sequence[InvariantCheck], *, had_faults: bool) -> CiOutcome:
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
            plan = replace(plan, seed=settings.seed_override)
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


_REPLAY_OUTCOMES = {
    Verdict.FIXED: CiOutcome.PASSED,
    Verdict.REPRODUCED: CiOutcome.FAILED,
    Verdict.BROKEN: CiOutcome.FAILED,
    Verdict.DIVERGED: CiOutcome.FAILED,
    Verdict.FLAKY: CiOutcome.FAILED,
    Verdict.INCONCLUSIVE: CiOutcome.ERROR,
}

UNPROVEN = "unproven"
"""The word for a replay that is `fixed` and rests on no red, where `--require-proof` asks for one."""

NOT_ISOLATED = "not isolated"
"""The word for a replay that is `fixed`, but less isolated than `--require-isolation` asks for."""


class ReplayPart:
    """All cases and sessions."""

    part = CiPartName.REPLAY

    def __init__(self, settings: CiSettings) -> None:
        self._settings = settings
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
        bad = {str(error) for error in wrong if error.exit_code is ExitCode.USAGE}
        items = [self._item(*pair, bad) for pair in zip(settings.subjects, results, strict=True)]
        passed = sum(item.outcome is CiOutcome.PASSED for item in items)
        failed = sum(item.outcome is CiOutcome.FAILED for item in items)
        return PartResult(
            items, round(100 * passed / len(items), 2), round(100 * (len(items) - failed) / len(items), 2)
        )

    def _item(self, subject: ReplayCase | Unusable, result: ReplayResult, bad: set[str]) -> CiItem:
        item = CiItem(
            part=self.part,
            id=result.case_id,
            outcome=_REPLAY_OUTCOMES[result.verdict],
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
        if item.unproven and self._settings.requires_proof:
            command = prove_command(self._settings.project, subject)
            return self._refused(item, subject, UNPROVEN, f"fixed, but {item.unproven}", command)
        required = self._settings.required_isolation
        if item.outcome is CiOutcome.PASSED and result.isolation.level.strength < required.strength:
            reason = f"fixed, but its isolation was {item.isolation}; `{required.value}` is required"
            notes = "; ".join(result.isolation.notes)
            return self._refused(item, subject, NOT_ISOLATED, f"{reason}\n{notes}", "replaykit doctor")
        if item.outcome is CiOutcome.PASSED:  # only what failed is looked up in its file: most do not
            return item
        where = self._settings.places.of_subject(subject)
        return replace(
            item,
            reason=result.reason or "; ".join(finding.text for finding in result.observed),
            expected_failure=result.expected_failure,
            divergence=first_divergence(result.deviations),
            failures=tuple(finding for finding in result.desired if not finding.holds),
            contract=where.contract,
            file=where.file,
            line=where.line,
            command=replay_command(self._settings.project, subject),
            is_wrong_file=item.outcome is CiOutcome.ERROR and result.reason in bad,
        )

    def _refused(self, item: CiItem, subject: ReplayCase | Unusable, verdict: str, reason: str, command: str) -> CiItem:
        """An item that passed, where that is not enough."""
        where = self._settings.places.of_subject(subject)
        return replace(
            item,
            outcome=CiOutcome.FAILED,
            verdict=verdict,
            reason=reason,
            contract=where.contract,
            file=where.file,
            line=where.line,
            command=command,
        )
