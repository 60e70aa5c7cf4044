"""Assertions about the order of tool calls: before and after, loops, and fruitless repetitions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated

from msgspec import Meta

from replaykit.checks.compare import ArgumentKeys
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import any_glob, first, first_seq, glob, in_order, last_seq, seq_of, tools_in_order
from replaykit.checks.rule import Rule, Seen, register
from replaykit.checks.tools import TOOL_NOTE, shown_call
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun


@register("trajectory.before")
class TrajectoryBefore(Rule, frozen=True):
    """Before the first call of `then` there was a call of `first`.

    A run that never calls `then` passes; if it must call it, add `tool.called`.
    """

    notes = {"first": f"what must come first: {TOOL_NOTE}", "then": "what may follow"}
    examples = ("trajectory.before: {first: lookup_billing, then: send_email}",)
    first: str
    then: str

    def seen_in(self, run: TraceRun) -> Seen:
        calls = run.tool_calls
        holds, text = True, f"Tool {self.then!r} was not called"
        then = first(calls, lambda call: glob(self.then, call.name))
        if then is not None:
            holds = first(calls[: calls.index(then)], lambda call: glob(self.first, call.name)) is not None
            text = f"Tool {self.then!r} called {'after' if holds else 'without an earlier'} {self.first!r}"
        return Seen(
            holds=holds,
            text=text,
            expected=f"tool {self.first!r} before tool {self.then!r}",
            actual=tools_in_order(run),
            seq=seq_of(then, run),
        )


@register("trajectory.never_after")
class TrajectoryNeverAfter(Rule, frozen=True):
    """`tool` was not called again after the first call of `after`. A run that calls neither passes."""

    notes = {"tool": f"what may not follow: {TOOL_NOTE}", "after": "the tool that it may not follow"}
    examples = ("trajectory.never_after: {tool: lookup_*, after: send_email}",)
    tool: str
    after: str

    def seen_in(self, run: TraceRun) -> Seen:
        later = iter(run.tool_calls)
        first(later, lambda call: glob(self.after, call.name))  # advances the iterator past that call
        late = first(later, lambda call: glob(self.tool, call.name))
        return Seen(
            holds=late is None,
            text=f"Tool {self.tool!r} {'called' if late else 'not called'} after {self.after!r}",
            expected=f"no call of tool {self.tool!r} after tool {self.after!r}",
            actual=tools_in_order(run),
            seq=seq_of(late, run),
        )


@register("trajectory.no_loop")
class TrajectoryNoLoop(Rule, frozen=True):
    """No sequence of tool calls is repeated this many times in a row.

    A sequence is one call (a, a, a) or up to `period` calls (a, b, a, b, a, b) with the same tools and arguments; with
    `ignore_arguments`, only the same tools. Takes time in proportion to the run times `period`.
    """

    plain = "repeats"
    notes = {
        "repeats": "how many repetitions in a row are a loop; a plain number sets this",
        "period": "the longest sequence that is looked for, up to 20 calls",
        "ignore_arguments": "compare calls by tool only, not by arguments",
    }
    examples = (
        "trajectory.no_loop: 3",
        "trajectory.no_loop: {repeats: 4, ignore_arguments: true}",
    )
    repeats: Annotated[int, Meta(ge=2)]
    period: Annotated[int, Meta(ge=1, le=20)] = 4
    ignore_arguments: bool = False

    def seen_in(self, run: TraceRun) -> Seen:
        calls = run.tool_calls
        expected = f"no {self.repeats} times the same calls in a row"
        loop = self._loop(calls)
        if loop is None:
            return Seen(True, "No loop", expected, tools_in_order(run), last_seq(run))
        start, period = loop
        stretch = in_order(call.name for call in calls[start : start + period])
        text = f"Loop: {stretch}, {self.repeats} times in a row"
        return Seen(False, text, expected, tools_in_order(run), calls[start + period * self.repeats - 1].seq)

    def _loop(self, calls: list[ToolCall]) -> tuple[int, int] | None:
        """Return the start and the length of the first loop."""
        arguments = ArgumentKeys()
        keys = [(call.name, self.ignore_arguments or arguments.key_of(call.arguments_json)) for call in calls]
        for period in range(1, self.period + 1):
            alike = 0  # the number of consecutive calls that equal those one period before
            for index in range(period, len(keys)):
                alike = alike + 1 if keys[index] == keys[index - period] else 0
                if alike == period * (self.repeats - 1):
                    return index - alike - period + 1, period
        return None


@register("trajectory.allowlist")
class TrajectoryAllowlist(Rule, frozen=True):
    """Every tool that was called is allowed: it is in `allow`, if there is one, and not in `deny`."""

    plain = "allow"
    notes = {
        "allow": "the tools that may be called, with `*` for anything; a plain list sets this",
        "deny": "the tools that may not",
    }
    examples = (
        "trajectory.allowlist: [lookup_*, send_email]",
        'trajectory.allowlist: {allow: ["*"], deny: [delete_*]}',
    )
    allow: list[str] | None = None
    deny: list[str] = []

    def __post_init__(self) -> None:
        if self.allow is None and not self.deny:
            raise ValueError("expected `allow`, `deny` or both")

    def seen_in(self, run: TraceRun) -> Seen:
        expected = "any tool" if self.allow is None else f"only {', '.join(self.allow) or 'no tools'}"
        if self.deny:
            expected += f" but {', '.join(self.deny)}"
        bad = first(run.tool_calls, lambda call: not self._allows(call.name))
        if bad is not None:
            return Seen(False, f"Tool {bad.name!r} is not allowed", expected, shown_call(bad), bad.seq)
        names = in_order(sorted({call.name for call in run.tool_calls}))
        return Seen(True, "Only allowed tools were called", expected, f"tools {names}", last_seq(run))

    def _allows(self, name: str) -> bool:
        return (self.allow is None or any_glob(self.allow, name)) and not any_glob(self.deny, name)


@register("tool.stuck")
class ToolStuck(Rule, frozen=True):
    """The agent called the tool at least this many times in a row without any progress.

    Calls make no progress if all of them fail, or if all return the very same result. The arguments may differ.
    """

    notes = {"tool": "the tool's name", "times": "how often, at least 2"}
    examples = ("tool.stuck: {tool: lookup_billing, times: 4}",)
    tool: str
    times: Annotated[int, Meta(ge=2)]

    def seen_in(self, run: TraceRun) -> Seen:
        longest = max(filter(is_fruitless, rows_of(run, self.tool)), key=len, default=[])
        text = f"Tool {self.tool!r} was called, if at all, with some success"
        if longest:
            answers = "each failed" if call_failed(longest[0]) else "all gave the same answer"
            text = f"Tool {self.tool!r} was called {len(longest)} times in a row, and {answers}"
        return Seen(
            holds=len(longest) >= self.times,
            text=text,
            expected=f"at least {self.times} calls of tool {self.tool!r} in a row that lead nowhere",
            actual=f"{len(longest)} such calls",
            seq=first_seq(longest[-1:], run),
        )


def rows_of(run: TraceRun, tool: str) -> Iterator[list[ToolCall]]:
    """Yield the runs of consecutive calls of this tool."""
    for name, row in groupby(run.tool_calls, key=lambda call: call.name):
        if name == tool:
            yield list(row)


def is_fruitless(calls: list[ToolCall]) -> bool:
    """Return whether the calls achieved nothing: all failed, or all gave the same result."""
    if all(map(call_failed, calls)):
        return True
    results = [call.result_json for call in calls if call.error is None]
    return bool(results) and results.count(results[0]) == len(results)
