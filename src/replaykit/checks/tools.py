"""Assertions about the tool calls the agent made: which, how often, in what order."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from replaykit.checks.compare import within
from replaykit.checks.reading import last_seq, short, shown
from replaykit.checks.rule import ASSERTIONS, Rule, Seen
from replaykit.model.events import ToolCall
from replaykit.model.result import Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json


class _ToolCount(Rule, frozen=True, kw_only=True):
    plain: ClassVar[str] = "count"
    count: int
    tool: str | None = None
    same_arguments: bool = False

    def counted(self, run: TraceRun) -> list[ToolCall]:
        """The calls that count: the named tool's or all, and of those the largest group of equals if asked."""
        calls = [call for call in run.tool_calls if self.tool in (None, call.name)]
        return largest_group(calls, by_arguments=True) if self.same_arguments else calls

    def _what(self) -> str:
        tool = f"calls of tool {self.tool!r}" if self.tool is not None else "tool calls"
        return f"{tool} with the same arguments" if self.same_arguments else tool

    def _text(self, calls: list[ToolCall]) -> str:
        alike = " with the same arguments" if self.same_arguments and len(calls) > 1 else ""
        names = {call.name for call in calls}
        if self.tool is None and len(names) != 1:
            return f"{len(calls) or 'No'} tool calls{alike}"
        return f"Tool {self.tool or names.pop()!r} {called_times(len(calls))}{alike}"


@ASSERTIONS.register("max_tool_calls")
class MaxToolCalls(_ToolCount, frozen=True, kw_only=True):
    """Desired: at most that many calls. Observed: a loop, one tool was called at least that often."""

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"expected a count of 0 or more, got {self.count}")

    def check(self, run: TraceRun, side: Side) -> Seen:
        calls = self.counted(run)
        if side is Side.DESIRED:
            return self._seen(calls, len(calls) <= self.count, f"at most {self.count} {self._what()}")
        # A loop signature is about one tool: a busy agent with many tools is not a looping one.
        calls = calls if self.same_arguments else largest_group(calls)
        return self._seen(calls, len(calls) >= max(self.count, 1), f"a tool called at least {self.count} times")

    def _seen(self, calls: list[ToolCall], holds: bool, expected: str) -> Seen:
        telling = calls[self.count : self.count + 1] or calls[-1:]
        return Seen(
            holds=holds,
            text=self._text(calls),
            expected=expected,
            actual=f"{len(calls)} calls",
            seq=telling[0].seq if telling else None,
        )


@ASSERTIONS.register("min_tool_calls")
class MinToolCalls(_ToolCount, frozen=True, kw_only=True):
    """At least that many calls: of all tools together, or of the one that is named."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"expected a count of 1 or more, got {self.count}")

    def check(self, run: TraceRun, side: Side) -> Seen:
        calls = self.counted(run)
        return Seen(
            holds=len(calls) >= self.count,
            text=self._text(calls),
            expected=f"at least {self.count} {self._what()}",
            actual=f"{len(calls)} calls",
            seq=calls[-1].seq if calls else last_seq(run),
        )


class _NamedCall(Rule, frozen=True, kw_only=True):
    plain: ClassVar[str] = "tool"
    tool: str
    arguments: dict[str, Json] | None = None

    def found(self, run: TraceRun) -> ToolCall | None:
        """The first call of the tool whose arguments hold those that are named."""
        return next((call for call in run.tool_calls if self._fits(call)), None)

    def _fits(self, call: ToolCall) -> bool:
        return call.name == self.tool and (self.arguments is None or within(self.arguments, call.arguments))

    def _what(self) -> str:
        return f"{self.tool}({shown(self.arguments)})" if self.arguments else self.tool

    def _seen(self, run: TraceRun, holds: bool, expected: str) -> Seen:
        call = self.found(run)
        return Seen(
            holds=holds,
            text=f"Tool {self.tool!r} {'called' if call else 'not called'}{self._with()}",
            expected=expected,
            actual=f"{call.name}({shown(call.arguments)})" if call else _called(run),
            seq=call.seq if call else last_seq(run),
        )

    def _with(self) -> str:
        return f" with {shown(self.arguments)}" if self.arguments else ""


@ASSERTIONS.register("tool_called")
class ToolCalled(_NamedCall, frozen=True, kw_only=True):
    """The tool was called, with at least these arguments when some are named."""

    def check(self, run: TraceRun, side: Side) -> Seen:
        return self._seen(run, self.found(run) is not None, f"a call {self._what()}")


@ASSERTIONS.register("tool_not_called")
class ToolNotCalled(_NamedCall, frozen=True, kw_only=True):
    """The tool was not called, or not with these arguments."""

    def check(self, run: TraceRun, side: Side) -> Seen:
        return self._seen(run, self.found(run) is None, f"no call {self._what()}")


@ASSERTIONS.register("tool_sequence")
class ToolSequence(Rule, frozen=True, kw_only=True):
    """The agent called exactly these tools, in this order."""

    plain: ClassVar[str] = "tools"
    named: ClassVar[bool] = False
    tools: list[str]

    def check(self, run: TraceRun, side: Side) -> Seen:
        calls = run.tool_calls
        names = [call.name for call in calls]
        equal = (i for i, (name, tool) in enumerate(zip(names, self.tools, strict=False)) if name != tool)
        differs = next(equal, min(len(names), len(self.tools)))
        return Seen(
            holds=names == self.tools,
            text=f"Tools called: {_in_order(names)}",
            expected=f"tools {_in_order(self.tools)}",
            actual=f"tools {_in_order(names)}",
            seq=calls[differs].seq if differs < len(calls) else last_seq(run),
        )


def largest_group(calls: list[ToolCall], *, by_arguments: bool = False) -> list[ToolCall]:
    """The calls of the most called tool, or the largest set of calls alike in tool and arguments."""

    def key(call: ToolCall) -> tuple[str, bytes]:
        return call.name, bytes(call.arguments_json) if by_arguments else b""

    counts = Counter(map(key, calls))
    if not counts:
        return []
    ((most, _count),) = counts.most_common(1)
    return [call for call in calls if key(call) == most]


def called_times(count: int) -> str:
    """`called 5 times`, `called once`, `was not called`."""
    return {0: "was not called", 1: "called once"}.get(count, f"called {count} times")


def _called(run: TraceRun) -> str:
    return f"tools {_in_order([call.name for call in run.tool_calls])}"


def _in_order(names: list[str]) -> str:
    return short(" → ".join(names)) or "none"
