"""`ci`: everything that a project has configured, run and weighed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.evidence import EvidenceFiles
from replaykit.candidates.worlds import with_consent
from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.errors import ExitCode, NothingSelected
from replaykit.intake.source_subjects import subjects_of
from replaykit.model.isolation import NO_CONSENT, Consent, IsolationLevel
from replaykit.project.case_selection import SelectedCases
from replaykit.project.project import Project
from replaykit.trials.ci_items import CiSection, CiSettings, CiWorkers, Locations, PartResult, make_ids_unique
from replaykit.trials.ci_parts import ChaosPart, ContractPart, MutationPart, ReplayPart
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPart, CiPartName, CiResult, exit_code_of, overall


class CiPlan(Struct, frozen=True, kw_only=True):
    """The parts of a project to run, and the score to reach."""

    project: Project
    only: Collection[CiPartName] = tuple(CiPartName)
    seed: int | None = None
    """Of mutations and faults; default: the project's own."""
    min_score: float | None = None
    """The overall score that passes, 0 to 100; default: the project's own. Without one nothing may fail."""
    evidence: EvidenceFiles | None = None
    """The directory for the files of runs; without it none are kept."""
    requires_proof: bool = False
    """True when a replay passes only if its case was seen red."""
    required_isolation: IsolationLevel = IsolationLevel.NONE
    """The level below which a replay does not pass."""
    on_fetched: Callable[[], None] = lambda: None
    """Called for each run that a source gives."""
    consent: Consent = NO_CONSENT
    """Real actions that are allowed where cases and sessions ask for them. No configuration sets this."""


class Ci(Struct, frozen=True, kw_only=True):
    """A plan, ready to run: its files are read, and nothing has been asked of the agent."""

    plan: CiPlan
    seed: int
    min_score: float | None
    parts: tuple[CiSection, ...]
    notices: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of runs."""
        return sum(part.count for part in self.parts)

    def run(self, workers: CiWorkers) -> CiResult:
        """Run every part with the same workers; `NothingSelected` when there is nothing to run."""
        if not self.parts:
            raise _nothing(self.plan)
        began = time.perf_counter()
        parts: list[CiPart] = []
        best: list[CiPart] = []
        items: list[CiItem] = []
        for part in self.parts:
            start = time.perf_counter()
            ran = part.run(workers)
            items += ran.items
            parts.append(self._weighed(part.part, ran, time.perf_counter() - start))
            best.append(replace(parts[-1], score=ran.best))
        items = make_ids_unique(items)
        score = overall(parts)
        code = exit_code_of(items, score, overall(best), self.min_score)
        return CiResult(
            passed=code is ExitCode.PASSED,
            exit_code=code,
            score=score,
            min_score=self.min_score,
            verdict=_verdict(code, items, score, self.min_score),
            agent=workers.candidate.label,
            config=str(self.plan.project.file),
            config_from=self.plan.project.files.revision_text,
            seed=self.seed,
            parts=tuple(parts),
            items=tuple(items),
            notices=self.notices,
            duration_s=round(time.perf_counter() - began, 6),
        )

    def _weighed(self, part: CiPartName, ran: PartResult, seconds: float) -> CiPart:
        return CiPart(
            part=part,
            name=part.score_name,
            score=ran.score,
            weight=getattr(self.plan.project.scoring, part.value),
            total=len(ran.items),
            passed=sum(item.outcome is CiOutcome.PASSED for item in ran.items),
            duration_s=round(seconds, 6),
        )


def prepare_ci(plan: CiPlan) -> Ci:
    """Read the files of a plan, and select what to run."""
    project = plan.project
    seed = plan.seed if plan.seed is not None else project.seed or 0
    subjects, no_subjects = _subjects(plan)
    settings = CiSettings(
        project=project,
        places=Locations(project),
        seed=seed,
        seed_override=plan.seed,
        evidence=plan.evidence,
        subjects=tuple(_allowed(subject, plan.consent) for subject in subjects.all),
        requires_proof=plan.requires_proof,
        required_isolation=plan.required_isolation,
    )
    parts = (MutationPart(settings), ContractPart(settings), ChaosPart(settings), ReplayPart(settings))
    idle = _idle(project, parts, plan.only)
    return Ci(
        plan=plan,
        seed=seed,
        min_score=plan.min_score if plan.min_score is not None else project.min_score,
        parts=tuple(part for part in parts if part.part in plan.only and part.count),
        notices=(*project.files.notices, *no_subjects, *subjects.notices, *idle),
    )


def _allowed(subject: ReplayCase | Unusable, consent: Consent) -> ReplayCase | Unusable:
    if isinstance(subject, ReplayCase):
        return with_consent(subject, consent)
    return subject


def _subjects(plan: CiPlan) -> tuple[SelectedCases, tuple[str, ...]]:
    """The cases and sessions, and what to tell where there are none: other parts may be all there is."""
    project = plan.project
    is_needed = CiPartName.REPLAY in plan.only or (CiPartName.CHAOS in plan.only and not project.inputs)
    if not is_needed or not (project.sessions or project.cases or project.sources):
        return SelectedCases(all=()), ()
    try:
        return subjects_of(project, on_fetched=plan.on_fetched), ()
    except NothingSelected as error:
        return SelectedCases(all=()), (error.message,)


def _idle(project: Project, parts: Sequence[CiSection], only: Collection[CiPartName]) -> Iterator[str]:
    """Return notices about parts that are configured and have nothing to ask."""
    configured = {
        CiPartName.MUTATION: project.mutations is not None,
        CiPartName.CHAOS: project.chaos is not None and not project.chaos.is_calm,
    }
    for part in parts:
        if part.part in only and configured.get(part.part) and not part.count:
            yield f"{project.file}: {part.part.value} is configured, and there is nothing to ask: add `inputs:`"


def _nothing(plan: CiPlan) -> NothingSelected:
    selection = ""
    if len(plan.only) < len(CiPartName):
        selection = " of " + ", ".join(part.value for part in plan.only)
    hint = "Add `cases: [cases]`, sessions under `replays:`, or `inputs:` for contracts, chaos and mutations."
    return NothingSelected(f"{plan.project.file} configures nothing{selection} that could be run", hint=hint)


def _verdict(code: ExitCode, items: Sequence[CiItem], score: float | None, min_score: float | None) -> str:
    """The result in one sentence."""
    counts = Counter(item.outcome for item in items)
    shown = [f"{counts[outcome]} {outcome.value}" for outcome in CiOutcome if counts[outcome]]
    reached = "no score" if score is None else f"score {score:g}"
    if min_score is not None:
        reached += f" of at least {min_score:g}"
    return f"{_WORDS[code]}: {reached}; {', '.join(shown)}"


_WORDS = {
    ExitCode.PASSED: "passed",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "failed, files are wrong",
    ExitCode.CANNOT: "cannot tell",
    ExitCode.NOTHING: "not tested",
}
