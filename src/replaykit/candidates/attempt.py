"""What running a candidate once gives, before anything is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

from replaykit.model.isolation import NOT_ISOLATED, Isolation
from replaykit.model.result import Deviation, Evidence
from replaykit.model.run import TraceRun

if TYPE_CHECKING:
    from replaykit.cases.case import ReplayCase  # a candidate's own process does without


class Attempt(Struct, frozen=True, kw_only=True):
    """A candidate's run, or the reason why there is none."""

    run: TraceRun | None = None
    deviations: tuple[Deviation, ...] = ()
    watched: bool = True
    """False when the candidate answered its calls itself, and nobody saw whether it followed the tape."""
    reason: str = ""
    """Why there is no run."""
    evidence: Evidence | None = None
    """How much of the tape was used; None where the candidate does not count that itself."""
    uncertain: tuple[str, ...] = ()
    """Why the order or the moment of something in the run could not be told."""
    isolation: Isolation = NOT_ISOLATED
    keeps_hashes: bool = False
    """True when all runs of the candidate are in one process, in which `hash` and the order of sets stay the same."""


@runtime_checkable
class Candidate(Protocol):
    """The agent under test."""

    @property
    def label(self) -> str:
        """What to call it in a result."""

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run it once; logs and outputs go into the workspace. Does not raise for what the candidate does."""


@runtime_checkable
class Stoppable(Protocol):
    """A candidate that runs something which can be ended from another thread."""

    def stop(self) -> None:
        """End whatever is running."""
