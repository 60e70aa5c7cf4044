"""Assertions about a run's effects on the world: charges, mails, deletions."""

from __future__ import annotations

from collections import defaultdict

from replaykit.checks.compare import key_of, within
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import any_glob, glob, last_seq, shown, toolless_path
from replaykit.checks.rule import Rule, Seen, register
from replaykit.checks.tools import shown_call
from replaykit.model.events import Call, Exchange, ToolCall
from replaykit.model.jsonpath import members
from replaykit.model.run import TraceRun
from replaykit.model.values import JsonObject

_SAFE_METHODS = ("GET ", "HEAD ", "OPTIONS ", "TRACE ")


def effects(run: TraceRun) -> list[Call]:
    """Return the calls that may have changed the world: the agent's tool calls, and requests that may write.

    A request's method tells whether it reads. For tools the log does not tell, so the assertion names them.
    """
    found: list[Call] = [*run.tool_calls]
    tools = {call.seq for call in run.events if isinstance(call, ToolCall)}
    for call in run.calls:
        writes = call.wire is not None and not call.name.startswith(_SAFE_METHODS)
        if isinstance(call, Exchange) and call.parent not in tools and writes:
            found.append(call)
    return sorted(found, key=lambda call: call.seq)


@register("effect.exactly_once")
class EffectExactlyOnce(Rule, frozen=True):
    """The effect happened once, and only once: one call of the tool that did not fail.

    A call that failed, as `tool.error` has it, and was done again counts once, unless `failed` is true: a charge that
    timed out may have gone through. With `per`, it is once for each value at that path of the arguments, such as an
    order's number.
    """

    plain = "tool"
    notes = {
        "tool": "the tool, or `METHOD host/path` of a request; `*` matches anything; a plain text sets this",
        "arguments": "what the arguments must contain, as for `tool.called`",
        "per": "a [JSON path](#json-paths) into the arguments: once for each value there",
        "failed": "calls that failed count as well",
    }
    examples = (
        "effect.exactly_once: send_email",
        "effect.exactly_once: {tool: charge_*, per: $.order, failed: true}",
    )
    tool: str
    arguments: JsonObject | None = None
    per: str | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        if self.per is not None:
            toolless_path(self.per)

    def seen_in(self, run: TraceRun) -> Seen:
        calls = list(filter(self._counts, effects(run)))
        groups: defaultdict[bytes, list[Call]] = defaultdict(list)
        for call in calls:
            groups[self._key(call)].append(call)
        most = max(groups.values(), key=len, default=[])
        what = f"{self.tool}({shown(self.arguments)})" if self.arguments else self.tool
        each = f" for each {self.per}" if self.per else ""
        actual, seq = "0 times", last_seq(run)
        if calls:
            actual = f"{len(calls)} times, at last {shown_call(calls[-1])}"
            seq = most[0].seq if len(most) > 1 else calls[-1].seq
        times = {0: "not at all", 1: "once"}.get(len(most), f"{len(most)} times")
        return Seen(len(most) == 1, f"{what} was done {times}", f"{what} done exactly once{each}", actual, seq)

    def _counts(self, call: Call) -> bool:
        return (
            glob(self.tool, call.name)
            and (self.arguments is None or within(self.arguments, call.arguments))
            and (self.failed or call_failed(call) is None)
        )

    def _key(self, call: Call) -> bytes:
        if self.per is None:
            return b""
        return key_of([value for _place, value in members(call.arguments, toolless_path(self.per))])


@register("effect.none")
class EffectNone(Rule, frozen=True):
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

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"no call of {', '.join(self.tools)}"
        calls = [call for call in effects(run) if any_glob(self.tools, call.name)]
        if not calls:
            return Seen(True, "Nothing was done", expected, "none", last_seq(run))
        call = calls[0]
        return Seen(
            False, f"{call.name} was called", expected, f"{len(calls)} calls, first {shown_call(call)}", call.seq
        )
