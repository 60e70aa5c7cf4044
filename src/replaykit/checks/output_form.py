"""Assertions about the form of an answer: JSON, length, and finish reason."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Literal

import msgspec

from replaykit.checks.output import seen_output
from replaykit.checks.reading import first, has_output, last_seq, one_or_more, output_text, toolless_path
from replaykit.checks.rule import Count, Rule, Seen, check_range, in_range, range_text, register
from replaykit.checks.schemas import check_schema, schema_flaw
from replaykit.checks.value_rule import VALUE_NOTES, PathRule
from replaykit.model.jsonpath import members
from replaykit.model.nesting import decode_json
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject

_NOT_JSON = object()
_JSON_TYPES = {"any": object, "object": dict, "list": list}
_UNITS: dict[str, Callable[[str], Sized]] = {"characters": str, "words": str.split, "lines": str.splitlines}


@register("output.json")
class OutputJson(Rule, frozen=True):
    """The output is JSON: a value other than a text, or a text that is JSON as a whole.

    `any` accepts any JSON value, `object` and `list` only that type. JSON inside other text, such as a code fence, does
    not count.
    """

    plain = "of"
    named = False
    examples = ("output.json: any", "output.json: object")
    of: Literal["any", "object", "list"]

    def seen_in(self, run: TraceRun) -> Seen:
        value = _json_of(run)
        expected = f"output that is JSON ({self.of})"
        if value is _NOT_JSON:
            return seen_output(run, False, "Output is not JSON", expected)
        return seen_output(run, isinstance(value, _JSON_TYPES[self.of]), "Output is JSON", expected)


@register("output.json_schema")
class OutputJsonSchema(Rule, frozen=True):
    """The output conforms to this JSON Schema; a text is parsed as JSON first.

    Draft 2020-12, unless `$schema` names another. Nothing is ever fetched: a `$ref` must point into the schema itself.
    `format` is not checked. Needs the extra `schema`: `pip install '.[schema]'` in a clone.
    """

    plain = "schema"
    named = False
    examples = ("output.json_schema: {type: object, required: [paid], properties: {paid: {type: boolean}}}",)
    schema_: JsonObject = msgspec.field(name="schema")

    def __post_init__(self) -> None:
        check_schema(self.schema_)

    def seen_in(self, run: TraceRun) -> Seen:
        value = _json_of(run)
        flaw: str | None = "the output is not JSON"
        if value is not _NOT_JSON:
            flaw = schema_flaw(self.schema_, value)
        text = "Output is as its schema says"
        if flaw:
            text = f"Output is not as its schema says: {flaw}"
        return seen_output(run, flaw is None, text, "output as its schema says", flaw or None)


@register("output.json_path")
class OutputJsonPath(PathRule, frozen=True, kw_only=True):
    """The output has this member with the expected value; a text is parsed as JSON first.

    If the path selects several members, all must be as expected, and at least one must exist. With a path alone, it is
    enough that one exists. `matches` is as in `tool.called`.
    """

    notes = {"path": "a [JSON path](#json-paths)", **VALUE_NOTES}
    examples = (
        "output.json_path: $.paid",
        "output.json_path: {path: '$.items[*].price', min: 0, max: 100}",
    )

    def seen_in(self, run: TraceRun) -> Seen:
        value = _json_of(run)
        expected = f"output with {self.path} being {' and '.join(self.expectations) or 'there'}"
        if value is _NOT_JSON:
            return seen_output(run, False, "Output is not JSON", expected)
        return self.seen_members(members(value, toolless_path(self.path)), "Output", expected, last_seq(run))


@register("output.length")
class OutputLength(Rule, frozen=True):
    """The output is this long. Without an output it has no length, and the assertion does not hold."""

    notes = {
        "min": "the minimum",
        "max": "the maximum",
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

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"output of {range_text(self.min, self.max)} {self.unit}"
        if not has_output(run):
            return seen_output(run, False, "No final output", expected)
        length = len(_UNITS[self.unit](output_text(run)))
        actual = f"{length} {self.unit}"
        return seen_output(run, in_range(length, self.min, self.max), f"Output has {actual}", expected, actual)


@register("output.finish_reason")
class OutputFinishReason(Rule, frozen=True):
    """The model stopped for this reason, or one of these, as its API calls it: `stop`, `length`, `tool_calls`, …

    Checks the last model call whose reason is in the log, or all of them. Does not hold if the log has no reason.
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

    def seen_in(self, run: TraceRun) -> Seen:
        reasons = one_or_more(self.reason)
        calls = [call for call in run.llm_calls if call.finish_reason is not None]
        expected = f"finish reason {' or '.join(map(repr, reasons))}"
        if not calls:
            text = "No model call says why it stopped"
            return Seen(False, text, expected, "no finish reason in the log", last_seq(run))
        if self.calls == "last":
            calls = calls[-1:]
        bad = first(calls, lambda call: call.finish_reason not in reasons)
        call = bad or calls[-1]
        return Seen(
            holds=bad is None,
            text=f"The model stopped for {call.finish_reason!r}",
            expected=expected,
            actual=f"finish reason {call.finish_reason!r}",
            seq=call.seq,
        )


def _json_of(run: TraceRun) -> Json:
    """Return the output as JSON; `_NOT_JSON` if it is not JSON or missing."""
    if not has_output(run):
        return _NOT_JSON
    if not isinstance(run.output, str):
        return run.output
    try:
        return decode_json(run.output)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _NOT_JSON
