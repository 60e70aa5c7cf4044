"""A Python callable as a candidate, in this process: fast, and trusted not to hang."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from replaykit.cases.case import ReplayCase
from replaykit.replayer.tape import Tape
from replaykit.runners.attempt import Attempt
from replaykit.runners.calling import AgentCall


class CallableCandidate:
    """An agent function that is called here and now."""

    def __init__(self, agent: Callable[..., Any], *, tape: Tape | None = None) -> None:
        self._agent = agent
        self._tape = tape
        self.label = getattr(agent, "__qualname__", type(agent).__qualname__)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Call the function once."""
        call = AgentCall(case, self._tape)
        run = call.run(self._agent)
        return Attempt(run=run, deviations=tuple(call.replayer.all_deviations()))
