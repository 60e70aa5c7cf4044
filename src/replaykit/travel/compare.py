"""Compare two runs: where do their worlds part?

Calls, messages, decisions and errors are aligned, not compared position by position: one call more is one difference.
States are compared wherever the two runs stand side by side. What is different in every execution (ids, numbers, times,
tracebacks) and what a run took never counts; neither do notes, names, tags and metadata. Pure: the runs are values, and
so is the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import TypeVar

from replaykit.model.diff import brief
from replaykit.model.run import TraceRun
from replaykit.travel.compare_first import Parted
from replaykit.travel.compare_pairs import pair_events
from replaykit.travel.compare_points import points_of
from replaykit.travel.compare_result import (
    Comparison,
    Ending,
    EntryKind,
    FirstDivergence,
    Outcomes,
    Parting,
    Stretch,
    ToolCount,
    Tools,
    Totals,
    UsageComparison,
)
from replaykit.travel.compare_rows import Log, Row, entries_of, event_of, name_of, places_lacking, rows_of
from replaykit.travel.compare_states import entries_of_states, part_states
from replaykit.travel.compare_values import of_endings, of_texts, value_of

N = TypeVar("N", int, float)

_LINE = 160


def compare(a: TraceRun, b: TraceRun) -> Comparison:
    """The second run beside the first: what is the same, what is not, and where they part."""
    pairs = pair_events(a, b)
    log_a, log_b = Log(a), Log(b)
    states = part_states(a, b, points_of(log_a, log_b, pairs))
    lacking = places_lacking(log_a, pairs, states.beside)
    rows = rows_of(log_a, log_b, pairs, lacking)
    outcome = _outcomes(a, b)
    first = _input(a, b) or Parted(log_a, log_b, rows, lacking).first(states.partings) or _ending(outcome)
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
    found = of_texts(a.input_json, b.input_json)
    if not found:
        return None
    a_text, b_text = (brief(value_of(run.input_json), _LINE) for run in (a, b))
    return FirstDivergence(kind=Parting.INPUT, text="input", a_text=a_text, b_text=b_text, differences=found)


def _ending(outcome: Outcomes) -> FirstDivergence | None:
    if outcome.equal:
        return None
    changed = [part for part in ("status", "output", "error") if getattr(outcome.a, part) != getattr(outcome.b, part)]
    return FirstDivergence(
        kind=Parting.OUTCOME,
        text=f"outcome ({', '.join(changed) or 'error'})",
        a_text=_said(outcome.a),
        b_text=_said(outcome.b),
        differences=outcome.differences,
    )


def _said(ending: Ending) -> str:
    return f"{ending.status.value}: {ending.error or brief(ending.output, _LINE)}"


def _outcomes(a: TraceRun, b: TraceRun) -> Outcomes:
    found = of_endings(a, b)
    one, other = (
        Ending(status=run.status, output=value_of(run.output_json), error=str(run.error) if run.error else None)
        for run in (a, b)
    )
    return Outcomes(a=one, b=other, equal=not found, differences=found)


def _own_tools(a: Log, b: Log, rows: Iterable[Row]) -> Iterable[tuple[EntryKind, str]]:
    """The calls of tools that the agents themselves made; a changed call is the same tool."""
    for row in rows:
        if (row.b in b.own_tools) if row.b is not None else (row.a in a.own_tools):
            kind = EntryKind.SAME if row.kind is EntryKind.CHANGED else row.kind
            yield kind, name_of(event_of(a, b, row))


def _tools(a: TraceRun, b: TraceRun, both: Iterable[tuple[EntryKind, str]]) -> Tools:
    names_a, names_b = [call.name for call in a.tool_calls], [call.name for call in b.tool_calls]
    count_a, count_b = Counter(names_a), Counter(names_b)
    return Tools(
        a=tuple(names_a),
        b=tuple(names_b),
        counts=tuple(ToolCount(name=n, a=count_a[n], b=count_b[n]) for n in dict.fromkeys([*names_a, *names_b])),
        unified=tuple(Stretch(kind=kind, name=name, count=len([*calls])) for (kind, name), calls in groupby(both)),
    )


def _usage(a: TraceRun, b: TraceRun) -> UsageComparison:
    one, other = _totals(a), _totals(b)
    return UsageComparison(
        a=one,
        b=other,
        difference=Totals(
            llm_calls=other.llm_calls - one.llm_calls,
            tool_calls=other.tool_calls - one.tool_calls,
            input_tokens=_more(one.input_tokens, other.input_tokens),
            output_tokens=_more(one.output_tokens, other.output_tokens),
            tokens=_more(one.tokens, other.tokens),
            cost_usd=_more(one.cost_usd, other.cost_usd),
            duration_s=_more(one.duration_s, other.duration_s),
        ),
    )


def _totals(run: TraceRun) -> Totals:
    calls = run.llm_calls
    used = [call.usage for call in calls if call.usage is not None]
    asked, answered = _sum(u.input_tokens for u in used), _sum(u.output_tokens for u in used)
    return Totals(
        llm_calls=len(calls),
        tool_calls=len(run.tool_calls),
        input_tokens=asked,
        output_tokens=answered,
        tokens=_sum([asked, answered]),
        cost_usd=_sum(u.cost_usd for u in used),
        duration_s=run.duration_s,
    )


def _sum(numbers: Iterable[N | None]) -> N | None:
    """The sum of what is known; None when nothing is."""
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known else None


def _more(a: N | None, b: N | None) -> N | None:
    return None if a is None or b is None else b - a
