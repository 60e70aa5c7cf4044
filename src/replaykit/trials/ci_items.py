"""What the parts of `ci` have in common: what they are given, and how a run of the agent becomes an item."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.cases.seen_calls import seen
from replaykit.errors import ExitCode, NothingSelected, ReplayKitError
from replaykit.model.events import ToolCall
from replaykit.model.isolation import IsolationLevel
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, Json, canonical
from replaykit.project.project import Project
from replaykit.runners.attempt import Attempt, Candidate, Stoppable
from replaykit.trials.ci_places import Places, Where
from replaykit.trials.ci_result import CiItem, Outcome, Part
from replaykit.trials.trying import EvidenceFiles

_ON_THE_TAPE = frozenset({"unused", "context", "unwatched", "unpinned", "live"})
"""Deviations that are no call of the agent which the tape does not hold."""


class Ran(Struct, frozen=True):
    """What a part gave."""

    items: list[CiItem]
    score: float | None = None
    best: float | None = None
    """The score that there would be if all that nobody can tell had passed."""


class Setting(Struct, frozen=True, kw_only=True):
    """What all parts are made of."""

    project: Project
    places: Places
    seed: int = 0
    given_seed: int | None = None
    """One that goes before those of the configuration."""
    evidence: EvidenceFiles | None = None
    """Where runs leave their files; none are kept without."""
    subjects: tuple[ReplayCase | Unusable, ...] = ()
    requires_proof: bool = False
    """True when a replay passes only if its case was seen red."""
    required_isolation: IsolationLevel = IsolationLevel.NONE
    """The level below which a replay does not pass."""

    @property
    def timeout_s(self) -> float | None:
        agent = self.project.agent
        return None if agent is None else agent.timeout_s


class Crew(Struct, frozen=True, kw_only=True):
    """Who runs it: the agent, and how many of its runs go side by side."""

    candidate: Candidate
    jobs: int = 1
    on_done: Callable[[], None] = lambda: None


class PartOfCi(Protocol):
    """One part: what it is, how many runs it has, and what they give."""

    part: Part
    count: int
    """0 where nothing of it is configured."""

    def run(self, crew: Crew) -> Ran:
        """Run it all."""


class Watched:
    """A candidate whose runs are kept by the world they ran in: trials tell what came of them, not how."""

    def __init__(self, candidate: Candidate) -> None:
        self.label = candidate.label
        self._candidate = candidate
        self._lock = threading.Lock()
        self._seen: dict[tuple[bytes, bytes], tuple[Attempt, float]] = {}

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run the candidate, and keep what it did."""
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
            **members_of(attempt.run),
            "input_json": case.scenario.input_json,
            "divergence": first_divergence(attempt.deviations),
            "duration_s": round(seconds, 6),
        }

    def _of(self, case: ReplayCase) -> tuple[Attempt, float]:
        return self._seen.get(_world(case), (Attempt(), 0.0))


def _world(case: ReplayCase) -> tuple[bytes, bytes]:
    return msgspec.json.encode(case.scenario.chaos), bytes(case.scenario.input_json)


def members_of(run: TraceRun | None) -> dict[str, Json]:
    """The members of an item that a run tells."""
    if run is None:
        return {}
    return {
        "output_json": run.output_json or ABSENT,
        "error": "" if run.error is None else str(run.error),
        "calls": tuple(seen(call) for call in run.tool_calls if not _was_stopped(call)),
    }


def _was_stopped(call: ToolCall) -> bool:
    """True for a call that nobody answered, since the tape does not hold it."""
    return call.error is not None and call.error.module == ReplayKitError.__module__


def first_divergence(deviations: Iterable[Deviation]) -> Deviation | None:
    """The first call that did not follow the tape."""
    return next((told for told in deviations if told.kind not in _ON_THE_TAPE), None)


def impossible(part: Part, name: str, error: ReplayKitError, where: Where) -> CiItem:
    """The item for what could not be tried at all."""
    nothing = isinstance(error, NothingSelected)
    return CiItem(
        part=part,
        id=name,
        outcome=Outcome.UNTESTED if nothing else Outcome.ERROR,
        verdict="untested" if nothing else "error",
        reason=str(error),
        file=where.file,
        line=where.line,
        is_wrong_file=error.exit_code is ExitCode.USAGE,
    )


def best_of_none(items: Sequence[CiItem]) -> float | None:
    """The best score of a part that has none: all there is, where it could not be tried."""
    return 100.0 if any(item.outcome is Outcome.ERROR for item in items) else None


def with_own_ids(items: Sequence[CiItem]) -> list[CiItem]:
    """The items, with a number behind ids that came before: reports tell them apart by their ids."""
    seen: dict[tuple[Part, str], int] = {}
    told = []
    for item in items:
        key = (item.part, item.id)
        seen[key] = seen.get(key, 0) + 1
        told.append(item if seen[key] == 1 else msgspec.structs.replace(item, id=f"{item.id} ({seen[key]})"))
    return told


def text_of(value: Json) -> str:
    """A value for people: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else canonical(value).decode()
