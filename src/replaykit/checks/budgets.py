"""Assertions about what a run took: money, tokens, time."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from replaykit.checks.reading import last_seq
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

    plain: ClassVar[str] = "max_usd"
    notes: ClassVar[dict[str, str]] = {
        "max_usd": "the most, in US dollars; a plain number is this",
        "unknown_usd": "what a call costs whose cost the log does not have",
    }
    examples: ClassVar[tuple[str, ...]] = ("budget.cost: 0.05", "budget.cost: {max_usd: 0.05, unknown_usd: 0}")
    max_usd: Annotated[float, Meta(ge=0)]
    unknown_usd: Annotated[float, Meta(ge=0)] | None = None

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.llm_calls
        costs = [self._cost(call) for call in calls]
        unknown = [call for call, cost in zip(calls, costs, strict=True) if cost is None]
        total = sum(cost for cost in costs if cost is not None)
        told = unknown[0].seq if unknown else _over(calls, costs, self.max_usd)
        missing = f", and {len(unknown)} of {len(calls)} calls do not say" if unknown else ""
        return Seen(
            holds=not unknown and total <= self.max_usd + 1e-12,
            text=f"Run cost ${total:.4g}{missing}",
            expected=f"at most ${self.max_usd:g}",
            actual=f"${total:.4g}{missing}",
            seq=told if told is not None else last_seq(run),
        )

    def _cost(self, call: LlmCall) -> float | None:
        cost = call.usage.cost_usd if call.usage else None
        return self.unknown_usd if cost is None else cost


@ASSERTIONS.register("budget.tokens")
class BudgetTokens(Rule, frozen=True, kw_only=True):
    """The model calls took at most so many tokens, in and out together or each.

    A model call whose tokens the log does not have makes it impossible to say so, and the assertion does not hold.
    """

    plain: ClassVar[str] = "max"
    notes: ClassVar[dict[str, str]] = {
        "max": "the most, in and out together; a plain number is this",
        "input": "the most that went in",
        "output": "the most that came out",
    }
    examples: ClassVar[tuple[str, ...]] = ("budget.tokens: 2000", "budget.tokens: {input: 1500, output: 500}")
    max: Count | None = None
    input: Count | None = None
    output: Count | None = None

    def __post_init__(self) -> None:
        if self.max is None and self.input is None and self.output is None:
            raise ValueError("expected `max`, `input` or `output`")

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.llm_calls
        ins = [call.usage.input_tokens if call.usage else None for call in calls]
        outs = [call.usage.output_tokens if call.usage else None for call in calls]
        unknown = [call for call, *known in zip(calls, ins, outs, strict=True) if None in known]
        went_in, came_out = (sum(filter(None, numbers)) for numbers in (ins, outs))
        limits = [(self.max, went_in + came_out), (self.input, went_in), (self.output, came_out)]
        missing = f", and {len(unknown)} of {len(calls)} calls do not say" if unknown else ""
        told = unknown[0] if unknown else calls[-1] if calls else None
        return Seen(
            holds=not unknown and all(limit is None or number <= limit for limit, number in limits),
            text=f"Run took {went_in + came_out} tokens{missing}",
            expected=f"at most {self._in_words()}",
            actual=f"{went_in} in and {came_out} out{missing}",
            seq=told.seq if told else last_seq(run),
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

    plain: ClassVar[str] = "max_s"
    notes: ClassVar[dict[str, str]] = {
        "max_s": "the most, in seconds; a plain number is this",
        "own_time": "add what the agent took beside its calls",
    }
    examples: ClassVar[tuple[str, ...]] = ("budget.latency: 10", "budget.latency: {max_s: 12.5, own_time: true}")
    max_s: Seconds
    own_time: bool = False

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = own_calls(run.events)
        took = time_of(run.events) + (own_time(run) if self.own_time else 0.0)
        unknown = bool(calls) and not any(call.duration_s for call in calls)
        longest = max(calls, key=lambda call: call.duration_s, default=None)
        actual = "no call says how long it took" if unknown else f"{took:.3f} s"
        return Seen(
            holds=not unknown and took <= self.max_s + 1e-9,
            text=f"Calls took {took:.3f} s" if not unknown else "No call says how long it took",
            expected=f"at most {self.max_s:g} s",
            actual=actual + (f", the longest call {longest.name!r}" if longest and not unknown else ""),
            seq=longest.seq if longest else last_seq(run),
        )


def _over(calls: list[LlmCall], costs: list[float | None], most: float) -> int | None:
    """The call at which the budget was used up."""
    total = 0.0
    for call, cost in zip(calls, costs, strict=True):
        total += cost or 0.0
        if total > most:
            return call.seq
    return calls[-1].seq if calls else None
