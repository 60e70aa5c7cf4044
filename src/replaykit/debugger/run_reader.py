"""Reads runs and states from a store on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from replaykit.debugger.navigation import StepList
from replaykit.model.events import State
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.store.open import open_store
from replaykit.travel.checkpoints import state_after

_STATES = 4  # states that are kept; any other is read from the store again


class RunReader:
    """Runs and states out of a store, which is open only while it is read."""

    def __init__(self, store_path: Path | None, reexecute: Callable[[TraceRun, str], Json]) -> None:
        self.store_path = store_path
        self._reexecute = reexecute
        self._states: dict[tuple[str, int], Json] = {}

    def load(self, run_id: str) -> TraceRun:
        """The run as it is at this moment."""
        with open_store(self.store_path, read_only=True) as store:
            return store.load(run_id)

    def forget(self) -> None:
        """Read states anew from here on."""
        self._states.clear()

    def state(self, step_list: StepList, at: int) -> Json:
        """The state after a step; None when none was kept by then."""
        key, stop = (step_list.run.id, at), step_list.stops[at]
        if not stop.name:
            return None
        if key not in self._states:
            if stop.loses_state:
                state = self._reexecute(step_list.run, stop.name)
            else:
                with open_store(self.store_path, read_only=True) as store:
                    state = state_after(store, step_list.run, stop.name)
            self._states = dict([*self._states.items(), (key, state)][-_STATES:])
        return self._states[key]

    def state_before(self, step_list: StepList, at: int) -> Json:
        """The state that a step began with; None when there was none."""
        if at:
            return self.state(step_list, at - 1)
        state_numbers = [event.seq for event in step_list.stops[0].own if isinstance(event, State) and event.kept]
        if len(state_numbers) < 2:
            return None
        with open_store(self.store_path, read_only=True) as store:
            return store.state_at(step_list.run.id, state_numbers[0])
