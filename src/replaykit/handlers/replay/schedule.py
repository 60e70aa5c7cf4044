"""Schedule: when the calls of a tape began and ended, and how far a candidate lags behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from replaykit.model.events import Call, CallSpan, ToolCall

NEVER = float("inf")
"""The end of a call that was still running when its run ended."""


def spans_of(calls: Iterable[Call]) -> dict[int, CallSpan]:
    """Return the spans of the calls that have one, by call number."""
    return {call.seq: call.span for call in calls if call.span is not None}


def end_of(span: CallSpan) -> float:
    """Return the position of a call's end."""
    if span.end is None:
        return NEVER
    return span.end


def overlapping(spans: dict[int, CallSpan]) -> set[int]:
    """Return the calls that overlap with another one."""
    found: set[int] = set()
    latest: int | None = None  # the call with the latest end so far
    for seq, span in sorted(spans.items(), key=lambda item: item[1].begin):
        if latest is not None and span.begin < end_of(spans[latest]):
            found |= {seq, latest}
        if latest is None or end_of(span) > end_of(spans[latest]):
            latest = seq
    return found


class Schedule:
    """The recorded spans of a tape, the calls that a candidate has made, and its lag on each causal path.

    The lag of a path is how much later than recorded the candidate is there. It stays 0 for an unchanged agent. An
    edited agent reaches its calls at other times; the lag then changes, so that calls keep their durations.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        known = list(calls)
        tools = {call.seq for call in known if isinstance(call, ToolCall)}
        own = [call for call in known if call.span is not None and call.parent not in tools]
        self.spans: dict[int, CallSpan] = {call.seq: call.span for call in own if call.span is not None}
        self.jobs = {call.seq for call in own if "~" in call.path}
        """The calls made by tasks and threads of the run."""
        self.end_s = max((_end_of(call) for call in own), default=0.0)
        """When the run ended, as far as its calls show."""
        self._order = sorted(self.spans, key=lambda seq: self.spans[seq].begin)
        self.begun: set[int] = set()
        """The calls that the candidate has made."""
        self.lags: dict[str, float] = {}
        self._next = 0

    @cached_property
    def has_overlaps(self) -> bool:
        """Whether calls ran in parallel or were abandoned."""
        latest = -1
        for seq in self._order:
            span = self.spans[seq]
            if span.begin < latest or span.end is None:
                return True
            latest = max(latest, span.end)
        return False

    @property
    def next_begin_s(self) -> float:
        """The recorded begin of the next call that has not been made."""
        span = self._next_span()
        if span is None:
            return float("inf")
        return span.begin_s

    def is_awaited_before(self, position: int) -> bool:
        """Return whether a call recorded to begin before this position has not been made."""
        span = self._next_span()
        return span is not None and span.begin < position

    def _next_span(self) -> CallSpan | None:
        order, begun, index = self._order, self.begun, self._next
        while index < len(order) and order[index] in begun:
            index += 1
        self._next = index
        if index < len(order):
            return self.spans[order[index]]
        return None

    def jobs_due(self, begin_s: float, end_s: float) -> Iterator[int]:
        """Yield the calls of tasks and threads that began between two moments and have not been made."""
        for seq in self.jobs - self.begun:
            if begin_s < self.spans[seq].begin_s < end_s:
                yield seq

    def due_between(self, begin_s: float, end_s: float) -> Iterator[int]:
        """Yield the calls that began between two moments and have not been made."""
        self._next_span()
        order = self._order
        for place in range(self._next, len(order)):  # a slice would copy the rest at each look at the clock
            seq = order[place]
            moment = self.spans[seq].begin_s
            if moment > end_s:
                return
            if moment >= begin_s and seq not in self.begun:
                yield seq

    def lag(self, path: str) -> float:
        """Return the lag of a path, or that of its nearest parent with one."""
        lags = self.lags
        if not lags:
            return 0.0
        while path not in lags:
            if not path:
                return 0.0
            path = path.rpartition("/")[0]
        return lags[path]

    def set_lag(self, path: str, lag_s: float) -> None:
        """Set how much later than recorded the candidate is on this path."""
        self.lags[path] = lag_s


def _end_of(call: Call) -> float:
    """Return when a call ended or, if it was abandoned, when its run did."""
    span = call.span
    if span is None:
        return 0.0
    if span.end_s is None:
        return span.begin_s + call.duration_s
    return span.end_s
