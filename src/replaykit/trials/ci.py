"""`ci`: run everything that a project configures, and score it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

import replaykit
from replaykit.candidates.evidence import EvidenceFiles
from replaykit.cases.config_files import MAX_CONFIG_BYTES
from replaykit.cases.find import Unusable
from replaykit.errors import NothingSelected, ReplayKitError
from replaykit.intake.source_subjects import indexed_subjects_of
from replaykit.model.isolation import NO_CONSENT, Consent, IsolationLevel
from replaykit.model.values import canonical
from replaykit.project.case_selection import FiledCase, IndexedCases
from replaykit.project.project import Project
from replaykit.trials.ci_items import CiSettings, CiSubjects, CiWorkers, Locations
from replaykit.trials.ci_parts import ChaosPart, CiSection, ContractPart, MutationPart, ReplayPart
from replaykit.trials.ci_records import CiHeader, PlannedPart, RecordFile, result_of
from replaykit.trials.ci_result import CiPartName, CiResult
from replaykit.trials.shards import Shard, assigned

ALL = Shard(1, 1)


class CiPlan(Struct, frozen=True, kw_only=True):
    """The parts of a project to run, and the score to reach."""

    project: Project
    only: Collection[CiPartName] = tuple(CiPartName)
    seed: int | None = None
    """The seed of mutations and faults; default: the project's own."""
    min_score: float | None = None
    """The overall score that passes, 0 to 100; default: the project's own. Without one, nothing may fail."""
    evidence: EvidenceFiles | None = None
    """Where runs leave files; None keeps none."""
    requires_proof: bool = False
    """True if a replay passes only if its case was seen red."""
    required_isolation: IsolationLevel = IsolationLevel.NONE
    """The lowest isolation with which a replay passes."""
    on_fetched: Callable[[], None] = lambda: None
    """Called for each run fetched from a source."""
    consent: Consent = NO_CONSENT
    """Live actions that are allowed if cases and sessions ask for them. No configuration sets this."""
    shard: Shard = ALL
    """The share of the suite to run."""
    timings: Mapping[str, float] = {}
    """Earlier durations of cases in seconds, for balancing the shards."""
    revision: str = ""
    """The commit of the agent's code; empty if it is unknown."""


class Ci(Struct, frozen=True, kw_only=True):
    """A prepared plan: files are read, but the agent has not been run."""

    plan: CiPlan
    seed: int
    min_score: float | None
    parts: tuple[CiSection, ...]
    """The parts of the suite, each with this shard's share of it."""
    notices: tuple[str, ...]
    settings: CiSettings

    @property
    def count(self) -> int:
        """The number of runs."""
        return sum(part.count for part in self.parts)

    def run(self, workers: CiWorkers, results: Path) -> CiResult:
        """Run all parts with the same workers; raise `NothingSelected` if the whole suite is empty.

        Items are written to the file `results` as they arrive, and the result reads them from there.
        """
        self.refuse_nothing()
        file = RecordFile(results, self._header(workers))
        try:
            for part in self.parts:
                for record in part.run(workers):
                    file.add(record)
            file.finish()
        finally:
            file.close()
        return result_of(file.header, [results])

    def _header(self, workers: CiWorkers) -> CiHeader:
        plan = self.plan
        contract, where = None, self.settings.places.of_key("chaos")
        for part in self.parts:
            if isinstance(part, ChaosPart):
                contract = part.contract
        return CiHeader(
            version=replaykit.__version__,
            shard=plan.shard.number,
            shards=plan.shard.count,
            suite=self._suite_digest(),
            settings=self._settings_digest(workers.candidate.label),
            assignment=_digest(sorted(plan.timings.items())),
            parts=tuple(self._planned()),
            agent=workers.candidate.label,
            config=str(plan.project.file),
            config_from=plan.project.files.revision_text,
            seed=self.seed,
            min_score=self.min_score,
            chaos_contract="" if contract is None else contract.name,
            chaos_file=where.file,
            chaos_line=where.line,
            notices=self.notices,
            started_at=round(time.time(), 3),
            revision=plan.revision,
        )

    def refuse_nothing(self) -> None:
        """Raise `NothingSelected` if there is nothing to run."""
        if not self.parts:
            raise _nothing(self.plan)

    def _planned(self) -> Iterator[PlannedPart]:
        for part in self.parts:
            yield PlannedPart(part=part.part, weight=getattr(self.plan.project.scoring, part.part.value))

    def _suite_digest(self) -> str:
        """Return a digest of the suite.

        For a shard, it covers the case files, because other jobs may have other versions.
        """
        names = []
        for part in self.parts:
            names.append([part.part.value, part.total, *part.units])
        files = []
        if self.plan.shard.count > 1:
            for subject in self.settings.subjects.all:
                files.append(_file_digest(subject.file) if isinstance(subject, FiledCase) else subject.id)
        return _digest([names, files])

    def _settings_digest(self, agent: str) -> str:
        plan, project = self.plan, self.plan.project
        try:
            config = project.files.read(project.file, limit_bytes=MAX_CONFIG_BYTES).decode(errors="replace")
        except ReplayKitError:  # deleted meanwhile, so it must not match shards that still have it
            config = ""
        only = sorted(part.value for part in plan.only)
        consent = plan.consent
        allowed = [*consent.live, "", *consent.connect, "", *map(str, consent.write)]
        words = [config, agent, only, self.seed, self.min_score, plan.requires_proof, plan.required_isolation.value]
        return _digest([*words, allowed])


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def _file_digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def prepare_ci(plan: CiPlan) -> Ci:
    """Read the files of a plan and select what to run."""
    project = plan.project
    seed = plan.seed if plan.seed is not None else project.seed or 0
    cases, no_cases = _cases(plan)
    settings = CiSettings(
        project=project,
        places=Locations(project),
        seed=seed,
        seed_override=plan.seed,
        evidence=plan.evidence,
        subjects=CiSubjects(cases=cases, consent=plan.consent),
        requires_proof=plan.requires_proof,
        required_isolation=plan.required_isolation,
    )
    parts = (MutationPart(settings), ContractPart(settings), ChaosPart(settings), ReplayPart(settings))
    idle = _idle(project, parts, plan.only)
    own = tuple(part for part in parts if part.part in plan.only and part.total)
    if plan.shard.count > 1:
        units = [unit for part in own for unit in part.units]
        shards = assigned(units, plan.shard.count, plan.timings)
        for part in own:
            part.deal(shards, plan.shard.number)
    return Ci(
        plan=plan,
        seed=seed,
        min_score=plan.min_score if plan.min_score is not None else project.min_score,
        parts=own,
        notices=(*project.files.notices, *no_cases, *cases.notices, *idle),
        settings=settings,
    )


def _cases(plan: CiPlan) -> tuple[IndexedCases, tuple[str, ...]]:
    """Return the cases and sessions. If there are none, return notices, because other parts may still have work."""
    project = plan.project
    none = IndexedCases(all=(), read=_read_nothing)
    is_needed = CiPartName.REPLAY in plan.only or (CiPartName.CHAOS in plan.only and not project.inputs)
    if not is_needed or not (project.sessions or project.cases or project.sources):
        return none, ()
    try:
        return indexed_subjects_of(project, on_fetched=plan.on_fetched), ()
    except NothingSelected as error:
        return none, (error.message,)


def _read_nothing(found: object) -> Unusable:
    raise AssertionError(f"no case was indexed, and {found!r} is read")


def _idle(project: Project, parts: Sequence[CiSection], only: Collection[CiPartName]) -> Iterator[str]:
    """Yield notices about parts that are configured but have no input."""
    configured = {
        CiPartName.MUTATION: project.mutations is not None,
        CiPartName.CHAOS: project.chaos is not None and not project.chaos.is_calm,
    }
    for part in parts:
        if part.part in only and configured.get(part.part) and not part.total:
            yield f"{project.file}: {part.part.value} is configured, but there is no input: add `inputs:`"


ADD_AGENT = "Add it: agent: {type: python, endpoint: my_agent:answer}; see docs/config.md"
_FIRST_CASE = """Make a case of a failed run:  replaykit scaffold TRACE --out cases/NAME
Without a trace, record one:  replaykit record -- CMD, then replaykit scaffold last --out cases/NAME
To see it work:               replaykit demo"""


def _nothing(plan: CiPlan) -> NothingSelected:
    selection = ""
    if len(plan.only) < len(CiPartName):
        selection = " of " + ", ".join(part.value for part in plan.only)
    hint = "Add `cases: [cases]`, sessions under `replays:`, or `inputs:` for contracts, chaos and mutations."
    if plan.project.cases and not selection:
        hint = _FIRST_CASE
        if plan.project.agent is None:
            hint = f"It names no agent, either. {ADD_AGENT}\n{hint}"
    return NothingSelected(f"{plan.project.file} configures nothing{selection} that could be run", hint=hint)
