"""A Python callable as a candidate, in this process: fast, and trusted not to hang."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from replaykit.cases.case import ReplayCase
from replaykit.model.events import Call
from replaykit.runners.attempt import Attempt
from replaykit.runners.calling import AgentCall
from replaykit.runners.entries import Entry
from replaykit.runners.tape_use import served_from
from replaykit.runners.worlds import world_of


class CallableCandidate:
    """An agent function that is called here and now."""

    def __init__(self, agent: Callable[..., Any], *, calls: Iterable[Call] | None = None) -> None:
        self.label = getattr(agent, "__qualname__", type(agent).__qualname__)
        self._entry = Entry(agent, self.label)
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
        return Attempt(run=run, deviations=deviations, evidence=evidence, isolation=call.replayer.isolation)
