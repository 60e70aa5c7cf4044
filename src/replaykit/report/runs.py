"""Runs and their events as text."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence

from replaykit.checks.conversation import answer_line
from replaykit.formats.core.replayability import replayability
from replaykit.handlers.recording.interrupted import STOPPED
from replaykit.model.diff import brief, call_text
from replaykit.model.events import (
    AnyEvent,
    Call,
    Decision,
    ErrorEvent,
    LlmCall,
    Message,
    Note,
    State,
)
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.text_lines import cut
from replaykit.model.unreplayable import concerns, note_text
from replaykit.model.values import Json, decode
from replaykit.report.layout import (
    LAST_COLUMN,
    JsonResult,
    coloured,
    counted,
    indented,
    labelled,
    line_width,
    short,
    table,
    to_json,
    value_text,
    width_of,
    with_hint,
)
from replaykit.report.model_calls import conversation_facts, request_line, tokens_line
from replaykit.telemetry.span import recorded_trace
from replaykit.terminal import style, visible


class RunList(JsonResult, frozen=True, kw_only=True):
    """Runs of a store."""

    runs: Sequence[RunHeader]
    """The headers of the runs, newest first; empty if there is none."""


class EventList(JsonResult, frozen=True, kw_only=True):
    """Events of a run."""

    events: Sequence[AnyEvent]
    """The events of the step, or the one event that was named."""


class StepState(JsonResult, frozen=True, kw_only=True):
    """The state of an agent after a step."""

    run: str
    """The id of the run."""
    step: str
    """The step, as it was named."""
    state: Json
    """The state, with tagged forms for what JSON has no word for (docs/values.md)."""


_NAME_CHARS = 24
_ARROW = " → "
_SHOWN_CHARS = 200
"""The characters of a run's input, output and error that are shown; `show -v` shows all."""
_WHOLE = 1_000_000
_NOT_HELD = {
    "secrets": "what `secrets` and `os.urandom` gave is",
    "hashes": "what `hash` gave is",
    "library_secrets": "what `secrets` and `os.urandom` gave a library is",
    "library_hashes": "what `hash` gave a library is",
    "sets": "the order of a set in an argument is",
    "random": "`random` is",
    "cpu_time": "the CPU time is",
    "resources": "the use of memory and other resources is",
    "process_id": "the process id is",
}
"""Sources of chance that a replay cannot repeat, as `show` describes them."""


def runs_text(headers: Sequence[RunHeader], names: Mapping[str, str], *, more: bool) -> str:
    """The runs of a store, newest first; `names` are how their ids are printed. `more` adds agents and origins."""
    rows = []
    for header in headers:
        run = names[header.id]
        events = "" if header.event_count is None else str(header.event_count)
        times = (_when(header.started_at), _seconds(header.duration_s))
        facts = [f"{header.agent} {header.agent_version}".strip(), _origin(header)] if more else []
        name = short(header.name, _NAME_CHARS)
        rows.append([run, coloured(header.status.value), *times, events, name, *facts, _one_line(header)])
    titles = ["agent", "origin"] if more else []
    text = table(
        ["run", "status", "started (UTC)", "time", "events", "name", *titles, "input → output"],
        rows,
        optional=("events", "time", "started (UTC)", "name"),
        numbers=("time", "events"),
    )
    return with_hint(text, "Details of one: replaykit show RUN")


def run_line(run: TraceRun) -> str:
    """One run in a line: its id, how it ended, and its name."""
    name = short(run.name, max(LAST_COLUMN, line_width() - len(f"{run.id}  {run.status.value}  ")))
    return f"{run.id}  {coloured(run.status.value, bold=True)}  {name}".rstrip()


def run_text(run: TraceRun, *, whole: bool = False) -> str:
    """One run: its header and its events, a line each; with `whole` every value and every event in full."""
    shown_chars = _WHOLE if whole else _SHOWN_CHARS
    lines = [run_line(run)]
    facts = [
        ("agent", f"{run.agent} {run.agent_version}".strip()),
        ("started", f"{_when(run.started_at)} UTC, {_seconds(run.duration_s)}" if run.started_at else ""),
        ("tags", ", ".join(run.tags)),
        ("origin", _origin(run)),
        ("trace", recorded_trace(run) or ""),
        ("partly", _stopped(run)),
        ("states", _sampling(run)),
        ("chance", _chance(run)),
        ("input", "" if run.input is None else brief(run.input, shown_chars)),
        ("output", brief(run.output, shown_chars) if run.output_json else ""),
        ("error", short(str(run.error), shown_chars) if run.error else ""),
    ]
    for line in (*_replayable(run), *(short(concern, 300) for concern in concerns(run.events))):
        facts.append(("replay", line))
    room = line_width() - 11
    for name, value in facts:
        if value:
            lines += _fact_lines(name, value, room)
    lines.append("")
    if whole and run.events:
        return "\n".join([*lines, events_text(run.events, run.started_at)])
    if run.events:
        lines.append(event_lines(run, run.events))
    else:
        lines.append("  no events")
    shown = visible(run.id)
    return with_hint("\n".join(lines), f"In full (one event: --event N): replaykit show {shown} -v")


def event_lines(run: TraceRun, events: Sequence[AnyEvent]) -> str:
    """Return events of a run, a line each."""
    return "\n".join([event_line(event, run.started_at) for event in events])


def _fact_lines(name: str, value: str, room: int) -> list[str]:
    """Return a fact under its name, on as many lines as it takes."""
    first, *more = textwrap.wrap(visible(value), room) or [""]
    return [f"  {labelled(name, first, 8)}", *indented(more, " " * 11)]


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
    offset = ""
    if started_at:
        offset = f"{max(0.0, event.at - started_at):+8.3f}s" if event.at else " " * 9
    step = f" [{event.step}]" if event.step else ""
    place = f"{event.seq:>5} {offset}{step} "
    return style(place, dim=True) + _what(event, max(LAST_COLUMN, line_width() - width_of(place)))


def events_text(events: Sequence[AnyEvent], started_at: float) -> str:
    """Several events in full."""
    return "\n\n".join(event_text(event, started_at) for event in events)


def event_text(event: AnyEvent, started_at: float) -> str:
    """One event in full."""
    lines = [event_line(event, started_at), ""]
    facts: list[tuple[str, object]] = [("path", event.path or None), ("parent", event.parent)]
    if isinstance(event, LlmCall):
        facts += [fact for fact in conversation_facts(event) if fact[1]]
    elif isinstance(event, Call):
        facts += [("name", event.name), ("arguments", event.arguments)]
        if event.result_json:
            facts.append(("result", event.result))
        if event.items_json is not None:
            facts.append(("items", event.items))
    elif isinstance(event, Message | Decision | Note):
        facts.append(("content", event.content))
    elif isinstance(event, State):
        facts += _state_facts(event)
    if isinstance(event, Call | ErrorEvent) and event.error:
        facts.append(("error", str(event.error)))
    if isinstance(event, Call):
        facts.append(("time", duration_text(event.duration_s) or None))
    for name, value in facts:
        if value is not None:
            first, *more = value_text(value).split("\n")
            lines.append(f"  {labelled(name, first, 10)}")
            lines += indented(more, " " * 13)
    return "\n".join(lines)


def _state_facts(event: State) -> list[tuple[str, object]]:
    """Return a stored state, or what changed in it since the one before."""
    if event.state_json:
        return [("state", decode(event.state_json))]
    change = event.change
    if change is None:
        return []
    facts: list[tuple[str, object]] = []
    if {*change.add, *change.cut} == {""} and not (change.put or change.drop):  # the state is not an object
        return [("appended", decode(change.add[""]))] if change.add else [("edited", "the whole")]
    if change.put:
        facts.append(("set", {key: decode(value) for key, value in change.put.items()}))
    if change.add:
        facts.append(("appended", {key: decode(value) for key, value in change.add.items()}))
    if change.cut:
        facts.append(("edited", ", ".join(change.cut)))
    if change.drop:
        facts.append(("removed", ", ".join(change.drop)))
    return facts


def _what(event: AnyEvent, room: int) -> str:
    """Return what happened in an event, on so many columns."""
    if isinstance(event, Call):
        return _call_line(event, room)
    if isinstance(event, Message):
        return short(f"{event.role}: {event.content}", room)
    if isinstance(event, ErrorEvent):
        return style(short(str(event.error), room), fg="red")
    if isinstance(event, Decision):
        return short(f"decided {event.content}", room)
    if isinstance(event, State):
        if event.change is not None:
            return "checkpoint (change)"
        if event.is_kept:
            return "checkpoint"
        return "checkpoint (state not stored)"
    return short(f"{event.name} {note_text(event) or event.content}", room)


def _call_line(call: Call, room: int) -> str:
    """Return what was called and what came of it; what was called gets half of the room where both are long."""
    request, answer, tokens = call_text(call.name, call.arguments), _answer(call), ""
    if isinstance(call, LlmCall):
        request, tokens = request_line(call), tokens_line(call)
        if call.error is None and call.result_json:
            answer = answer_line(call)
    room -= len(_ARROW) + (len(tokens) + 2 if tokens else 0)
    request_room = max(room // 2, room - width_of(answer))
    request = cut(visible(request), request_room)  # not `short`: two blanks set the model apart from what it was sent
    answer = short(answer, max(room - width_of(request), 1))
    if call.error is not None:
        answer = style(answer, fg="red")
    if tokens:
        answer += "  " + style(tokens, dim=True)
    return request + _ARROW + answer


def _answer(call: Call) -> str:
    if call.error is not None:
        return str(call.error)
    if call.items_json is not None and not (call.wire is not None and call.result_json):
        end = "" if call.complete else ", left early"
        return counted(len(call.items_json), "item") + end
    if call.result_json:
        return repr(call.result)
    return "no answer"


def _one_line(header: RunHeader) -> str:
    input_text = "" if header.input is None else brief(header.input)
    if header.error:
        return f"{input_text} → {header.error}".strip()
    if header.output_json:
        return f"{input_text} → {brief(header.output)}".strip()
    return input_text


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


def duration_text(duration_s: float) -> str:
    """Return how long a call took; nothing where that was not measured."""
    if not duration_s:
        return ""
    if duration_s < 0.001:
        return "under 1 ms"
    return f"{duration_s:.3f} s"


def events_json(events: Sequence[AnyEvent]) -> str:
    """Events for programs."""
    return to_json(EventList(events=events))


def runs_json(headers: Sequence[RunHeader]) -> str:
    """Runs for programs."""
    return to_json(RunList(runs=headers))
