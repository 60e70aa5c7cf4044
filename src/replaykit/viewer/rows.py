"""Rows: each event of a run on one line, for the list of steps."""

from __future__ import annotations

from msgspec.structs import replace

from replaykit.checks.conversation import answer_line
from replaykit.checks.failures import call_failed
from replaykit.model.diff import call_text
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, LlmCall, Message, Note, State, ToolCall, Usage
from replaykit.model.text_lines import one_line
from replaykit.model.unreplayable import note_text
from replaykit.report.layout import counted
from replaykit.viewer.page_types import Row

_TEXT_CHARS = 160
_ARGUMENT_CHARS = 40
_KINDS: dict[type, str] = {
    Message: "message",
    State: "state",
    Decision: "decision",
    ErrorEvent: "error",
    Note: "note",
}


def row_of(event: AnyEvent, *, started_at: float, message_count: int = 0) -> Row:
    """Return the row of an event; `message_count` is the number of messages that a model was sent."""
    marks = ("error",) if isinstance(event, ErrorEvent) else ()
    if isinstance(event, State) and event.is_kept:
        marks = ("state",)
    row = Row(
        seq=event.seq,
        kind=event.kind if isinstance(event, Call) else _KINDS[type(event)],
        title="",
        step=event.step or "",
        at_s=max(0.0, event.at - started_at) if event.at and started_at else None,
        parent=event.parent,
        marks=marks,
    )
    if isinstance(event, Call):
        return _call_row(event, message_count, row)
    return replace(row, title=_title(event))


def _call_row(call: Call, message_count: int, row: Row) -> Row:
    failure = _failure(call)
    usage = call.usage if isinstance(call, LlmCall) and call.usage is not None else Usage()
    counts = [count for count in (usage.input_tokens, usage.output_tokens) if count is not None]
    return replace(
        row,
        title=_call_title(call, message_count),
        answer=_answer(call) if failure is None else failure,
        duration_s=call.duration_s or None,
        marks=_marks(call, is_error=failure is not None),
        tokens=sum(counts) if counts else None,
        cost_usd=usage.cost_usd,
    )


def _failure(call: Call) -> str | None:
    """Return why a call failed: it raised, or the result of a tool reports a failure."""
    if call.error is not None:
        return one_line(str(call.error), _TEXT_CHARS)
    if isinstance(call, ToolCall):
        return call_failed(call)
    return None


def _call_title(call: Call, message_count: int) -> str:
    if message_count:
        return one_line(f"{call.name or 'model'} {counted(message_count, 'message')}", _TEXT_CHARS)
    return one_line(call_text(call.name or call.kind, call.arguments, _ARGUMENT_CHARS), _TEXT_CHARS)


def _answer(call: Call) -> str:
    if isinstance(call, LlmCall) and call.result_json:
        return one_line(answer_line(call), _TEXT_CHARS)
    if call.result_json:
        return one_line(_text(call.result), _TEXT_CHARS)
    if call.items_json is not None:
        return counted(len(call.items_json), "item")
    return ""


def _marks(call: Call, *, is_error: bool) -> tuple[str, ...]:
    marks = {
        "error": is_error,
        "stream": call.items_json is not None,
        "cut": not call.complete,
        "fault": bool(call.faults),
        "unanswered": not call.answered,
    }
    return tuple(mark for mark, is_set in marks.items() if is_set)


def _title(event: AnyEvent) -> str:
    if isinstance(event, Message):
        return one_line(f"{event.role}: {_text(event.content)}", _TEXT_CHARS)
    if isinstance(event, ErrorEvent):
        return one_line(str(event.error), _TEXT_CHARS)
    if isinstance(event, Decision):
        return one_line(_text(event.content), _TEXT_CHARS)
    if isinstance(event, Note):
        return one_line(f"{event.name}: {note_text(event) or _text(event.content)}", _TEXT_CHARS)
    if isinstance(event, State) and not event.is_kept:
        return "checkpoint (state not stored)"
    return "checkpoint"


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
