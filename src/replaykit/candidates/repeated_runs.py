"""A candidate's runs in one world: the first, and as many more as an assertion asks for."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import msgspec

from replaykit.candidates.attempt import Attempt, Candidate
from replaykit.candidates.tape_use import evidence_of
from replaykit.cases.case import ReplayCase
from replaykit.cases.requests import refusal_text, refusals, refused_in
from replaykit.checks.rule import CannotTell, RepeatedRun
from replaykit.checks.verdict import doubts_in, first_with
from replaykit.model.result import Effect
from replaykit.model.run import TraceRun


class Again:
    """The first run is there; another one is made when it is first asked for, in a fresh world with the whole tape."""

    def __init__(
        self, case: ReplayCase, candidate: Candidate, workspace: Path, timeout_s: float, *, ignored: str = ""
    ) -> None:
        """`ignored`: a kind of deviation that does not count."""
        self._case = case
        self._ignored = ignored
        self._candidate = candidate
        self._workspace = workspace
        self._timeout_s = timeout_s
        self._attempts = [self._run(workspace)]

    @property
    def first(self) -> Attempt:
        """What the first run gave."""
        return self._attempts[0]

    @property
    def more(self) -> tuple[TraceRun, ...]:
        """The runs after the first that were made."""
        return tuple(attempt.run for attempt in self._attempts[1:] if attempt.run is not None)

    @property
    def uncertain(self) -> tuple[str, ...]:
        """Why the order or the moment of something could not be told, in any of the runs that were made."""
        return tuple(
            reason for attempt in self._attempts for reason in (*attempt.uncertain, *doubts_in(attempt.deviations))
        )

    def __call__(self, number: int) -> RepeatedRun:
        """The run of that number; `CannotTell` when the candidate left none, or the tape could not answer it."""
        while len(self._attempts) < number:
            self._attempts.append(self._attempt(len(self._attempts) + 1))
        attempt = self._attempts[number - 1]
        spoilt = first_with(Effect.INCONCLUSIVE, attempt.deviations)
        if attempt.run is None or spoilt is not None:
            raise CannotTell(f"run {number}: {attempt.reason if spoilt is None else spoilt.text}")
        is_known = attempt.watched or attempt.deviations
        evidence = evidence_of(self._case, attempt)
        return RepeatedRun(attempt.run, attempt.deviations if is_known else None, evidence)

    def _attempt(self, number: int) -> Attempt:
        workspace = self._workspace / f"run-{number}"
        workspace.mkdir()
        return self._run(workspace)

    def _run(self, workspace: Path) -> Attempt:
        refused = refused_in(self._case)
        if refused:  # data has asked for it, and nobody who may has said yes: the candidate is not run at all
            return Attempt(reason=refusal_text(refused), deviations=refusals(refused))
        return _without(self._ignored, self._candidate.run(self._case, workspace, self._timeout_s))

    def without(self, ignored: str) -> Again:
        """The same runs, without the deviations of this kind."""
        others = copy(self)
        others._ignored = ignored
        others._attempts = [_without(ignored, attempt) for attempt in self._attempts]
        return others


def _without(ignored: str, attempt: Attempt) -> Attempt:
    deviations = tuple(one for one in attempt.deviations if one.kind != ignored)
    return msgspec.structs.replace(attempt, deviations=deviations)
