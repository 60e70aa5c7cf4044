"""The plan of a journey: what the agent begins with, which recorded calls it is served, where the change is made.

An agent that takes a state begins with the nearest one that was kept, at the step or before it; any other agent begins
at its start. Whatever is wrong with a journey is said here, before anything is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct

from replaykit.errors import UsageError
from replaykit.model.changes import Cleaning
from replaykit.model.events import AnyEvent, Call, State
from replaykit.model.run import TraceRun
from replaykit.model.sampling import EVERY_STATE, Sampling
from replaykit.model.values import Json
from replaykit.recording.calling import call_with, finished
from replaykit.seam.scope import AT_FIRST, Beginning, Handler, Session
from replaykit.store.protocol import Store
from replaykit.travel.counting import beginning_after
from replaykit.travel.edits import Edits
from replaykit.travel.inherited import Inherited, inherited
from replaykit.travel.standing import Standing, kept_before, standing_at, standings, steps_with_states


class Moment(Struct, frozen=True):
    """One of the agent's states, by where the agent hands it over: the n-th in this step, on this path."""

    step: str | None
    path: str
    count: int
    """0 when the recording has none there: then the first one will do, there or later."""


class Cut(Struct):
    """Where a run is cut: the calls up to the step, the step's own calls among them, and those after it."""

    run_id: str
    step: str
    before: list[Call]
    own: list[Call]
    after: list[Call]
    inside: dict[int, list[AnyEvent]]
    """What happened inside each call: it does not happen again when that is served."""
    inner: frozenset[int]
    """The numbers of the calls among that."""


class Start(Struct, frozen=True):
    """The state that an agent begins with."""

    step: str
    """The step it was kept in."""
    seq: int
    """Everything up to this event has happened before."""
    state: Json
    at_step: bool
    """True when the agent does nothing between this state and the end of the step it goes on from."""
    begins: Beginning


class Plan(Struct, frozen=True):
    """What is called, with what, and what it is served."""

    agent: Callable[..., Any]
    given: Json
    cut: Cut
    start: Start | None
    """None for an agent that begins at its start."""
    shared: list[AnyEvent]
    """The parent's events before the agent begins."""
    begins: Beginning
    moment: Moment
    """The state that is changed, or looked for."""
    sampling: Sampling
    """Every state is kept, but where the parent says nothing of equal ones, neither does the journey."""
    target: Call | None = None
    """The call whose answer or arguments are changed."""
    inherited: tuple[Inherited, ...] = ()
    """What forks before this one have changed in the state, and the agent has to come by again."""

    @property
    def at_once(self) -> bool:
        """True when the agent begins at the step itself."""
        return self.start is not None and self.start.at_step

    def run(self) -> Any:
        """Call the agent; gives what it answers."""
        if self.start is None:
            return finished(call_with(self.agent, self.given))
        state = self.start.state
        others = [name for name in inspect.signature(self.agent).parameters if name != "state"]
        return finished(self.agent(self.given, state=state) if others else self.agent(state=state))


def plan_for(store: Store, parent: TraceRun, step: str, edits: Edits, agent: Callable[..., Any]) -> Plan:
    """The plan for going on from a step; a UsageError where that cannot be done."""
    standing = standing_at(parent, step)
    anew = edits.input is not UNSET
    if edits.of_state:
        _check_fit(store, parent, standing, edits)
    start = None
    if takes_state(agent) and not edits.of_call and not anew:
        start = _start(store, parent, standing, edits)
    since = start.seq if start is not None else -1
    cut = _cut(parent, step, since, anew=anew)
    return Plan(
        agent=agent,
        given=edits.input if anew else parent.input,
        cut=cut,
        start=start,
        shared=[event for event in parent.events if event.seq <= since],
        begins=start.begins if start is not None else AT_FIRST,
        moment=(moment := _moment(parent, _changed_state(standing), standing, since)),
        sampling=_sampling(parent, moment),
        target=edits.target(step, cut.own, parent.calls) if edits.of_call else None,
        inherited=() if anew else inherited(store, parent, step, since),
    )


def plan_to_reach(store: Store, parent: TraceRun, step: str, agent: Callable[..., Any]) -> Plan:
    """The plan for getting to a state that was not kept."""
    standing = standing_at(parent, step)
    start = _start(store, parent, standing, Edits()) if takes_state(agent) else None
    since = start.seq if start is not None else -1
    return Plan(
        agent=agent,
        given=parent.input,
        cut=_cut(parent, step, since),
        start=start,
        shared=[],
        begins=start.begins if start is not None else AT_FIRST,
        moment=(moment := _moment(parent, standing.state, standing, since)),
        sampling=_sampling(parent, moment),
    )


def session_for(plan: Plan, handler: Handler, parent: TraceRun, cleaning: Cleaning | None = None) -> Session:
    """The session in which the agent runs: it counts its calls, steps and states as the parent did."""
    lineage = parent.origin.run or parent.id
    return Session(handler, lineage=lineage, begins=plan.begins, sampling=plan.sampling, cleaning=cleaning)


def takes_state(agent: Callable[..., Any]) -> bool:
    """True for an agent that can begin with a state."""
    try:
        return "state" in inspect.signature(agent).parameters
    except (TypeError, ValueError):
        return False


def _check_fit(store: Store, parent: TraceRun, standing: Standing, edits: Edits) -> None:
    """A change that does not fit the state, where that is known."""
    if standing.state is None:
        hint = "Keep one with `step.done(state)`, or change a call."
        raise UsageError(f"run {parent.id} kept no state at {standing.step_id}", hint=hint)
    if not standing.unknown:
        edits.amended(store.state_at(parent.id, standing.state.seq))


def _start(store: Store, parent: TraceRun, standing: Standing, edits: Edits) -> Start | None:
    """The nearest state that was kept, at the step (then as it is changed there) or before it."""
    nearest = kept_before(parent, standing.step_id) if standing.unknown else standing
    if nearest is None or nearest.state is None:
        return None
    kept = nearest.state
    step, last = next(
        (one.step_id, one.events) for one in standings(parent) if any(event is kept for event in one.events)
    )
    inner = _inner(inside_of(parent))
    calls = [event.seq for event in parent.events if isinstance(event, Call) and event.seq not in inner]
    # What follows the state in its own step is over as well, unless the agent made calls in between.
    end = last[-1].seq
    seq = kept.seq if any(kept.seq < call <= end for call in calls) else end
    at_step = nearest is standing and not any(seq < call <= standing.last.seq for call in calls)
    state = store.state_at(parent.id, kept.seq)
    seq = max(seq, standing.last.seq) if at_step else seq
    return Start(
        step=step,
        seq=seq,
        state=edits.amended(state) if at_step else state,
        at_step=at_step,
        begins=beginning_after(parent, seq, kept),
    )


def _cut(parent: TraceRun, step: str, since: int, *, anew: bool = False) -> Cut:
    """The parent's calls after an event, by the step each belongs to; `anew` all of them are after it."""
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
        current = order.get(event.seq, current)  # a call outside of any step belongs to the one before it
        if isinstance(event, Call) and event.seq > since:
            (before if current <= reached and not anew else after).append(event)
    inside = inside_of(parent)
    return Cut(parent.id, step, before, own, after, inside, _inner(inside))


def inside_of(parent: TraceRun) -> dict[int, list[AnyEvent]]:
    """What happened directly inside each call of a run, by the number of the call."""
    inside: dict[int, list[AnyEvent]] = {call.seq: [] for call in parent.calls}
    for event in parent.events:
        if event.parent in inside and event.parent < event.seq:  # a log from elsewhere may say anything
            inside[event.parent].append(event)
    return inside


def _inner(inside: dict[int, list[AnyEvent]]) -> frozenset[int]:
    return frozenset(event.seq for events in inside.values() for event in events if isinstance(event, Call))


def _changed_state(standing: Standing) -> State | None:
    """The state that a change at the step is made to: the last that the step itself hands over."""
    states = [event for event in standing.events if isinstance(event, State)]
    own = [state for state in states if state.step == standing.step_id]
    return (own or states)[-1] if states else None


def _moment(parent: TraceRun, state: State | None, standing: Standing, since: int) -> Moment:
    alike = [
        other
        for other in parent.events
        if state is not None
        and isinstance(other, State)
        and since < other.seq <= state.seq
        and (other.step, other.path) == (state.step, state.path)
    ]
    if state is not None and alike:
        return Moment(state.step, state.path, len(alike) - _is_kept_after_all(parent, alike))
    marked = any(event.step for event in parent.events)
    return Moment(standing.step_id if marked else None, "", 0)


def _is_kept_after_all(parent: TraceRun, alike: list[State]) -> bool:
    """True when the last of these is the one before it once more: at the end of a run the last state is kept."""
    last = [event for event in parent.events if isinstance(event, State)][-2:]
    return parent.sampling.every > 1 and alike[-2:] == last and len(last) == 2 and last[1].kept and not last[0].kept


def _sampling(parent: TraceRun, moment: Moment) -> Sampling:
    # Where a step left no state in the log because nothing changed, the change is made to one that left no trace.
    return Sampling(on_change=True) if parent.sampling.on_change and moment.count else EVERY_STATE
