"""A step's state is its own, though an event of the step was written after the state of the next."""

from __future__ import annotations

from replaykit.model.events import Note, State, ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.travel.run_steps import find_step


def test_an_event_that_comes_late_does_not_bring_the_next_steps_state() -> None:
    events = (
        ToolCall(seq=0, name="add", step="step_1", result_json=raw(1)),
        State(seq=1, step="step_1", state_json=raw({"n": 1})),
        ToolCall(seq=2, name="add", step="step_2", result_json=raw(2)),
        State(seq=3, step="step_2", state_json=raw({"n": 2})),
        Note(seq=4, step="step_1", name="write"),
    )
    run = TraceRun(id="r", status=RunStatus.SUCCESS, events=events, event_count=len(events))

    state = find_step(run, "step_1").state

    assert state is not None
    assert state.seq == 1
