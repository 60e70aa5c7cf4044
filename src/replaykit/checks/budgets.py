"""Assertions about what a run used: money, tokens, time, steps and model calls.

Time is taken from the log, and is the same in a replay: a replay serves calls at once, but logs their recorded
durations. Concurrent calls are added up, because a replay cannot tell them from sequential ones, and a budget that
counts too much is the safer one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from replaykit.checks.reading import decisive_call, first_seq, glob, last_seq, seq_of, step_count
from replaykit.checks.rule import Count, Rule, Seconds, Seen, check_range, in_range, range_text, register
from replaykit.model.events import AnyEvent, Call, LlmCall
from replaykit.model.run import TraceRun


@register("budget.cost")
class BudgetCost(Rule, frozen=True):
    """The model calls cost at most this many US dollars, according to the log.

    Does not hold if the log lacks the cost of a model call, unless `unknown_usd` gives the cost to assume.
    """

    plain = "max_usd"
    notes = {
        "max_usd": "the maximum, in US dollars; a plain number sets this",
        "unknown_usd": "the cost of a call whose cost is not in the log",
    }
    examples = ("budget.cost: 0.05", "budget.cost: {max_usd: 0.05, unknown_usd: 0}")
    max_usd: Annotated[float, Meta(ge=0)]
    unknown_usd: Annotated[float, Meta(ge=0)] | None = None

    def seen_in(self, run: TraceRun) -> Seen:
        unknown: list[LlmCall] = []
        beyond: list[LlmCall] = []
        total = 0.0
        for call in run.llm_calls:
            cost = call.usage.cost_usd if call.usage else None
            if cost is None:
                cost = self.unknown_usd
            if cost is None:
                unknown.append(call)
                continue
            total += cost
            if total > self.max_usd:
                beyond.append(call)
        missing = _unknown_text(unknown, run)
        return Seen(
            holds=not unknown and total <= self.max_usd + 1e-12,
            text=f"Run cost ${total:.4g}{missing}",
            expected=f"at most ${self.max_usd:g}",
            actual=f"${total:.4g}{missing}",
            seq=first_seq(unknown or beyond or run.llm_calls[-1:], run),
        )


@register("budget.tokens")
class BudgetTokens(Rule, frozen=True):
    """The model calls took at most this many tokens, in and out together or each.

    Does not hold if the log lacks the tokens of a model call.
    """

    plain = "max"
    notes = {
        "max": "the maximum of input and output together; a plain number sets this",
        "input": "the maximum of input tokens",
        "output": "the maximum of output tokens",
    }
    examples = ("budget.tokens: 2000", "budget.tokens: {input: 1500, output: 500}")
    max: Count | None = None
    input: Count | None = None
    output: Count | None = None

    def __post_init__(self) -> None:
        if self.max is self.input is self.output is None:
            raise ValueError("expected `max`, `input` or `output`")

    def seen_in(self, run: TraceRun) -> Seen:
        unknown = []
        went_in = came_out = 0
        for call in run.llm_calls:
            usage = call.usage
            if usage is None or usage.input_tokens is None or usage.output_tokens is None:
                unknown.append(call)
            if usage is not None:
                went_in += usage.input_tokens or 0
                came_out += usage.output_tokens or 0
        total = went_in + came_out
        missing = _unknown_text(unknown, run)
        holds = not unknown
        limits = []
        spent = ((self.max, "tokens", total), (self.input, "in", went_in), (self.output, "out", came_out))
        for limit, word, number in spent:
            if limit is not None:
                limits.append(f"{limit} {word}")
                holds = holds and number <= limit
        return Seen(
            holds=holds,
            text=f"Run took {total} tokens{missing}",
            expected=f"at most {', '.join(limits)}",
            actual=f"{went_in} in and {came_out} out{missing}",
            seq=first_seq(unknown or run.llm_calls[-1:], run),
        )


@register("budget.latency")
class BudgetLatency(Rule, frozen=True):
    """The calls took at most this many seconds, according to the log.

    This is the virtual time of the log: the sum of the recorded durations of all calls. A replay that serves recorded
    calls has the same latency as the recorded run, on every machine; a live call counts with its actual duration.
    Nested calls count with the outer one, and parallel calls one after the other. The agent's own time between calls
    depends on the machine; `own_time` adds it. Does not hold if no call in the log has a duration.
    """

    plain = "max_s"
    notes = {
        "max_s": "the maximum, in seconds; a plain number sets this",
        "own_time": "also count the time that the agent spent between its calls",
    }
    examples = ("budget.latency: 10", "budget.latency: {max_s: 12.5, own_time: true}")
    max_s: Seconds
    own_time: bool = False

    def seen_in(self, run: TraceRun) -> Seen:
        calls = own_calls(run.events)
        took = time_of(run.events)
        if self.own_time:
            took += own_time(run)
        expected = f"at most {self.max_s:g} s"
        longest = max(calls, key=lambda call: call.duration_s, default=None)
        seq = seq_of(longest, run)
        if calls and not any(call.duration_s for call in calls):
            text = "No call says how long it took"
            return Seen(False, text, expected, "no call says how long it took", seq)
        actual = f"{took:.3f} s"
        if longest is not None:
            actual += f", the longest call {longest.name!r}"
        return Seen(took <= self.max_s + 1e-9, f"Calls took {took:.3f} s", expected, actual, seq)


def _unknown_text(unknown: list[LlmCall], run: TraceRun) -> str:
    if not unknown:
        return ""
    return f", and {len(unknown)} of {len(run.llm_calls)} calls do not say"


class _Counted(Rule, frozen=True, kw_only=True):
    notes = {
        "min": "the minimum",
        "max": "the maximum",
        "model": "the model's name; `*` matches anything; default: all models",
    }
    min: Count | None = None
    max: Count | None = None

    def __post_init__(self) -> None:
        check_range(self.min, self.max)


@register("steps.count")
class StepsCount(_Counted, frozen=True, kw_only=True):
    """The number of steps is in this range: the steps that the run marks, else its model calls, else its tool calls."""

    examples = ("steps.count: {max: 3}",)

    def seen_in(self, run: TraceRun) -> Seen:
        steps = step_count(run)
        return Seen(
            holds=in_range(steps, self.min, self.max),
            text=f"Run took {steps} steps",
            expected=f"{range_text(self.min, self.max)} steps",
            actual=f"{steps} steps",
            seq=last_seq(run),
        )


@register("llm.calls")
class LlmCalls(_Counted, frozen=True, kw_only=True):
    """The number of model calls is in this range; calls inside a tool count as well."""

    examples = ("llm.calls: {max: 2}", "llm.calls: {model: gpt-*, min: 1}")
    model: str | None = None

    def seen_in(self, run: TraceRun) -> Seen:
        calls, of = run.llm_calls, ""
        if self.model is not None:
            calls = [call for call in calls if glob(self.model, call.name)]
            of = f" of {self.model!r}"
        return Seen(
            holds=in_range(len(calls), self.min, self.max),
            text=f"{len(calls) or 'No'} model calls{of}",
            expected=f"{range_text(self.min, self.max)} model calls{of}",
            actual=f"{len(calls)} calls",
            seq=first_seq(decisive_call(calls, self.max), run),
        )


REPLAYED = "replayed"


def own_calls(events: Iterable[AnyEvent]) -> list[Call]:
    """Return the calls that are not inside another one, whose duration would include theirs."""
    calls = [event for event in events if isinstance(event, Call)]
    known = {call.seq for call in calls}
    return [call for call in calls if call.parent not in known]


def time_of(events: Iterable[AnyEvent]) -> float:
    """Return how many seconds the calls among these events took, according to the log."""
    return sum(call.duration_s for call in own_calls(events))


def own_time(run: TraceRun) -> float:
    """Return how many seconds the agent spent outside its calls, on the machine it ran on.

    A replay never waits for a recorded call, so all of its time is the agent's own; in other runs, the rest is.
    """
    whole = run.duration_s or 0.0
    return max(0.0, whole if run.origin.kind == REPLAYED else whole - time_of(run.events))
