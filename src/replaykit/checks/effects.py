"""Assertions about what a run did to the world: charges, mails, deletions."""

from __future__ import annotations

from collections import Counter

from replaykit.checks.call_selection import any_glob, glob, toolless_path
from replaykit.checks.compare import key_of, within
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import last_seq, short, shown
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.model.diff import call_text
from replaykit.model.events import Call, Exchange, ToolCall
from replaykit.model.jsonpath import members
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

_SAFE_METHODS = ("GET ", "HEAD ", "OPTIONS ", "TRACE ")


def effects(run: TraceRun) -> list[Call]:
    """The calls that may have changed the world: the agent's tool calls, and requests that are no reading.

    The log says of a request by its method whether it reads; of a tool it does not say, so the assertion names it.
    """
    tools = {call.seq for call in run.events if isinstance(call, ToolCall)}
    requests = [call for call in run.calls if isinstance(call, Exchange) and call.parent not in tools and _writes(call)]
    return sorted([*run.tool_calls, *requests], key=lambda call: call.seq)


def _writes(call: Exchange) -> bool:
    return call.wire is not None and not call.name.startswith(_SAFE_METHODS)


@ASSERTIONS.register("effect.exactly_once")
class EffectExactlyOnce(Rule, frozen=True, kw_only=True):
    """The effect happened once, and only once: one call of the tool that did not fail.

    A call that failed, as `tool.error` has it, and was done again counts once, unless `failed` is true: a charge that
    timed out may have gone through. With `per`, it is once for each value at that path of the arguments, such as an
    order's number.
    """

    plain = "tool"
    notes = {
        "tool": "the tool, or `METHOD host/path` of a request; `*` stands for anything; a plain text is this",
        "arguments": "what has to be among the arguments, as for `tool.called`",
        "per": "a [JSON path](#json-paths) into the arguments: once for each value there",
        "failed": "calls that failed count as well",
    }
    examples = (
        "effect.exactly_once: send_email",
        "effect.exactly_once: {tool: charge_*, per: $.order, failed: true}",
    )
    tool: str
    arguments: dict[str, Json] | None = None
    per: str | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        if self.per is not None:
            toolless_path(self.per)

    def check(self, run: TraceRun, context: Context) -> Seen:
        counted_calls = [call for call in effects(run) if self._counts(call)]
        keys = [self._key(call) for call in counted_calls]
        times = Counter(keys)
        most = max(times.values(), default=0)
        repeated_call = next(
            (call for call, key in zip(counted_calls, keys, strict=True) if times[key] == most > 1), None
        )
        if self.arguments:
            what = f"{self.tool}({shown(self.arguments)})"
        else:
            what = self.tool
        each = f" for each {self.per}" if self.per else ""
        actual, seq = "0 times", last_seq(run)
        if counted_calls:
            actual = f"{len(counted_calls)} times, at last {_shown(counted_calls[-1])}"
            seq = (repeated_call or counted_calls[-1]).seq
        return Seen(
            holds=bool(counted_calls) and most == 1,
            text=f"{what} was done {_times(most)}",
            expected=f"{what} done exactly once{each}",
            actual=actual,
            seq=seq,
        )

    def _counts(self, call: Call) -> bool:
        return (
            glob(self.tool, call.name)
            and (self.arguments is None or within(self.arguments, call.arguments))
            and (self.failed or call_failed(call) is None)
        )

    def _key(self, call: Call) -> bytes:
        if self.per is not None:
            found = members(call.arguments, toolless_path(self.per))
        else:
            found = []
        return key_of([value for _place, value in found])


@ASSERTIONS.register("effect.none")
class EffectNone(Rule, frozen=True, kw_only=True):
    """None of these effects happened, or was so much as tried: a call that failed counts as well."""

    plain = "tools"
    named = False
    examples = (
        "effect.none: [delete_*, refund]",
        'effect.none: ["POST *", "DELETE *"]',
    )
    tools: list[str]

    def __post_init__(self) -> None:
        if not self.tools:
            raise ValueError("expected the tools that have effects: the log does not say which do")

    def check(self, run: TraceRun, context: Context) -> Seen:
        counted_calls = [call for call in effects(run) if any_glob(self.tools, call.name)]
        return Seen(
            holds=not counted_calls,
            text=f"{counted_calls[0].name} was called" if counted_calls else "Nothing was done",
            expected=f"no call of {', '.join(self.tools)}",
            actual=f"{len(counted_calls)} calls, first {_shown(counted_calls[0])}" if counted_calls else "none",
            seq=counted_calls[0].seq if counted_calls else last_seq(run),
        )


def _shown(call: Call) -> str:
    return short(call_text(call.name, call.arguments))


def _times(count: int) -> str:
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")
