"""Steps: the events of a run that one of its steps holds."""

from __future__ import annotations

from replaykit.errors import UsageError
from replaykit.model.events import AnyEvent, Call
from replaykit.model.run import TraceRun


def steps_of(run: TraceRun) -> dict[str, list[AnyEvent]]:
    """The run's events by step; in a run that marks no steps each call is one: step_1, step_2, …"""
    steps: dict[str, list[AnyEvent]] = {}
    marked = any(event.step for event in run.events)
    for event in run.events:
        if marked and event.step:
            steps.setdefault(event.step, []).append(event)
        elif not marked and isinstance(event, Call):
            steps[f"step_{len(steps) + 1}"] = [event]
    return steps


def events_of_step(run: TraceRun, step: str) -> list[AnyEvent]:
    """The events of a step by its name, or the one event of a number; a UsageError names what there is."""
    if step.isdecimal():
        found = [event for event in run.events if event.seq == int(step)]
    else:
        found = steps_of(run).get(step, [])
    if found:
        return found
    raise unknown_step(run, step)


def unknown_step(run: TraceRun, step: str) -> UsageError:
    """The error for a step that the run does not have; it names those it has."""
    if run.events:
        numbers = f"events {run.events[0].seq} to {run.events[-1].seq}"
    else:
        numbers = "no events"
    names = list(steps_of(run))
    if names:
        known = f"; steps {', '.join(names[:12])}{' …' if len(names) > 12 else ''}"
    else:
        known = ""
    return UsageError(f"run {run.id} has no step {step!r}", hint=f"It has {numbers}{known}")
