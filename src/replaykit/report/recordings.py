"""Recorded programs as text and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.unrecorded import (
    Unrecorded,
    UnrecordedEffect,
    UnrecordedKind,
    all_unrecorded,
    unrecorded_in,
    unrecorded_lines,
)
from replaykit.report.layout import JsonResult, coloured, counted, to_json
from replaykit.terminal import style


class UnrecordedAction(Struct, frozen=True, kw_only=True):
    """Something that a program did past the recording."""

    run: str
    """The id of the run."""
    kind: UnrecordedKind
    place: str
    """The host and port, or the path of a socket; of a call, the tool."""
    program: str
    """The program that did it."""
    where: str
    """The line of the program that did it, or else who did."""
    count: int
    """How often it was seen."""
    effect: UnrecordedEffect
    """What a replay does there."""
    text: str
    """The same as a sentence."""


class RecordedRuns(JsonResult, frozen=True, kw_only=True):
    """The runs that were recorded or recovered."""

    runs: Sequence[RunHeader]
    """The headers of the runs; empty if the run was not kept."""
    not_recorded: Sequence[UnrecordedAction]
    """What the program did past the recording, such as connections to databases."""


def recorded_text(
    run: TraceRun, command: Sequence[str], store: Path | None, options: Sequence[str] = (), *, whole: bool
) -> str:
    """The run, and what to type next; `options` have to be given again. Of one that is not whole nobody knows what
    there was to see."""
    status = coloured(run.status.value)
    calls = sum(1 for _ in run.calls)
    lines = [f"replaykit: recorded {run.id}: {status}, {counted(calls, 'call')}, {run.duration_s or 0:.1f} s"]
    if all(unrecorded_in(event) is not None for event in run.events):
        if whole:
            lines.append("  Nothing was recorded: no call reached the proxy, and no Python process made one.")
            lines.append("  If the program calls another API, name it: --upstream NAME=URL (docs/programs.md)")
        return "\n".join(lines)
    where = f" --store {shlex.quote(str(store))}" if store is not None else ""
    case = f"cases/{run.name}"
    lines += [
        f"  Look at it:    replaykit show {run.id}{where}",
        f"  Make a case:   replaykit scaffold {run.id} --out {shlex.quote(case)}{where}",
        f"  Run it again:  replaykit replay {shlex.join([case, *options, '--', *command])}",
    ]
    return "\n".join(lines)


def dropped_text(run: TraceRun) -> str:
    """A successful run that is not among those that are kept."""
    return f"replaykit: {run.id}: {style('success', fg='green')}, not kept: only a share of successful runs is"


def unrecorded_text(config: Path) -> str:
    """A configuration of MCP servers that nobody asked to be recorded."""
    return f"replaykit: the MCP servers in {config} are not recorded; to record them: --mcp-config {config}"


def unasked_text(configs: Sequence[Path], *, in_place: bool) -> str:
    """MCP servers that were ready to be recorded, and that nobody spoke to."""
    text = f"replaykit: no MCP server of {', '.join(map(str, configs))} was used."
    if in_place:
        return text
    return (
        f"{text} A program is redirected if its command or a variable names the file;\n"
        "  if it reads the file in place: --mcp-config-in-place"
    )


def unkept_text(*, is_too_long: bool) -> str:
    """Something came on standard input that a replay cannot give: it is too long, or nobody asked for it."""
    text = "replaykit: standard input was not recorded, so replays cannot provide it:"
    if is_too_long:
        return f"{text} it is longer than 1 MiB"
    return f"{text} record it with --input -"


def recovered_text(run: TraceRun) -> str:
    """A recording that was killed, put together."""
    return f"replaykit: {run.id} was interrupted while recording: recovered, {counted(len(run.events), 'event')}"


def not_recorded_text(run: TraceRun) -> str:
    """Return what was not recorded, a line each; empty if everything was."""
    return "\n".join(f"replaykit: {line}" for line in unrecorded_lines(all_unrecorded(run.events)))


def recorded_json(runs: Sequence[TraceRun]) -> str:
    """The headers of the runs and what they did past the recording, for programs."""
    not_recorded = [_as_json(run.id, unrecorded) for run in runs for unrecorded in all_unrecorded(run.events)]
    return to_json(RecordedRuns(runs=[run.header for run in runs], not_recorded=not_recorded))


def _as_json(run_id: str, unrecorded: Unrecorded) -> UnrecordedAction:
    return UnrecordedAction(
        run=run_id,
        kind=unrecorded.kind,
        place=unrecorded.place,
        program=unrecorded.program,
        where=unrecorded.where,
        count=unrecorded.count,
        effect=unrecorded.effect,
        text=unrecorded.text,
    )
