"""Assertions over spans: the calls and the steps of a run, as a tracing system would show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replaykit.checks.call_selection import glob
from replaykit.checks.failures import call_failed
from replaykit.checks.ranges import check_range, in_range, range_text
from replaykit.checks.reading import last_seq
from replaykit.checks.rule import ASSERTIONS, Context, Count, Rule, Seconds, Seen
from replaykit.checks.timing import time_of
from replaykit.checks.tools import in_order
from replaykit.model.events import AnyEvent, ErrorEvent
from replaykit.model.run import TraceRun
from replaykit.model.steps import steps_of

SpanKind: TypeAlias = Literal["tool", "llm", "exchange", "step"]
_KINDS: dict[str, SpanKind] = {"tool_call": "tool", "llm_call": "llm", "exchange": "exchange"}


class RunSpan(Struct, frozen=True):
    """One call or one step: what it is, how it went, how long it took by the log, and what it was inside of."""

    kind: SpanKind
    name: str
    failure: str | None
    duration_s: float
    seq: int
    within: tuple[str, ...]


def spans_of(run: TraceRun) -> list[RunSpan]:
    """The spans of a run, in the order they began; a step comes before its calls."""
    calls = {call.seq: call for call in run.calls}
    spans = [_step(name, events) for name, events in steps_of(run).items() if events[0].step is not None]
    inside: dict[int, tuple[str, ...]] = {}
    for call in calls.values():
        above = inside.get(call.parent, ()) if call.parent is not None else ()
        parent = (calls[call.parent].name,) if call.parent in calls else ()
        inside[call.seq] = tuple(dict.fromkeys((*above, *parent, *((call.step,) if call.step else ()))))
        spans.append(
            RunSpan(_KINDS[call.kind], call.name, call_failed(call), call.duration_s, call.seq, inside[call.seq])
        )
    return sorted(spans, key=lambda span: (span.seq, span.kind != "step"))


def _step(name: str, events: Sequence[AnyEvent]) -> RunSpan:
    failures = (str(event.error) for event in events if isinstance(event, ErrorEvent))
    return RunSpan("step", name, next(failures, None), time_of(events), events[0].seq, ())


class _Spans(Rule, frozen=True, kw_only=True):
    """A selection of spans; all conditions that are given have to agree."""

    notes = {
        "name": "the name of the tool, model, request or step; `*` in it stands for anything; a plain text is this",
        "kind": "`tool`, `llm`, `exchange` or `step`",
        "status": "`ok` or `error`",
        "min_s": "the least it took, in seconds",
        "max_s": "the most it took",
        "within": "the name of a step or call that it was inside of, at any depth",
        "min": "the least of such spans",
        "max": "the most of them",
    }
    name: str = "*"
    kind: SpanKind | None = None
    within: str | None = None

    def _meant(self, run: TraceRun) -> list[RunSpan]:
        return [
            span
            for span in spans_of(run)
            if glob(self.name, span.name)
            and self.kind in (None, span.kind)
            and (self.within is None or any(glob(self.within, around) for around in span.within))
        ]

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
        return [
            span
            for span in self._meant(run)
            if self.status in (None, "ok" if span.failure is None else "error")
            and in_range(span.duration_s, self.min_s, self.max_s)
        ]

    def _which(self) -> str:
        if self.min_s is None and self.max_s is None:
            took = ""
        else:
            took = f" of {range_text(self.min_s, self.max_s)} s"
        return f"{self._what()}{f' with status {self.status}' if self.status else ''}{took}"


@ASSERTIONS.register("span.exists")
class SpanExists(_FilteredSpans, frozen=True, kw_only=True):
    """There is such a span: a call of a tool or a model, a request, or a step, with this name, outcome and duration.

    A call failed as `tool.error` has it; a step failed when an error event is in it. Durations are those of the log: of
    a step, what its calls took.
    """

    plain = "name"
    examples = (
        "span.exists: send_email",
        "span.exists: {kind: tool, name: lookup_*, status: error, within: step_1}",
    )

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = self._fitting(run)
        return Seen(
            holds=bool(found),
            text=f"Span {found[0].name!r} found" if found else "No such span",
            expected=f"a {self._which()}",
            actual=_listed(found or spans_of(run)),
            seq=found[0].seq if found else last_seq(run),
        )


@ASSERTIONS.register("span.count")
class SpanCount(_FilteredSpans, frozen=True, kw_only=True):
    """There are this many of such spans."""

    examples = ("span.count: {kind: tool, status: error, max: 1}",)
    min: Count | None = None
    max: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.min, self.max)

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = self._fitting(run)
        decisive = found[-1:]
        if self.max is not None and len(found) > self.max:
            decisive = found[self.max :]  # the first one too many
        return Seen(
            holds=in_range(len(found), self.min, self.max),
            text=f"{len(found) or 'No'} spans found",
            expected=f"{range_text(self.min, self.max)} times a {self._which()}",
            actual=f"{len(found)}: {_listed(found)}",
            seq=decisive[0].seq if decisive else last_seq(run),
        )


@ASSERTIONS.register("span.duration")
class SpanDuration(_Spans, frozen=True, kw_only=True):
    """Every such span took this long, by the log, and there is at least one."""

    examples = ("span.duration: {name: lookup_billing, max_s: 3}",)
    min_s: Seconds | None = None
    max_s: Seconds | None = None

    def __post_init__(self) -> None:
        check_range(self.min_s, self.max_s, unit="_s")

    def check(self, run: TraceRun, context: Context) -> Seen:
        spans = self._meant(run)
        expected = f"every {self._what()} taking {range_text(self.min_s, self.max_s)} s"
        if not spans:
            return Seen(False, "No such span", expected, _listed(spans_of(run)), last_seq(run))
        outside = next((span for span in spans if not in_range(span.duration_s, self.min_s, self.max_s)), None)
        span = outside or max(spans, key=lambda span: span.duration_s)
        return Seen(
            holds=outside is None,
            text=f"Span {span.name!r} took {span.duration_s:g} s",
            expected=expected,
            actual=f"{span.name}: {span.duration_s:g} s",
            seq=span.seq,
        )


@ASSERTIONS.register("span.no_errors")
class SpanNoErrors(_Spans, frozen=True, kw_only=True):
    """None of such spans failed, and there is at least one."""

    plain = "name"
    examples = ('span.no_errors: "*"', "span.no_errors: {kind: tool, name: send_*}")

    def check(self, run: TraceRun, context: Context) -> Seen:
        spans = self._meant(run)
        failed = next((span for span in spans if span.failure is not None), None)
        expected = f"no failed {self._what()}"
        if failed is not None:
            actual = f"{failed.name} failed: {failed.failure}"
            return Seen(False, f"Span {failed.name!r} failed", expected, actual, failed.seq)
        if spans:
            return Seen(True, "No span failed", expected, _listed(spans), last_seq(run))
        return Seen(False, "No such span", expected, _listed(spans_of(run)), last_seq(run))


def _listed(spans: list[RunSpan]) -> str:
    return f"spans {in_order([span.name for span in spans])}"
