"""The plan of a fork: the state that the agent begins with, the recorded calls to serve, and the place of the change.

An agent that takes a state begins with the nearest kept one, at the step or before it; any other agent begins at its
start. All errors in the options of a fork are raised here, before a run is begun.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from replaykit.errors import RunNotFound, UsageError
from replaykit.handlers.recording.agent_call import call_with, finished
from replaykit.model.changes import Cleaning, StateFold
from replaykit.model.events import AnyEvent, Call, State
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.sampling import EVERY_STATE, Sampling
from replaykit.model.values import Json, canonical, decode
from replaykit.seam.scope import AT_FIRST, Beginning, Handler, RunSession
from replaykit.store.protocol import Store
from replaykit.travel.edits import Edits
from replaykit.travel.run_steps import RunStep, find_step, nearest_known_step_before, run_steps, steps_with_states

_STEP_NUMBER = re.compile(r"step_(\d+)")


class StateMoment(Struct, frozen=True):
    """One of the agent's states, by where the agent hands it over: the n-th in this step, on this path."""

    step: str | None
    path: str
    count: int
    """0 if the recording has none there: then the first one in this place or later counts."""


class RunCut(Struct):
    """A run cut at a step: the calls up to and including the step, and those after it."""

    run_id: str
    step: str
    before: list[Call]
    own: list[Call]
    after: list[Call]
    inside: dict[int, list[AnyEvent]]
    """The events inside each call; they do not happen again when the call is served."""
    inner: frozenset[int]
    """The numbers of the calls among those events."""


class StartState(Struct, frozen=True):
    """The state that an agent begins with."""

    step: str
    """The step it was kept in."""
    seq: int
    """The last event that has happened before the agent begins."""
    state: Json
    at_step: bool
    """True if the agent does nothing between this state and the end of the step."""
    begins: Beginning


class ForkPlan(Struct, frozen=True):
    """The plan of a fork: the agent, its input, and the recorded calls it is served."""

    agent: Callable[..., Any]
    agent_input: Json
    cut: RunCut
    start: StartState | None
    """None for an agent that begins at its start."""
    shared: list[AnyEvent]
    """The parent's events before the agent begins."""
    begins: Beginning
    moment: StateMoment
    """The state to change or to look for."""
    sampling: Sampling
    """Keeps every state, but skips equal ones if the parent does."""
    target: Call | None = None
    """The call whose answer or arguments are changed."""
    inherited_changes: tuple[InheritedChange, ...] = ()
    """State changes of earlier forks, which have to be repeated."""
    added_keys: tuple[Deviation, ...] = ()
    """Keys that the change adds to the state."""

    @property
    def at_once(self) -> bool:
        """True if the agent begins at the step itself."""
        return self.start is not None and self.start.at_step

    def run(self) -> Any:
        """Call the agent and return its answer."""
        if self.start is None:
            return finished(call_with(self.agent, self.agent_input))
        state = self.start.state
        if list(inspect.signature(self.agent).parameters) == ["state"]:
            return finished(self.agent(state=state))
        return finished(self.agent(self.agent_input, state=state))


def plan_fork(store: Store, parent: TraceRun, step: str, edits: Edits, agent: Callable[..., Any]) -> ForkPlan:
    """Plan a fork from a step; raise `UsageError` if it is impossible."""
    run_step = find_step(parent, step)
    anew = edits.input is not UNSET
    added_keys: list[Deviation] = []
    if edits.of_state:
        added_keys = _check_fit(store, parent, run_step, edits)
    start = None
    if takes_state(agent) and not edits.of_call and not anew:
        start = _start(store, parent, run_step, edits)
    plan = _plan(parent, run_step, agent, start, _changed_state(run_step), anew=anew)
    plan = replace(plan, added_keys=tuple(added_keys))
    since = -1
    if start is not None:
        since = start.seq
        plan = replace(plan, shared=[event for event in parent.events if event.seq <= since])
    if edits.of_call:
        plan = replace(plan, target=edits.target(step, plan.cut.own, parent.calls))
    if anew:
        return replace(plan, agent_input=edits.input)
    return replace(plan, inherited_changes=inherited_changes(store, parent, step, since))


def plan_state_lookup(store: Store, parent: TraceRun, step: str, agent: Callable[..., Any]) -> ForkPlan:
    """Plan how to reach a state that was not kept."""
    run_step = find_step(parent, step)
    start = _start(store, parent, run_step, Edits()) if takes_state(agent) else None
    return _plan(parent, run_step, agent, start, run_step.state)


def _plan(
    parent: TraceRun,
    run_step: RunStep,
    agent: Callable[..., Any],
    start: StartState | None,
    state: State | None,
    *,
    anew: bool = False,
) -> ForkPlan:
    """Plan to run the agent up to a state at a step, with nothing changed there yet."""
    since, begins = -1, AT_FIRST
    if start is not None:
        since, begins = start.seq, start.begins
    moment = _moment(parent, state, run_step, since)
    # A step without a change has no state in the log, so the change applies to a state that left no trace.
    is_on_change = parent.sampling.on_change and moment.count > 0
    return ForkPlan(
        agent=agent,
        agent_input=parent.input,
        cut=_cut(parent, run_step.step_id, since, anew=anew),
        start=start,
        shared=[],
        begins=begins,
        moment=moment,
        sampling=Sampling(on_change=True) if is_on_change else EVERY_STATE,
    )


def session_for(plan: ForkPlan, handler: Handler, parent: TraceRun, cleaning: Cleaning | None = None) -> RunSession:
    """Return the session for the agent, which counts calls, steps and states as the parent did."""
    lineage = parent.origin.run or parent.id
    return RunSession(handler, lineage=lineage, begins=plan.begins, sampling=plan.sampling, cleaning=cleaning)


def takes_state(agent: Callable[..., Any]) -> bool:
    """True for an agent that can begin with a state."""
    try:
        return "state" in inspect.signature(agent).parameters
    except (TypeError, ValueError):
        return False


def _check_fit(store: Store, parent: TraceRun, run_step: RunStep, edits: Edits) -> list[Deviation]:
    """Return the keys that the change adds to the state; raise `UsageError` if it does not fit."""
    if run_step.state is None:
        hint = "Keep one with `step.done(state)`, or change a call."
        raise UsageError(f"run {parent.id} kept no state at {run_step.step_id}", hint=hint)
    if run_step.unknown:
        return []
    state = store.state_at(parent.id, run_step.state.seq)
    edits.amended(state)
    return edits.added_keys(state, run_step.step_id)


def _start(store: Store, parent: TraceRun, run_step: RunStep, edits: Edits) -> StartState | None:
    """Return the nearest kept state: at the step, with the change applied, or before it."""
    nearest: RunStep | None = run_step
    if run_step.unknown:
        nearest = nearest_known_step_before(parent, run_step.step_id)
    if nearest is None or nearest.state is None:
        return None
    kept_state = nearest.state
    owner = next(step for step in run_steps(parent) if any(event is kept_state for event in step.events))
    inner = _inner(inside_of(parent))
    calls = [call.seq for call in parent.calls if call.seq not in inner]

    def has_calls(after: int, up_to: int) -> bool:
        return any(after < call <= up_to for call in calls)

    # The rest of the state's own step is over as well, unless the agent made calls in it.
    seq = kept_state.seq if has_calls(kept_state.seq, owner.last.seq) else owner.last.seq
    at_step = nearest is run_step and not has_calls(seq, run_step.last.seq)
    state = store.state_at(parent.id, kept_state.seq)
    if at_step:
        seq = max(seq, run_step.last.seq)
        state = edits.amended(state)
    return StartState(
        step=owner.step_id, seq=seq, state=state, at_step=at_step, begins=_beginning_after(parent, seq, kept_state)
    )


def _cut(parent: TraceRun, step: str, since: int, *, anew: bool = False) -> RunCut:
    """Sort the parent's calls after an event by the step they belong to; with `anew`, all of them come after it."""
    order: dict[int, int] = {}
    own: list[Call] = []
    reached = -1
    for position, (name, events) in enumerate(steps_with_states(parent)):
        order.update({event.seq: position for event in events})
        if name == step:
            reached = position
            own = [event for event in events if isinstance(event, Call)]
    before: list[Call] = []
    after: list[Call] = []
    current = 0
    for event in parent.events:
        current = order.get(event.seq, current)  # a call outside of any step belongs to the step before it
        if isinstance(event, Call) and event.seq > since:
            (before if current <= reached and not anew else after).append(event)
    inside = inside_of(parent)
    return RunCut(parent.id, step, before, own, after, inside, _inner(inside))


def inside_of(parent: TraceRun) -> dict[int, list[AnyEvent]]:
    """Return the events directly inside each call of a run, by the number of the call."""
    inside: dict[int, list[AnyEvent]] = {call.seq: [] for call in parent.calls}
    for event in parent.events:
        if event.parent in inside and event.parent < event.seq:  # an imported log may contain cycles
            inside[event.parent].append(event)
    return inside


def _inner(inside: dict[int, list[AnyEvent]]) -> frozenset[int]:
    return frozenset(event.seq for events in inside.values() for event in events if isinstance(event, Call))


def _changed_state(run_step: RunStep) -> State | None:
    """Return the state that a change at the step applies to: the last that the step itself hands over."""
    last = None
    for event in run_step.events:
        is_own = event.step == run_step.step_id
        if isinstance(event, State) and (is_own or last is None or last.step != run_step.step_id):
            last = event
    return last


def _moment(parent: TraceRun, state: State | None, run_step: RunStep, since: int) -> StateMoment:
    if state is not None:
        alike = []
        for event in parent.events:
            is_there = (event.step, event.path) == (state.step, state.path)
            if isinstance(event, State) and is_there and since < event.seq <= state.seq:
                alike.append(event)
        if alike:
            return StateMoment(state.step, state.path, len(alike) - _is_kept_after_all(parent, alike))
    marked = any(event.step for event in parent.events)
    return StateMoment(run_step.step_id if marked else None, "", 0)


def _is_kept_after_all(parent: TraceRun, alike: list[State]) -> bool:
    """True if the last of these repeats the one before it, as a sampled run does with its last state at the end."""
    last = [event for event in parent.events if isinstance(event, State)][-2:]
    return (
        parent.sampling.every > 1 and alike[-2:] == last and len(last) == 2 and last[1].is_kept and not last[0].is_kept
    )


def _beginning_after(parent: TraceRun, since: int, state: State) -> Beginning:
    """Return the numbers from which a run counts on that begins with this state of its parent.

    Calls are matched by causal path, and paths contain numbers. An agent that begins in the middle continues these
    numbers, so that its calls get the paths they had in the recording.
    """
    step = 0
    for event in parent.events:
        if event.seq <= since and (match := _STEP_NUMBER.fullmatch(event.step or "")):
            step = max(step, int(match[1]))
    calls = Counter(event.name for event in parent.calls if not event.path and event.seq <= since)
    return Beginning(
        number=max(event.seq for event in parent.events) + 1,
        step=step + 1,
        children={**calls, **state.jobs},
    )


class InheritedChange(Struct, frozen=True):
    """A state change of an earlier fork: the state that it continued with instead of the agent's own."""

    step: str
    before: Json
    """None if it is no longer known."""
    after: Json

    def is_at(self, step: str | None) -> bool:
        """True for a state of that step; an agent without steps is matched by its states alone."""
        return step in (self.step, None)

    def is_due(self, state: Json, cleaning: Cleaning | None) -> bool:
        """True if this is the state that was changed, handed over again."""
        return self.before is not None and _written(state, cleaning) == canonical(self.before)

    def holds(self, state: Json, cleaning: Cleaning | None) -> bool:
        """True if the agent continues with the changed state."""
        return _written(state, cleaning) == canonical(self.after)

    def amended(self, state: Json) -> Json:
        """Return the state with the same change; the rest stays the agent's own."""
        if not (isinstance(state, dict) and isinstance(self.before, dict) and isinstance(self.after, dict)):
            return self.after
        amended = {key: value for key, value in state.items() if key in self.after or key not in self.before}
        for key, value in self.after.items():
            if key not in self.before or canonical(value) != canonical(self.before[key]):
                amended[key] = value
        return amended


def _written(state: Json, cleaning: Cleaning | None) -> bytes:
    fold = StateFold(cleaning=cleaning)  # logged states are redacted, so the agent's must be too for a comparison
    fold.advance(state)
    return canonical(decode(fold.text))


def inherited_changes(store: Store, run: TraceRun, step: str, since: int) -> tuple[InheritedChange, ...]:
    """Return the state changes between the event `since` and the end of a step, oldest fork first."""
    places = {run_step.step_id: place for place, run_step in enumerate(run_steps(run))}
    changes: list[InheritedChange] = []
    nearest = places[step]
    for child, parent in _forks(store, run):
        at = child.origin.step or ""
        if places.get(at, nearest + 1) > nearest:
            continue  # a later fork began before this change, so it never happened there
        nearest = places[at]
        if child.origin.kind == "resumed":
            continue  # nothing was changed
        old, new = None if parent is None else _state(store, parent, at), _state(store, child, at)
        before = None if old is None else old[1]
        if new is not None and new[0] > since and canonical(before) != canonical(new[1]):
            changes.append(InheritedChange(at, before, new[1]))
    return tuple(reversed(changes))


def _forks(store: Store, run: TraceRun) -> Iterator[tuple[TraceRun, TraceRun | None]]:
    """Yield the run with its parent, the parent with its own, and so on; None for a deleted parent."""
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
