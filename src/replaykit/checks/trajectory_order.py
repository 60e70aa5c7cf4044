"""Assertions about the order of tool calls: what comes before what, what never comes after, what goes in circles."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from replaykit.checks.call_selection import any_glob, glob
from replaykit.checks.compare import ArgumentKeys
from replaykit.checks.reading import last_seq, seq_of
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.checks.tools import TOOL_NOTE, in_order, shown_call
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun


@ASSERTIONS.register("trajectory.before")
class TrajectoryBefore(Rule, frozen=True, kw_only=True):
    """Before the first call of `then` there was a call of `first`.

    A run that never calls `then` keeps the rule; where it has to, add `tool.called`.
    """

    notes = {"first": f"what has to come first: {TOOL_NOTE}", "then": "what may come then"}
    examples = ("trajectory.before: {first: lookup_billing, then: send_email}",)
    first: str
    then: str

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.tool_calls
        then = next((call for call in calls if glob(self.then, call.name)), None)
        early = then is not None and any(glob(self.first, c.name) for c in calls[: calls.index(then)])
        holds = then is None or early
        if then is None:
            text = f"Tool {self.then!r} was not called"
        else:
            text = f"Tool {self.then!r} called {'after' if holds else 'without an earlier'} {self.first!r}"
        return Seen(
            holds=holds,
            text=text,
            expected=f"tool {self.first!r} before tool {self.then!r}",
            actual=f"tools {in_order([call.name for call in calls])}",
            seq=seq_of(then, run),
        )


@ASSERTIONS.register("trajectory.never_after")
class TrajectoryNeverAfter(Rule, frozen=True, kw_only=True):
    """Once `after` was called, `tool` was not called any more. A run that calls neither keeps the rule."""

    notes = {"tool": f"what may not come: {TOOL_NOTE}", "after": "what ends its time"}
    examples = ("trajectory.never_after: {tool: lookup_*, after: send_email}",)
    tool: str
    after: str

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.tool_calls
        start = next((index for index, call in enumerate(calls) if glob(self.after, call.name)), len(calls))
        late = next((call for call in calls[start + 1 :] if glob(self.tool, call.name)), None)
        return Seen(
            holds=late is None,
            text=f"Tool {self.tool!r} {'called' if late else 'not called'} after {self.after!r}",
            expected=f"no call of tool {self.tool!r} after tool {self.after!r}",
            actual=f"tools {in_order([call.name for call in calls])}",
            seq=seq_of(late, run),
        )


@ASSERTIONS.register("trajectory.no_loop")
class TrajectoryNoLoop(Rule, frozen=True, kw_only=True):
    """No stretch of tool calls is repeated so many times in a row.

    A stretch is one call (a, a, a) or up to `period` calls that come back (a, b, a, b, a, b), alike in tool and
    arguments; with `ignore_arguments`, in the tool alone. Takes time in proportion to the run times `period`.
    """

    plain = "repeats"
    notes = {
        "repeats": "how many times in a row make a loop; a plain number is this",
        "period": "the longest stretch that is looked for, up to 20 calls",
        "ignore_arguments": "calls of one tool are alike, whatever their arguments",
    }
    examples = (
        "trajectory.no_loop: 3",
        "trajectory.no_loop: {repeats: 4, ignore_arguments: true}",
    )
    repeats: Annotated[int, Meta(ge=2)]
    period: Annotated[int, Meta(ge=1, le=20)] = 4
    ignore_arguments: bool = False

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = run.tool_calls
        found = self._loop(calls)
        if found:
            stretch = [call.name for call in calls[found[0] : found[0] + found[1]]]
        else:
            stretch = []
        return Seen(
            holds=found is None,
            text=f"Loop: {in_order(stretch)}, {self.repeats} times in a row" if found else "No loop",
            expected=f"no {self.repeats} times the same calls in a row",
            actual=f"tools {in_order([call.name for call in calls])}",
            seq=calls[found[0] + found[1] * self.repeats - 1].seq if found else last_seq(run),
        )

    def _loop(self, calls: list[ToolCall]) -> tuple[int, int] | None:
        """Return the start and the length of the first loop."""
        arguments = ArgumentKeys()
        keys = [(call.name, self.ignore_arguments or arguments.key_of(call.arguments_json)) for call in calls]
        for period in range(1, self.period + 1):
            alike = 0  # how many calls in a row are those of one period before
            for index in range(period, len(keys)):
                alike = alike + 1 if keys[index] == keys[index - period] else 0
                if alike == period * (self.repeats - 1):
                    return index - alike - period + 1, period
        return None


@ASSERTIONS.register("trajectory.allowlist")
class TrajectoryAllowlist(Rule, frozen=True, kw_only=True):
    """Every tool that was called is allowed: it is in `allow`, if there is one, and not in `deny`."""

    plain = "allow"
    notes = {
        "allow": "the tools that may be called, with `*` for anything; a plain list is this",
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

    def check(self, run: TraceRun, context: Context) -> Seen:
        bad = next((call for call in run.tool_calls if not self._allowed(call.name)), None)
        names = in_order(sorted({call.name for call in run.tool_calls}))
        return Seen(
            holds=bad is None,
            text=f"Tool {bad.name!r} is not allowed" if bad else "Only allowed tools were called",
            expected=self._expected(),
            actual=shown_call(bad) if bad else f"tools {names}",
            seq=seq_of(bad, run),
        )

    def _allowed(self, name: str) -> bool:
        return (self.allow is None or any_glob(self.allow, name)) and not any_glob(self.deny, name)

    def _expected(self) -> str:
        if self.allow is None:
            allowed = "any tool"
        else:
            allowed = f"only {', '.join(self.allow) or 'no tools'}"
        return allowed + (f" but {', '.join(self.deny)}" if self.deny else "")
