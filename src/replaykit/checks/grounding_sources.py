"""Sources for grounding: everything that a run was given from outside, as text and as figures.

Sources are the input, the system prompt, the user's messages and tool results. The model's own text is not a source,
and neither is its echo: messages that came after the model stated the figure, the results of tools that were given the
figure, and the answers of sub-agents. The arguments of a changing tool count: the attempt is a fact.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from replaykit.checks.conversation import answer_text, inner_model_calls, outside_messages
from replaykit.checks.figure_dates import Day
from replaykit.checks.figures import Figure, all_figures, plain_key, url_key, without_escapes
from replaykit.checks.reading import output_text, text_or_empty
from replaykit.model.events import Call, Exchange, Note, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, canonical
from replaykit.redaction.lazy_patterns import lazy
from replaykit.wire.json_fields import as_object

MAX_READ_CHARS = 4_000_000
"""The limit of text that is searched for figures; quoted texts are searched in everything."""
_BEFORE_ALL = -1
_DIGITS = lazy(r"\d+")
_READS = lazy(
    r"(?:get|find|list|search|look|lookup|read|fetch|show|view|check|verify|count|describe|query|track|calculate|compute"
    r"|think|plan|web|visit|browse|retrieve|inspect|open)(?=[_A-Z-]|$)"
)


def _word_values(words: str, numbers: range) -> dict[str, float]:
    return dict(zip(words.split(), map(float, numbers), strict=True))


_TEENS = _word_values("thirteen fourteen fifteen sixteen seventeen eighteen nineteen", range(13, 20))
SMALL_NUMBERS = {
    **_word_values("one two three four five six seven eight nine ten eleven twelve", range(1, 13)),
    **_TEENS,
}
"""The words for numbers up to nineteen."""
TENS = _word_values("twenty thirty forty fifty sixty seventy eighty ninety", range(20, 100, 10))
_LARGE_NUMBERS = {"hundred": 100.0, "thousand": 1000.0, "million": 1e6, "billion": 1e9, "half": 0.5, "quarter": 0.25}
# Number words that count as sources; smaller ones only count things.
_NUMBER_WORDS = {**_TEENS, **TENS, **_LARGE_NUMBERS}


class GroundingSource:
    """A text from outside the agent; its figures are read when they are first needed."""

    def __init__(self, where: str, text: str, *, since: int = _BEFORE_ALL, arguments: str = "", rows: int = 0) -> None:
        self.where = where
        self.text = without_escapes(text)
        self.since = since
        """The first event with the message; tool results and the input count from the start."""
        self.arguments = arguments
        """The arguments that the agent gave the tool."""
        self.rows = rows
        """The length of the longest list in it."""
        self.readable_chars = len(self.text)
        """How many characters to search for figures; quoted texts are searched in all of them."""

    @cached_property
    def plain(self) -> str:
        return plain_key(self.text)

    @cached_property
    def figures(self) -> list[Figure]:
        return all_figures(self.text[: self.readable_chars])

    @cached_property
    def digits(self) -> frozenset[str]:
        """All sequences of digits without leading zeros, including parts of ids."""
        return frozenset(row.lstrip("0") for row in _DIGITS.findall(self.text))

    @cached_property
    def numbers(self) -> dict[float, str]:
        """All readings of the numbers, with their notation."""
        found: dict[float, str] = {}
        for figure in reversed(self.figures):
            for value in figure.values:
                found[abs(value)] = figure.text
        for word in re.findall(r"[a-z]{4,}", self.text[: self.readable_chars].lower()):
            if word in _NUMBER_WORDS:
                found.setdefault(_NUMBER_WORDS[word], word)
        return found


class SourceView:
    """The sources that count for one figure."""

    def __init__(self, sources: Sequence[GroundingSource]) -> None:
        self.sources = sources

    def holds_literally(self, text: str) -> bool:
        """Return whether a source has exactly this text, not as part of a longer number or word."""
        # Searching plain text is much faster than the pattern, and most sources do not have it at all.
        pattern: re.Pattern[str] | None = None
        for source in self.sources:
            if text not in source.text:
                continue
            pattern = pattern or re.compile(rf"(?<![\w.,]){re.escape(text)}(?![\w]|[.,]\d)")
            if pattern.search(source.text):
                return True
        return False

    def holds_text(self, key: str) -> bool:
        """Return whether a source has these letters and digits."""
        return any(key in source.plain for source in self.sources)

    def holds_digits(self, row: str) -> bool:
        """Return whether a source has this sequence of digits."""
        return any(row in source.digits for source in self.sources)

    @cached_property
    def numbers(self) -> list[tuple[float, str]]:
        """All numbers, sorted, with a description for the reader."""
        found: dict[float, str] = {}
        for source in reversed(self.sources):
            for value, text in source.numbers.items():
                found[value] = f"{text}, {source.where}"
        return sorted(found.items())

    @cached_property
    def days(self) -> list[tuple[Day, str]]:
        """All dates, with a description for the reader."""
        found: list[tuple[Day, str]] = []
        for source in self.sources:
            for figure in source.figures:
                found += [(day, f"{figure.text}, {source.where}") for day in figure.days]
        return found

    @cached_property
    def urls(self) -> frozenset[str]:
        """The URLs of the sources."""
        figures = chain.from_iterable(source.figures for source in self.sources)
        return frozenset(url_key(figure.text) for figure in figures if figure.kind == "url")

    @property
    def longest_list(self) -> int:
        """The length of the longest list in a tool result."""
        return max((source.rows for source in self.sources), default=0)


class Sources:
    """The sources of a run."""

    def __init__(self, run: TraceRun) -> None:
        self._run = run
        self._views: dict[tuple[int, ...], SourceView] = {}

    @cached_property
    def all(self) -> list[GroundingSource]:
        """All sources, in order."""
        found = list(_sources(self._run))
        # One budget for all sources: a run with hundreds of long results must not take minutes.
        left = MAX_READ_CHARS
        for source in found:
            source.readable_chars = min(left, len(source.text))
            left -= source.readable_chars
        return found

    def for_figure(self, figure: Figure) -> SourceView:
        """Return the sources that do not echo the model's own statement of the figure."""
        stated_at = first_statement(self._run, figure)
        counted = [source for source in self.all if _counts_for(source, figure, stated_at)]
        key = tuple(map(id, counted))
        if key not in self._views:
            self._views[key] = SourceView(counted)
        return self._views[key]


def _counts_for(source: GroundingSource, figure: Figure, stated_at: int | None) -> bool:
    """Return False for a source that follows the model's statement, or a tool that was given the figure."""
    if stated_at is not None and source.since > stated_at:
        return False
    return figure.core not in source.arguments or not _statement(figure).search(source.arguments)


def _statement(figure: Figure) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(figure.core)}(?!\w)")


def first_statement(run: TraceRun, figure: Figure) -> int | None:
    """Return the number of the first model call that stated the figure, or None."""
    pattern = _statement(figure)
    for call in run.llm_calls:
        requests = as_object(call.result).get("tool_calls")
        if pattern.search(answer_text(call)) or (requests and pattern.search(canonical(requests).decode())):
            return call.seq
    return None


def _sources(run: TraceRun) -> Iterator[GroundingSource]:
    yield GroundingSource("the input", text_or_empty(run.input))
    for seq, text in outside_messages(run):
        yield GroundingSource("a message", text, since=seq)
    agents = inner_model_calls(run)
    answer = plain_key(output_text(run))
    for event in run.events:
        if isinstance(event, ToolCall) and event.seq not in agents:
            yield from _of_tool(event, answer)
        elif isinstance(event, Exchange):
            yield GroundingSource(f"the response of {event.name!r} (event {event.seq})", text_or_empty(_outcome(event)))
        elif isinstance(event, Note):
            yield GroundingSource(f"a note (event {event.seq})", text_or_empty(event.content))


def _of_tool(call: ToolCall, answer: str) -> Iterator[GroundingSource]:
    where = f"tool {call.name!r} (event {call.seq})"
    arguments = text_or_empty(call.arguments)
    # A tool that takes the final answer, or searches for what the agent believes, confirms nothing.
    if not _READS.match(call.name) and not (answer and answer in plain_key(arguments)):
        yield GroundingSource(f"the arguments of {where}", arguments)
    outcome = _outcome(call)
    text = str(call.error) if call.error is not None else text_or_empty(outcome)
    yield GroundingSource(where, text, arguments=arguments, rows=max(_longest(outcome), text.count("\n")))


def _outcome(call: Call) -> Json:
    if call.items is not None:
        return call.items
    return call.result


def _longest(value: Json) -> int:
    longest = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict | list):
            longest = max(longest, len(item))
            stack += item.values() if isinstance(item, dict) else item
    return longest


class SortedNumbers:
    """Numbers that can be searched for one near a value."""

    def __init__(self, values: Iterable[float]) -> None:
        self.values = sorted(set(values))

    def has(self, target: float, margin: float) -> bool:
        """Return whether a number is within the margin of the target."""
        index = bisect_left(self.values, target - margin)
        return index < len(self.values) and self.values[index] <= target + margin
