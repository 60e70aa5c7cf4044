"""Compare two runs: find out where they diverge.

Calls, messages, decisions and errors are aligned rather than compared by position, so one more call is one difference.
States are compared wherever the two runs are at the same point. Ids, numbers, times, tracebacks and resources never
count as differences, and neither do notes, names, tags and metadata.

The first divergence is the first in the order of the second run's events; events it lacks count where they are missing.
A call has two moments: its arguments count when it begins, its outcome when it ends, after all calls inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

from msgspec import structs
from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.model.diff import Difference, brief
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, Exchange, LlmCall, Message
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import first_few
from replaykit.store.open import StoreLike, open_store
from replaykit.travel.compare_events import (
    EventLog,
    EventRow,
    entries_of,
    event_of,
    name_of,
    of_endings,
    of_texts,
    pair_events,
    places_lacking,
    rows_of,
    value_of,
    whole_line_of,
)
from replaykit.travel.compare_result import (
    Comparison,
    DivergenceKind,
    EntryKind,
    FirstDivergence,
    OutcomeComparison,
    RunEnding,
    ToolComparison,
    ToolCount,
    ToolStretch,
    UsageComparison,
    UsageTotals,
)
from replaykit.travel.compare_states import (
    StateDivergence,
    compare_states,
    entries_of_states,
    points_of,
    steps_of_divergence,
)

N = TypeVar("N", int, float)

_LINE = 160


@checked("rk.compare(run_id, fork_id)")
def compare(a: TraceRun | str, b: TraceRun | str, *, store: StoreLike = None) -> Comparison:
    """Compare two runs, given as runs or as ids in the store, and find their first divergence.

    >>> comparison = rk.compare(run_id, failed_id)
    >>> comparison.identical, comparison.outcome.b.error
    (False, 'ValueError: lost')
    """
    if isinstance(a, TraceRun) and isinstance(b, TraceRun):
        return _compare(a, b)
    with open_store(store, read_only=True) as source:
        runs = [run if isinstance(run, TraceRun) else source.load(run) for run in (a, b)]
    return _compare(*runs)


compare_runs = compare


def _compare(a: TraceRun, b: TraceRun) -> Comparison:
    pairs = pair_events(a, b)
    log_a, log_b = EventLog(a), EventLog(b)
    states = compare_states(a, b, points_of(log_a, log_b, pairs))
    lacking = places_lacking(log_a, pairs, states.beside)
    rows = rows_of(log_a, log_b, pairs, lacking)
    outcome = _outcomes(a, b)
    first = _input(a, b) or DivergenceFinder(log_a, log_b, rows, lacking).first(states.partings) or _ending(outcome)
    return Comparison(
        a=a.id,
        b=b.id,
        identical=first is None,
        first=first,
        entries=tuple(entries_of(log_a, log_b, rows)),
        states=tuple(entries_of_states(log_a, log_b, states.partings)),
        unknown_states=states.unknown,
        tools=_tools(a, b, _own_tools(log_a, log_b, rows)),
        outcome=outcome,
        usage=_usage(a, b),
    )


def _input(a: TraceRun, b: TraceRun) -> FirstDivergence | None:
    input_differences = of_texts(a.input_json, b.input_json)
    if not input_differences:
        return None
    a_text, b_text = brief(value_of(a.input_json), _LINE), brief(value_of(b.input_json), _LINE)
    return FirstDivergence(
        kind=DivergenceKind.INPUT, text="input", a_text=a_text, b_text=b_text, differences=input_differences
    )


def _ending(outcome: OutcomeComparison) -> FirstDivergence | None:
    if outcome.equal:
        return None
    changed = [part for part in ("status", "output", "error") if getattr(outcome.a, part) != getattr(outcome.b, part)]
    return FirstDivergence(
        kind=DivergenceKind.OUTCOME,
        text=f"outcome ({', '.join(changed) or 'error'})",
        a_text=_ending_text(outcome.a),
        b_text=_ending_text(outcome.b),
        differences=outcome.differences,
    )


def _ending_text(ending: RunEnding) -> str:
    return f"{ending.status.value}: {ending.error or brief(ending.output, _LINE)}"


def _outcomes(a: TraceRun, b: TraceRun) -> OutcomeComparison:
    ending_differences = of_endings(a, b)
    return OutcomeComparison(
        a=_run_ending(a), b=_run_ending(b), equal=not ending_differences, differences=ending_differences
    )


def _run_ending(run: TraceRun) -> RunEnding:
    error = str(run.error) if run.error else None
    return RunEnding(status=run.status, output=value_of(run.output_json), error=error)


def _own_tools(a: EventLog, b: EventLog, rows: Iterable[EventRow]) -> Iterable[tuple[EntryKind, str]]:
    """Yield the tools that the agents themselves called; a changed call is a call of the same tool."""
    for row in rows:
        is_own = row.a in a.own_tools if row.b is None else row.b in b.own_tools
        if is_own:
            kind = EntryKind.SAME if row.kind is EntryKind.CHANGED else row.kind
            yield kind, name_of(event_of(a, b, row))


def _tools(a: TraceRun, b: TraceRun, both: Iterable[tuple[EntryKind, str]]) -> ToolComparison:
    names_a, names_b = tuple(call.name for call in a.tool_calls), tuple(call.name for call in b.tool_calls)
    count_a, count_b = Counter(names_a), Counter(names_b)
    counts, stretches = [], []
    for name in dict.fromkeys(names_a + names_b):
        counts.append(ToolCount(name=name, a=count_a[name], b=count_b[name]))
    for (kind, name), calls in groupby(both):
        stretches.append(ToolStretch(kind=kind, name=name, count=len(list(calls))))
    return ToolComparison(a=names_a, b=names_b, counts=tuple(counts), unified=tuple(stretches))


def _usage(a: TraceRun, b: TraceRun) -> UsageComparison:
    one, other = _totals(a), _totals(b)
    differences: Any = map(_increase, structs.astuple(one), structs.astuple(other))
    difference = UsageTotals(**dict(zip(UsageTotals.__struct_fields__, differences, strict=True)))
    return UsageComparison(a=one, b=other, difference=difference)


def _totals(run: TraceRun) -> UsageTotals:
    calls = run.llm_calls
    used = [call.usage for call in calls if call.usage is not None]
    input_tokens = sum_of_known(usage.input_tokens for usage in used)
    output_tokens = sum_of_known(usage.output_tokens for usage in used)
    return UsageTotals(
        llm_calls=len(calls),
        tool_calls=len(run.tool_calls),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        tokens=sum_of_known([input_tokens, output_tokens]),
        cost_usd=sum_of_known(usage.cost_usd for usage in used),
        duration_s=run.duration_s,
    )


def sum_of_known(numbers: Iterable[N | None]) -> N | None:
    """Return the sum of the known numbers; None if none is known."""
    known = [number for number in numbers if number is not None]
    if known:
        return sum(known[1:], known[0])
    return None


def _increase(a: N | None, b: N | None) -> N | None:
    if a is None or b is None:
        return None
    return b - a


# Sorts by position; then 0 at the event's begin or 1 after it; then inner calls first; then missing events.
_Moment: TypeAlias = tuple[int, int, int, int]

_ROLES = {
    "user": DivergenceKind.INPUT,
    "system": DivergenceKind.INPUT,
    "developer": DivergenceKind.INPUT,
    "tool": DivergenceKind.TOOL_RESULT,
}


class DivergenceFinder:
    """Finds the earliest difference of two aligned runs."""

    def __init__(self, a: EventLog, b: EventLog, rows: list[EventRow], lacking: list[int]) -> None:
        self._a = a
        self._b = b
        self._rows = rows
        self._lacking = lacking

    def first(self, states: list[StateDivergence]) -> FirstDivergence | None:
        """Return the earliest event or state that differs; None if there is none."""
        moments = [(self._moment(row), 0, n) for n, row in enumerate(self._rows) if row.kind is not EntryKind.SAME]
        moments += [(_moment_of(state), 1, n) for n, state in enumerate(states)]
        if not moments:
            return None
        _, is_state, n = min(moments)
        if is_state:
            return self._of_state(states[n])
        return self._of_row(n)

    def _moment(self, row: EventRow) -> _Moment:
        if row.kind is EntryKind.MOVED:  # missing in one place and too early in the other: the earlier one counts
            return min(self._begins(row.a, None), self._begins(None, row.b))
        if row.kind is EntryKind.CHANGED and not row.arguments:
            assert row.b is not None  # both runs have a changed event
            return (self._b.ends[row.b], 1, -self._b.depths[row.b], 0)
        return self._begins(row.a, row.b)

    def _begins(self, a: int | None, b: int | None) -> _Moment:
        """Return when the second run has the event, or would have it."""
        if b is not None:
            return (b, 0, 0, 0)
        assert a is not None
        return (self._lacking[a], 1, -self._a.depths[a], 1 + a)

    def _of_row(self, n: int) -> FirstDivergence:
        row = self._rows[n]
        event = event_of(self._a, self._b, row)
        kind, text = _parting(row, event)
        a, b = row.a, row.b
        instead = next((other for other in self._rows[n:] if other.kind is not EntryKind.DELETED), row)
        if row.kind is EntryKind.DELETED and instead.kind is EntryKind.INSERTED:
            text, b = f"{text}, {_called(event_of(self._a, self._b, instead))} instead", instead.b
        return self._divergence(kind, text, a, b, row.arguments or row.outcome)

    def _of_state(self, state: StateDivergence) -> FirstDivergence:
        divergence = self._divergence(
            DivergenceKind.STATE, _state_text(state.differences), state.a, state.b, state.differences
        )
        a_step, b_step = steps_of_divergence(self._a, self._b, state)
        return replace(divergence, a_step=a_step, b_step=b_step)

    def _divergence(
        self, kind: DivergenceKind, text: str, a: int | None, b: int | None, differing: tuple[Difference, ...]
    ) -> FirstDivergence:
        (a_seq, a_step), (b_seq, b_step) = self._a.where(a), self._b.where(b)
        events = [log.events[place] for log, place in ((self._a, a), (self._b, b)) if place is not None]
        return FirstDivergence(
            kind=kind,
            text=text,
            event=str(events[0].__struct_config__.tag),
            name=name_of(events[0]),
            a_seq=a_seq,
            b_seq=b_seq,
            a_step=a_step,
            b_step=b_step,
            a_text="" if a is None else whole_line_of(self._a.events[a]),
            b_text="" if b is None else whole_line_of(self._b.events[b]),
            differences=differing,
        )


def _moment_of(state: StateDivergence) -> _Moment:
    """Return when the second run got its differing state; after its own events, if it got the state before those."""
    point = state.point
    if point.late:
        return (point.b - 1, 1, 1, 0)
    if state.b > point.b_from:
        return (state.b, 0, 0, 0)
    return (point.b_from, 1, 1, 0)


def _state_text(state_differences: tuple[Difference, ...]) -> str:
    return f"state ({first_few([difference.path for difference in state_differences], 1)})"


def _parting(row: EventRow, event: AnyEvent) -> tuple[DivergenceKind, str]:
    """Return the kind and the description of a divergence."""
    if row.kind is EntryKind.MOVED:
        return DivergenceKind.ORDER, f"order of {_called(event)}"
    if row.kind is not EntryKind.CHANGED:
        kind = DivergenceKind.EXTRA if row.kind is EntryKind.INSERTED else DivergenceKind.MISSING
        what = "call of " if isinstance(event, Call) else ""
        return kind, f"{kind} {what}{_called(event)}"
    if isinstance(event, LlmCall):
        if row.arguments:
            return DivergenceKind.INPUT, f"input of {event.name}"
        return DivergenceKind.MODEL_ANSWER, f"answer of {event.name}"
    if isinstance(event, Call):
        if row.arguments:
            return DivergenceKind.TOOL_ARGUMENTS, f"arguments of {event.name}"
        what = "answer" if isinstance(event, Exchange) else "tool result"
        return DivergenceKind.TOOL_RESULT, f"{what} of {event.name}"
    if isinstance(event, ErrorEvent):
        return DivergenceKind.OUTCOME, "error"
    role = event.role if isinstance(event, Message) else "assistant"
    return _ROLES.get(role, DivergenceKind.MODEL_ANSWER), _called(event)


def _called(event: AnyEvent) -> str:
    if isinstance(event, Message):
        return f"{event.role} message"
    if isinstance(event, Decision):
        return "decision"
    return name_of(event)
