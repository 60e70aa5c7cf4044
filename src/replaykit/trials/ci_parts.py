"""The parts of `ci`: contracts, faults around the agent, mutations of its inputs, and replays of its cases."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from replaykit.candidates.pool import Pool
from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.cases.find import Unusable
from replaykit.checks.reading import text_of
from replaykit.checks.verdict import failed_to_run
from replaykit.contracts.contract import ChaosScenario, Contract
from replaykit.contracts.score import InvariantCheck
from replaykit.errors import ExitCode, FormatTooNew, InvalidFile, ReplayKitError
from replaykit.judges.judgement_store import ProjectAnswers
from replaykit.model.faults import ChaosPlan
from replaykit.model.result import Finding, ReplayResult, Verdict
from replaykit.model.values import JsonObject, raw
from replaykit.project.case_selection import FiledCase
from replaykit.project.chaos_config import matrix_of
from replaykit.project.project import Mutations, Project
from replaykit.trials.chaos import CHAOS, ChaosRun, ChaosTrial, ChaosVerdict, chaos_runs, injected_faults
from replaykit.trials.ci_items import (
    CiSettings,
    CiWorkers,
    Location,
    command,
    first_divergence,
    input_argument,
    prove_command,
    replay_command,
    run_members,
    trial_members,
    untried_item,
)
from replaykit.trials.ci_records import NO_FAULT_TRIGGERED, CiRecord, Tally, case_name, place_of
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
from replaykit.trials.mutation import MutationRun, MutationTrial, mutation_runs
from replaykit.trials.trial_runs import TrialRun, name_of

if TYPE_CHECKING:
    from replaykit.cluster.cluster import Cluster

UNPROVEN = "unproven"
"""The verdict of a `fixed` replay of an unproven case under `--require-proof`."""
NOT_ISOLATED = "not isolated"
"""The verdict of a `fixed` replay with less isolation than `--require-isolation` demands."""

_CONTRACT_VERDICTS = {CiOutcome.PASSED: "kept", CiOutcome.FAILED: "broken"}
_CHAOS_OUTCOMES = {
    ChaosVerdict.HELD: CiOutcome.PASSED,
    ChaosVerdict.BROKE: CiOutcome.FAILED,
    ChaosVerdict.ERROR: CiOutcome.ERROR,
}
# All other verdicts are failures.
_REPLAY_OUTCOMES = {Verdict.FIXED: CiOutcome.PASSED, Verdict.INCONCLUSIVE: CiOutcome.ERROR}


class CiSection:
    """One part of `ci`."""

    part: CiPartName
    total = 0
    """The number of runs in the whole suite; 0 if the part is not configured."""

    def __init__(self, settings: CiSettings) -> None:
        self._settings = settings
        self._project = settings.project
        self.units: tuple[str, ...] = ()
        """The names of the units that are dealt to shards."""
        self._own_units: Container[str] = self.units

    @property
    def count(self) -> int:
        """The number of runs in this shard."""
        return self.total if self.part.value in self._own_units else 0

    def deal(self, shards: Mapping[str, int], number: int) -> None:
        """Select the units of one shard."""
        self._own_units = frozenset(unit for unit in self.units if shards[unit] == number)

    def run(self, workers: CiWorkers) -> Iterator[CiRecord]:
        """Run the selected units, and yield a record for each item as it completes."""
        raise NotImplementedError

    def _record(self, item: CiItem, tally: Tally | None, unit: int = 0, run: int = 0) -> CiRecord:
        return CiRecord(place=place_of(self.part, unit, run), item=item, tally=tally)

    def _untried(self, name: str, error: ReplayKitError, where: Location, unit: int = 0) -> CiRecord:
        """Return a record for something that could not be run."""
        return self._record(untried_item(self.part, name, error, where), None, unit)

    def _answers(self, verb: str) -> ProjectAnswers:
        return ProjectAnswers(self._project.directory, verb)

    def _trial_settings(self, workers: CiWorkers) -> dict[str, Any]:
        jobs = max(1, min(workers.jobs, self.count))
        return {"jobs": jobs, "on_done": workers.on_done, "evidence": self._settings.evidence}

    def _item(self, outcome: CiOutcome, where: Location, **members: Any) -> CiItem:
        return CiItem(part=self.part, outcome=outcome, file=where.file, line=where.line, **members)


class ContractPart(CiSection):
    """The contracts with inputs: their own probes, or the project's inputs."""

    part = CiPartName.CONTRACT

    def __init__(self, settings: CiSettings) -> None:
        super().__init__(settings)
        self._trials = list(filter(inputs_of, map(self._trial, self._project.contracts.values())))
        self.units = tuple(f"{self.part.value} {trial.contract.name}" for trial in self._trials)
        self._own_units = self.units
        self.total = sum(len(cells_of(trial)) for trial in self._trials)

    @property
    def count(self) -> int:
        return sum(len(cells_of(trial)) for _, trial in self._own_trials())

    def _own_trials(self) -> Iterator[tuple[int, ContractTrial]]:
        for number, (unit, trial) in enumerate(zip(self.units, self._trials, strict=True)):
            if unit in self._own_units:
                yield number, trial

    def _trial(self, contract: Contract) -> ContractTrial:
        return ContractTrial(
            contract=contract,
            scenarios=matrix_of(contract.matrix, seed=self._settings.seed),
            inputs=self._project.inputs,
            answers=self._answers(f"contract run {contract.name}"),
            timeout_s=self._settings.timeout_s,
        )

    def run(self, workers: CiWorkers) -> Iterator[CiRecord]:
        """Try all contracts. One that cannot be tried becomes one item."""
        for number, trial in self._own_trials():
            name = trial.contract.name
            where = self._settings.places.of_contract(name)
            try:
                runs = contract_runs(trial, workers.candidate, **self._trial_settings(workers))
            except ReplayKitError as error:
                yield self._untried(name, error, where, number)
                continue
            for position, run in enumerate(runs):
                # Leave out invariants that do not apply in this world.
                checks = [check for check in run.checks if check.was_asked]
                if checks:
                    tally = Tally(checks=tuple((check.severity, check.holds) for check in checks))
                    item = self._contract_item(trial.contract, run, checks, where)
                    yield self._record(item, tally, number, position)

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
            scenario=run.scenario.name,
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


class ChaosPart(CiSection):
    """The project's faults around its inputs or, without inputs, around its cases and sessions."""

    part = CiPartName.CHAOS

    def __init__(self, settings: CiSettings) -> None:
        super().__init__(settings)
        project = self._project
        plan = project.chaos or ChaosPlan()
        if settings.seed_override is not None:
            plan = replace(plan, seed=settings.seed_override)
        self._plan = plan
        self._worlds: list[int] = []
        if project.chaos is None or plan.is_calm:
            return
        if project.inputs:
            self.units = (self.part.value,)
            self.total = len(project.inputs)
        else:
            for index, subject in enumerate(settings.subjects.all):
                if not isinstance(subject, Unusable):
                    self._worlds.append(index)
            self.units = tuple(case_name(settings.subjects.all[index].id) for index in self._worlds)
            self.total = len(self._worlds)
        self._own_units = self.units

    @property
    def count(self) -> int:
        return super().count if self._project.inputs else sum(unit in self._own_units for unit in self.units)

    @property
    def contract(self) -> Contract | None:
        """The contract that the agent must keep under faults."""
        return chaos_contract(self._project, in_cases=bool(self._worlds))

    def _trial(self, worlds: Sequence[ReplayCase]) -> ChaosTrial:
        inputs = self._project.inputs
        return ChaosTrial(
            scenarios=(ChaosScenario(name=CHAOS, plan=self._plan),),
            inputs=inputs,
            cases=tuple(worlds),
            contract=self.contract,
            timeout_s=self._settings.timeout_s if inputs else None,
            answers=self._answers("chaos run --contract NAME"),
        )

    def run(self, workers: CiWorkers) -> Iterator[CiRecord]:
        where = self._settings.places.of_key("chaos")
        places, worlds = self._own_worlds()
        if self._project.inputs and self.count:
            places = [(0, number) for number in range(self.total)]
        if not places:
            return
        try:
            result = chaos_runs(self._trial(worlds), workers.candidate, **self._trial_settings(workers))
        except ReplayKitError as error:
            yield self._untried(self.part.value, error, where, places[0][0])
            return
        for (unit, number), run in zip(places, result.runs, strict=True):
            tally = Tally(invariant_count=run.invariant_count)
            yield self._record(self._chaos_item(run, where), tally, unit, number)

    def _own_worlds(self) -> tuple[list[tuple[int, int]], list[ReplayCase]]:
        """Return this shard's cases, and their places."""
        places, worlds = [], []
        for unit, index in zip(self.units, self._worlds, strict=False):
            if unit in self._own_units:
                subject = self._settings.subjects.load(index)
                if isinstance(subject, ReplayCase):
                    places.append((index, 0))
                    worlds.append(subject)
        return places, worlds

    def _chaos_item(self, run: ChaosRun, where: Location) -> CiItem:
        input_json, duration_s = raw(run.input), 0.0
        if run.run is not None:
            input_json, duration_s = run.run.input_json, run.run.duration_s or 0.0
        words = ["--seed", str(run.seed)]
        if self._project.inputs:
            words += ["--input", run.input]
        return self._item(
            _CHAOS_OUTCOMES[run.verdict],
            where,
            id=name_of(f"seed {run.seed}", run.input),
            verdict=run.verdict.value,
            reason=run.reason,
            failures=run.failures,
            faults=tuple(fault.text for fault in run.faults),
            contract=failed_contract(self._project, run.failures),
            duration_s=round(duration_s, 6),
            evidence=run.evidence,
            command=command("chaos run", self._project, *words),
            input_json=input_json,
            **run_members(run.run),
        )


class MutationPart(CiSection):
    """The project's inputs, rephrased."""

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
        if project.mutations is not None and project.inputs:
            self.total = len(project.inputs) * mutations.count
            self.units = self._own_units = (self.part.value,)

    def run(self, workers: CiWorkers) -> Iterator[CiRecord]:
        if not self.count:
            return
        where = self._settings.places.of_key("mutations")
        try:
            scored = mutation_runs(self._trial, workers.candidate, **self._trial_settings(workers))
        except ReplayKitError as error:
            yield self._untried("mutations", error, where)
            return
        for number, (run, trial_run) in enumerate(scored):
            tally = Tally(weight=run.mutation.weight)
            yield self._record(self._mutation_item(run, trial_run, where), tally, 0, number)

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
    """Return the contract whose invariant failed, or else the only contract."""
    failed = {finding.id for finding in failures}
    for contract in project.contracts.values():
        if len(project.contracts) == 1 or not failed.isdisjoint(invariant.id for invariant in contract.invariants):
            return contract.name
    return ""


class ReplayPart(CiSection):
    """All cases and sessions."""

    part = CiPartName.REPLAY

    def __init__(self, settings: CiSettings) -> None:
        super().__init__(settings)
        self.units = tuple(case_name(subject.id) for subject in settings.subjects.all)
        self._own_units = self.units
        self._own: Sequence[int] = range(len(self.units))
        self.total = len(self.units)

    @property
    def count(self) -> int:
        return len(self._own)

    def deal(self, shards: Mapping[str, int], number: int) -> None:
        super().deal(shards, number)
        self._own = [index for index, unit in enumerate(self.units) if unit in self._own_units]

    def run(self, workers: CiWorkers) -> Iterator[CiRecord]:
        """Replay all cases. An invalid one becomes one item."""
        if workers.cluster is not None:
            yield from self._run_on(workers.cluster, workers)
            return
        with Pool(workers.candidate, workers=max(1, min(workers.jobs, self.count))) as pool:

            def one(index: int) -> CiRecord:
                try:
                    return self._record(self._replayed(pool, self._settings.subjects.load(index)), Tally(), index)
                finally:
                    workers.on_done()

            yield from pool.run(self._own, one)

    def _run_on(self, cluster: Cluster, workers: CiWorkers) -> Iterator[CiRecord]:
        subjects = [self._settings.subjects.all[index] for index in self._own]
        for index, subject, reply in zip(self._own, subjects, cluster.replays(subjects), strict=True):
            result = reply.with_evidence(self._settings.evidence)
            is_wrong_file = reply.error is not None and reply.error.exit_code is ExitCode.USAGE
            payloads = {"input_json": reply.input_json, "context_json": reply.context_json}
            item = self._replay_item(subject, result, is_wrong_file=is_wrong_file, payloads=payloads)
            yield self._record(item, Tally(), index)
            workers.on_done()

    def _replayed(self, pool: Pool, subject: ReplayCase | Unusable) -> CiItem:
        """Replay a case and return its item. Files are kept unless it passed."""
        wrong: ReplayKitError | None = None
        if isinstance(subject, Unusable):
            wrong = subject.error
            result = failed_to_run(subject.id, subject.reason)
        else:
            is_kept = partial(self._is_kept, subject)
            try:
                result = pool.replay_one(subject, evidence=self._settings.evidence, is_kept=is_kept)
            except (InvalidFile, FormatTooNew) as error:
                wrong = error
                result = failed_to_run(subject.id, str(error))
        is_wrong_file = wrong is not None and wrong.exit_code is ExitCode.USAGE
        return self._replay_item(subject, result, is_wrong_file=is_wrong_file)

    def _is_kept(self, subject: ReplayCase, result: ReplayResult) -> bool:
        return self._replay_item(subject, result).outcome is not CiOutcome.PASSED

    def _replay_item(
        self,
        subject: ReplayCase | Unusable | FiledCase,
        result: ReplayResult,
        *,
        is_wrong_file: bool = False,
        payloads: JsonObject | None = None,
    ) -> CiItem:
        """Return the item for a result. `payloads` holds input and context of a case that is not in memory."""
        if payloads is None:
            payloads = {}
            if isinstance(subject, ReplayCase):
                scenario = subject.scenario
                payloads = {"input_json": scenario.input_json, "context_json": scenario.context_json}
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
            **payloads,
            **run_members(result.run),
        )
        changes = self._refusal(item, result)
        if not changes and item.outcome is CiOutcome.PASSED:  # locating lines is only needed for failures
            return item
        if isinstance(subject, FiledCase):
            subject = self._settings.subjects.cases.load(subject)
        changes = changes or {
            "reason": result.reason or "; ".join(finding.text for finding in result.observed),
            "expected_failure": result.expected_failure,
            "divergence": first_divergence(result.deviations),
            "failures": tuple(finding for finding in result.desired if not finding.holds),
            "is_wrong_file": is_wrong_file,
        }
        where = self._settings.places.of_subject(subject)
        closer = self._closer(changes.get("verdict", ""), subject)
        return replace(item, contract=where.contract, file=where.file, line=where.line, command=closer, **changes)

    def _refusal(self, item: CiItem, result: ReplayResult) -> dict[str, Any]:
        """Return the changes to a passed item that does not meet the requirements; empty if it does."""
        required = self._settings.required_isolation
        if item.unproven and self._settings.requires_proof:
            verdict, reason = UNPROVEN, f"fixed, but {item.unproven}"
        elif item.outcome is CiOutcome.PASSED and result.isolation.level.strength < required.strength:
            reason = f"fixed, but its isolation was {item.isolation}; `{required.value}` is required"
            verdict, reason = NOT_ISOLATED, f"{reason}\n{'; '.join(result.isolation.notes)}"
        else:
            return {}
        return {"outcome": CiOutcome.FAILED, "verdict": verdict, "reason": reason}

    def _closer(self, refusal: str, subject: ReplayCase | Unusable) -> str:
        """Return the command for a closer look."""
        if refusal == UNPROVEN:
            return prove_command(self._project, subject)
        if refusal == NOT_ISOLATED:
            return "replaykit doctor"
        return replay_command(self._project, subject)
