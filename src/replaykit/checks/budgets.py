"""Assertions about what a run took: money, tokens, time."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from replaykit.checks.reading import last_seq, seq_of
from replaykit.checks.rule import ASSERTIONS, Context, Count, Rule, Seconds, Seen
from replaykit.checks.timing import own_calls, own_time, time_of
from replaykit.model.events import LlmCall
from replaykit.model.run import TraceRun


@ASSERTIONS.register("budget.cost")
class BudgetCost(Rule, frozen=True, kw_only=True):
    """The model calls cost at most so many US dollars, as the log says.

    A model call whose cost the log does not have makes it impossible to say so, and the assertion does not hold; with
    `unknown_usd` such a call counts as that much.
    """

    plain = "max_usd"
    notes = {
        "max_usd": "the most, in US dollars; a plain number is this",
        "unknown_usd": "what a call costs whose cost the log does not have",
    }
    examples = ("budget.cost: 0.05", "budget.cost: {max_usd: 0.05, unknown_usd: 0}")
    max_usd: Annotated[float, Meta(ge=0)]
    unknown_usd: Annotated[float, Meta(ge=0)] | None = None

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.llm_calls
        costs = [self._cost(call) for call in calls]
        unknown = [call for call, cost in zip(calls, costs, strict=True) if cost is None]
        total = sum(cost for cost in costs if cost is not None)
        decisive = unknown[0].seq if unknown else _over(calls, costs, self.max_usd)
        if unknown:
            missing = f", and {len(unknown)} of {len(calls)} calls do not say"
        else:
            missing = ""
        return Seen(
            holds=not unknown and total <= self.max_usd + 1e-12,
            text=f"Run cost ${total:.4g}{missing}",
            expected=f"at most ${self.max_usd:g}",
            actual=f"${total:.4g}{missing}",
            seq=decisive if decisive is not None else last_seq(run),
        )

    def _cost(self, call: LlmCall) -> float | None:
        cost = call.usage.cost_usd if call.usage else None
        if cost is None:
            return self.unknown_usd
        return cost


@ASSERTIONS.register("budget.tokens")
class BudgetTokens(Rule, frozen=True, kw_only=True):
    """The model calls took at most so many tokens, in and out together or each.

    A model call whose tokens the log does not have makes it impossible to say so, and the assertion does not hold.
    """

    plain = "max"
    notes = {
        "max": "the most, in and out together; a plain number is this",
        "input": "the most that went in",
        "output": "the most that came out",
    }
    examples = ("budget.tokens: 2000", "budget.tokens: {input: 1500, output: 500}")
    max: Count | None = None
    input: Count | None = None
    output: Count | None = None

    def __post_init__(self) -> None:
        if self.max is None and self.input is None and self.output is None:
            raise ValueError("expected `max`, `input` or `output`")

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.llm_calls
        unknown = []
        went_in = came_out = 0
        for call in calls:
            usage = call.usage
            if usage is None or usage.input_tokens is None or usage.output_tokens is None:
                unknown.append(call)
            if usage is not None:
                went_in += usage.input_tokens or 0
                came_out += usage.output_tokens or 0
        limits = [(self.max, went_in + came_out), (self.input, went_in), (self.output, came_out)]
        missing = ""
        decisive = calls[-1] if calls else None
        if unknown:
            missing = f", and {len(unknown)} of {len(calls)} calls do not say"
            decisive = unknown[0]
        return Seen(
            holds=not unknown and all(limit is None or number <= limit for limit, number in limits),
            text=f"Run took {went_in + came_out} tokens{missing}",
            expected=f"at most {self._in_words()}",
            actual=f"{went_in} in and {came_out} out{missing}",
            seq=seq_of(decisive, run),
        )

    def _in_words(self) -> str:
        named = [(self.max, "tokens"), (self.input, "in"), (self.output, "out")]
        return ", ".join(f"{limit} {word}" for limit, word in named if limit is not None)


@ASSERTIONS.register("budget.latency")
class BudgetLatency(Rule, frozen=True, kw_only=True):
    """The calls took at most so many seconds, by the log.

    This is the virtual time of the log: what each call took when it was recorded, added up. A replay that serves
    recorded calls has the same latency as the run it was recorded from, on every machine; a call done live counts as
    long as it took. Calls inside another count with that one, calls side by side one after the other. What the agent
    took itself, between calls, is the machine's; `own_time` adds it, as this machine took it. In a log with calls and
    not one duration nothing can be said, and the assertion does not hold.
    """

    plain = "max_s"
    notes = {
        "max_s": "the most, in seconds; a plain number is this",
        "own_time": "add what the agent took beside its calls",
    }
    examples = ("budget.latency: 10", "budget.latency: {max_s: 12.5, own_time: true}")
    max_s: Seconds
    own_time: bool = False

    def check(self, run: TraceRun, context: Context) -> Seen:
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


def _over(calls: list[LlmCall], costs: list[float | None], most: float) -> int | None:
    """The call at which the budget was used up."""
    total = 0.0
    for call, cost in zip(calls, costs, strict=True):
        total += cost or 0.0
        if total > most:
            return call.seq
    if calls:
        return calls[-1].seq
    return None
