"""The parts of `ci`: their settings, their results, and how a run of the agent becomes an item."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from replaykit.candidates.attempt import Attempt, Candidate, Stoppable
from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.cases.run_session import seen
from replaykit.errors import ExitCode, NothingSelected, ReplayKitError
from replaykit.model.events import ToolCall
from replaykit.model.isolation import IsolationLevel
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, Json
from replaykit.project.project import Project
from replaykit.trials.ci_locations import Location, Locations
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName
from replaykit.trials.trial_runs import EvidenceFiles

_ON_THE_TAPE = frozenset({"unused", "context", "unwatched", "unpinned", "live"})
"""Deviations that are no call of the agent which the tape does not hold."""


class PartResult(Struct, frozen=True):
    """The items of a part, and their score."""

    items: list[CiItem]
    score: float | None = None
    best: float | None = None
    """The score if all inconclusive items had passed."""


class CiSettings(Struct, frozen=True, kw_only=True):
    """The settings of all parts."""

    project: Project
    places: Locations
    seed: int = 0
    seed_override: int | None = None
    """One that goes before those of the configuration."""
    evidence: EvidenceFiles | None = None
    """The directory for the files of runs; without it none are kept."""
    subjects: tuple[ReplayCase | Unusable, ...] = ()
    requires_proof: bool = False
    """True when a replay passes only if its case was seen red."""
    required_isolation: IsolationLevel = IsolationLevel.NONE
    """The level below which a replay does not pass."""

    @property
    def timeout_s(self) -> float | None:
        agent = self.project.agent
        if agent is None:
            return None
        return agent.timeout_s


class CiWorkers(Struct, frozen=True, kw_only=True):
    """The agent under test, and how many of its runs go side by side."""

    candidate: Candidate
    jobs: int = 1
    on_done: Callable[[], None] = lambda: None


class CiSection(Protocol):
    """One part of `ci`."""

    part: CiPartName
    count: int
    """0 where nothing of it is configured."""

    def run(self, workers: CiWorkers) -> PartResult:
        """Run it all."""


class RecordingCandidate:
    """A candidate that remembers its runs by the world they ran in: trials report outcomes, not runs."""

    def __init__(self, candidate: Candidate) -> None:
        self.label = candidate.label
        self._candidate = candidate
        self._lock = threading.Lock()
        self._seen: dict[tuple[bytes, bytes], tuple[Attempt, float]] = {}

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run the candidate, and remember the run."""
        began = time.perf_counter()
        attempt = self._candidate.run(case, workspace, timeout_s)
        with self._lock:  # of several runs that an invariant asks for, the first is the one that is shown
            self._seen.setdefault(_world(case), (attempt, time.perf_counter() - began))
        return attempt

    def stop(self) -> None:
        """End whatever is running."""
        if isinstance(self._candidate, Stoppable):
            self._candidate.stop()

    def run_of(self, case: ReplayCase) -> TraceRun | None:
        """The run that the candidate left in that world, if it left one."""
        return self._of(case)[0].run

    def members(self, case: ReplayCase) -> dict[str, Json]:
        """The members of an item that say what happened in that world."""
        attempt, seconds = self._of(case)
        return {
            **run_members(attempt.run),
            "input_json": case.scenario.input_json,
            "divergence": first_divergence(attempt.deviations),
            "duration_s": round(seconds, 6),
        }

    def _of(self, case: ReplayCase) -> tuple[Attempt, float]:
        return self._seen.get(_world(case), (Attempt(), 0.0))


def _world(case: ReplayCase) -> tuple[bytes, bytes]:
    return msgspec.json.encode(case.scenario.chaos), bytes(case.scenario.input_json)


def run_members(run: TraceRun | None) -> dict[str, Json]:
    """Return the members of an item that come from a run."""
    if run is None:
        return {}
    return {
        "output_json": run.output_json or ABSENT,
        "error": "" if run.error is None else str(run.error),
        "calls": tuple(seen(call) for call in run.tool_calls if not _was_stopped(call)),
    }


def _was_stopped(call: ToolCall) -> bool:
    """True for a call that got no answer, since the tape does not hold it."""
    return call.error is not None and call.error.module == ReplayKitError.__module__


def first_divergence(deviations: Iterable[Deviation]) -> Deviation | None:
    """The first call that did not follow the tape."""
    return next((deviation for deviation in deviations if deviation.kind not in _ON_THE_TAPE), None)


def untried_item(part: CiPartName, name: str, error: ReplayKitError, where: Location) -> CiItem:
    """The item for what could not be tried at all."""
    nothing = isinstance(error, NothingSelected)
    return CiItem(
        part=part,
        id=name,
        outcome=CiOutcome.UNTESTED if nothing else CiOutcome.ERROR,
        verdict="untested" if nothing else "error",
        reason=str(error),
        file=where.file,
        line=where.line,
        is_wrong_file=error.exit_code is ExitCode.USAGE,
    )


def untried(part: CiPartName, name: str, error: ReplayKitError, where: Location) -> PartResult:
    """Return the result of a part that could not be tried at all."""
    return without_score([untried_item(part, name, error, where)])


def without_score(items: list[CiItem]) -> PartResult:
    """Return the result of a part without a score; where something could not be tried, it might have been all right."""
    if any(item.outcome is CiOutcome.ERROR for item in items):
        return PartResult(items, best=100.0)
    return PartResult(items)


def make_ids_unique(items: Sequence[CiItem]) -> list[CiItem]:
    """Return the items, with a number behind ids that came before: reports tell items apart by their ids."""
    counts: Counter[tuple[CiPartName, str]] = Counter()
    unique = []
    for item in items:
        key = (item.part, item.id)
        counts[key] += 1
        if counts[key] > 1:
            item = msgspec.structs.replace(item, id=f"{item.id} ({counts[key]})")
        unique.append(item)
    return unique
