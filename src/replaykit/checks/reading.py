"""Read a run for rules and detectors: its errors, steps, output and calls, and short texts for messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar

from replaykit.model.events import ErrorEvent, ErrorInfo, ToolCall
from replaykit.model.jsonpath import JsonPath, parse_path
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_lines import one_line
from replaykit.model.values import Json, Raw, canonical, decode, is_tagged
from replaykit.redaction.lazy_patterns import lazy
from replaykit.wire.json_fields import as_object

T = TypeVar("T")

_SHOWN_CHARS = 160
_READ_BYTES = 4096  # more than `short` uses
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
    """Return whether an error's text says that steps, turns, iterations or tool calls were used up."""
    words = _WORDS_IN_NAMES.sub(" ", text)  # splits MaxTurnsExceeded
    return bool(_BUDGET.search(words)) and not _RATE.search(words)


def budget_reason(run: TraceRun) -> str | None:
    """Return why the run's step budget counts as exhausted, or None."""
    for _seq, error in run_errors(run):
        if is_budget_text(str(error)):
            return repr(short(str(error)))
    if isinstance(run.output, str) and _STOPPED.match(run.output[:_STOPPED_CHARS]):
        return f"the output {short(run.output)!r}"
    limit = as_object(run.metadata).get("max_steps")
    if type(limit) is int and step_count(run) >= limit > 0 and run.status is not RunStatus.SUCCESS:
        return f"{step_count(run)} steps of {limit}"
    return None


def step_count(run: TraceRun) -> int:
    """Return the number of steps: those it marked, else its model calls, else its tool calls."""
    marked = {event.step for event in run.events if event.step is not None}
    return len(marked) or len(run.llm_calls) or len(run.tool_calls)


def run_errors(run: TraceRun) -> list[tuple[int | None, ErrorInfo]]:
    """Return the run's errors outside calls, with their events; the run's own comes last."""
    found: list[tuple[int | None, ErrorInfo]] = [(event.seq, event.error) for event in error_events(run)]
    if run.error is not None and first(found, lambda entry: entry[1] == run.error) is None:
        found.append((last_seq(run), run.error))
    return found


def error_events(run: TraceRun) -> list[ErrorEvent]:
    """Return the errors outside calls."""
    return [event for event in run.events if isinstance(event, ErrorEvent)]


def matches(pattern: str, text: str) -> bool:
    """Return whether the text matches the pattern, with `*` for any text; linear, and all whitespace is equal."""
    return glob("*".join(" ".join(piece.split()) for piece in pattern.strip().split("*")), " ".join(text.split()))


def has_output(run: TraceRun) -> bool:
    """Return whether the run has an output other than null."""
    return run.output is not None


def says_something(run: TraceRun) -> bool:
    """Return whether the run has an output that is not blank."""
    return not is_blank(run.output)


def is_blank(value: Json) -> bool:
    """Return whether a value is null, whitespace, or an empty container."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, dict | list | tuple | set | frozenset) and not value)


def output_text(run: TraceRun) -> str:
    """Return the output as text: JSON unless it is text already; empty without an output."""
    return text_or_empty(run.output)


def text_or_empty(value: Json) -> str:
    """Return a value as text: JSON unless it is text already; empty for null."""
    if value is None:
        return ""
    return text_of(value)


def text_of(value: Json) -> str:
    """Return a value as text: JSON unless it is text already."""
    if isinstance(value, str):
        return value
    return canonical(value).decode()


def shown(value: Json) -> str:
    """Return a value in one short line, for a message."""
    if isinstance(value, str):
        return short(repr(value))
    return short(canonical(value).decode())


def shown_json(text: Raw) -> str:
    """Return `shown` of a JSON text's value; of long objects only the beginning is read."""
    beginning = bytes(memoryview(text)[:_READ_BYTES])
    if len(text) <= _READ_BYTES or beginning[:1] != b"{" or is_tagged(beginning):
        return shown(decode(text))
    return short(beginning.decode(errors="ignore"))


def shown_output(run: TraceRun) -> str:
    """Return the run's output in one short line, for a message."""
    if has_output(run):
        return f"output {shown(run.output)}"
    return "no output"


def times_text(count: int) -> str:
    """Return a number of times in words: `once`, `3 times`, `never`."""
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def short(text: str) -> str:
    """Return a text in one line of bounded length."""
    return one_line(text, _SHOWN_CHARS)


def ending_seq(run: TraceRun) -> int | None:
    """Return the event that the run ended with: its last error, else its last event."""
    return first_seq(error_events(run)[-1:], run)


class _Numbered(Protocol):
    @property
    def seq(self) -> int: ...


N = TypeVar("N", bound=_Numbered)


def seq_of(event: _Numbered | None, run: TraceRun) -> int | None:
    """Return the sequence number of an event; without one, of the run's last event."""
    if event is None:
        return last_seq(run)
    return event.seq


def first_seq(events: Sequence[_Numbered], run: TraceRun) -> int | None:
    """Return the number of the first of these events; without any, of the run's last event."""
    if events:
        return events[0].seq
    return last_seq(run)


def decisive_call(calls: Sequence[N], most: int | None) -> Sequence[N]:
    """Return the first call beyond a limit, else the last call, as a list of at most one."""
    if most is not None and len(calls) > most:
        return calls[most : most + 1]
    return calls[-1:]


def in_order(names: Iterable[str]) -> str:
    """Return names in sequence, for a message."""
    return short(" → ".join(names)) or "none"


def tools_in_order(run: TraceRun) -> str:
    """Return the tools that the agent called in sequence, for a message."""
    return f"tools {in_order(call.name for call in run.tool_calls)}"


def last_seq(run: TraceRun) -> int | None:
    """Return the sequence number of the run's last event."""
    if run.events:
        return run.events[-1].seq
    return None


Occurrence: TypeAlias = int | Literal["any", "all", "first", "last"]
"""Which of several calls is meant: any, all, the first, the last, or the one at this position, from 1."""


def glob(pattern: str, text: str) -> bool:
    """Return whether the text matches the pattern, with `*` for any text; linear."""
    # Not `fnmatch`, which also gives meaning to `?` and `[`: tool names and error texts contain them.
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    position = len(first)
    *middle, last = rest
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(text) - len(last) >= position and text.endswith(last)


def any_glob(patterns: Sequence[str], text: str) -> bool:
    """Return whether one of the patterns matches the text."""
    return any(glob(pattern, text) for pattern in patterns)


def calls_like(run: TraceRun, pattern: str) -> list[ToolCall]:
    """Return the agent's calls of the tools whose names match the pattern."""
    return [call for call in run.tool_calls if glob(pattern, call.name)]


def one_or_more(value: str | list[str]) -> list[str]:
    """Return a parameter as a list; a single text becomes a list of one."""
    if isinstance(value, str):
        return [value]
    return value


def first(items: Iterable[T], fits: Callable[[T], object]) -> T | None:
    """Return the first item that fits, or None."""
    for item in items:
        if fits(item):
            return item
    return None


def toolless_path(text: str) -> JsonPath:
    """Parse a path that is not limited to a tool; raise `ValueError` for an invalid one."""
    path = parse_path(text)
    if path.tool is not None:
        raise ValueError(f"expected a JSON path without a tool, such as $.total, got {text!r}")
    return path


def pick_call(
    calls: Sequence[ToolCall], which: Occurrence, fits: Callable[[ToolCall], bool]
) -> tuple[bool, ToolCall | None]:
    """Return whether the selected calls fit, and the first call that decides it.

    Without calls nothing fits, so that no rule holds by silence.
    """
    if not calls:
        return False, None
    if which in ("any", "all"):
        is_any = which == "any"
        decisive = first(calls, lambda call: fits(call) is is_any)
        return (decisive is not None) is is_any, decisive or calls[-1]
    place = which if isinstance(which, int) else {"first": 1}.get(which, len(calls))
    if place > len(calls):
        return False, None
    return fits(calls[place - 1]), calls[place - 1]


def check_occurrence(which: Occurrence) -> None:
    """Raise `ValueError` for a position below 1."""
    if isinstance(which, int) and which < 1:
        raise ValueError(f"expected an occurrence of 1 or more, got {which}")


def occurrence_text(which: Occurrence) -> str:
    """Return the selection in words: `call 2 of`, `every call of`, `a call of`."""
    words = {"any": "a call of", "all": "every call of", "first": "the first call of", "last": "the last call of"}
    if isinstance(which, str):
        return words[which]
    return f"call {which} of"
