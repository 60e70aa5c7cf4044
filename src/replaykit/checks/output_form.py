"""Assertions about the form of an answer: its JSON, its length, why the model stopped."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Literal

import msgspec

from replaykit.checks.call_selection import toolless_path
from replaykit.checks.output import seen_output
from replaykit.checks.ranges import check_range, in_range, range_text
from replaykit.checks.reading import has_output, last_seq, output_text, shown
from replaykit.checks.rule import ASSERTIONS, Context, Count, Rule, Seen
from replaykit.checks.schemas import check_schema, schema_flaw
from replaykit.checks.value_rule import VALUE_NOTES, ValueRule
from replaykit.model.jsonpath import members
from replaykit.model.nesting import decode_json
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

_NOT_JSON = object()
_UNITS: dict[str, Callable[[str], Sized]] = {"characters": str, "words": str.split, "lines": str.splitlines}


@ASSERTIONS.register("output.json")
class OutputJson(Rule, frozen=True, kw_only=True):
    """The output is JSON: a value that is no text, or a text that reads as JSON from its first to its last letter.

    `any` is any JSON value, `object` and `list` are these. A text around the JSON, such as a code fence, makes it none.
    """

    plain = "of"
    named = False
    examples = ("output.json: any", "output.json: object")
    of: Literal["any", "object", "list"]

    def check(self, run: TraceRun, context: Context) -> Seen:
        value = _json_of(run)
        found = value is not _NOT_JSON
        holds = found and (self.of == "any" or isinstance(value, dict if self.of == "object" else list))
        text = "Output is JSON" if found else "Output is not JSON"
        return seen_output(run, holds, text, f"output that is JSON ({self.of})")


@ASSERTIONS.register("output.json_schema")
class OutputJsonSchema(Rule, frozen=True, kw_only=True):
    """The output is as this JSON Schema says; a text is read as JSON first.

    Draft 2020-12, unless `$schema` names another. Nothing is ever fetched: a `$ref` leads to a place inside the schema.
    `format` is not checked. Needs the extra `schema`: `pip install '.[schema]'` in a clone.
    """

    plain = "schema"
    named = False
    examples = ("output.json_schema: {type: object, required: [paid], properties: {paid: {type: boolean}}}",)
    schema_: dict[str, Json] = msgspec.field(name="schema")

    def __post_init__(self) -> None:
        check_schema(self.schema_)

    def check(self, run: TraceRun, context: Context) -> Seen:
        value = _json_of(run)
        flaw = "the output is not JSON" if value is _NOT_JSON else schema_flaw(self.schema_, value)
        text = f"Output is not as its schema says: {flaw}" if flaw else "Output is as its schema says"
        return seen_output(run, flaw is None, text, "output as its schema says", flaw or None)


@ASSERTIONS.register("output.json_path")
class OutputJsonPath(ValueRule, frozen=True, kw_only=True):
    """The output has this member, and it is as expected; a text is read as JSON first.

    A path that names several members wants all of them to be as expected, and at least one to be there. With a path
    alone, it is enough that there is one. `matches` is as in `tool.called`.
    """

    plain = "path"
    notes = {"path": "a [JSON path](#json-paths)", **VALUE_NOTES}
    examples = (
        "output.json_path: $.paid",
        "output.json_path: {path: '$.items[*].price', min: 0, max: 100}",
    )
    path: str

    def __post_init__(self) -> None:
        toolless_path(self.path)
        super().__post_init__()

    def check(self, run: TraceRun, context: Context) -> Seen:
        value = _json_of(run)
        expected = f"output with {self.path} being {' and '.join(self.expectations) or 'there'}"
        if value is _NOT_JSON:
            return seen_output(run, False, "Output is not JSON", expected)
        return seen_members(self, members(value, toolless_path(self.path)), "Output", expected, last_seq(run))


@ASSERTIONS.register("output.length")
class OutputLength(Rule, frozen=True, kw_only=True):
    """The output is this long. Without an output it has no length, and the assertion does not hold."""

    notes = {
        "min": "the least",
        "max": "the most",
        "unit": "`characters`, `words` (between blanks) or `lines`",
    }
    examples = (
        "output.length: {max: 280}",
        "output.length: {min: 3, max: 60, unit: words}",
    )
    min: Count | None = None
    max: Count | None = None
    unit: Literal["characters", "words", "lines"] = "characters"

    def __post_init__(self) -> None:
        check_range(self.min, self.max)

    def check(self, run: TraceRun, context: Context) -> Seen:
        length = len(_UNITS[self.unit](output_text(run)))
        holds = has_output(run) and in_range(length, self.min, self.max)
        actual = f"{length} {self.unit}" if has_output(run) else "no output"
        text = f"Output has {actual}" if has_output(run) else "No final output"
        return seen_output(run, holds, text, f"output of {range_text(self.min, self.max)} {self.unit}", actual)


@ASSERTIONS.register("output.finish_reason")
class OutputFinishReason(Rule, frozen=True, kw_only=True):
    """The model stopped for this reason, or one of these, as its API calls it: `stop`, `length`, `tool_calls`, …

    Of the model calls whose reason the log has, the last one counts, or all of them. A log without any reason does not
    hold.
    """

    plain = "reason"
    notes = {"reason": "the reason, or a list of them", "calls": "`last`, or `all`"}
    examples = (
        "output.finish_reason: stop",
        "output.finish_reason: {reason: [stop, end_turn, tool_calls], calls: all}",
    )
    reason: str | list[str]
    calls: Literal["last", "all"] = "last"

    def __post_init__(self) -> None:
        if not self.reason:
            raise ValueError("expected at least one reason")

    def check(self, run: TraceRun, context: Context) -> Seen:
        reasons = [self.reason] if isinstance(self.reason, str) else self.reason
        known = [call for call in run.llm_calls if call.finish_reason is not None]
        counted = known if self.calls == "all" else known[-1:]
        bad = next((call for call in counted if call.finish_reason not in reasons), None)
        expected = f"finish reason {' or '.join(map(repr, reasons))}"
        if not counted:
            text = "No model call says why it stopped"
            return Seen(False, text, expected, "no finish reason in the log", last_seq(run))
        call = bad or counted[-1]
        return Seen(
            holds=bad is None,
            text=f"The model stopped for {call.finish_reason!r}",
            expected=expected,
            actual=f"finish reason {call.finish_reason!r}",
            seq=call.seq,
        )


def seen_members(rule: ValueRule, found: list[tuple[str, Json]], what: str, expected: str, seq: int | None) -> Seen:
    """Whether all the members are as a rule expects; the first that is not is told."""
    bad = next(((place, value) for place, value in found if not rule.accepts(value)), None)
    if not found:
        return Seen(False, f"{what} has no such member", expected, "no such member", seq)
    place, value = bad or found[0]
    text = f"{what} has {place} {shown(value)}"
    return Seen(bad is None, text, expected, f"{place} is {shown(value)}", seq)


def _json_of(run: TraceRun) -> Json:
    """The output as JSON; `_NOT_JSON` when it is none, or there is none."""
    if not has_output(run):
        return _NOT_JSON
    if not isinstance(run.output, str):
        return run.output
    try:
        return decode_json(run.output)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _NOT_JSON
