"""Checkpoints, journeys and families of runs as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from replaykit.model.result import Deviation
from replaykit.model.run import RunHeader, RunStatus
from replaykit.model.values import freeze
from replaykit.report.layout import short, table, to_json
from replaykit.terminal import style
from replaykit.travel.checkpoints import CheckpointInfo
from replaykit.travel.fork import ForkResult, RunFamily

_ERROR = 600  # room for a question and what can be typed to answer it


def checkpoints_text(checkpoints: Sequence[CheckpointInfo]) -> str:
    """The steps of a run, a line each."""
    rows = [
        [
            c.step_id,
            c.timestamp.strftime("%H:%M:%S.%f")[:-3] if c.timestamp else "",
            _state_word(c),
            ", ".join(c.calls),
            c.error or (str(c.decision) if c.decision is not None else ""),
        ]
        for c in checkpoints
    ]
    return table(["step", "time (UTC)", "", "calls", "decision or error"], rows)


def _state_word(checkpoint: CheckpointInfo) -> str:
    if checkpoint.has_state:
        return "state"
    if checkpoint.kept:
        return ""
    return "not kept"


def fork_text(result: ForkResult, *, dry_run: bool = False) -> str:
    """Return how a fork ended, and what it did for real."""
    if dry_run:
        calls = [f"  {call}" for call in result.would_be_live]
        if calls:
            lines = ["This would be done for real:", *calls]
        else:
            lines = ["Nothing would be done for real."]
        return "\n".join(
            [*lines, *(_deviation(deviation) for deviation in result.deviations if deviation.kind != "live")]
        )
    colour = "green" if result.status is RunStatus.SUCCESS else "red"
    since = f" since {result.since}" if result.since else ""
    lines = [f"{result.run_id}  {style(result.status.value, fg=colour, bold=True)}  by {result.way}{since}"]
    if result.output is not None:
        lines.append(f"  output   {short(repr(result.output), 200)}")
    if result.error:
        lines.append(f"  error    {short(result.error, _ERROR)}")
    return "\n".join([*lines, *map(_deviation, result.deviations)])


def _deviation(deviation: Deviation) -> str:
    return f"  {deviation.kind:<8} {short(deviation.text, 160)}"


def fork_json(result: ForkResult) -> str:
    """A journey for programs."""
    document = {"replaykit": 1, **msgspec.structs.asdict(result), "output": freeze(result.output)}
    return to_json(document)


def family_text(family: RunFamily) -> str:
    """A run, its forks and their forks, as a tree."""
    return "\n".join(_branch(family, "", ""))


def family_json(family: RunFamily) -> str:
    """A family for programs."""
    return to_json({"replaykit": 1, "family": _nested(family)})


def _branch(family: RunFamily, head: str, rest: str) -> list[str]:
    lines = [f"{head}{_line(family.run)}"]
    for number, child in enumerate(family.children):
        last = number == len(family.children) - 1
        lines += _branch(child, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
    return lines


def _line(run: RunHeader) -> str:
    colour = "green" if run.status is RunStatus.SUCCESS else "red"
    origin = f"  {run.origin.kind} at {run.origin.step}" if run.origin.step else ""
    return f"{run.id}  {style(run.status.value, fg=colour)}{origin}  {run.name}".rstrip()


def _nested(family: RunFamily) -> dict[str, object]:
    return {"run": family.run, "children": [_nested(child) for child in family.children]}
