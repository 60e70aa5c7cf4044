"""A Python callable as a candidate, in this process: fast, and trusted not to hang."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from replaykit.candidates.agent_entries import AgentEntry
from replaykit.candidates.agent_run import AgentCall
from replaykit.candidates.attempt import Attempt
from replaykit.candidates.tape_use import served_from
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import ReplayCase
from replaykit.model.events import Call


class CallableCandidate:
    """An agent function that is called here and now."""

    def __init__(self, agent: Callable[..., Any], *, calls: Iterable[Call] | None = None) -> None:
        self.label = getattr(agent, "__qualname__", type(agent).__qualname__)
        self._entry = AgentEntry(agent, self.label)
        self._calls = None if calls is None else tuple(calls)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Call the function once."""
        world = world_of(case, self._calls)
        if refused := self._entry.refusal(world):
            return Attempt(reason=refused)
        call = AgentCall(world)
        run = self._entry.run(call, world)
        deviations = self._entry.deviations(call, world)
        evidence = served_from(world, run, deviations)
        return Attempt(
            run=run,
            deviations=deviations,
            evidence=evidence,
            isolation=call.replayer.isolation,
            keeps_hashes=True,
        )
