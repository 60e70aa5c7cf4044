"""Timeline: a run as a page for people, kept beside the case as `notes.md`.

The page reads like the conversation it tells of. What a signature points at is marked at its place.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence

from replaykit.cases.signatures import FailureSignature
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import short, shown, shown_json
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, LlmCall, Message, State
from replaykit.model.run import TraceRun
from replaykit.model.unreplayable import concerns, note_text
from replaykit.model.values import Json
from replaykit.terminal import visible
from replaykit.wire.json_fields import as_object, as_objects, as_text

MAX_EVENTS = 500
_REMARK_CHARS = 2_000
_SPOKEN_CHARS = 800
"""How much of what somebody said, or a tool answered, the page shows."""
_SPOKEN_LINES = 30
_MARK = "⚠"
FILL_IN = (
    "No detector knows this failure. Fill in `observed` in case.yaml by hand: "
    "without it a replay checks `desired` only and cannot say whether the failure is back."
)


def render_notes(title: str, run: TraceRun, signatures: Sequence[FailureSignature], remarks: Sequence[str] = ()) -> str:
    """Return the text of `notes.md`: what the run was, what went wrong, and what happened when."""
    parts = [f"# {_plain(title)}", _run_facts(run), "## What went wrong", _findings(signatures)]
    if remarks:
        parts += ["## About the import", "\n".join(f"- {_plain(line, _REMARK_CHARS)}" for line in remarks)]
    cannot = concerns(run.events)
    if cannot:
        parts += ["## What a replay cannot repeat", "\n".join(f"- {_plain(line, _REMARK_CHARS)}" for line in cannot)]
    parts += ["## Timeline", *_conversation(run, signatures)]
    return "\n\n".join(parts) + "\n"


def _run_facts(run: TraceRun) -> str:
    agent = " ".join(part for part in (run.agent, run.agent_version) if part)
    facts = [f"Run {_plain(run.id)}"]
    facts += [f"of {_plain(agent)}"] if agent else []
    facts += [f"started {_moment(run.started_at)}"] if run.started_at else []
    facts += [f"took {run.duration_s:.1f} s"] if run.duration_s is not None else []
    facts += [f"imported ({_plain(run.origin.format)})"] if run.origin.format else []
    why = f": {_plain(str(run.error))}" if run.error is not None else ""
    return ", ".join([*facts, f"status {run.status.value}{why}"]).rstrip(".") + "."


def _findings(signatures: Sequence[FailureSignature]) -> str:
    if not signatures:
        return FILL_IN
    return "\n".join(f"- {_plain(one.text)}{_place(one)}" for one in signatures)


def _place(signature: FailureSignature) -> str:
    if signature.seq is None:
        return ""
    return f" (event {signature.seq})"


def _conversation(run: TraceRun, signatures: Sequence[FailureSignature]) -> Iterator[str]:
    """Give the blocks of the timeline: who, when, what was said, and what went wrong there."""
    start = run.started_at or (run.events[0].at if run.events else 0.0)
    marks: dict[int, list[str]] = {}
    for signature in signatures:
        if signature.seq is not None:
            marks.setdefault(signature.seq, []).append(signature.text)
    for event in run.events[:MAX_EVENTS]:
        yield "\n".join([_heading(event, start), *_quoted(_spoken(event))])
        yield from (f"**{_MARK} {_plain(text)}**" for text in marks.get(event.seq, ()))
    left_off = len(run.events) - MAX_EVENTS
    if left_off > 0:
        yield f"… {left_off} more events"


def _heading(event: AnyEvent, start: float) -> str:
    moments = [f"+{max(0.0, event.at - start):.1f} s"] if event.at else []
    moments += [f"took {event.duration_s:.1f} s"] if event.duration_s else []
    when = f" ({', '.join(moments)})" if moments else ""
    return f"**{event.seq} {_plain(_who(event))}**{when}"


def _who(event: AnyEvent) -> str:
    """Return who acts in an event; of a tool's call with its arguments."""
    if isinstance(event, LlmCall):
        return event.name or "model"
    if isinstance(event, Call):
        return f"{event.name}({shown_json(event.arguments_json)})"
    if isinstance(event, ErrorEvent):
        return "error"
    if isinstance(event, Message):
        return event.role
    if isinstance(event, State):
        return "state"
    if isinstance(event, Decision):
        return "decision"
    return event.name


def _spoken(event: AnyEvent) -> str:
    """Return what was said in an event, or what came of it."""
    if isinstance(event, Call):
        return _outcome(event)
    if isinstance(event, ErrorEvent):
        return str(event.error)
    if isinstance(event, State):
        return ""
    if isinstance(event, Message | Decision):
        return _message_text(event.content)
    return note_text(event) or _message_text(event.content)


def _outcome(call: Call) -> str:
    reason = call_failed(call)
    if reason is not None:
        return f"✗ {reason}"
    if not call.answered:
        return "no answer in the trace"
    return _answer(call)


def _answer(call: Call) -> str:
    """Return what came back; of a model what it said, and the calls it asks for."""
    result = call.items if call.items is not None else call.result
    spoken = as_object(result) if isinstance(call, LlmCall) else {}
    uses = as_objects(spoken.get("tool_calls"))
    calls = [f"→ {as_text(use.get('name'))}({shown(use.get('arguments'))})" for use in uses]
    return "\n".join(filter(None, (as_text(spoken.get("content")), *calls))) or _message_text(result)


def _message_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return shown(value)


def _quoted(text: str) -> Iterator[str]:
    """Give the lines of a text as a quotation of bounded length."""
    cut = text[:_SPOKEN_CHARS]
    lines = [line for line in cut.splitlines() if line.strip()]
    for line in lines[:_SPOKEN_LINES]:
        yield f"> {_plain(line, _SPOKEN_CHARS)}  "
    left_off = len(text) - sum(len(line) + 1 for line in lines[:_SPOKEN_LINES])
    if len(lines) > _SPOKEN_LINES or len(text) > _SPOKEN_CHARS:
        yield f"> … {left_off:,} more characters"


def _moment(at: float) -> str:
    try:
        return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"at {at}"


def _plain(text: str, chars: int | None = None) -> str:
    """Return text that Markdown shows as it is, in one line."""
    line = visible(short(text) if chars is None else " ".join(text[:chars].split()))
    return re.sub(r"[\\`*\[<|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", line)
