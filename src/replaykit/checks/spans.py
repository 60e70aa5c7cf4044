"""Assertions about spans: the calls and steps of a run, as a tracing system shows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct

from replaykit.checks.budgets import time_of
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import decisive_call, first, first_seq, glob, in_order, last_seq
from replaykit.checks.rule import Count, Rule, Seconds, Seen, check_range, in_range, range_text, register
from replaykit.model.events import AnyEvent, Call, ErrorEvent
from replaykit.model.run import TraceRun
from replaykit.model.steps import steps_of

SpanKind: TypeAlias = Literal["tool", "llm", "exchange", "step"]
_KINDS: dict[str, SpanKind] = {"tool_call": "tool", "llm_call": "llm", "exchange": "exchange"}


class RunSpan(Struct, frozen=True):
    """One call or step: its kind, its outcome, its logged duration, and what is around it."""

    kind: SpanKind
    name: str
    failure: str | None
    duration_s: float
    seq: int
    within: tuple[str, ...]


def spans_of(run: TraceRun) -> list[RunSpan]:
    """Return the spans of a run in the order they began; a step comes before its calls."""
    calls: dict[int | None, Call] = {call.seq: call for call in run.calls}
    spans = [_step(name, events) for name, events in steps_of(run).items() if events[0].step is not None]
    inside: dict[int | None, tuple[str, ...]] = {}
    for call in calls.values():
        names = [*inside.get(call.parent, ())]
        if call.parent in calls:
            names.append(calls[call.parent].name)
        if call.step:
            names.append(call.step)
        within = inside[call.seq] = tuple(dict.fromkeys(names))
        spans.append(RunSpan(_KINDS[call.kind], call.name, call_failed(call), call.duration_s, call.seq, within))
    return sorted(spans, key=lambda span: (span.seq, span.kind != "step"))


def _step(name: str, events: Sequence[AnyEvent]) -> RunSpan:
    error = first(events, lambda event: isinstance(event, ErrorEvent))
    failure = str(error.error) if isinstance(error, ErrorEvent) else None
    return RunSpan("step", name, failure, time_of(events), events[0].seq, ())


class _Spans(Rule, frozen=True, kw_only=True):
    """A selection of spans by conditions, which must all be met."""

    notes = {
        "name": "the name of the tool, model, request or step; `*` matches anything; a plain text sets this",
        "kind": "`tool`, `llm`, `exchange` or `step`",
        "status": "`ok` or `error`",
        "min_s": "the minimum duration, in seconds",
        "max_s": "the maximum duration, in seconds",
        "within": "the name of a step or call that it was inside of, at any depth",
        "min": "the minimum number of such spans",
        "max": "their maximum number",
    }
    name: str = "*"
    kind: SpanKind | None = None
    within: str | None = None

    def _meant(self, run: TraceRun) -> list[RunSpan]:
        return list(filter(self._is_meant, spans_of(run)))

    def _is_meant(self, span: RunSpan) -> bool:
        return (
            glob(self.name, span.name)
            and self.kind in (None, span.kind)
            and (self.within is None or any(map(partial(glob, self.within), span.within)))
        )

    def _what(self) -> str:
        inside = f" within {self.within}" if self.within is not None else ""
        return f"{self.kind or 'span'} {self.name}{inside}"


class _FilteredSpans(_Spans, frozen=True, kw_only=True):
    status: Literal["ok", "error"] | None = None
    min_s: Seconds | None = None
    max_s: Seconds | None = None

    def __post_init__(self) -> None:
        if self.min_s is not None or self.max_s is not None:
            check_range(self.min_s, self.max_s, unit="_s")

    def _fitting(self, run: TraceRun) -> list[RunSpan]:
        return list(filter(self._fits, self._meant(run)))

    def _fits(self, span: RunSpan) -> bool:
        status = "ok" if span.failure is None else "error"
        return self.status in (None, status) and in_range(span.duration_s, self.min_s, self.max_s)

    def _which(self) -> str:
        subject = self._what()
        if self.status:
            subject += f" with status {self.status}"
        if self.min_s is not None or self.max_s is not None:
            subject += f" of {range_text(self.min_s, self.max_s)} s"
        return subject


@register("span.exists")
class SpanExists(_FilteredSpans, frozen=True, kw_only=True):
    """There is such a span: a call of a tool or a model, a request, or a step, with this name, outcome and duration.

    A call failed as in `tool.error`; a step failed if it has an error event. Durations come from the log; that of a
    step is the sum of its calls.
    """

    plain = "name"
    examples = (
        "span.exists: send_email",
        "span.exists: {kind: tool, name: lookup_*, status: error, within: step_1}",
    )

    def seen_in(self, run: TraceRun) -> Seen:
        spans = self._fitting(run)
        return Seen(
            holds=bool(spans),
            text=f"Span {spans[0].name!r} found" if spans else "No such span",
            expected=f"a {self._which()}",
            actual=_listed(spans or spans_of(run)),
            seq=first_seq(spans, run),
        )


@register("span.count")
class SpanCount(_FilteredSpans, frozen=True, kw_only=True):
    """The number of such spans is in this range."""

    examples = ("span.count: {kind: tool, status: error, max: 1}",)
    min: Count | None = None
    max: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.min, self.max)

    def seen_in(self, run: TraceRun) -> Seen:
        spans = self._fitting(run)
        return Seen(
            holds=in_range(len(spans), self.min, self.max),
            text=f"{len(spans) or 'No'} spans found",
            expected=f"{range_text(self.min, self.max)} times a {self._which()}",
            actual=f"{len(spans)}: {_listed(spans)}",
            seq=first_seq(decisive_call(spans, self.max), run),
        )


@register("span.duration")
class SpanDuration(_Spans, frozen=True, kw_only=True):
    """Every such span has a logged duration in this range, and there is at least one."""

    examples = ("span.duration: {name: lookup_billing, max_s: 3}",)
    min_s: Seconds | None = None
    max_s: Seconds | None = None

    def __post_init__(self) -> None:
        check_range(self.min_s, self.max_s, unit="_s")

    def seen_in(self, run: TraceRun) -> Seen:
        spans = self._meant(run)
        expected = f"every {self._what()} taking {range_text(self.min_s, self.max_s)} s"
        if not spans:
            return Seen(False, "No such span", expected, _listed(spans_of(run)), last_seq(run))
        outside = first(spans, lambda span: not in_range(span.duration_s, self.min_s, self.max_s))
        span = outside or max(spans, key=lambda span: span.duration_s)
        return Seen(
            holds=outside is None,
            text=f"Span {span.name!r} took {span.duration_s:g} s",
            expected=expected,
            actual=f"{span.name}: {span.duration_s:g} s",
            seq=span.seq,
        )


@register("span.no_errors")
class SpanNoErrors(_Spans, frozen=True, kw_only=True):
    """No such span failed, and there is at least one."""

    plain = "name"
    examples = ('span.no_errors: "*"', "span.no_errors: {kind: tool, name: send_*}")

    def seen_in(self, run: TraceRun) -> Seen:
        spans = self._meant(run)
        failed = first(spans, lambda span: span.failure is not None)
        expected = f"no failed {self._what()}"
        if failed is not None:
            actual = f"{failed.name} failed: {failed.failure}"
            return Seen(False, f"Span {failed.name!r} failed", expected, actual, failed.seq)
        if spans:
            return Seen(True, "No span failed", expected, _listed(spans), last_seq(run))
        return Seen(False, "No such span", expected, _listed(spans_of(run)), last_seq(run))


def _listed(spans: list[RunSpan]) -> str:
    return f"spans {in_order(span.name for span in spans)}"
