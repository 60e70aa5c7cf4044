"""Changes of state that the run's own forefathers made: when the run is executed again they have to be made again.

A changed answer stands in the log, as the call's answer. A changed state does not come again by itself: the agent hands
over what it had before the change, and goes on with that.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replaykit.errors import RunNotFound
from replaykit.model.changes import Cleaning, StateFold
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, canonical, decode
from replaykit.store.protocol import Store
from replaykit.travel.run_steps import RunStep, run_steps


class InheritedChange(Struct, frozen=True):
    """The state that a forefather went on with after a step, instead of the one that was handed over there."""

    step: str
    before: Json
    """None where nobody knows it any more."""
    after: Json

    def is_at(self, step: str | None) -> bool:
        """True for a state of that step; agents that mark no steps are known by their states alone."""
        return step in (self.step, None)

    def is_due(self, state: Json, cleaning: Cleaning | None) -> bool:
        """True when this is the state that was changed, handed over once more."""
        return self.before is not None and _written(state, cleaning) == canonical(self.before)

    def holds(self, state: Json, cleaning: Cleaning | None) -> bool:
        """True when the agent goes on with the changed state."""
        return _written(state, cleaning) == canonical(self.after)

    def amended(self, state: Json) -> Json:
        """The state with the same change; what was not changed stays the agent's own."""
        if not all(isinstance(each, dict) for each in (state, self.before, self.after)):
            return self.after
        unchanged = {key: value for key, value in state.items() if key in self.after or key not in self.before}
        changed = {
            key: value
            for key, value in self.after.items()
            if key not in self.before or canonical(value) != canonical(self.before[key])
        }
        return {**unchanged, **changed}


def _written(state: Json, cleaning: Cleaning | None) -> bytes:
    fold = StateFold(cleaning=cleaning)  # what a log holds is clean, what the agent has is not
    fold.advance(state)
    return canonical(decode(fold.text))


def inherited_changes(store: Store, run: TraceRun, step: str, since: int) -> tuple[InheritedChange, ...]:
    """The changes of state that lie between the event `since` and the end of a step, the oldest fork's first."""
    places = {run_step.step_id: place for place, run_step in enumerate(run_steps(run))}
    found: list[InheritedChange] = []
    nearest = places[step]
    for child, parent in _forks(store, run):
        at = child.origin.step or ""
        if places.get(at, nearest + 1) > nearest:
            continue  # a change after the place where a later fork began is none of its past
        nearest = places[at]
        if child.origin.kind == "resumed":
            continue  # with nothing changed
        old, new = None if parent is None else _state(store, parent, at), _state(store, child, at)
        before = None if old is None else old[1]
        if new is not None and new[0] > since and canonical(before) != canonical(new[1]):
            found.append(InheritedChange(at, before, new[1]))
    return tuple(reversed(found))


def _forks(store: Store, run: TraceRun) -> Iterator[tuple[TraceRun, TraceRun | None]]:
    """The run and what it was forked from, that and what it was forked from, and so on; None for one that is gone."""
    seen = {run.id}
    while run.origin.kind in ("forked", "resumed") and run.origin.run and run.origin.run not in seen:
        try:
            parent = store.load(run.origin.run)
        except RunNotFound:
            yield run, None
            return
        seen.add(parent.id)
        yield run, parent
        run = parent


def _state(store: Store, run: TraceRun, step: str) -> tuple[int, Json] | None:
    run_step: RunStep | None = next((run_step for run_step in run_steps(run) if run_step.step_id == step), None)
    if run_step is None or run_step.state is None or run_step.unknown:
        return None
    return run_step.state.seq, store.state_at(run.id, run_step.state.seq)
