"""Screens: a step in short form, or a part of a page, with the keys at the bottom."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from replaykit.checks.conversation import answer_line
from replaykit.debugger.lines import ScreenLine, row_of, rows_of
from replaykit.debugger.navigation import OF_A_STEP, DebuggerStep, DebuggerView, StepList
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
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.report.layout import counted, width_of
from replaykit.report.model_calls import request_line, tokens_line

_LONG = 1200  # longest text of a value on a step's screen
_TALL = 8  # most rows of one line on a step's screen
_LABEL = 11
_SMALL = 8  # a lower screen shows only its title, body and keys
_FAILED = (RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.CANCELLED)

_STEP_KEYS = "n/b step|g go|s state|d diff|t full|/ find|l list|c compare|e fork|k keep|u return|? help|q quit"
_PAGE_KEYS = "space/b page|n/p step|/ find|? help|q back"
_SPARE = (
    "k keep", "l list", "g go", "/ find", "d diff", "c compare", "t full", "s state", "n/p step", "e fork", "u return",
    "n/b step", "space/b page",
)  # fmt: skip


def body_height(height: int) -> int:
    """Return the number of rows for a page between title, rule, message and keys."""
    if height >= _SMALL:
        return height - 4
    return max(1, height - 2)


def step_screen(
    step_list: StepList, view: DebuggerView, lines: Sequence[ScreenLine], width: int, height: int, *, deep: bool = False
) -> list[ScreenLine]:
    """Return the screen of the current step. `deep`: it belongs to a fork, which the user can leave again."""
    stop = step_list.stops[view.at]
    room = body_height(height) - (height >= _SMALL)
    for limit in range(_TALL, 0, -1):  # the tallest lines that leave room for all of them
        body = rows_of(lines, width, limit=limit)
        if len(body) <= room:
            break
    if len(body) > room:
        hidden = len(body) - max(room - 1, 0)
        body = [*body[: max(room - 1, 0)], ScreenLine(f"… {counted(hidden, 'more row')}: t shows everything", "dim")]
    words = [word for word in _STEP_KEYS.split("|") if _offered(word, step_list, deep)]
    head = [_title(step_list.run, deep), ScreenLine(_place(step_list, view.at, stop), "bold")]
    return _framed(head, body, view, keys(words, width), width, height)


def page_screen(
    title: str, rows: Sequence[ScreenLine], view: DebuggerView, width: int, height: int, words: str = ""
) -> list[ScreenLine]:
    """Return the screen of a part of a page; `words` replaces the keys that are offered."""
    room = body_height(height)
    shown = rows[view.top : view.top + room]
    last = view.top + len(shown)
    part = "" if len(rows) <= room else f"{view.top + 1}–{last} of {len(rows)}  "
    offered = [word for word in (words or _PAGE_KEYS).split("|") if word != "n/p step" or view.page in OF_A_STEP]
    footer = keys(offered, max(width - len(part), 1))
    return _framed([ScreenLine(title, "bold")], shown, view, f"{part}{footer}", width, height)


def prompt_screen(rows: Sequence[ScreenLine], question: str, answer: str, width: int, height: int) -> list[ScreenLine]:
    """Return the screen with a question and the typed text in its last row; of a long text the end is shown."""
    question = row_of(ScreenLine(question), max(width // 2, 1)).text
    room = max(width - width_of(question) - 2, 1)
    above = list(rows[:-1])[1 - height :] if height > 1 else []
    return [*(row_of(row, width) for row in above), ScreenLine(f"{question} {answer[-room:]}")]


def keys(words: Sequence[str], width: int) -> str:
    """Return the keys on one line; a narrow terminal drops those that can be spared, but never help and quit."""
    left = list(words)
    for spare in _SPARE:
        if width_of("  ".join(left)) <= width:
            break
        left = [word for word in left if word != spare]
    return "  ".join(left)


def _framed(
    head: list[ScreenLine], body: Sequence[ScreenLine], view: DebuggerView, footer: str, width: int, height: int
) -> list[ScreenLine]:
    """Return head, rule, body, message and keys on exactly `height` rows; a low screen keeps the last ones."""
    message = []
    if view.message or height >= _SMALL:
        message = rows_of([view.message or ScreenLine("")], width, limit=3)
    if height >= _SMALL:
        head = [*head, ScreenLine("─" * width, "dim")]
    else:
        head = head[-1:]
    room = max(0, height - len(head) - len(message) - 1)
    filled = [*body[:room], *[ScreenLine("")] * (room - len(body[:room]))]
    rows = [*head, *filled, *message, ScreenLine(footer, "dim")]
    return [row_of(row, width) for row in rows[max(0, len(rows) - max(height, 1)) :]]


def _offered(word: str, step_list: StepList, deep: bool) -> bool:
    if word == "c compare":
        return step_list.run.origin.run is not None
    if word == "u return":
        return deep
    return True


def _title(run: TraceRun, deep: bool) -> ScreenLine:
    title = f"{run.name or 'run'}  {run.id}  {run.status.value}"
    if run.origin.run:
        title += f"  {run.origin.kind} at {run.origin.step}"
    if deep:
        title = f"↳ {title}"
    return ScreenLine(title, _look(run))


def _look(run: TraceRun) -> str:
    if run.status in _FAILED:
        return "red"
    if run.status is RunStatus.RUNNING:
        return "cyan"
    return "green"


def _place(step_list: StepList, at: int, stop: DebuggerStep) -> str:
    if not step_list.count:
        return "no steps: the run made no calls"
    state = "no state of its own"
    if stop.keeps_state:
        state = "state stored"
    elif stop.loses_state:
        state = "state not stored"
    return "  ".join([f"step {at + 1} of {step_list.count}", stop.name, *_times(step_list.run, stop), state])


def _times(run: TraceRun, stop: DebuggerStep) -> Iterator[str]:
    """Yield when the step began and how long it took; events that a fork shares with its parent are earlier than it."""
    timed = [event for event in stop.own if event.at and not isinstance(event, State)]
    if not timed:
        return
    began = min(event.at for event in timed)
    yield time.strftime("%H:%M:%S UTC", time.gmtime(began))
    if began >= run.started_at > 0:
        yield f"+{began - run.started_at:.3f} s"
    yield f"took {max(event.at + event.duration_s for event in timed) - began:.3f} s"


def step_lines(step_list: StepList, at: int) -> Iterator[ScreenLine]:
    """Yield what happened in a step; with the input at the first step and the outcome at the last."""
    run, stop = step_list.run, step_list.stops[at]
    if at == 0:
        yield _labelled("asked", brief(run.input, _LONG))
    depths = _depths(stop.events)
    for event in stop.events:
        yield from _event_lines(event, "  " * depths.get(event.seq, 0))
    if at == len(step_list.stops) - 1:
        yield from _ending(run)


def _ending(run: TraceRun) -> Iterator[ScreenLine]:
    if run.status is RunStatus.RUNNING:
        yield _labelled("running", "the run has not ended, or its process was killed; r reads it again", "cyan")
    elif run.error is not None:
        yield _labelled(run.status.value, str(run.error)[:_LONG], "red")
    else:
        output = brief(run.output, _LONG) if run.output_json else "no output"
        yield _labelled(run.status.value, output, _look(run))


def _depths(events: Sequence[AnyEvent]) -> dict[int | None, int]:
    """Return the nesting depth of each event in the calls of this step."""
    depths: dict[int | None, int] = {None: -1}
    for event in events:
        depths[event.seq] = min(4, depths.get(event.parent, -1) + 1)
    return depths


def _event_lines(event: AnyEvent, margin: str) -> Iterator[ScreenLine]:
    if isinstance(event, LlmCall):
        yield _labelled(margin + "model", request_line(event))
        yield _labelled("", f"{margin}→ {_model_answer(event)}", "red" if event.error else "")
    elif isinstance(event, Call):
        label = {"tool_call": "tool"}.get(event.kind, "exchange")
        yield _labelled(margin + label, call_text(event.name, event.arguments, _LONG))
        yield _labelled("", f"{margin}→ {outcome_text(event)}", "red" if event.error else "")
    elif isinstance(event, Message):
        yield _labelled(margin + event.role, content_text(event.content))
    elif isinstance(event, Decision):
        yield _labelled(margin + "decided", content_text(event.content))
    elif isinstance(event, ErrorEvent):
        yield _labelled(margin + "error", str(event.error)[:_LONG], "red")
    elif isinstance(event, State):
        yield _labelled(margin + "state", state_change(event), "dim")
    elif isinstance(event, Note):
        yield _labelled(margin + event.name, content_text(event.content), "dim")


def _model_answer(call: LlmCall) -> str:
    """Return the tool calls or the text of a model's answer, and its tokens."""
    if call.error is not None or not call.result_json:
        return outcome_text(call)
    return "  ".join(filter(None, (answer_line(call)[:_LONG], tokens_line(call))))


def _labelled(label: str, text: str, look: str = "") -> ScreenLine:
    return ScreenLine(f"  {label:<{_LABEL - 1}} {text}", look, _LABEL + 2)


def outcome_text(call: Call) -> str:
    """Return the outcome of a call in short form."""
    if call.error is not None:
        return str(call.error)[:_LONG]
    if call.items_json is not None:
        end = "" if call.complete else ", left early"
        return f"{counted(len(call.items_json), 'item')}{end}: {brief(call.items, _LONG)}"
    if call.result_json:
        return brief(call.result, _LONG)
    return "no answer"


def content_text(content: Json) -> str:
    """Return a text as it is and another value as Python writes it, cut off if it is long."""
    if isinstance(content, str):
        return content[:_LONG]
    return brief(content, _LONG)


def state_change(event: State) -> str:
    """Describe which keys of the state a checkpoint changed, from the log alone: the state need not be rebuilt."""
    change = event.change
    if change is None:
        if event.is_kept:
            return "stored as a whole"
        return "not stored"
    parts = []
    if changed := [*change.put, *change.add, *change.cut]:
        parts.append(f"changed {', '.join(key or 'the whole' for key in changed)}")
    if change.drop:
        parts.append(f"dropped {', '.join(change.drop)}")
    if parts:
        return f"stored: {'; '.join(parts)}"
    return "stored, unchanged"
