"""Assertions about which tools the agent called, and how often."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated

from msgspec import Meta

from replaykit.checks.compare import ArgumentKeys, within
from replaykit.checks.reading import calls_like, decisive_call, first_seq, short, shown, tools_in_order
from replaykit.checks.rule import Context, Count, Rule, Seen, check_range, in_range, range_text, register
from replaykit.model.diff import call_text
from replaykit.model.events import Call, ToolCall
from replaykit.model.result import Side
from replaykit.model.run import TraceRun
from replaykit.model.values import JsonObject

_ALIKE = " with the same arguments"
TOOL_NOTE = "the tool's name; `*` matches anything"


class _ToolCount(Rule, frozen=True, kw_only=True):
    notes = {
        "count": "how many; a plain number sets this",
        "min": "the minimum",
        "max": "the maximum",
        "tool": f"{TOOL_NOTE}; all tools without it",
        "same_arguments": "only the largest group of calls with the same tool and arguments counts",
    }
    tool: str | None = None
    same_arguments: bool = False

    def counted(self, run: TraceRun) -> list[ToolCall]:
        """Return the calls that count: of one tool or all, and if asked, only the largest group of equal ones."""
        calls = calls_like(run, "*" if self.tool is None else self.tool)
        if self.same_arguments:
            return largest_group(calls, by_arguments=True)
        return calls

    def _what(self) -> str:
        what = "tool calls" if self.tool is None else f"calls of tool {self.tool!r}"
        return f"{what}{_ALIKE}" if self.same_arguments else what

    def _text(self, calls: list[ToolCall]) -> str:
        alike = _ALIKE if self.same_arguments and len(calls) > 1 else ""
        names = {call.name for call in calls}
        if self.tool is None and len(names) != 1:
            return f"{len(calls) or 'No'} tool calls{alike}"
        return f"Tool {self.tool or names.pop()!r} {called_times(len(calls))}{alike}"


@register("max_tool_calls")
class MaxToolCalls(_ToolCount, frozen=True, kw_only=True):
    """Desired: at most this many calls. Observed: a loop in which one tool was called at least this often.

    In `desired`: **at most** this many calls, of `tool` or of all tools together. In `observed`: **at least** this many
    calls of one tool; without `tool`, of the one called most. An observed 0 still needs one call.
    """

    family = "tool"
    plain = "count"
    examples = (
        "max_tool_calls: 3",
        "max_tool_calls: {tool: lookup_billing, count: 2}",
        "max_tool_calls: {tool: lookup_billing, count: 1, same_arguments: true}",
    )
    count: Count

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = self.counted(run)
        if context.side is Side.DESIRED:
            return self._seen(calls, len(calls) <= self.count, f"at most {self.count} {self._what()}")
        # A loop signature is about one tool: a busy agent with many tools is not looping.
        calls = calls if self.same_arguments else largest_group(calls)
        return self._seen(calls, len(calls) >= max(self.count, 1), f"a tool called at least {self.count} times")

    def _seen(self, calls: list[ToolCall], holds: bool, expected: str) -> Seen:
        decisive = decisive_call(calls, self.count)
        seq = decisive[0].seq if decisive else None
        return Seen(holds, self._text(calls), expected, f"{len(calls)} calls", seq)


@register("tool.calls")
class ToolCalls(_ToolCount, frozen=True, kw_only=True):
    """The number of calls is in this range, on both sides alike: of all tools together, or of the named one."""

    examples = (
        "tool.calls: {min: 1, max: 3}",
        "tool.calls: {tool: send_*, min: 1, max: 1}",
    )
    min: Count | None = None
    max: Count | None = None

    def __post_init__(self) -> None:
        check_range(self.min, self.max)

    def seen_in(self, run: TraceRun) -> Seen:
        calls = self.counted(run)
        return Seen(
            holds=in_range(len(calls), self.min, self.max),
            text=self._text(calls),
            expected=f"{range_text(self.min, self.max)} {self._what()}",
            actual=f"{len(calls)} calls",
            seq=first_seq(decisive_call(calls, self.max), run),
        )


class _NamedCall(Rule, frozen=True, kw_only=True):
    plain = "tool"
    notes = {
        "tool": f"{TOOL_NOTE}; a plain text sets this",
        "arguments": "what the arguments of a call must contain",
        "min": "the minimum number of such calls",
        "max": "their maximum number",
    }
    tool: str
    arguments: JsonObject | None = None

    def found(self, run: TraceRun) -> list[ToolCall]:
        """Return the tool's calls whose arguments contain the named ones."""
        calls = calls_like(run, self.tool)
        if self.arguments is None:
            return calls
        return [call for call in calls if within(self.arguments, call.arguments)]

    def _what(self) -> str:
        if self.arguments:
            return f"{self.tool}({shown(self.arguments)})"
        return self.tool

    def _with(self) -> str:
        if self.arguments:
            return f" with {shown(self.arguments)}"
        return ""


@register("tool.called")
class ToolCalled(_NamedCall, frozen=True, kw_only=True):
    """The tool was called, with at least these arguments.

    An object in the call's arguments may have further keys, at any depth; lists must have the same length. `min` and
    `max` limit the number of such calls.
    """

    examples = (
        "tool.called: send_email",
        "tool.called: {tool: send_email, arguments: {to: {mail: ana@example.com}}, max: 1}",
        "tool.called: send_*",
    )
    min: Annotated[int, Meta(ge=1)] = 1
    max: Annotated[int, Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        check_range(self.min, self.max)

    def seen_in(self, run: TraceRun) -> Seen:
        calls = self.found(run)
        called, times = _called(calls), ""
        if (self.min, self.max) != (1, None):
            called, times = called_times(len(calls)), f", {range_text(self.min, self.max)} times"
        return Seen(
            holds=in_range(len(calls), self.min, self.max),
            text=f"Tool {self.tool!r} {called}{self._with()}",
            expected=f"a call {self._what()}{times}",
            actual=_shown_calls(calls, run),
            seq=first_seq(decisive_call(calls, self.max or 0), run),
        )


@register("tool.not_called")
class ToolNotCalled(_NamedCall, frozen=True, kw_only=True):
    """The tool was not called, or not with these arguments."""

    examples = (
        "tool.not_called: delete_*",
        "tool.not_called: {tool: refund, arguments: {order: 7}}",
    )

    def seen_in(self, run: TraceRun) -> Seen:
        calls = self.found(run)
        return Seen(
            holds=not calls,
            text=f"Tool {self.tool!r} {_called(calls)}{self._with()}",
            expected=f"no call {self._what()}",
            actual=_shown_calls(calls, run),
            seq=first_seq(calls, run),
        )


def largest_group(calls: list[ToolCall], *, by_arguments: bool = False) -> list[ToolCall]:
    """Return the calls of the most called tool, or the largest group with equal tool and arguments."""
    arguments = ArgumentKeys()
    groups: dict[Hashable, list[ToolCall]] = {}
    for call in calls:
        key = (call.name, arguments.key_of(call.arguments_json) if by_arguments else None)
        groups.setdefault(key, []).append(call)
    return max(groups.values(), key=len, default=[])


def called_times(count: int) -> str:
    """Return a count in words: `called 5 times`, `called once`, `was not called`."""
    return {0: "was not called", 1: "called once"}.get(count, f"called {count} times")


def shown_call(call: Call) -> str:
    """Return a call in one short line, for a message."""
    return short(call_text(call.name, call.arguments))


def _called(calls: list[ToolCall]) -> str:
    if calls:
        return "called"
    return "not called"


def _shown_calls(calls: list[ToolCall], run: TraceRun) -> str:
    if not calls:
        return tools_in_order(run)
    if len(calls) > 1:
        return f"{len(calls)} calls, the last {shown_call(calls[-1])}"
    return shown_call(calls[0])
