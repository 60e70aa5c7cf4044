"""Checkpoints, journeys and families of runs as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from replaykit.model.result import Deviation
from replaykit.model.run import RunHeader
from replaykit.model.values import freeze
from replaykit.report.layout import JsonResult, coloured, indented, short, table, to_json, with_hint
from replaykit.terminal import style, visible
from replaykit.travel.checkpoints import CheckpointInfo
from replaykit.travel.fork import ForkResult, RunFamily


class Checkpoints(JsonResult, frozen=True, kw_only=True):
    """The steps of a run."""

    checkpoints: Sequence[CheckpointInfo]
    """The steps in their order; empty if the run made no calls."""


class RunTree(JsonResult, frozen=True, kw_only=True):
    """A run with its ancestors and forks."""

    family: RunFamily
    """The oldest ancestor that is in the store, with all that was forked from it."""


_ERROR = 600  # room for a question and what can be typed to answer it

_CALLS_CHARS = 40


def checkpoints_text(checkpoints: Sequence[CheckpointInfo]) -> str:
    """The steps of a run, a line each."""
    rows = []
    for checkpoint in checkpoints:
        time = checkpoint.timestamp.strftime("%H:%M:%S.%f")[:-3] if checkpoint.timestamp else ""
        calls = short(", ".join(checkpoint.calls), _CALLS_CHARS)
        rows.append([checkpoint.step_id, time, _state_word(checkpoint), calls, _outcome(checkpoint)])
    text = table(["step", "time (UTC)", "", "calls", "decision or error"], rows, optional=("time (UTC)", ""))
    return with_hint(text, "Details of a step: replaykit show RUN --step STEP")


def _outcome(checkpoint: CheckpointInfo) -> str:
    """Return the error of a step, or else what was decided in it."""
    if checkpoint.error:
        return style(visible(checkpoint.error), fg="red")
    return "" if checkpoint.decision is None else str(checkpoint.decision)


def _state_word(checkpoint: CheckpointInfo) -> str:
    if checkpoint.has_state:
        return "state"
    if checkpoint.is_kept:
        return ""
    return "not stored"


def checkpoints_json(checkpoints: Sequence[CheckpointInfo]) -> str:
    """The steps for programs."""
    return to_json(Checkpoints(checkpoints=checkpoints))


def fork_text(result: ForkResult, *, dry_run: bool = False) -> str:
    """Return how a fork ended, and what it did for real."""
    if dry_run:
        lines = ["Nothing would be done for real."]
        if result.would_be_live:
            lines = ["This would be done for real:", *indented(result.would_be_live)]
        lines += [_deviation(deviation) for deviation in result.deviations if deviation.kind != "live"]
        return "\n".join(lines)
    since = f" since {result.since}" if result.since else ""
    lines = [f"{result.run_id}  {coloured(result.status.value, bold=True)}  by {result.way}{since}"]
    if result.output is not None:
        lines.append(f"  output   {short(repr(result.output), 200)}")
    if result.error:
        lines.append(f"  error    {short(result.error, _ERROR)}")
    return "\n".join([*lines, *map(_deviation, result.deviations)])


def _deviation(deviation: Deviation) -> str:
    return f"  {deviation.kind:<8} {short(deviation.text, 160)}"


def fork_json(result: ForkResult) -> str:
    """A journey for programs."""
    return to_json(replace(result, output=freeze(result.output)))


def family_ids(family: RunFamily) -> str:
    """Return the ids of a run, its parent and its forks, a line each."""
    return "\n".join([family.run.id, *map(family_ids, family.children)])


def family_text(family: RunFamily, names: Mapping[str, str]) -> str:
    """A run, its forks and their forks, as a tree; `names` are how their ids are printed."""
    return "\n".join(_branch(family, names, "", ""))


def runs_of(family: RunFamily) -> Iterator[str]:
    """Yield the id of each run of a family."""
    yield family.run.id
    for child in family.children:
        yield from runs_of(child)


def family_json(family: RunFamily) -> str:
    """A family for programs."""
    return to_json(RunTree(family=family))


def _branch(family: RunFamily, names: Mapping[str, str], head: str, rest: str) -> list[str]:
    lines = [f"{head}{_line(family.run, names)}"]
    for number, child in enumerate(family.children):
        branch, trunk = "├─ ", "│  "
        if number == len(family.children) - 1:
            branch, trunk = "└─ ", "   "
        lines += _branch(child, names, rest + branch, rest + trunk)
    return lines


def _line(run: RunHeader, names: Mapping[str, str]) -> str:
    origin = f"  {run.origin.kind} at {run.origin.step}" if run.origin.step else ""
    return f"{names[run.id]}  {coloured(run.status.value)}{origin}  {run.name}".rstrip()
