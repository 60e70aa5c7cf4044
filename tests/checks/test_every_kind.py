"""Every kind of assertion, four times: what it says where it fails, how it refuses a wrong value, an empty run, and
what it says of one that it holds for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaykit.cases.case import load_case
from replaykit.checks.assertions import ASSERTIONS, parse_assertion
from replaykit.checks.custom import CHECKS, register_check
from replaykit.checks.questions import Asks, KnownAnswer, Question
from replaykit.checks.rule import CannotTell, RepeatedRun
from replaykit.errors import InvalidFile
from replaykit.model.events import ErrorEvent, ErrorInfo, LlmCall, State, ToolCall, Usage
from replaykit.model.result import Deviation, Finding, Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw


def tool(seq: int, name: str, arguments: Any, result: Any, step: str) -> ToolCall:
    return ToolCall(
        seq=seq,
        name=name,
        arguments_json=Raw(canonical(arguments)),
        result_json=raw(result),
        duration_s=4.0,
        step=step,
    )


MESSY = TraceRun(
    id="messy",
    status=RunStatus.ERROR,
    started_at=0.0,
    ended_at=60.0,
    output_json=raw("Card 4111 1111 1111 1111, key AKIAIOSFODNN7ABCDEFG"),
    error=ErrorInfo(type="Error", message="Max tool call limit exceeded"),
    events=(
        LlmCall(
            seq=0,
            name="gpt-4o",
            result_json=raw("…"),
            finish_reason="length",
            usage=Usage(input_tokens=5000, output_tokens=900, cost_usd=1.0),
            duration_s=2.0,
        ),
        tool(1, "lookup", {"user": 7}, "Error: timeout", "step_1"),
        State(seq=2, step="step_1", state_json=raw({"paid": False, "user": "ana"})),
        tool(3, "lookup", {"user": 7}, {"total": 9}, "step_2"),
        tool(4, "charge", {"order": 7}, "done", "step_2"),
        tool(5, "charge", {"order": 7}, "Error: twice", "step_3"),
        State(seq=6, step="step_3", state_json=raw({"paid": True, "user": "bob"})),
        ErrorEvent(seq=7, error=ErrorInfo(type="Error", message="Max tool call limit exceeded")),
    ),
    event_count=8,
)
EMPTY = TraceRun(id="empty", status=RunStatus.SUCCESS)
LEFT = (Deviation(kind="arguments", text="`charge` has other arguments", index=3, name="charge"),)
NEVER = {"status_is": "timeout"}


class Says:
    """A judge who finds nothing good."""

    hint = "Ask somebody."

    def look_up(self, question: Question) -> KnownAnswer:
        if question.asks is Asks.SCORE:
            return KnownAnswer(status="given", by="ana", score=0.25, reason="unclear")
        if question.asks is Asks.LABEL:
            return KnownAnswer(status="given", by="ana", label=question.labels[-1])
        return KnownAnswer(status="fail", by="ana", reason="it leaks")


OUTPUT = "output 'Card 4111 1111 1111 1111, key AKIAIOSFODNN7ABCDEFG'"
ENDED = "status error (Error: Max tool call limit exceeded)"
TOOLS = "tools lookup → lookup → charge → charge"

# A kind, a value that fails for MESSY, what is said of that, the event it points at, and whether EMPTY satisfies it.
FAILS: list[tuple[str, Any, str, str, int, bool]] = [
    ("all", [NEVER], "status timeout", ENDED, 7, False),
    ("any", [NEVER], "any of: status timeout", ENDED, 7, False),
    ("budget.cost", 0.5, "at most $0.5", "$1", 0, True),
    ("budget.latency", 10, "at most 10 s", "18.000 s, the longest call 'lookup'", 1, True),
    ("budget.tokens", 2000, "at most 2000 tokens", "5000 in and 900 out", 0, True),
    ("custom.python", "never", "the check never to hold", "it never does", 7, False),
    (
        "effect.exactly_once",
        {"tool": "charge", "failed": True},
        "charge done exactly once",
        "2 times, at last charge(order=7)",
        4,
        False,
    ),
    ("effect.none", ["charge"], "no call of charge", "2 calls, first charge(order=7)", 4, True),
    ("final_output_exists", False, "no final output", OUTPUT, 7, True),
    (
        "judge.factual",
        "It is safe",
        "a judge to find: The output agrees with 'It is safe'",
        f"fail: it leaks ({OUTPUT})",
        7,
        False,
    ),
    (
        "judge.faithful",
        True,
        "a judge to find: The output is supported by what is known",
        f"fail: it leaks ({OUTPUT})",
        7,
        False,
    ),
    (
        "judge.label",
        {"labels": ["calm", "rude"], "is": "calm"},
        "a judge to find: Of the labels calm, rude, it is calm",
        f"rude ({OUTPUT})",
        7,
        False,
    ),
    ("judge.rubric", "It is polite", "a judge to find: It is polite", f"fail: it leaks ({OUTPUT})", 7, False),
    (
        "judge.score",
        {"rubric": "Clarity", "at_least": 0.7},
        "a judge to find: Clarity: a score of at least 0.7",
        f"0.25: unclear ({OUTPUT})",
        7,
        False,
    ),
    ("llm.calls", {"min": 2}, "at least 2 model calls", "1 calls", 0, False),
    ("llm.context_overflow", True, "a request beyond the context window", "no such error", 7, False),
    ("llm.malformed_call", True, "a tool call that is not JSON", "no such tool call", 7, False),
    ("llm.same_answer", 2, "the model gave the same answer at least 2 times", "never", 7, False),
    ("llm.same_request", 2, "the same request was sent to the model at least 2 times", "never", 7, False),
    ("llm.truncated", False, "no answer that is cut off", "finish reason 'length'", 0, True),
    ("max_tool_calls", 3, "at most 3 tool calls", "4 calls", 5, True),
    ("not", {"status_is": "error"}, "anything but status error", ENDED, 7, True),
    ("output.answer", "9", "the answer '9'", OUTPUT, 7, False),
    ("output.contains", "$49", "output containing '$49'", OUTPUT, 7, False),
    ("output.contains_all", ["Card", "plan"], 'output containing all of ["Card","plan"]', OUTPUT, 7, False),
    ("output.contains_any", ["plan", "$"], 'output containing any of ["plan","$"]', OUTPUT, 7, False),
    (
        "output.contradicts",
        "lookup",
        "output that contradicts tool 'lookup'",
        "output does not contradict tool 'lookup'",
        7,
        False,
    ),
    ("output.edit_distance", {"to": "Card", "max": 3}, "output at most 3 letters away from 'Card'", OUTPUT, 7, False),
    ("output.empty", True, "an empty final output", OUTPUT, 7, False),
    ("output.equals", {"a": 1}, 'output {"a":1}', OUTPUT, 7, False),
    ("output.error", "KeyError: 'x'", "the error \"KeyError: 'x'\" in the place of an answer", OUTPUT, 7, False),
    ("output.finish_reason", "stop", "finish reason 'stop'", "finish reason 'length'", 0, False),
    ("output.grounded", True, "every figure with a source", "no source for '4111 1111 1111 1111'", 7, False),
    ("output.icontains", "PLAN", "output containing 'PLAN', in any case", OUTPUT, 7, False),
    ("output.json", "any", "output that is JSON (any)", OUTPUT, 7, False),
    ("output.json_path", "$.paid", "output with $.paid being there", OUTPUT, 7, False),
    ("output.json_schema", {"type": "object"}, "output as its schema says", "the output is not JSON", 7, False),
    ("output.length", {"max": 10}, "output of at most 10 characters", "50 characters", 7, False),
    ("output.not_contains", "Card", "output without 'Card'", OUTPUT, 7, False),
    ("output.refusal", True, "output that refuses", OUTPUT, 7, False),
    ("output.regex", "\\$\\d", "output that matches /\\$\\d/", OUTPUT, 7, False),
    (
        "output.similar",
        {"to": "Thanks", "min": 0.9},
        "output with a similarity of at least 0.9 to 'Thanks'",
        OUTPUT,
        7,
        False,
    ),
    ("output.starts_with", "Thanks", "output that begins with 'Thanks'", OUTPUT, 7, False),
    (
        "repeat",
        {"times": 3, "at_least": 2, "of": NEVER},
        "status timeout, in at least 2 of 3 runs",
        f"0 of 3 runs; first not in run 1: {ENDED}",
        7,
        False,
    ),
    ("replay.diverges_at", 1, "the first divergence at call 1", "arguments: `charge` has other arguments", 4, False),
    ("replay.no_divergence", True, "no divergence", "arguments: `charge` has other arguments", 4, True),
    ("run.error", "KeyError: *", "an error like 'KeyError: *'", "'Error: Max tool call limit exceeded'", 7, False),
    (
        "run.failed_steps",
        2,
        "at least 2 errors outside of calls",
        "one error, the last one 'Error: Max tool call limit exceeded'",
        7,
        False,
    ),
    ("safety.no_pii", ["output"], "no personal data in output", "card in the output, characters 5 to 24", 7, True),
    (
        "safety.no_secret",
        ["output"],
        "no secret in output",
        "aws_access_key in the output, characters 30 to 50",
        7,
        True,
    ),
    (
        "span.count",
        {"kind": "tool", "max": 2},
        "at most 2 times a tool *",
        "4: spans lookup → lookup → charge → charge",
        4,
        True,
    ),
    ("span.duration", {"name": "charge", "max_s": 3}, "every span charge taking at most 3 s", "charge: 4 s", 4, False),
    (
        "span.exists",
        "refund",
        "a span refund",
        "spans gpt-4o → step_1 → lookup → step_2 → lookup → charge → step_3 → charge",
        7,
        False,
    ),
    ("span.no_errors", "*", "no failed span *", "lookup failed: Error: timeout", 1, False),
    (
        "state.diff",
        {"unchanged": ["$.user"]},
        'state with unchanged ["$.user"]',
        "changed   $.paid: False → True; changed   $.user: 'ana' → 'bob'",
        6,
        False,
    ),
    (
        "state.equals",
        {"value": {"paid": True}},
        'state {"paid":true} at the end',
        'state {"paid":true,"user":"bob"} (added     $.user: \'bob\')',
        6,
        False,
    ),
    (
        "state.hash",
        "0" * 64,
        "a state with SHA-256 0000000000000000000000000000000000000000000000000000000000000000 at the end",
        "SHA-256 c207ce9cdb7fd5cd5a944b0a10f53b9aac9287362745f66cf18a46a512146af0",
        6,
        False,
    ),
    (
        "state.path",
        {"path": "$.paid", "equals": False},
        "state with $.paid being false at the end",
        "$.paid is true",
        6,
        False,
    ),
    ("state.repeated", 2, "the same state at least 2 times", "once", 2, False),
    ("status_is", "success", "status success", ENDED, 7, True),
    ("steps.count", {"max": 2}, "at most 2 steps", "3 steps", 7, True),
    ("steps.exhausted", False, "the step budget not exhausted", "'Error: Max tool call limit exceeded'", 7, True),
    (
        "threshold",
        {"min": 0.5, "of": [NEVER]},
        "assertions of at least 50% of the weight to hold",
        "0%; missing: status timeout",
        7,
        False,
    ),
    (
        "tool.args",
        {"tool": "charge", "arguments": {"order": 8}},
        "a call of 'charge' with exact arguments {\"order\":8}",
        "charge(order=7)",
        5,
        False,
    ),
    (
        "tool.args_schema",
        {"tool": "charge", "schema": {"required": ["total"]}},
        "every call of 'charge' with arguments as the schema says",
        "$: 'total' is a required property",
        4,
        False,
    ),
    ("tool.called", "refund", "a call refund", TOOLS, 7, False),
    ("tool.calls", {"max": 3}, "at most 3 tool calls", "4 calls", 5, True),
    ("tool.error", "refund", "a failure of tool 'refund'", "no call", 7, False),
    (
        "tool.ignored_error",
        "charge",
        "a failure of tool 'charge' that the answer does not admit",
        f"2 calls, the last failed with 'Error: twice'; status error, {OUTPUT}",
        5,
        False,
    ),
    (
        "tool.invalid_arguments",
        "lookup",
        "a call of 'lookup' with arguments that do not fit",
        "the arguments of 'lookup' fit",
        7,
        False,
    ),
    ("tool.lookup_skipped", True, "a planned lookup that was not made", "no lookup was planned", 7, False),
    ("tool.not_called", "charge", "no call charge", "2 calls, the last charge(order=7)", 4, True),
    (
        "tool.not_offered",
        "*",
        "a call of '*' that was not offered",
        "every tool that was asked for was offered",
        7,
        False,
    ),
    ("tool.only_announced", "refund", "tool 'refund' announced and never called", "not announced", 7, False),
    (
        "tool.result",
        {"tool": "lookup", "path": "$.total", "min": 10, "occurrence": "last"},
        "the last call of 'lookup' giving a result with $.total being a number of at least 10",
        "$.total is 9",
        3,
        False,
    ),
    (
        "tool.stuck",
        {"tool": "lookup", "times": 2},
        "at least 2 calls of tool 'lookup' in a row that lead nowhere",
        "0 such calls",
        7,
        False,
    ),
    (
        "tool.unretried_error",
        "lookup",
        "tool 'lookup' failing without a retry",
        "2 calls, the last did not fail",
        1,
        False,
    ),
    ("trajectory.allowlist", ["lookup"], "only lookup", "charge(order=7)", 4, True),
    ("trajectory.before", {"first": "charge", "then": "lookup"}, "tool 'charge' before tool 'lookup'", TOOLS, 1, True),
    (
        "trajectory.f1",
        {"tools": ["lookup"], "min": 0.9},
        "tools like lookup, with an F1 of at least 0.9",
        "0.40: tools lookup → lookup → charge → charge",
        4,
        False,
    ),
    (
        "trajectory.match",
        ["lookup", "charge"],
        "tools lookup → charge (strict)",
        'tools lookup → lookup → charge → charge; expected charge where lookup({"user":7}) was called',
        3,
        False,
    ),
    (
        "trajectory.never_after",
        {"tool": "charge", "after": "lookup"},
        "no call of tool 'charge' after tool 'lookup'",
        TOOLS,
        4,
        True,
    ),
    ("trajectory.no_loop", 2, "no 2 times the same calls in a row", TOOLS, 3, True),
]

# A kind, a value that it refuses, and what is said of that.
BAD: list[tuple[str, Any, str]] = [
    ("all", [], "expected a list of assertions in `all`, at least one"),
    ("any", {"status_is": "error"}, "expected a list of assertions in `any`, at least one"),
    ("budget.cost", -1, "expected a number of at least 0, got -1"),
    ("budget.latency", "10 s", "expected a number of at least 0, got '10 s'"),
    ("budget.tokens", {}, "expected `max`, `input` or `output`"),
    ("custom.python", {"limit": 3}, "expected the name of a check, as in `custom.python: {check: charged_once}`"),
    (
        "effect.exactly_once",
        {"tool": "x", "per": "order"},
        "bad JSON path 'order' at character 1: expected $ or tool:$",
    ),
    ("effect.none", [], "expected the tools that have effects: the log does not say which do"),
    ("final_output_exists", "yes", "expected true or false, got 'yes'"),
    ("judge.factual", "  ", "expected some text in `reference`"),
    ("judge.faithful", "yes", "expected true or false, got 'yes'"),
    ("judge.label", {"labels": ["a", "b"], "is": "c"}, 'expected `is` to be among the labels ["a","b"], got \'c\''),
    ("judge.rubric", "", "expected some text in `rubric`"),
    ("judge.score", {"rubric": "x", "at_least": 70}, "at_least: expected a number of at least 0 and at most 1, got 70"),
    ("llm.calls", {"min": 3, "max": 1}, "nothing is at least 3 and at most 1"),
    ("llm.context_overflow", 1, "expected true or false, got 1"),
    ("llm.malformed_call", "yes", "expected true or false, got 'yes'"),
    ("llm.same_answer", 1, "expected a whole number of at least 2, got 1"),
    ("llm.same_request", 1, "expected a whole number of at least 2, got 1"),
    ("llm.truncated", {"calls": "lst"}, "unknown value 'lst'; did you mean 'last'?"),
    ("max_tool_calls", -1, "expected a whole number of at least 0, got -1"),
    ("not", {"not": NEVER}, "a `not` inside a `not` has no effect; remove both"),
    ("output.answer", " ", "expected the answer, as a text"),
    ("output.contains", 3, "expected a text, got 3"),
    ("output.contains_all", {"textss": ["a"]}, "unknown parameter 'textss'; did you mean 'texts'?"),
    ("output.contains_any", [], "expected at least one text, and none that is empty: an empty one is in every output"),
    ("output.contradicts", 3, "expected a text, got 3"),
    (
        "output.edit_distance",
        {"to": "a", "max": -1},
        "max: expected a whole number of at least 0 and at most 1000, got -1",
    ),
    ("output.empty", "yes", "expected true or false, got 'yes'"),
    ("output.error", "", "expected some text: an empty one is in every output"),
    ("output.finish_reason", {"reason": "stop", "calls": "lst"}, "unknown value 'lst'; did you mean 'last'?"),
    ("output.grounded", {"derive": ["sums"]}, "unknown value 'sums'; did you mean 'sum'?"),
    ("output.icontains", "", "expected some text: an empty one is in every output"),
    ("output.json", "objekt", "unknown value 'objekt'; did you mean 'object'?"),
    ("output.json_path", "paid", "bad JSON path 'paid' at character 1: expected $ or tool:$"),
    (
        "output.json_schema",
        {"type": "objekt"},
        "bad JSON Schema at $.type: 'objekt' is not valid under any of the given schemas",
    ),
    ("output.length", {"min": 5, "max": 2}, "nothing is at least 5 and at most 2"),
    ("output.not_contains", "", "expected some text: an empty one is in every output"),
    ("output.refusal", 3, "expected true or false, got 3"),
    ("output.regex", "(", "bad pattern '(': missing ), unterminated subpattern at position 0"),
    ("output.similar", {"to": "a", "min": 2}, "min: expected a number of at least 0 and at most 1, got 2"),
    ("output.starts_with", [], "expected a text, got a list"),
    ("repeat", {"times": 1, "of": NEVER}, "times: expected a whole number of at least 2 and at most 100, got 1"),
    ("replay.diverges_at", {}, "expected `call`, `name` or `kind`"),
    ("replay.no_divergence", {"allow": ["mved"]}, "unknown value 'mved'; did you mean 'moved'?"),
    ("run.error", 3, "expected a text, got 3"),
    ("run.failed_steps", 0, "expected a whole number of at least 1, got 0"),
    ("safety.no_pii", ["outputs"], "unknown value 'outputs'; did you mean 'output'?"),
    (
        "safety.no_secret",
        {"kinds": ["nothing"]},
        "unknown sort 'nothing'; valid: anthropic_key, ",
    ),
    ("span.count", {"name": "x"}, "expected `min`, `max` or both"),
    ("span.duration", {"name": "x"}, "expected `min_s`, `max_s` or both"),
    ("span.exists", {"kind": "tol"}, "unknown value 'tol'; did you mean 'tool'?"),
    ("span.no_errors", {"status": "x"}, "unknown parameter 'status'; valid: kind, name, within"),
    ("state.diff", {}, "expected `changed`, `unchanged` or `only`"),
    ("state.equals", 3, "expected a mapping with 'value', 'step'"),
    ("state.hash", "abc", "expected the 64 hexadecimal digits of a SHA-256"),
    ("state.path", "paid", "bad JSON path 'paid' at character 1: expected $ or tool:$"),
    ("state.repeated", 1, "expected a whole number of at least 2, got 1"),
    ("status_is", "sucess", "unknown status 'sucess'; did you mean 'success'?"),
    ("steps.count", {}, "expected `min`, `max` or both"),
    ("steps.exhausted", 1, "expected true or false, got 1"),
    ("threshold", {"min": 0.5, "weights": [1, 2], "of": [NEVER]}, "expected as many weights as assertions: 1, not 2"),
    ("tool.args", {"tool": "x", "arguments": {}, "match": "exakt"}, "unknown value 'exakt'; did you mean 'exact'?"),
    (
        "tool.args_schema",
        {"tool": "x", "schema": {"type": "objekt"}},
        "bad JSON Schema at $.type: 'objekt' is not valid under any of the given schemas",
    ),
    ("tool.called", {"tool": "x", "min": 0}, "min: expected a whole number of at least 1, got 0"),
    ("tool.calls", {}, "expected `min`, `max` or both"),
    ("tool.error", {"tol": "x"}, "unknown parameter 'tol'; did you mean 'tool'?"),
    (
        "tool.ignored_error",
        {"tool": "x", "acknowledged_by": [" "]},
        "expected words in `acknowledged_by`: an empty one is in every answer",
    ),
    ("tool.invalid_arguments", {"tool": "x", "min": 0}, "min: expected a whole number of at least 1, got 0"),
    ("tool.lookup_skipped", "yes", "expected true or false, got 'yes'"),
    ("tool.not_called", 3, "expected a text, got 3"),
    ("tool.not_offered", 3, "expected a text, got 3"),
    ("tool.only_announced", " ", "expected the name of a tool"),
    ("tool.result", {"tool": "x"}, "expected one of equals, matches, contains, regex, min, max, or a path"),
    ("tool.stuck", {"tool": "x", "times": 1}, "times: expected a whole number of at least 2, got 1"),
    ("tool.unretried_error", [], "expected a text, got a list"),
    ("trajectory.allowlist", {}, "expected `allow`, `deny` or both"),
    ("trajectory.before", {"first": "a"}, "the parameter 'then' is missing"),
    ("trajectory.f1", {"tools": ["a"], "min": -1}, "min: expected a number of at least 0 and at most 1, got -1"),
    ("trajectory.match", {"calls": ["a"], "mode": "strikt"}, "unknown value 'strikt'; did you mean 'strict'?"),
    ("trajectory.never_after", "a", "expected a mapping with 'tool', 'after'"),
    ("trajectory.no_loop", 1, "expected a whole number of at least 2, got 1"),
]


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHECKS, "_entries", {})
    register_check("never", lambda run: "it never does")


def found(kind: str, value: Any, run: TraceRun, deviations: tuple[Deviation, ...]) -> Finding:
    assertion = parse_assertion(kind, value)
    return assertion.check(run, Side.DESIRED, deviations, runs=lambda _: RepeatedRun(run), answers=Says())


def test_every_kind_is_in_both_tables() -> None:
    assert [row[0] for row in FAILS] == sorted(ASSERTIONS)
    assert [row[0] for row in BAD] == sorted(set(ASSERTIONS) - {"output.equals"}), "any value is one to compare with"


@pytest.mark.parametrize(("kind", "value", "expected", "actual", "seq", "_on_empty"), FAILS)
def test_a_kind_that_fails_says_what_was_expected_what_was_seen_and_where(
    kind: str, value: Any, expected: str, actual: str, seq: int, _on_empty: bool
) -> None:
    finding = found(kind, value, MESSY, LEFT)

    assert (finding.holds, finding.expected, finding.actual, finding.seq) == (False, expected, actual, seq)


@pytest.mark.parametrize(("kind", "value", "_expected", "_actual", "_seq", "on_empty"), FAILS)
def test_a_kind_says_of_an_empty_run_what_it_should(
    kind: str, value: Any, _expected: str, _actual: str, _seq: int, on_empty: bool
) -> None:
    finding = found(kind, value, EMPTY, ())

    assert finding.holds is on_empty
    assert finding.seq is None
    assert finding.text
    assert finding.actual


@pytest.mark.parametrize(("kind", "value", "message"), BAD)
def test_a_kind_refuses_a_wrong_value_with_its_file_and_line(
    kind: str, value: Any, message: str, own_directory: Path
) -> None:
    lines = ["replaykit: 1", "id: c", "desired:", "  - status_is: success", f"  - {kind}: {json.dumps(value)}"]
    file = own_directory / "case.yaml"
    file.write_text("\n".join(lines))

    with pytest.raises(InvalidFile) as caught:
        load_case(file)

    assert (caught.value.file, caught.value.line) == (str(file), 5)
    assert message in caught.value.reason


@pytest.mark.parametrize("kind", ["judge.factual", "judge.faithful", "judge.label", "judge.rubric", "judge.score"])
def test_a_kind_that_is_judged_cannot_tell_where_nothing_is_stored(kind: str) -> None:
    value = next(row[1] for row in FAILS if row[0] == kind)

    with pytest.raises(CannotTell, match="needs_human"):
        parse_assertion(kind, value).check(MESSY, Side.DESIRED)
