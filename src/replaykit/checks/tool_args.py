"""Assertions about what tools were called with, and what they gave back."""

from __future__ import annotations

from msgspec import field

from replaykit.checks.arguments import ArgsMode, args_agree
from replaykit.checks.call_selection import (
    Occurrence,
    check_occurrence,
    glob,
    occurrence_text,
    pick_call,
    toolless_path,
)
from replaykit.checks.output_form import seen_members
from replaykit.checks.reading import last_seq, shown
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.checks.schemas import check_schema, schema_flaw
from replaykit.checks.tools import TOOL_NOTE, in_order, shown_call
from replaykit.checks.value_rule import VALUE_NOTES, ValueRule
from replaykit.model.events import ToolCall
from replaykit.model.jsonpath import members, parse_path
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

_OCCURRENCE = "which call: `any`, `all`, `first`, `last`, or its number from 1"


@ASSERTIONS.register("tool.args")
class ToolArgs(Rule, frozen=True, kw_only=True):
    """The arguments of a call are these.

    `match` says how the call's arguments stand to the named ones; the word is about the call's. `exact`: they are the
    same. `superset`: the call has all that are named, and maybe more. `subset`: the call has none that are not named.
    `ignore`: there is such a call, whatever its arguments. Objects are compared this way at any depth; a list has to
    have as many items.
    """

    notes = {
        "tool": TOOL_NOTE,
        "arguments": "the arguments",
        "match": "`exact`, `superset`, `subset` or `ignore`",
        "defaults": "what the tool takes where an argument is left out; counts on both sides",
        "ignore": "[JSON paths](#json-paths) that are not compared",
        "occurrence": _OCCURRENCE,
    }
    examples = (
        "tool.args: {tool: lookup_billing, arguments: {user_id: usr_8821, page: 2}, occurrence: last}",
        "tool.args: {tool: send_email, arguments: {cc: []}, match: superset, ignore: [$.to.name], occurrence: all}",
    )
    tool: str
    arguments: dict[str, Json]
    match: ArgsMode = ArgsMode.EXACT
    defaults: dict[str, Json] | None = None
    ignore: list[str] = []
    occurrence: Occurrence = "any"

    def __post_init__(self) -> None:
        check_occurrence(self.occurrence)
        for path in self.ignore:
            toolless_path(path)

    def check(self, run: TraceRun, context: Context) -> Seen:
        paths = [parse_path(path) for path in self.ignore]
        calls = _calls_of(self.tool, run)

        def fits(call: ToolCall) -> bool:
            return args_agree(call.arguments, self.arguments, self.match, defaults=self.defaults, ignore=paths)

        holds, decisive_call = pick_call(calls, self.occurrence, fits)
        which = f"{occurrence_text(self.occurrence)} {self.tool!r}"
        expected = f"{which} with {self.match.value} arguments {shown(self.arguments)}"
        if decisive_call is None:
            return _no_call(self.tool, run, calls, expected)
        text = f"Tool {decisive_call.name!r} {'called' if holds else 'not called'} with {shown(self.arguments)}"
        return Seen(holds, text, expected, shown_call(decisive_call), decisive_call.seq)


@ASSERTIONS.register("tool.args_schema")
class ToolArgsSchema(Rule, frozen=True, kw_only=True):
    """The arguments of a tool's calls are as a JSON Schema says; by default those of every call, and there is one.

    See `output.json_schema` for what a schema may be.
    """

    notes = {"tool": TOOL_NOTE, "schema": "the schema", "occurrence": _OCCURRENCE}
    examples = ("tool.args_schema: {tool: send_email, schema: {required: [to], properties: {cc: {type: array}}}}",)
    tool: str
    schema_: dict[str, Json] = field(name="schema")
    occurrence: Occurrence = "all"

    def __post_init__(self) -> None:
        check_occurrence(self.occurrence)
        check_schema(self.schema_)

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = _calls_of(self.tool, run)
        holds, decisive_call = pick_call(calls, self.occurrence, self._accepted)
        expected = f"{occurrence_text(self.occurrence)} {self.tool!r} with arguments as the schema says"
        if decisive_call is None:
            return _no_call(self.tool, run, calls, expected)
        flaw = schema_flaw(self.schema_, decisive_call.arguments)
        text = f"Arguments of {decisive_call.name!r} are {'not ' if flaw else ''}as the schema says"
        return Seen(holds, text, expected, flaw or shown_call(decisive_call), decisive_call.seq)

    def _accepted(self, call: ToolCall) -> bool:
        return schema_flaw(self.schema_, call.arguments) is None


@ASSERTIONS.register("tool.result")
class ToolResult(ValueRule, frozen=True, kw_only=True):
    """A call of the tool gave a result that is as expected. A call that raised gave none.

    `path` looks at a member of the result, as `output.json_path` does. What a stream yielded is a list.
    """

    notes = {
        "tool": TOOL_NOTE,
        "occurrence": _OCCURRENCE,
        "path": "a [JSON path](#json-paths) into the result",
        **VALUE_NOTES,
    }
    examples = (
        "tool.result: {tool: lookup_billing, path: $.total, min: 40, occurrence: last}",
        'tool.result: {tool: send_email, equals: "ok"}',
    )
    tool: str
    path: str = "$"
    occurrence: Occurrence = "any"

    def __post_init__(self) -> None:
        check_occurrence(self.occurrence)
        toolless_path(self.path)
        super().__post_init__()
        if not self.expects and self.path == "$":
            raise ValueError(f"expected one of {', '.join(self.expecting)}, or a path")

    def check(self, run: TraceRun, context: Context) -> Seen:
        calls = _calls_of(self.tool, run)
        holds, decisive_call = pick_call(calls, self.occurrence, self._accepted)
        place = "" if self.path == "$" else f" a result with {self.path} being"
        which = f"{occurrence_text(self.occurrence)} {self.tool!r}"
        expected = f"{which} giving{place} {' and '.join(self.expectations) or 'something'}"
        if decisive_call is None:
            return _no_call(self.tool, run, calls, expected)
        seen = self._seen(decisive_call, expected)
        return Seen(holds, seen.text, expected, seen.actual, decisive_call.seq)

    def _accepted(self, call: ToolCall) -> bool:
        return self._seen(call, "").holds

    def _seen(self, call: ToolCall, expected: str) -> Seen:
        if call.error is not None:
            return Seen(False, f"Tool {call.name!r} failed", expected, shown(str(call.error)), call.seq)
        value = call.result if call.items_json is None else call.items
        return seen_members(
            self, members(value, toolless_path(self.path)), f"Result of {call.name!r}", expected, call.seq
        )


def _calls_of(tool: str, run: TraceRun) -> list[ToolCall]:
    return [call for call in run.tool_calls if glob(tool, call.name)]


def _no_call(tool: str, run: TraceRun, calls: list[ToolCall], expected: str) -> Seen:
    """There is no call of that number, or none at all."""
    if calls:
        text = f"Tool {tool!r} was called {len(calls)} times"
    else:
        text = f"Tool {tool!r} was not called"
    return Seen(False, text, expected, f"tools {in_order([call.name for call in run.tool_calls])}", last_seq(run))
