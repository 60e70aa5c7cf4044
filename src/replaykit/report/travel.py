"""Checkpoints, journeys and families of runs as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from replaykit.model.result import Deviation
from replaykit.model.run import RunHeader, RunStatus
from replaykit.model.values import freeze
from replaykit.report.panel import short, table
from replaykit.terminal import style
from replaykit.travel.family import Family
from replaykit.travel.go import Journey
from replaykit.travel.steps import CheckpointInfo

_ERROR = 600  # room for a question and what can be typed to answer it


def checkpoints_text(checkpoints: Sequence[CheckpointInfo]) -> str:
    """The steps of a run, a line each."""
    rows = [
        [
            c.step_id,
            c.timestamp.strftime("%H:%M:%S.%f")[:-3] if c.timestamp else "",
            "state" if c.has_state else "" if c.kept else "not kept",
            ", ".join(c.calls),
            c.error or (str(c.decision) if c.decision is not None else ""),
        ]
        for c in checkpoints
    ]
    return table(["step", "time (UTC)", "", "calls", "decision or error"], rows)


def journey_text(journey: Journey, *, dry_run: bool = False) -> str:
    """How going on from a step ended, and what was done for real on the way."""
    if dry_run:
        wanted = [f"  {call}" for call in journey.would_be_live]
        lines = ["This would be done for real:", *wanted] if wanted else ["Nothing would be done for real."]
        return "\n".join([*lines, *(_deviation(each) for each in journey.deviations if each.kind != "live")])
    colour = "green" if journey.status is RunStatus.SUCCESS else "red"
    since = f" since {journey.since}" if journey.since else ""
    lines = [f"{journey.run_id}  {style(journey.status.value, fg=colour, bold=True)}  by {journey.way}{since}"]
    if journey.output is not None:
        lines.append(f"  output   {short(repr(journey.output), 200)}")
    if journey.error:
        lines.append(f"  error    {short(journey.error, _ERROR)}")
    return "\n".join([*lines, *map(_deviation, journey.deviations)])


def _deviation(deviation: Deviation) -> str:
    return f"  {deviation.kind:<8} {short(deviation.text, 160)}"


def journey_json(journey: Journey) -> str:
    """A journey for programs."""
    document = {"replaykit": 1, **msgspec.structs.asdict(journey), "output": freeze(journey.output)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def family_text(family: Family) -> str:
    """A run, its forks and their forks, as a tree."""
    return "\n".join(_branch(family, "", ""))


def family_json(family: Family) -> str:
    """A family for programs."""
    return msgspec.json.format(msgspec.json.encode({"replaykit": 1, "family": _nested(family)}), indent=2).decode()


def _branch(family: Family, head: str, rest: str) -> list[str]:
    lines = [f"{head}{_line(family.run)}"]
    for number, child in enumerate(family.children):
        last = number == len(family.children) - 1
        lines += _branch(child, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
    return lines


def _line(run: RunHeader) -> str:
    colour = "green" if run.status is RunStatus.SUCCESS else "red"
    origin = f"  {run.origin.kind} at {run.origin.step}" if run.origin.step else ""
    return f"{run.id}  {style(run.status.value, fg=colour)}{origin}  {run.name}".rstrip()


def _nested(family: Family) -> dict[str, object]:
    return {"run": family.run, "children": [_nested(child) for child in family.children]}
