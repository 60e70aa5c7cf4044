"""Assertions about the arguments and results of tool calls."""

from __future__ import annotations

import msgspec
from msgspec import field

from replaykit.checks.compare import ArgsMode, args_agree
from replaykit.checks.reading import (
    Occurrence,
    calls_like,
    check_occurrence,
    last_seq,
    occurrence_text,
    pick_call,
    shown,
    toolless_path,
    tools_in_order,
)
from replaykit.checks.rule import Rule, Seen, register
from replaykit.checks.schemas import check_schema, schema_flaw
from replaykit.checks.tools import TOOL_NOTE, shown_call
from replaykit.checks.value_rule import VALUE_NOTES, ValueRule
from replaykit.model.events import ToolCall
from replaykit.model.jsonpath import members, parse_path
from replaykit.model.run import TraceRun
from replaykit.model.values import JsonObject

_OCCURRENCE = "which call: `any`, `all`, `first`, `last`, or its number from 1"


@register("tool.args")
class ToolArgs(Rule, frozen=True):
    """The arguments of a call are these.

    `match` is the relation of the call's arguments to the given ones. `exact`: they are the same. `superset`: the call
    has all given ones, and maybe more. `subset`: the call has no others. `ignore`: the arguments do not matter. Objects
    are compared this way at any depth; lists must have the same length.
    """

    notes = {
        "tool": TOOL_NOTE,
        "arguments": "the arguments",
        "match": "`exact`, `superset`, `subset` or `ignore`",
        "defaults": "values of arguments that may be left out; they count on both sides",
        "ignore": "[JSON paths](#json-paths) that are not compared",
        "occurrence": _OCCURRENCE,
    }
    examples = (
        "tool.args: {tool: lookup_billing, arguments: {user_id: usr_8821, page: 2}, occurrence: last}",
        "tool.args: {tool: send_email, arguments: {cc: []}, match: superset, ignore: [$.to.name], occurrence: all}",
    )
    tool: str
    arguments: JsonObject
    match: ArgsMode = ArgsMode.EXACT
    defaults: JsonObject | None = None
    ignore: list[str] = []
    occurrence: Occurrence = "any"

    def __post_init__(self) -> None:
        check_occurrence(self.occurrence)
        for path in self.ignore:
            toolless_path(path)

    def seen_in(self, run: TraceRun) -> Seen:
        paths = list(map(parse_path, self.ignore))

        def fits(call: ToolCall) -> bool:
            return args_agree(call.arguments, self.arguments, self.match, defaults=self.defaults, ignore=paths)

        subject = f"{occurrence_text(self.occurrence)} {self.tool!r}"
        expected = f"{subject} with {self.match.value} arguments {shown(self.arguments)}"
        holds, call = pick_call(calls_like(run, self.tool), self.occurrence, fits)
        if call is None:
            return _no_call(self.tool, run, expected)
        text = f"Tool {call.name!r} {'called' if holds else 'not called'} with {shown(self.arguments)}"
        return Seen(holds, text, expected, shown_call(call), call.seq)


@register("tool.args_schema")
class ToolArgsSchema(Rule, frozen=True):
    """The arguments of a tool's calls conform to a JSON Schema; by default every call, and there is one.

    See `output.json_schema` for what a schema may be.
    """

    notes = {"tool": TOOL_NOTE, "schema": "the schema", "occurrence": _OCCURRENCE}
    examples = ("tool.args_schema: {tool: send_email, schema: {required: [to], properties: {cc: {type: array}}}}",)
    tool: str
    schema_: JsonObject = field(name="schema")
    occurrence: Occurrence = "all"

    def __post_init__(self) -> None:
        check_occurrence(self.occurrence)
        check_schema(self.schema_)

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"{occurrence_text(self.occurrence)} {self.tool!r} with arguments as the schema says"
        holds, call = pick_call(calls_like(run, self.tool), self.occurrence, lambda call: self._flaw(call) is None)
        if call is None:
            return _no_call(self.tool, run, expected)
        flaw = self._flaw(call)
        text = f"Arguments of {call.name!r} are {'not ' if flaw else ''}as the schema says"
        return Seen(holds, text, expected, flaw or shown_call(call), call.seq)

    def _flaw(self, call: ToolCall) -> str | None:
        return schema_flaw(self.schema_, call.arguments)


@register("tool.result")
class ToolResult(ValueRule, frozen=True, kw_only=True):
    """A call of the tool returned the expected result. A call that raised has no result.

    `path` selects a member of the result, as in `output.json_path`. The result of a stream is the list of its items.
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
        if not self.expectations and self.path == "$":
            raise ValueError(f"expected one of {', '.join(self.expecting)}, or a path")

    def seen_in(self, run: TraceRun) -> Seen:
        place = "" if self.path == "$" else f" a result with {self.path} being"
        subject = f"{occurrence_text(self.occurrence)} {self.tool!r}"
        expected = f"{subject} giving{place} {' and '.join(self.expectations) or 'something'}"
        holds, call = pick_call(
            calls_like(run, self.tool), self.occurrence, lambda call: self._seen(call, expected).holds
        )
        if call is None:
            return _no_call(self.tool, run, expected)
        return msgspec.structs.replace(self._seen(call, expected), holds=holds)

    def _seen(self, call: ToolCall, expected: str) -> Seen:
        if call.error is not None:
            return Seen(False, f"Tool {call.name!r} failed", expected, shown(str(call.error)), call.seq)
        value = call.result if call.items_json is None else call.items
        values = members(value, toolless_path(self.path))
        return self.seen_members(values, f"Result of {call.name!r}", expected, call.seq)


def _no_call(tool: str, run: TraceRun, expected: str) -> Seen:
    """Return the result if there is no such call."""
    count = len(calls_like(run, tool))
    text = f"Tool {tool!r} was called {count} times" if count else f"Tool {tool!r} was not called"
    return Seen(False, text, expected, tools_in_order(run), last_seq(run))
