"""Timeline: a run as a page for people, kept beside the case as `notes.md`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from replaykit.cases.signatures import FailureSignature
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import short, shown
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, LlmCall, Message, Note, State
from replaykit.model.run import TraceRun
from replaykit.model.unbuilt import concerns, note_text
from replaykit.model.values import Json
from replaykit.terminal import visible
from replaykit.wire.fields import as_object, as_objects, as_text

MAX_EVENTS = 500
_REMARK_CHARS = 2_000
FILL_IN = (
    "No detector knows this failure. Fill in `observed` in case.yaml by hand: "
    "without it a replay checks `desired` only and cannot say whether the failure is back."
)


def render_notes(title: str, run: TraceRun, signatures: Sequence[FailureSignature], remarks: Sequence[str] = ()) -> str:
    """The text of `notes.md`: what the run was, what went wrong, and what happened when."""
    parts = [f"# {_plain(title)}", _about(run), "## What went wrong", _findings(signatures)]
    if remarks:
        parts += ["## About the import", "\n".join(f"- {_plain(line, _REMARK_CHARS)}" for line in remarks)]
    cannot = concerns(run.events)
    if cannot:
        parts += ["## What a replay cannot repeat", "\n".join(f"- {_plain(line, _REMARK_CHARS)}" for line in cannot)]
    parts += ["## Timeline", _table(run)]
    return "\n\n".join(parts) + "\n"


def _about(run: TraceRun) -> str:
    agent = " ".join(part for part in (run.agent, run.agent_version) if part)
    facts = [f"Run {_plain(run.id)}"]
    facts += [f"of {_plain(agent)}"] if agent else []
    facts += [f"started {_moment(run.started_at)}"] if run.started_at else []
    facts += [f"took {run.duration_s:.1f} s"] if run.duration_s is not None else []
    facts += [f"imported ({_plain(run.origin.format)})"] if run.origin.format else []
    why = f": {_plain(str(run.error))}" if run.error is not None else ""
    return ", ".join([*facts, f"status {run.status.value}{why}"]).rstrip(".") + "."


def _findings(signatures: Sequence[FailureSignature]) -> str:
    return _bullets([signature.text for signature in signatures]) if signatures else FILL_IN


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _table(run: TraceRun) -> str:
    start = run.started_at or (run.events[0].at if run.events else 0.0)
    rows = [
        f"| {event.seq} | {_offset(event, start)} | {' | '.join(_row(event))} |" for event in run.events[:MAX_EVENTS]
    ]
    left_off = len(run.events) - len(rows)
    more = [f"| … | | {left_off} more events | |"] if left_off > 0 else []
    return "\n".join(["| # | at | what | |", "|---:|---:|---|---|", *rows, *more])


def _offset(event: AnyEvent, start: float) -> str:
    return f"+{max(0.0, event.at - start):.1f} s" if event.at else ""


def _row(event: AnyEvent) -> tuple[str, str]:
    """What happened, and what came of it."""
    if isinstance(event, Call):
        return _plain(f"{event.name or 'model'}({_arguments(event)})"), _plain(_outcome(event))
    if isinstance(event, ErrorEvent):
        return "error", _plain(str(event.error))
    if isinstance(event, Message):
        return _plain(event.role), _plain(_said(event.content))
    if isinstance(event, State):
        return "state", ""
    if isinstance(event, Decision):
        return "decision", _plain(_said(event.content))
    return _note(event)


def _note(event: Note) -> tuple[str, str]:
    return _plain(event.name), _plain(note_text(event) or _said(event.content))


def _arguments(call: Call) -> str:
    # A model's arguments are the whole conversation, which the rows above have told already.
    return shown(call.arguments) if call.kind == "tool_call" else "…"


def _outcome(call: Call) -> str:
    took = f" ({call.duration_s:.1f} s)" if call.duration_s else ""
    reason = call_failed(call)
    if reason is not None:
        return f"✗ {reason}{took}"
    if not call.answered:
        return "no answer in the trace"
    return f"{_answer(call)}{took}"


def _answer(call: Call) -> str:
    """What came back; of a model what it said, and what it asks for."""
    result = call.items if call.items is not None else call.result
    spoken = as_object(result) if isinstance(call, LlmCall) else {}
    asked = ", ".join(
        f"{as_text(use.get('name'))}({shown(use.get('arguments'))})" for use in as_objects(spoken.get("tool_calls"))
    )
    return " → ".join(filter(None, (as_text(spoken.get("content")), asked))) or _said(result)


def _said(value: Json) -> str:
    return value if isinstance(value, str) else shown(value)


def _moment(at: float) -> str:
    try:
        return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"at {at}"


def _plain(text: str, chars: int | None = None) -> str:
    """Text that Markdown shows as it is, in one line of a table."""
    line = visible(short(text) if chars is None else " ".join(text[:chars].split()))
    return re.sub(r"[\\`*\[<|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", line)
