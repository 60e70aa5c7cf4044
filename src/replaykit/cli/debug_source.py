"""Where the stepper reads from: runs and states out of a store, when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from replaykit.model.events import State
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.report.stepper import Walk
from replaykit.store.opening import opened
from replaykit.travel.steps import state_after

_STATES = 4  # states that are kept; any other is read from the store again


class Source:
    """Runs and states out of a store, which is open only while it is read."""

    def __init__(self, store_path: Path | None, reached: Callable[[TraceRun, str], Json]) -> None:
        self.store_path = store_path
        self._reached = reached
        self._states: dict[tuple[str, int], Json] = {}

    def load(self, run_id: str) -> TraceRun:
        """The run as it is at this moment."""
        with opened(self.store_path, read_only=True) as store:
            return store.load(run_id)

    def forget(self) -> None:
        """Read states anew from here on."""
        self._states.clear()

    def state(self, walk: Walk, at: int) -> Json:
        """The state after a step; None when none was kept by then."""
        key, stop = (walk.run.id, at), walk.stops[at]
        if not stop.name:
            return None
        if key not in self._states:
            if stop.loses_state:
                state = self._reached(walk.run, stop.name)
            else:
                with opened(self.store_path, read_only=True) as store:
                    state = state_after(store, walk.run, stop.name)
            self._states = dict([*self._states.items(), (key, state)][-_STATES:])
        return self._states[key]

    def state_before(self, walk: Walk, at: int) -> Json:
        """The state that a step began with; None when there was none."""
        if at:
            return self.state(walk, at - 1)
        kept = [event.seq for event in walk.stops[0].own if isinstance(event, State) and event.kept]
        if len(kept) < 2:
            return None
        with opened(self.store_path, read_only=True) as store:
            return store.state_at(walk.run.id, kept[0])
