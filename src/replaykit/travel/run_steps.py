"""The steps of a run, and the state that its log holds after each.

The state after a step is the last one the agent had by then. If the log says that there was one and did not keep it,
the state is unknown: an older one is not taken for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct

from replaykit.errors import StateNotKept
from replaykit.model.events import AnyEvent, State
from replaykit.model.run import TraceRun
from replaykit.model.steps import StepWord, step_name, steps_of


class RunStep(Struct, frozen=True):
    """A step of a run."""

    step_id: str
    events: list[AnyEvent]
    state: State | None
    """The state after the step, whichever step it was written in; None if the agent had none by then."""

    @property
    def last(self) -> AnyEvent:
        """The last event that belongs to the step, its states included."""
        return self.events[-1]

    @property
    def unknown(self) -> bool:
        """True if there is a state after the step that the log does not hold."""
        return self.state is not None and not self.state.is_kept


def run_steps(run: TraceRun) -> list[RunStep]:
    """Return the steps of a run, in order."""
    states = [event for event in run.events if isinstance(event, State)]
    numbers = [state.seq for state in states]
    step_list = []
    for step_id, events in steps_with_states(run):
        own = [event for event in events if isinstance(event, State)]
        by_then = bisect_right(numbers, events[-1].seq)
        before = states[by_then - 1] if by_then else None
        # Events of a step may be logged after the state of the next one: LangGraph does not wait for its threads.
        step_list.append(RunStep(step_id, events, own[-1] if own else before))
    return step_list


def find_step(run: TraceRun, step_id: StepWord) -> RunStep:
    """Return a step by its name or number; a `UsageError` names the existing steps."""
    name = step_name(run, step_id)
    return next(run_step for run_step in run_steps(run) if run_step.step_id == name)


def steps_with_states(run: TraceRun) -> Iterator[tuple[str, list[AnyEvent]]]:
    """Yield each step with its events, and with the states between it and the next step."""
    steps = steps_of(run)
    owner = {event.seq: step_id for step_id, events in steps.items() for event in events}
    groups: dict[str, list[AnyEvent]] = {step_id: [] for step_id in steps}
    current = next(iter(steps), "")
    for event in run.events:
        current = owner.get(event.seq, current)
        if current and (event.seq in owner or isinstance(event, State)):
            groups[current].append(event)
    yield from groups.items()


def nearest_known_step_before(run: TraceRun, step_id: str) -> RunStep | None:
    """Return the nearest step before this one whose state is known; None if there is none."""
    return _nearest(run, step_id)[0]


def state_not_kept(run: TraceRun, step_id: str) -> StateNotKept:
    """Return the error for a step with an unknown state; it names the nearest known ones and the way to get it."""
    before, after = _nearest(run, step_id)
    near = [run_step.step_id for run_step in (before, after) if run_step is not None]
    beside = f" The nearest stored ones: {', '.join(near)}." if near else ""
    return StateNotKept(
        f"run {run.id}: the state after {step_id} was not stored.{beside}",
        hint=(
            "Let the agent get there again, answered from the recording:\n"
            f"  replaykit show {run.id} --step {step_id} --state --agent module:function\n"
            f"or in Python: replaykit.state_at({run.id!r}, {step_id!r}, agent=my_agent)"
        ),
    )


def _nearest(run: TraceRun, step_id: str) -> tuple[RunStep | None, RunStep | None]:
    """Return the nearest steps before and after this one whose states are known."""
    before, passed = None, False
    for run_step in run_steps(run):
        if run_step.step_id == step_id:
            passed = True
        elif run_step.state is not None and run_step.state.is_kept:
            if passed:
                return before, run_step
            before = run_step
    return before, None
