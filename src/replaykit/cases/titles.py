"""Titles: what went wrong in a few words, for the title of a case."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replaykit.cases.signatures import FailureSignature
from replaykit.checks.reading import short
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.redaction.lazy_patterns import lazy

MAX_CHARS = 100
_DETAIL = lazy(r" \(nearest: [^)]*\)+")
_MAX_PARTS = 2

_RANKS = (
    ("output.contradicts", "output.grounded"),
    ("tool.invalid_arguments", "tool.not_offered", "tool.ignored_error"),
    ("tool.called", "tool.not_called", "not", "max_tool_calls", "tool.stuck"),
    ("tool.only_announced", "tool.lookup_skipped", "llm.context_overflow", "llm.truncated", "llm.malformed_call"),
    ("steps.exhausted", "tool.unretried_error", "run.error", "output.refusal", "output.equals"),
    ("output.empty", "final_output_exists", "run.failed_steps", "tool.error"),
    ("llm.same_request", "llm.same_answer", "state.repeated"),
)
"""Kinds from the most telling to the least. A kind that is not here comes from a detector of the project's own, and
goes first; a status alone comes last."""
_LAST = "status_is"

_WORDS: dict[str, Callable[[dict[str, Json]], str]] = {
    "max_tool_calls": lambda value: f"{value['tool']} called {value['count']} times",
    "tool.stuck": lambda value: f"{value['tool']} called {value['times']} times in a row for nothing",
    "tool.ignored_error": lambda value: f"{value['tool']} failed and the answer hides it",
    "tool.unretried_error": lambda value: f"{value['tool']} failed and was not retried",
    "tool.called": lambda value: f"{value['tool']} called against expectation",
    "tool.not_called": lambda value: f"{value['tool']} not called as expected",
    "tool.invalid_arguments": lambda value: f"{value['tool']} called with wrong arguments",
    "output.contradicts": lambda value: f"The answer contradicts {value['tool']}",
    "effect.exactly_once": lambda value: f"{value['tool']} not done exactly once",
    "output.contains_any": lambda value: f"The answer does not say {value['texts'][0]}",
}
"""Headlines of kinds whose value is a mapping."""
_NAMED = {
    "tool.not_offered": "The model made up a tool named {}",
    "tool.only_announced": "{} announced and never called",
    "output.answer": "The answer is not {}",
    "run.error": "{}",
}
"""Headlines of kinds whose value is a text."""
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
"""Headlines of kinds whose value says nothing more."""


def title_of(run: TraceRun, signatures: Sequence[FailureSignature]) -> str:
    """Return a title of at most `MAX_CHARS`: the one or two most telling signatures, in words."""
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
    """Return what a signature says, without arguments and details."""
    kind, value = signature.assertion.kind, signature.assertion.value
    if kind == "not" and isinstance(value, dict):
        kind, value = next(iter(value.items()))
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _NAMED and isinstance(value, str):
        return _NAMED[kind].format(value.strip("* "))
    if kind in _WORDS and isinstance(value, dict):
        return _WORDS[kind](value)
    return _DETAIL.sub("", signature.text)


def _rank(signature: FailureSignature) -> int:
    kind = signature.assertion.kind
    if kind == _LAST:
        return len(_RANKS)
    return next((rank for rank, kinds in enumerate(_RANKS) if kind in kinds), -1)


def _cut(text: str) -> str:
    line = short(text)
    if len(line) <= MAX_CHARS:
        return line
    return f"{line[: MAX_CHARS - 1].rstrip()}…"
