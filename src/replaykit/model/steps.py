"""Steps: the events of a run, by step."""

from __future__ import annotations

from typing import TypeAlias

from replaykit.errors import UsageError, nearest, wrong_argument
from replaykit.model.events import AnyEvent, Call
from replaykit.model.run import TraceRun


def steps_of(run: TraceRun) -> dict[str, list[AnyEvent]]:
    """Group a run's events by step. If a run marks no steps, each call is one: step_1, step_2, …"""
    steps: dict[str, list[AnyEvent]] = {}
    marked = any(event.step for event in run.events)
    for event in run.events:
        if marked and event.step:
            steps.setdefault(event.step, []).append(event)
        elif not marked and isinstance(event, Call):
            steps[f"step_{len(steps) + 1}"] = [event]
    return steps


StepWord: TypeAlias = str | int
"""A step: its name, its number from 1, or its number from the end, such as `-1`."""


def step_name(run: TraceRun, step: StepWord) -> str:
    """Return the name of a step given by name, by number (`3`), or by number from the end (`-1`).

    Raises `UsageError` with the names of the existing steps.
    """
    if isinstance(step, int) and not isinstance(step, bool):
        step = str(step)
    if not isinstance(step, str):
        raise wrong_argument("A step", step, 'its name or number: "step_3", 3 or -1')
    names = list(steps_of(run))
    if step in names:
        return step
    if step.removeprefix("-").isdecimal():
        number = int(step)
        if 1 <= number <= len(names):
            return names[number - 1]
        if -len(names) <= number <= -1:
            return names[number]
    raise unknown_step(run, step)


def events_of_step(run: TraceRun, step: str) -> list[AnyEvent]:
    """Return the events of a step, given as for `step_name`."""
    return steps_of(run)[step_name(run, step)]


def event_of_number(run: TraceRun, number: int) -> AnyEvent:
    """Return the event with this number; raise `UsageError` with the existing numbers."""
    for event in run.events:
        if event.seq == number:
            return event
    raise UsageError(f"run {run.id} has no event {number}", hint=f"It has {_event_numbers(run)}")


def unknown_step(run: TraceRun, step: str) -> UsageError:
    """Return the error for a step that the run does not have, with those it has."""
    names = list(steps_of(run))
    message = f"run {run.id} has no step {step!r}"
    suggestion = nearest(step[:80], names)
    if suggestion.startswith("did you mean"):
        message = f"{message}; {suggestion}"
    if names:
        known = f"; steps {', '.join(names[:12])}{' …' if len(names) > 12 else ''}"
    else:
        known = ""
    return UsageError(message, hint=f"It has {_event_numbers(run)}{known}")


def _event_numbers(run: TraceRun) -> str:
    if run.events:
        return f"events {run.events[0].seq} to {run.events[-1].seq}"
    return "no events"
