"""Assertions about how much a run did: its steps and its model calls."""

from __future__ import annotations

from replaykit.checks.call_selection import glob
from replaykit.checks.ranges import check_range, in_range, range_text
from replaykit.checks.reading import last_seq, step_count
from replaykit.checks.rule import ASSERTIONS, Context, Count, Rule, Seen
from replaykit.model.run import TraceRun


class _Counted(Rule, frozen=True, kw_only=True):
    notes = {
        "min": "the least",
        "max": "the most",
        "model": "the model's name; `*` in it stands for anything; all models without it",
    }
    min: Count | None = None
    max: Count | None = None

    def __post_init__(self) -> None:
        check_range(self.min, self.max)


@ASSERTIONS.register("steps.count")
class StepsCount(_Counted, frozen=True, kw_only=True):
    """The run took this many steps: those it marked, else its model calls, else its tool calls."""

    examples = ("steps.count: {max: 3}",)

    def check(self, run: TraceRun, context: Context) -> Seen:
        steps = step_count(run)
        return Seen(
            holds=in_range(steps, self.min, self.max),
            text=f"Run took {steps} steps",
            expected=f"{range_text(self.min, self.max)} steps",
            actual=f"{steps} steps",
            seq=last_seq(run),
        )


@ASSERTIONS.register("llm.calls")
class LlmCalls(_Counted, frozen=True, kw_only=True):
    """The agent called models this many times; those inside of a tool count as well."""

    examples = ("llm.calls: {max: 2}", "llm.calls: {model: gpt-*, min: 1}")
    model: str | None = None

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = [call for call in run.llm_calls if self.model is None or glob(self.model, call.name)]
        beyond = calls[self.max : self.max + 1] if self.max is not None else []
        telling = beyond or calls[-1:]
        of = f" of {self.model!r}" if self.model is not None else ""
        return Seen(
            holds=in_range(len(calls), self.min, self.max),
            text=f"{len(calls) or 'No'} model calls{of}",
            expected=f"{range_text(self.min, self.max)} model calls{of}",
            actual=f"{len(calls)} calls",
            seq=telling[0].seq if telling else last_seq(run),
        )
