"""Runs and their events as text."""

from __future__ import annotations

import time
from collections.abc import Sequence

from replaykit.formats.core.replayability import replayability
from replaykit.handlers.recording.interrupted import STOPPED
from replaykit.model.diff import brief, call_text
from replaykit.model.events import (
    AnyEvent,
    Call,
    Decision,
    ErrorEvent,
    Message,
    Note,
    State,
)
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.unreplayable import concerns, note_text
from replaykit.report.layout import counted, short, table, to_json
from replaykit.telemetry.span import recorded_trace
from replaykit.terminal import style

_COLOURS = {RunStatus.SUCCESS: "green", RunStatus.RUNNING: "cyan", RunStatus.CANCELLED: "yellow"}
_NOT_HELD = {
    "secrets": "what `secrets` and `os.urandom` gave is",
    "hashes": "what `hash` gave is",
    "library_secrets": "what `secrets` and `os.urandom` gave a library is",
    "library_hashes": "what `hash` gave a library is",
    "sets": "the order of a set in an argument is",
    "random": "`random` is",
}
"""Sources of chance that a replay cannot repeat, as `show` describes them."""


def runs_text(headers: Sequence[RunHeader]) -> str:
    """The runs of a store, newest first."""
    rows = []
    for header in headers:
        events = "" if header.event_count is None else str(header.event_count)
        times = (_when(header.started_at), _seconds(header.duration_s))
        rows.append([header.id, header.status.value, *times, events, header.name, _one_line(header)])
    return table(["run", "status", "started (UTC)", "time", "events", "name", "input → output"], rows)


def run_text(run: TraceRun) -> str:
    """One run: its header and its events, a line each."""
    colour = _COLOURS.get(run.status, "red")
    lines = [f"{run.id}  {style(run.status.value, fg=colour, bold=True)}  {run.name}".rstrip()]
    facts = [
        ("agent", f"{run.agent} {run.agent_version}".strip()),
        ("started", f"{_when(run.started_at)} UTC, {_seconds(run.duration_s)}" if run.started_at else ""),
        ("tags", ", ".join(run.tags)),
        ("origin", _origin(run)),
        ("trace", recorded_trace(run) or ""),
        ("partly", _stopped(run)),
        ("states", _sampling(run)),
        ("chance", _chance(run)),
        ("input", brief(run.input, 200)),
        ("output", brief(run.output, 200) if run.output_json else ""),
        ("error", short(str(run.error), 200) if run.error else ""),
    ]
    for line in (*_replayable(run), *(short(concern, 300) for concern in concerns(run.events))):
        facts.append(("replay", line))
    lines += [f"  {name:<8} {value}" for name, value in facts if value]
    lines.append("")
    lines += [event_line(event, run.started_at) for event in run.events] or ["  no events"]
    return "\n".join(lines)


def _stopped(run: TraceRun) -> str:
    reason = run.metadata.get(STOPPED)
    if reason:
        return f"the recording stopped before the run did: {short(str(reason), 200)}"
    return ""


def _chance(run: TraceRun) -> str:
    facts = [f"{_NOT_HELD.get(name, name)} not held" for name in run.chance.not_held]
    if run.chance.held_up_s:
        facts.append(f"held up for {run.chance.held_up_s * 1000:.0f} ms by a busy machine")
    return ", ".join(facts)


def event_line(event: AnyEvent, started_at: float) -> str:
    """One event on one line: number, time since the start, what happened."""
    offset = " " * 9
    if event.at and started_at:
        offset = f"{max(0.0, event.at - started_at):+8.3f}s"
    step = f" [{event.step}]" if event.step else ""
    return f"{event.seq:>5} {offset}{step} {_what(event)}"


def events_text(events: Sequence[AnyEvent], started_at: float) -> str:
    """Several events in full."""
    return "\n\n".join(event_text(event, started_at) for event in events)


def event_text(event: AnyEvent, started_at: float) -> str:
    """One event in full."""
    lines = [event_line(event, started_at), ""]
    facts: list[tuple[str, object]] = [("path", event.path or "/"), ("parent", event.parent)]
    if isinstance(event, Call):
        facts += [("name", event.name), ("arguments", event.arguments)]
        if event.result_json:
            facts.append(("result", event.result))
        if event.items_json is not None:
            facts.append(("items", event.items))
        if event.error:
            facts.append(("error", str(event.error)))
        facts.append(("time", f"{event.duration_s:.6f} s"))
    elif isinstance(event, Message | Decision | Note):
        facts.append(("content", event.content))
    elif isinstance(event, ErrorEvent):
        facts.append(("error", str(event.error)))
    for name, value in facts:
        if value is not None:
            shown = value if isinstance(value, str) else repr(value)
            lines.append(f"  {name:<10} {shown}")
    return "\n".join(lines)


def _what(event: AnyEvent) -> str:
    if isinstance(event, Call):
        return f"{short(call_text(event.name, event.arguments), 70)} → {_answer(event)}"
    if isinstance(event, Message):
        return f"{event.role}: {short(str(event.content), 80)}"
    if isinstance(event, ErrorEvent):
        return style(short(str(event.error), 90), fg="red")
    if isinstance(event, Decision):
        return f"decided {short(str(event.content), 80)}"
    if isinstance(event, State):
        if event.change is not None:
            return "checkpoint (change)"
        if event.is_kept:
            return "checkpoint"
        return "checkpoint (not kept)"
    return f"{event.name} {short(note_text(event) or str(event.content), 70)}"


def _answer(call: Call) -> str:
    if call.error is not None:
        return style(short(str(call.error), 70), fg="red")
    if call.items_json is not None and not (call.wire is not None and call.result_json):
        end = "" if call.complete else ", left early"
        return counted(len(call.items_json), "item") + end
    if call.result_json:
        return brief(call.result)
    return "no answer"


def _one_line(header: RunHeader) -> str:
    if header.error:
        return f"{brief(header.input)} → {header.error}"
    if header.output_json:
        return f"{brief(header.input)} → {brief(header.output)}"
    return brief(header.input)


def _origin(run: RunHeader) -> str:
    origin = run.origin
    if origin.kind == "recorded":
        return ""
    return " ".join(filter(None, (origin.kind, origin.format, origin.run, origin.step)))


def _replayable(run: TraceRun) -> list[str]:
    """Return how much of an imported run can be replayed, and advice for more; empty if all of it."""
    found = replayability(run) if run.origin.kind == "imported" else None
    if found is None or not found.lacking:
        return []
    return [found.summary, *(short(advice, 200) for advice in found.advice)]


def _sampling(run: RunHeader) -> str:
    parts = []
    if run.sampling.every > 1:
        parts.append(f"one of {run.sampling.every} kept")
    if run.sampling.on_change:
        parts.append("only changed ones")
    return ", ".join(parts)


def _when(at: float) -> str:
    if at:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
    return ""


def _seconds(duration: float | None) -> str:
    if duration is None:
        return ""
    return f"{duration:.2f} s"


def events_json(events: Sequence[AnyEvent]) -> str:
    """Events for programs."""
    return to_json({"replaykit": 1, "events": events})
