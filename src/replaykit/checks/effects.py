"""Assertions about what a run did to the world: charges, mails, deletions."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from replaykit.checks.compare import key_of, within
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import last_seq, short, shown
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.checks.selecting import any_glob, glob, own_path
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
    asked = [call for call in run.calls if isinstance(call, Exchange) and call.parent not in tools and _writes(call)]
    return sorted([*run.tool_calls, *asked], key=lambda call: call.seq)


def _writes(call: Exchange) -> bool:
    return call.wire is not None and not call.name.startswith(_SAFE_METHODS)


@ASSERTIONS.register("effect.exactly_once")
class EffectExactlyOnce(Rule, frozen=True, kw_only=True):
    """The effect happened once, and only once: one call of the tool that did not fail.

    A call that failed, as `tool.error` has it, and was done again counts once, unless `failed` is true: a charge that
    timed out may have gone through. With `per`, it is once for each value at that path of the arguments, such as an
    order's number.
    """

    plain: ClassVar[str] = "tool"
    notes: ClassVar[dict[str, str]] = {
        "tool": "the tool, or `METHOD host/path` of a request; `*` stands for anything; a plain text is this",
        "arguments": "what has to be among the arguments, as for `tool.called`",
        "per": "a [JSON path](#json-paths) into the arguments: once for each value there",
        "failed": "calls that failed count as well",
    }
    examples: ClassVar[tuple[str, ...]] = (
        "effect.exactly_once: send_email",
        "effect.exactly_once: {tool: charge_*, per: $.order, failed: true}",
    )
    tool: str
    arguments: dict[str, Json] | None = None
    per: str | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        if self.per is not None:
            own_path(self.per)

    def check(self, run: TraceRun, context: Context) -> Seen:
        done = [call for call in effects(run) if self._counts(call)]
        keys = [self._key(call) for call in done]
        times = Counter(keys)
        most = max(times.values(), default=0)
        told = next((call for call, key in zip(done, keys, strict=True) if times[key] == most > 1), None)
        what = f"{self.tool}({shown(self.arguments)})" if self.arguments else self.tool
        each = f" for each {self.per}" if self.per else ""
        return Seen(
            holds=bool(done) and most == 1,
            text=f"{what} was done {_times(most)}",
            expected=f"{what} done exactly once{each}",
            actual=f"{len(done)} times{f', at last {_shown(done[-1])}' if done else ''}",
            seq=told.seq if told else done[-1].seq if done else last_seq(run),
        )

    def _counts(self, call: Call) -> bool:
        return (
            glob(self.tool, call.name)
            and (self.arguments is None or within(self.arguments, call.arguments))
            and (self.failed or call_failed(call) is None)
        )

    def _key(self, call: Call) -> bytes:
        found = members(call.arguments, own_path(self.per)) if self.per is not None else []
        return key_of([value for _place, value in found])


@ASSERTIONS.register("effect.none")
class EffectNone(Rule, frozen=True, kw_only=True):
    """None of these effects happened, or was so much as tried: a call that failed counts as well."""

    plain: ClassVar[str] = "tools"
    named: ClassVar[bool] = False
    examples: ClassVar[tuple[str, ...]] = (
        "effect.none: [delete_*, refund]",
        'effect.none: ["POST *", "DELETE *"]',
    )
    tools: list[str]

    def __post_init__(self) -> None:
        if not self.tools:
            raise ValueError("expected the tools that have effects: the log does not say which do")

    def check(self, run: TraceRun, context: Context) -> Seen:
        done = [call for call in effects(run) if any_glob(self.tools, call.name)]
        return Seen(
            holds=not done,
            text=f"{done[0].name} was called" if done else "Nothing was done",
            expected=f"no call of {', '.join(self.tools)}",
            actual=f"{len(done)} calls, first {_shown(done[0])}" if done else "none",
            seq=done[0].seq if done else last_seq(run),
        )


def _shown(call: Call) -> str:
    return short(call_text(call.name, call.arguments))


def _times(count: int) -> str:
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")
