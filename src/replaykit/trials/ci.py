"""`ci`: everything that a project has configured, run and weighed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct, structs

from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.errors import ExitCode, NothingSelected
from replaykit.importing.subjects import subjects_of
from replaykit.model.consent import NO_CONSENT, Consent
from replaykit.model.isolation import IsolationLevel
from replaykit.project.project import Project
from replaykit.project.subjects import Subjects
from replaykit.runners.worlds import with_consent
from replaykit.trials.ci_chaos import Chaos, Mutated
from replaykit.trials.ci_contracts import Contracts
from replaykit.trials.ci_items import Crew, PartOfCi, Ran, Setting, with_own_ids
from replaykit.trials.ci_places import Places
from replaykit.trials.ci_replays import Replays
from replaykit.trials.ci_result import CiItem, CiPart, CiResult, Outcome, Part, exit_code_of, overall
from replaykit.trials.trying import EvidenceFiles


class CiPlan(Struct, frozen=True, kw_only=True):
    """What of a project is run, and what has to be reached."""

    project: Project
    only: Collection[Part] = tuple(Part)
    seed: int | None = None
    """Of mutations and faults; the project's own unless said."""
    min_score: float | None = None
    """The overall score that passes, 0 to 100; the project's own unless said. Without one nothing may fail."""
    evidence: EvidenceFiles | None = None
    """Where runs leave their files; none are kept without."""
    requires_proof: bool = False
    """True when a replay passes only if its case was seen red."""
    required_isolation: IsolationLevel = IsolationLevel.NONE
    """The level below which a replay does not pass."""
    on_fetched: Callable[[], None] = lambda: None
    """Called for each run that a source gives."""
    consent: Consent = NO_CONSENT
    """What may be done for real where cases and sessions ask for it. No configuration says this."""


class Ci:
    """A plan, ready to run: its files are read, and nothing has been asked of the agent."""

    def __init__(self, plan: CiPlan) -> None:
        self._plan = plan
        project = plan.project
        self._seed = plan.seed if plan.seed is not None else project.seed or 0
        self._min_score = plan.min_score if plan.min_score is not None else project.min_score
        subjects, told = _subjects(plan)
        setting = Setting(
            project=project,
            places=Places(project),
            seed=self._seed,
            given_seed=plan.seed,
            evidence=plan.evidence,
            subjects=tuple(_allowed(subject, plan.consent) for subject in subjects.all),
            requires_proof=plan.requires_proof,
            required_isolation=plan.required_isolation,
        )
        every: list[PartOfCi] = [Mutated(setting), Contracts(setting), Chaos(setting), Replays(setting)]
        self._parts = [part for part in every if part.part in plan.only and part.count]
        self.notices = (*project.files.notices, *told, *subjects.notices, *_idle(project, every, plan.only))
        self.count = sum(part.count for part in self._parts)

    def run(self, crew: Crew) -> CiResult:
        """Run every part with the same crew; `NothingSelected` when there is nothing to run."""
        if not self._parts:
            raise _nothing(self._plan)
        began = time.perf_counter()
        parts: list[CiPart] = []
        best: list[CiPart] = []
        items: list[CiItem] = []
        for part in self._parts:
            start = time.perf_counter()
            ran = part.run(crew)
            items += ran.items
            parts.append(self._weighed(part.part, ran, time.perf_counter() - start))
            best.append(structs.replace(parts[-1], score=ran.best))
        items = with_own_ids(items)
        score = overall(parts)
        code = exit_code_of(items, score, overall(best), self._min_score)
        return CiResult(
            passed=code is ExitCode.PASSED,
            exit_code=code,
            score=score,
            min_score=self._min_score,
            verdict=_verdict(code, items, score, self._min_score),
            agent=crew.candidate.label,
            config=str(self._plan.project.file),
            config_from=self._plan.project.files.revision_text,
            seed=self._seed,
            parts=tuple(parts),
            items=tuple(items),
            notices=self.notices,
            duration_s=round(time.perf_counter() - began, 6),
        )

    def _weighed(self, part: Part, ran: Ran, seconds: float) -> CiPart:
        return CiPart(
            part=part,
            name=part.score_name,
            score=ran.score,
            weight=getattr(self._plan.project.scoring, part.value),
            total=len(ran.items),
            passed=sum(item.outcome is Outcome.PASSED for item in ran.items),
            duration_s=round(seconds, 6),
        )


def _allowed(subject: ReplayCase | Unusable, consent: Consent) -> ReplayCase | Unusable:
    return with_consent(subject, consent) if isinstance(subject, ReplayCase) else subject


def _subjects(plan: CiPlan) -> tuple[Subjects, tuple[str, ...]]:
    """The cases and sessions, and what to tell where there are none: other parts may be all there is."""
    project = plan.project
    is_needed = Part.REPLAY in plan.only or (Part.CHAOS in plan.only and not project.inputs)
    if not is_needed or not (project.sessions or project.cases or project.sources):
        return Subjects(all=()), ()
    try:
        return subjects_of(project, on_fetched=plan.on_fetched), ()
    except NothingSelected as error:
        return Subjects(all=()), (error.message,)


def _idle(project: Project, parts: Sequence[PartOfCi], only: Collection[Part]) -> Iterator[str]:
    """What is configured and has nothing to ask."""
    configured = {
        Part.MUTATION: project.mutations is not None,
        Part.CHAOS: project.chaos is not None and not project.chaos.is_calm,
    }
    for part in parts:
        if part.part in only and configured.get(part.part) and not part.count:
            yield f"{project.file}: {part.part.value} is configured, and there is nothing to ask: add `inputs:`"


def _nothing(plan: CiPlan) -> NothingSelected:
    only = ", ".join(part.value for part in plan.only)
    said = "" if len(plan.only) == len(Part) else f" of {only}"
    hint = "Add `cases: [cases]`, sessions under `replays:`, or `inputs:` for contracts, chaos and mutations."
    return NothingSelected(f"{plan.project.file} configures nothing{said} that could be run", hint=hint)


def _verdict(code: ExitCode, items: Sequence[CiItem], score: float | None, min_score: float | None) -> str:
    """The result in one sentence."""
    counts = {outcome: sum(item.outcome is outcome for item in items) for outcome in Outcome}
    told = [f"{count} {outcome.value}" for outcome, count in counts.items() if count]
    reached = "no score" if score is None else f"score {score:g}"
    floor = "" if min_score is None else f" of at least {min_score:g}"
    return f"{_WORDS[code]}: {reached}{floor}; {', '.join(told)}"


_WORDS = {
    ExitCode.PASSED: "passed",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "failed, files are wrong",
    ExitCode.CANNOT: "cannot tell",
    ExitCode.NOTHING: "not tested",
}
