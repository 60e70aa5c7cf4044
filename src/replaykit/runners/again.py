"""A candidate's runs in one world: the first, and as many more as an assertion asks for."""

from __future__ import annotations

from pathlib import Path

from replaykit.cases.case import ReplayCase
from replaykit.checks.rule import CannotTell, Ran
from replaykit.model.run import TraceRun
from replaykit.runners.attempt import Attempt, Candidate


class Again:
    """The first run is there; another one is made when it is first asked for, in a fresh world with the whole tape."""

    def __init__(self, case: ReplayCase, candidate: Candidate, workspace: Path, timeout_s: float) -> None:
        self._case = case
        self._candidate = candidate
        self._workspace = workspace
        self._timeout_s = timeout_s
        self._attempts = [candidate.run(case, workspace, timeout_s)]

    @property
    def first(self) -> Attempt:
        """What the first run gave."""
        return self._attempts[0]

    @property
    def more(self) -> tuple[TraceRun, ...]:
        """The runs after the first that were made."""
        return tuple(attempt.run for attempt in self._attempts[1:] if attempt.run is not None)

    def __call__(self, number: int) -> Ran:
        """The run of that number; `CannotTell` when the candidate left none, or the tape could not answer it."""
        while len(self._attempts) < number:
            self._attempts.append(self._attempt(len(self._attempts) + 1))
        attempt = self._attempts[number - 1]
        unanswerable = next((told.text for told in attempt.deviations if told.kind == "unanswerable"), "")
        if attempt.run is None or unanswerable:
            raise CannotTell(f"run {number}: {unanswerable or attempt.reason}")
        is_known = attempt.watched or attempt.deviations
        return Ran(attempt.run, attempt.deviations if is_known else None)

    def _attempt(self, number: int) -> Attempt:
        workspace = self._workspace / f"run-{number}"
        workspace.mkdir()
        return self._candidate.run(self._case, workspace, self._timeout_s)
