"""Reading: what a run says about itself, as the rules and the signature detectors ask for it."""

from __future__ import annotations

import re
from typing import Protocol

from replaykit.checks.call_selection import glob
from replaykit.model.events import ErrorEvent, ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, Raw, canonical, decode, is_tagged
from replaykit.redaction.lazy_patterns import lazy

_SHOWN_CHARS = 160
_READ_BYTES = 4096  # more than `short` looks at
_LIMIT = r"(max(imum)?\b|max_|limit|budget|too many|exceed|exhaust|ran out of)"
_STEPS = (
    r"(steps?\b|turns?\b|iterations?\b|tool[ _-]?calls?\b|recursion\b|rounds?\b|(?:token|time|cost|call) budget\b"
    r"|(?:execution|run) time\b|number of (?:messages|tokens|calls)\b)"
)
_NAMED_LIMIT = r"\b(?:message|token|time|working|cost|request|usage|turn|step)[ _]limit of [\d.,]+"
_BUDGET = lazy(rf"{_LIMIT}[^.\n]{{0,60}}{_STEPS}|{_STEPS}[^.\n]{{0,60}}{_LIMIT}|{_NAMED_LIMIT}", re.IGNORECASE)
_RATE = lazy(r"rate.?limit|too many requests", re.IGNORECASE)
_STOPPED = lazy(
    r"^\W*(?:(?:the )?(?:agent|run|crew|chain|loop|conversation) )?"
    r"(?:(?:was )?stopped (?:due to|after|because of) (?:the )?(?:iteration|max|time|step|turn|round)"
    r"|(?:reached|hit|exceeded) (?:the |its )?max(?:imum)?\b[^.\n]{0,30}"
    r"(?:steps?|turns?|iterations?|rounds?|time|tokens)\b"
    r"|max(?:imum)?(?: number of)? (?:steps?|turns?|iterations?|rounds?|time|tool calls)\b[^.\n]{0,30}"
    r"(?:reached|exceeded)"
    r"|(?:i|we) (?:have )?r(?:an|un) out of (?:steps?|turns?|iterations?|time|budget))",
    re.IGNORECASE,
)
_WORDS_IN_NAMES = lazy(r"(?<=[a-z])(?=[A-Z])")
_STOPPED_CHARS = 300


def is_budget_text(text: str) -> bool:
    """True when an error's text says that steps, turns, iterations or tool calls were used up."""
    words = _WORDS_IN_NAMES.sub(" ", text)  # MaxTurnsExceeded
    return bool(_BUDGET.search(words)) and not _RATE.search(words)


def budget_reason(run: TraceRun) -> str | None:
    """Return the reason to call the run's step budget exhausted; None when it is not."""
    for _seq, error in run_errors(run):
        if is_budget_text(str(error)):
            return repr(short(str(error)))
    if isinstance(run.output, str) and _STOPPED.match(run.output[:_STOPPED_CHARS]):
        return f"the output {short(run.output)!r}"
    if isinstance(run.metadata, dict):
        limit = run.metadata.get("max_steps")
    else:
        limit = None
    if type(limit) is int and step_count(run) >= limit > 0 and run.status is not RunStatus.SUCCESS:
        return f"{step_count(run)} steps of {limit}"
    return None


def step_count(run: TraceRun) -> int:
    """Return the number of steps: those it marked, else its model calls, else its tool calls."""
    marked = {event.step for event in run.events if event.step is not None}
    return len(marked) or len(run.llm_calls) or len(run.tool_calls)


def run_errors(run: TraceRun) -> list[tuple[int | None, ErrorInfo]]:
    """The run's errors outside of calls, each with the event it came with; the run's own comes last."""
    found: list[tuple[int | None, ErrorInfo]] = [
        (event.seq, event.error) for event in run.events if isinstance(event, ErrorEvent)
    ]
    if run.error is not None and not any(error == run.error for _seq, error in found):
        found.append((last_seq(run), run.error))
    return found


def matches(pattern: str, text: str) -> bool:
    """True when the text is the pattern, with `*` for any stretch of text; in linear time, blanks alike."""
    return glob("*".join(" ".join(piece.split()) for piece in pattern.strip().split("*")), " ".join(text.split()))


def has_output(run: TraceRun) -> bool:
    """True when the run gave an output other than null."""
    return run.output is not None


def says_something(run: TraceRun) -> bool:
    """True when the run gave an output that is not blank."""
    return not is_blank(run.output)


def is_blank(value: Json) -> bool:
    """True for null, white space, and containers that hold nothing."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, dict | list | tuple | set | frozenset) and not value)


def output_text(run: TraceRun) -> str:
    """The output as text: itself when it is one, its JSON otherwise, and nothing when there is none."""
    if run.output is None:
        return ""
    if isinstance(run.output, str):
        return run.output
    return canonical(run.output).decode()


def shown(value: Json) -> str:
    """A value in one short line, for a message."""
    return short(repr(value) if isinstance(value, str) else canonical(value).decode())


def shown_json(text: Raw) -> str:
    """`shown` of the value that a JSON text holds; of a long object only the beginning is read."""
    beginning = bytes(memoryview(text)[:_READ_BYTES])
    if len(text) <= _READ_BYTES or beginning[:1] != b"{" or is_tagged(beginning):
        return shown(decode(text))
    return short(beginning.decode(errors="ignore"))


def shown_output(run: TraceRun) -> str:
    """The run's output in one short line, for a message."""
    if has_output(run):
        return f"output {shown(run.output)}"
    return "no output"


def times_text(count: int) -> str:
    """Return a number of times in words: `once`, `3 times`, `never`."""
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def short(text: str) -> str:
    """A text in one line of bounded length."""
    line = " ".join(text[: 4 * _SHOWN_CHARS].split())
    if len(line) <= _SHOWN_CHARS:
        return line
    return line[: _SHOWN_CHARS - 1] + "…"


def ending_seq(run: TraceRun) -> int | None:
    """The event the run ended with: its last error, else its last event."""
    errors = [event.seq for event in run.events if isinstance(event, ErrorEvent)]
    if errors:
        return errors[-1]
    return last_seq(run)


class _Numbered(Protocol):
    @property
    def seq(self) -> int: ...


def seq_of(event: _Numbered | None, run: TraceRun) -> int | None:
    """The sequence number of an event; without one, of the run's last event."""
    if event is None:
        return last_seq(run)
    return event.seq


def last_seq(run: TraceRun) -> int | None:
    """The sequence number of the run's last event."""
    if run.events:
        return run.events[-1].seq
    return None
