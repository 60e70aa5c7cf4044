"""The title of a case, and its `notes.md`: the failure, and the run as a readable page.

The page reads like a conversation, with a mark at every event that a signature points at.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence

from replaykit.cases.signatures import FailureSignature
from replaykit.checks.conversation import tools_in_answer, words_in_answer
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import short, shown, shown_json
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, LlmCall, Message, State
from replaykit.model.run import TraceRun
from replaykit.model.unreplayable import concerns, note_text
from replaykit.model.values import Json
from replaykit.redaction.lazy_patterns import lazy
from replaykit.terminal import visible

MAX_EVENTS = 500
_REMARK_CHARS = 2_000
# The longest quotation of a message or answer, in characters.
_SPOKEN_CHARS = 800
_SPOKEN_LINES = 30
_MARK = "⚠"
_CUT = "…"
FILL_IN = (
    "No detector knows this failure. Fill in `observed` in case.yaml by hand: "
    "without it a replay checks `desired` only and cannot say whether the failure is back."
)


def render_notes(title: str, run: TraceRun, signatures: Sequence[FailureSignature], remarks: Sequence[str] = ()) -> str:
    """Return the text of `notes.md`: facts about the run, its failure, and a timeline."""
    parts = [f"# {_plain(title)}", _run_facts(run), "## What went wrong", _findings(signatures)]
    sections = {"About the import": remarks, "What a replay cannot repeat": concerns(run.events)}
    for heading, lines in sections.items():
        if lines:
            parts += [f"## {heading}", "\n".join(f"- {_plain(line, _REMARK_CHARS)}" for line in lines)]
    blocks = list(_conversation(run, signatures))
    parts += ["## Timeline", *blocks]
    if any(_CUT in block for block in blocks):
        parts.append("Long values are shortened here. `source-trace.json` has the whole run.")
    return "\n\n".join(parts) + "\n"


def _run_facts(run: TraceRun) -> str:
    agent = " ".join(filter(None, (run.agent, run.agent_version)))
    facts = [f"Run {_plain(run.id)}"]
    if agent:
        facts.append(f"of {_plain(agent)}")
    if run.started_at:
        facts.append(f"started {_moment(run.started_at)}")
    if run.duration_s is not None:
        facts.append(f"took {run.duration_s:.1f} s")
    if run.origin.format:
        facts.append(f"imported ({_plain(run.origin.format)})")
    why = f": {_plain(str(run.error))}" if run.error is not None else ""
    facts.append(f"status {run.status.value}{why}")
    return ", ".join(facts).rstrip(".") + "."


def _findings(signatures: Sequence[FailureSignature]) -> str:
    if not signatures:
        return FILL_IN
    lines = []
    for signature in signatures:
        place = "" if signature.seq is None else f" (event {signature.seq})"
        lines.append(f"- {_plain(signature.text)}{place}")
    return "\n".join(lines)


def _conversation(run: TraceRun, signatures: Sequence[FailureSignature]) -> Iterator[str]:
    """Yield the blocks of the timeline: speaker, time, words, and findings."""
    start = run.started_at or (run.events[0].at if run.events else 0.0)
    for event in run.events[:MAX_EVENTS]:
        yield "\n".join([_heading(event, start), *_quoted(_spoken(event))])
        for signature in signatures:
            if signature.seq == event.seq:
                yield f"**{_MARK} {_plain(signature.text)}**"
    left_off = len(run.events) - MAX_EVENTS
    if left_off > 0:
        yield f"… {left_off} more events"


def _heading(event: AnyEvent, start: float) -> str:
    moments = []
    if event.at:
        moments.append(f"+{max(0.0, event.at - start):.1f} s")
    if event.duration_s:
        moments.append(f"took {event.duration_s:.1f} s")
    when = f" ({', '.join(moments)})" if moments else ""
    return f"**{event.seq} {_plain(_who(event))}**{when}"


def _who(event: AnyEvent) -> str:
    """Return the actor of an event; for a tool call, with its arguments."""
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
    """Return the words of an event, or its outcome."""
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
    """Return the answer of a call; for a model, its text and the tool calls in it."""
    if call.items is not None:
        return _message_text(call.items)
    if not isinstance(call, LlmCall):
        return _message_text(call.result)
    calls = [f"→ {request.name}({shown(request.arguments)})" for request in tools_in_answer(call)]
    return "\n".join(filter(None, (words_in_answer(call), *calls))) or _message_text(call.result)


def _message_text(value: Json) -> str:
    return value if isinstance(value, str) else shown(value)


def _quoted(text: str) -> Iterator[str]:
    """Yield the lines of a text as a quotation of limited length."""
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
    """Return text on one line, escaped for Markdown."""
    line = visible(short(text) if chars is None else " ".join(text[:chars].split()))
    return re.sub(r"[\\`*\[<|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", line)


MAX_CHARS = 100
_DETAIL = lazy(r" \(nearest: [^)]*\)+")
_MAX_PARTS = 2

# Kinds from the most telling to the least. Kinds of a project's own detectors, which are not listed, come first; a
# status alone comes last.
_RANKS = (
    ["output.contradicts", "output.grounded"],
    ["tool.invalid_arguments", "tool.not_offered", "tool.ignored_error"],
    ["tool.called", "tool.not_called", "not", "max_tool_calls", "tool.stuck"],
    ["tool.only_announced", "tool.lookup_skipped", "llm.context_overflow", "llm.truncated", "llm.malformed_call"],
    ["steps.exhausted", "tool.unretried_error", "run.error", "output.refusal", "output.equals"],
    ["output.empty", "final_output_exists", "run.failed_steps", "tool.error"],
    ["llm.same_request", "llm.same_answer", "state.repeated"],
)
_LAST = "status_is"

# Headlines of kinds whose value is a mapping.
_WORDS = {
    "max_tool_calls": "{tool} called {count} times",
    "tool.stuck": "{tool} called {times} times in a row for nothing",
    "tool.ignored_error": "{tool} failed and the answer hides it",
    "tool.unretried_error": "{tool} failed and was not retried",
    "tool.called": "{tool} called against expectation",
    "tool.not_called": "{tool} not called as expected",
    "tool.invalid_arguments": "{tool} called with wrong arguments",
    "output.contradicts": "The answer contradicts {tool}",
    "effect.exactly_once": "{tool} not done exactly once",
    "output.contains_any": "The answer does not say {texts[0]}",
}
# Headlines of kinds whose value is a text.
_NAMED = {
    "tool.not_offered": "The model made up a tool named {}",
    "tool.only_announced": "{} announced and never called",
    "output.answer": "The answer is not {}",
    "run.error": "{}",
}
# Headlines of kinds whose value says nothing more.
_FIXED = {
    "final_output_exists": "No answer",
    "output.empty": "Empty answer",
    "steps.exhausted": "Ran out of steps",
    "tool.lookup_skipped": "Answered without the lookup it planned",
    "trajectory.no_loop": "The same calls again and again",
    "llm.truncated": "The model's answer was cut off",
    "llm.context_overflow": "The context window overflowed",
    "llm.malformed_call": "The model wrote a broken tool call",
    "output.refusal": "The agent refused",
}


def title_of(run: TraceRun, signatures: Sequence[FailureSignature]) -> str:
    """Return a title of at most `MAX_CHARS`: the one or two most telling signatures in words."""
    ranked = sorted(signatures, key=_rank)
    headlines = list(dict.fromkeys(_cut(headline(signature)) for signature in ranked))
    if not headlines:
        return _cut(f"What went wrong in {run.name or run.agent or run.id}")
    title = headlines[0]
    for other in headlines[1:_MAX_PARTS]:
        longer = f"{title}; {other[0].lower()}{other[1:]}"
        title = longer if len(longer) <= MAX_CHARS else title
    return title


def headline(signature: FailureSignature) -> str:
    """Return a signature in words, without arguments and details."""
    kind, value = signature.assertion.kind, signature.assertion.value
    if kind == "not" and isinstance(value, dict):
        kind, value = next(iter(value.items()))
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _NAMED and isinstance(value, str):
        return _NAMED[kind].format(value.strip("* "))
    if kind in _WORDS and isinstance(value, dict):
        return _WORDS[kind].format_map(value)
    return _DETAIL.sub("", signature.text)


def _rank(signature: FailureSignature) -> int:
    kind = signature.assertion.kind
    if kind == _LAST:
        return len(_RANKS)
    for rank, kinds in enumerate(_RANKS):
        if kind in kinds:
            return rank
    return -1


def _cut(text: str) -> str:
    line = short(text)
    if len(line) <= MAX_CHARS:
        return line
    return f"{line[: MAX_CHARS - 1].rstrip()}…"
