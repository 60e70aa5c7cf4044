"""Attempts: one run of a candidate before it is judged, how much of the tape it used, and its repetitions."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from replaykit.cases.case import ReplayCase
from replaykit.cases.requests import refusal_text, refusals, refused_in
from replaykit.checks.rule import CannotTell, RepeatedRun
from replaykit.checks.verdict import doubts_in, first_with
from replaykit.errors import ReplayKitError
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, ToolCall
from replaykit.model.isolation import NOT_ISOLATED, Isolation
from replaykit.model.matching import MatchMode, ToolMode
from replaykit.model.pins import MACHINE
from replaykit.model.result import Deviation, Effect, Evidence, EvidenceSource
from replaykit.model.run import TraceRun


class Attempt(Struct, frozen=True, kw_only=True):
    """A run of a candidate, or the reason why it has none."""

    run: TraceRun | None = None
    deviations: tuple[Deviation, ...] = ()
    watched: bool = True
    """False if the candidate answered its own calls, so that nothing shows whether it followed the tape."""
    reason: str = ""
    """The reason why there is no run."""
    evidence: Evidence | None = None
    """How much of the tape was used; None if the candidate does not count that itself."""
    uncertain: tuple[str, ...] = ()
    """Reasons why the order or time of something in the run is undecided."""
    isolation: Isolation = NOT_ISOLATED
    keeps_hashes: bool = False
    """True if all runs share one process, so that `hash` and the order of sets never vary."""


@runtime_checkable
class Candidate(Protocol):
    """The agent under test."""

    @property
    def label(self) -> str:
        """The candidate's name in results."""

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run the candidate once, writing logs and outputs to the workspace.

        Never raises because of what the candidate does.
        """


@runtime_checkable
class Stoppable(Protocol):
    """A candidate whose processes can be ended from another thread."""

    def stop(self) -> None:
        """End everything that is running."""


def evidence_of(case: ReplayCase, attempt: Attempt) -> Evidence:
    """Return the evidence of an attempt, taking into account what the case accepts."""
    evidence = attempt.evidence
    if evidence is None:  # the candidate does not count
        from replaykit.candidates.worlds import world_of  # noqa: PLC0415 (reads the fixtures; built-in candidates count themselves)

        evidence = reported_on(world_of(case), attempt.run)
        if attempt.watched and evidence.used:
            evidence = replace(evidence, how=EvidenceSource.SERVED)
    if case.rests_on_output and not evidence.used:
        return replace(evidence, how=EvidenceSource.OUTPUT)
    return evidence


def served_from(world: World, run: TraceRun | None, deviations: Iterable[Deviation]) -> Evidence:
    """Return the use of a tape that ReplayKit served, derived from the recorded calls that are reported as unused."""
    unused = sum(deviation.kind == "unused" and deviation.name not in MACHINE for deviation in deviations)
    used = _count_to_be_used(world) - unused
    if used <= 0 and run is not None:
        struck = sum(bool(call.faults) for call in run.calls)  # a fault uses up the answer it replaces
        used = _matched(world, run) + struck
    return _evidence(world, max(used, 0), EvidenceSource.SERVED)


def reported_on(world: World, run: TraceRun | None) -> Evidence:
    """Return the use of a tape that a candidate reports: how many of its calls are on the tape."""
    return _evidence(world, 0 if run is None else _matched(world, run), EvidenceSource.REPORTED)


def _evidence(world: World, used: int, how: EvidenceSource) -> Evidence:
    return Evidence(used=used, recorded=_count_to_be_used(world), how=how if used else EvidenceSource.NONE)


def _count_to_be_used(world: World) -> int:
    """Count the recorded calls that a candidate should be served.

    Calls inside a tool are excluded because the tool's own answer covers them, as are refused calls, time and chance.
    """
    calls = [call for call in world.calls if isinstance(call, Call) and _was_answered(call)]
    tools = {call.seq for call in calls if isinstance(call, ToolCall)}
    return sum(call.parent not in tools and world.mode_of(call) is ToolMode.RECORDED for call in calls)


def _matched(world: World, run: TraceRun) -> int:
    """Count the calls of a run that are on the tape, by name and arguments, or by name alone in mode `sequence`."""
    answered_calls = list(filter(_was_answered, run.calls))
    if not answered_calls:
        return 0
    # Matching imports the seam, and few runs are counted this way.
    from replaykit.handlers.replay.keys import as_pending  # noqa: PLC0415
    from replaykit.handlers.replay.tape import Matcher, Tape  # noqa: PLC0415

    tape = Tape(call for call in world.calls if isinstance(call, Call) and world.mode_of(call) is ToolMode.RECORDED)
    is_sequence = world.rules.mode is MatchMode.SEQUENCE
    mode = MatchMode.SEQUENCE if is_sequence else MatchMode.ARGS
    matcher = Matcher(tape, mode, world.rules.ignore, model=world.rules.model)
    return sum(matcher.take(as_pending(call)) is not None for call in answered_calls)


def _was_answered(call: Call) -> bool:
    """Return whether a call was answered. Refused calls, and those for time and chance, do not count."""
    is_refused = call.error is not None and call.error.module == ReplayKitError.__module__
    return not is_refused and call.name not in MACHINE


class RepeatedRuns:
    """Repeated runs of a candidate in one world. Each happens on first access and gets the whole tape."""

    def __init__(
        self, case: ReplayCase, candidate: Candidate, workspace: Path, timeout_s: float, *, ignored: str = ""
    ) -> None:
        """`ignored` is a kind of deviation that does not count."""
        self._case = case
        self._ignored = ignored
        self._candidate = candidate
        self._workspace = workspace
        self._timeout_s = timeout_s
        self._attempts: list[Attempt] = []

    @property
    def first(self) -> Attempt:
        """The attempt of the first run."""
        return self._attempt(1)

    @property
    def more(self) -> tuple[TraceRun, ...]:
        """The runs made so far, without the first."""
        return tuple(attempt.run for attempt in self._attempts[1:] if attempt.run is not None)

    @property
    def uncertain(self) -> tuple[str, ...]:
        """Reasons why the order or time of something is undecided in any run made so far."""
        reasons: list[str] = []
        for attempt in self._attempts:
            reasons += (*attempt.uncertain, *doubts_in(attempt.deviations))
        return tuple(reasons)

    def __call__(self, number: int) -> RepeatedRun:
        """Return the run with this number; raise `CannotTell` if there is none or the tape could not answer it."""
        attempt = self._attempt(number)
        spoilt = first_with(Effect.INCONCLUSIVE, attempt.deviations)
        if attempt.run is None or spoilt is not None:
            raise CannotTell(f"run {number}: {attempt.reason if spoilt is None else spoilt.text}")
        is_known = attempt.watched or attempt.deviations
        evidence = evidence_of(self._case, attempt)
        return RepeatedRun(attempt.run, attempt.deviations if is_known else None, evidence)

    def _attempt(self, number: int) -> Attempt:
        while len(self._attempts) < number:
            self._attempts.append(self._without_ignored(self._run(len(self._attempts) + 1)))
        return self._attempts[number - 1]

    def _run(self, number: int) -> Attempt:
        workspace = self._workspace
        if number > 1:
            workspace = workspace / f"run-{number}"
            workspace.mkdir()
        refused = refused_in(self._case)
        if refused:  # a file asked for live calls without anyone's consent: do not run the candidate at all
            return Attempt(reason=refusal_text(refused), deviations=refusals(refused))
        return self._candidate.run(self._case, workspace, self._timeout_s)

    def without(self, ignored: str) -> RepeatedRuns:
        """Return the same runs without deviations of one kind."""
        others = copy(self)
        others._ignored = ignored
        others._attempts = list(map(others._without_ignored, self._attempts))
        return others

    def _without_ignored(self, attempt: Attempt) -> Attempt:
        deviations = tuple(deviation for deviation in attempt.deviations if deviation.kind != self._ignored)
        return replace(attempt, deviations=deviations)
