"""Every kind of assertion, seen to hold and seen to fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.compare import ArgumentKeys, key_of, same, within
from replaykit.checks.reading import matches
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source
from replaykit.model.result import Side
from replaykit.model.run import TraceRun
from replaykit.model.values import raw

FAILED = "Error: billing service timeout"


def run_of(*calls: tuple[str, Any, Any], status: str = "success", output: Any = None, **top: Any) -> TraceRun:
    events: list[dict[str, Any]] = [{"type": "input_message", "content": "Why?"}]
    for tool, arguments, result in calls:
        events.append({"type": "tool_call", "tool_name": tool, "tool_args": arguments})
        events.append({"type": "tool_result", "output": result})
    if "error" in top:
        events.append({"type": "error", "error": top["error"]})
    trace = {"run_id": "r", "status": status, "events": events, "final_output": output, **top}
    return import_source(Source(json.dumps(trace).encode(), "trace.json")).runs[0]


LOOP = run_of(
    *[("lookup_billing", {"user_id": "usr_8821"}, FAILED)] * 5,
    status="error",
    error="Max tool call limit exceeded. Agent terminated.",
)
GOOD = run_of(
    ("lookup_billing", {"user_id": "usr_8821"}, FAILED),
    ("lookup_billing", {"user_id": "usr_8821", "page": 2}, {"total": 49.99}),
    ("send_email", {"to": {"name": "Ana", "mail": "ana@example.com"}, "cc": []}, "ok"),
    output="You were charged $49.99 for the yearly plan.",
)
GAVE_UP = run_of(("lookup_billing", {}, FAILED), output="I could not reach the billing service.")
LIED = run_of(("lookup_billing", {}, FAILED), output="You were charged $49.99 for the yearly plan.")
SORRY = run_of(("lookup_billing", {}, FAILED), output="Sorry, nothing to see here.")
HANDED_OVER = run_of(("lookup_billing", {}, FAILED), output="Somebody will call you tomorrow.")
REASON = run_of(("lookup_billing", {}, FAILED), output="No figure: billing service timeout")
UNREAD = run_of(("lookup_billing", {}, FAILED), output="Η υπηρεσία δεν απαντά.")
EMPTY = run_of(output="  \n")

HOLDS_AND_FAILS = [
    ("status_is", "error", LOOP, GOOD),
    ("status_is", ["timeout", "error"], LOOP, GOOD),
    ("final_output_exists", True, GOOD, LOOP),
    ("final_output_exists", False, LOOP, GOOD),
    ("final_output_exists", False, EMPTY, GOOD),
    ("output.empty", True, EMPTY, LOOP),
    ("output.empty", False, GOOD, EMPTY),
    ("output.contains", "$49.99", GOOD, GAVE_UP),
    ("output.error", FAILED, run_of(output="billing service timeout"), run_of(output={"error": FAILED})),
    (
        "output.error",
        "shop.Lost: it is lost",
        run_of(output="Lost: it is lost."),
        run_of(output="No answer: it is lost"),
    ),
    ("output.error", "Lost: it is lost", run_of(output="Traceback (most recent call last):\n  x"), LOOP),
    ("output.not_contains", "$49.99", GAVE_UP, GOOD),
    ("output.not_contains", "$49.99", GAVE_UP, LOOP),
    ("output.equals", "I could not reach the billing service.", GAVE_UP, GOOD),
    ("output.equals", {"a": [1, 2.0]}, run_of(output={"a": [1.0, 2]}), run_of(output={"a": [True, 2]})),
    ("run.error", "Max tool call limit *. Agent terminated.", LOOP, GOOD),
    ("run.error", "Max * limit", run_of(status="error", error="Max step limit"), LOOP),
    ("max_tool_calls", 3, GOOD, LOOP),
    ("max_tool_calls", {"tool": "lookup_billing", "count": 2}, GOOD, LOOP),
    ("max_tool_calls", {"tool": "lookup_billing", "count": 1, "same_arguments": True}, GOOD, LOOP),
    ("tool.calls", {"min": 4}, LOOP, GOOD),
    ("tool.calls", {"tool": "send_email", "min": 1}, GOOD, LOOP),
    ("tool.called", "send_email", GOOD, LOOP),
    ("tool.called", {"tool": "send_email", "arguments": {"to": {"mail": "ana@example.com"}}}, GOOD, LOOP),
    ("tool.called", {"tool": "lookup_billing", "arguments": {"page": 2}}, GOOD, LOOP),
    ("tool.not_called", "send_email", LOOP, GOOD),
    ("tool.not_called", {"tool": "lookup_billing", "arguments": {"page": 2}}, LOOP, GOOD),
    ("trajectory.match", ["lookup_billing", "lookup_billing", "send_email"], GOOD, LOOP),
    ("tool.unretried_error", {"tool": "lookup_billing"}, GAVE_UP, GOOD),
    ("tool.unretried_error", "lookup_billing", GAVE_UP, LOOP),
    ("tool.ignored_error", {"tool": "lookup_billing"}, LIED, GAVE_UP),
    ("tool.ignored_error", {"tool": "lookup_billing", "acknowledged_by": ["not reach"]}, LIED, GAVE_UP),
    ("tool.ignored_error", {"tool": "lookup_billing", "acknowledged_by": ["sorry"]}, GAVE_UP, LOOP),
    *(
        ("tool.ignored_error", {"tool": "lookup_billing", "acknowledged_by": "anything"}, LIED, told)
        for told in (GAVE_UP, SORRY, HANDED_OVER, REASON, UNREAD)
    ),
    ("steps.exhausted", True, LOOP, GOOD),
    ("steps.exhausted", False, GOOD, LOOP),
    ("not", {"status_is": "error"}, GOOD, LOOP),
    ("not", {"output.contains": "$49.99"}, LOOP, GOOD),
]


@pytest.mark.parametrize(("kind", "value", "good", "bad"), HOLDS_AND_FAILS)
def test_each_kind_holds_for_one_run_and_fails_for_another(kind, value, good, bad):
    assertion = parse_assertion(kind, value)

    assert assertion.check(good, Side.DESIRED).holds
    assert not assertion.check(bad, Side.DESIRED).holds


@pytest.mark.parametrize(("kind", "value", "good", "bad"), HOLDS_AND_FAILS)
def test_a_finding_says_what_was_expected_and_what_was_seen(kind, value, good, bad):
    for run in (good, bad):
        finding = parse_assertion(kind, value).check(run, Side.DESIRED)

        assert finding.kind == kind
        assert finding.text
        assert finding.expected
        assert finding.actual
        assert finding.seq is None or finding.seq in [event.seq for event in run.events]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("status_is", "error", "Run ended with error"),
        ("max_tool_calls", {"tool": "lookup_billing", "count": 5}, "Tool 'lookup_billing' called 5 times"),
        ("max_tool_calls", 5, "Tool 'lookup_billing' called 5 times"),
        ("final_output_exists", False, "No final output"),
    ],
)
def test_the_signatures_of_the_billing_loop_read_as_in_the_quick_start(kind, value, text):
    finding = parse_assertion(kind, value).check(LOOP, Side.OBSERVED)

    assert finding.holds
    assert finding.text == text


def test_max_tool_calls_is_a_limit_when_desired_and_a_loop_when_observed():
    limit = parse_assertion("max_tool_calls", 5)
    busy = run_of(*[(f"tool_{n}", {}, "ok") for n in range(6)])

    assert limit.check(LOOP, Side.DESIRED).holds
    assert limit.check(LOOP, Side.OBSERVED).holds
    assert not limit.check(busy, Side.DESIRED).holds
    assert not limit.check(busy, Side.OBSERVED).holds, "six different tools are no loop"


def test_an_observed_limit_of_zero_does_not_hold_for_a_run_without_calls():
    assert not parse_assertion("max_tool_calls", 0).check(run_of(), Side.OBSERVED).holds
    assert parse_assertion("max_tool_calls", 0).check(run_of(), Side.DESIRED).holds


def test_a_broken_limit_points_at_the_first_call_too_many():
    finding = parse_assertion("max_tool_calls", 3).check(LOOP, Side.DESIRED)

    assert finding.seq == LOOP.tool_calls[3].seq
    assert (finding.expected, finding.actual) == ("at most 3 tool calls", "5 calls")


def test_a_wrong_sequence_points_at_the_first_tool_that_differs():
    finding = parse_assertion("trajectory.match", ["lookup_billing", "send_email"]).check(GOOD, Side.DESIRED)

    assert finding.seq == GOOD.tool_calls[1].seq


def test_calls_inside_another_tool_are_not_the_agents():
    import msgspec

    outer, inner = run_of(("plan", {}, "ok"), ("lookup", {}, "ok")).tool_calls
    nested = TraceRun(id="n", events=(outer, msgspec.structs.replace(inner, parent=outer.seq)))

    assert parse_assertion("trajectory.match", ["plan"]).check(nested, Side.DESIRED).holds


@pytest.mark.parametrize(
    "error", ["quota used up", "QuotaError: quota used up", {"type": "QuotaError", "message": "quota used up"}]
)
def test_an_error_is_recognised_with_and_without_its_class(error):
    run = run_of(status="error", error=error)

    assert parse_assertion("run.error", "quota used up").check(run, Side.OBSERVED).holds
    assert not parse_assertion("run.error", "quota").check(run, Side.OBSERVED).holds


@pytest.mark.parametrize("text", ["It FAILED.", "I couldn’t do it", "Service unavailable", "please try again"])
def test_an_answer_admits_a_failure_in_many_words(text):
    run = run_of(("pay", {}, FAILED), output=text)

    assert not parse_assertion("tool.ignored_error", "pay").check(run, Side.OBSERVED).holds


@pytest.mark.parametrize("text", ["Sorry to hear that! It is done.", "No problem, I issued it.", "The unfailing plan"])
def test_words_that_admit_nothing_do_not_count(text):
    run = run_of(("pay", {}, FAILED), output=text)

    assert parse_assertion("tool.ignored_error", "pay").check(run, Side.OBSERVED).holds


@pytest.mark.parametrize(
    "error",
    [
        "Max tool call limit exceeded. Agent terminated.",
        "GraphRecursionError: Recursion limit of 25 reached without hitting a stop condition.",
        "MaxTurnsExceeded: Max turns (10) exceeded",
        "the agent ran out of steps",
        "error_max_turns: 12 turns, limit 12",
    ],
)
def test_many_frameworks_say_that_the_steps_ran_out(error):
    run = run_of(status="error", error=error)

    assert parse_assertion("steps.exhausted", True).check(run, Side.OBSERVED).holds


@pytest.mark.parametrize(
    "error", ["Rate limit exceeded, too many tool calls per minute", "KeyError: 'step'", "maximum length is 3"]
)
def test_other_limits_are_not_the_step_budget(error):
    run = run_of(status="error", error=error)

    assert not parse_assertion("steps.exhausted", True).check(run, Side.OBSERVED).holds


def test_the_step_budget_is_counted_when_the_run_says_how_much_it_had():
    calls = [("search", {"n": n}, "ok") for n in range(4)]

    exhausted = parse_assertion("steps.exhausted", True)

    assert exhausted.check(run_of(*calls, status="error", max_steps=4), Side.OBSERVED).holds
    assert not exhausted.check(run_of(*calls, status="error", max_steps=5), Side.OBSERVED).holds
    assert not exhausted.check(run_of(*calls, output="done", max_steps=4), Side.OBSERVED).holds


def test_an_agent_that_was_stopped_but_calls_it_success_is_caught():
    run = run_of(output="Agent stopped due to iteration limit or time limit.")

    assert parse_assertion("steps.exhausted", True).check(run, Side.OBSERVED).holds


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, JSON)
def test_sameness_is_symmetric_and_reflexive(one, other):
    assert same(one, one)
    assert same(one, other) == same(other, one)


@given(JSON, JSON)
@example(1, 1.0)
@example([{"a": 10**20}], [{"a": 1e20}])
@example({"a": 1, "b": 0}, {"b": -0.0, "a": 1})
@example(1, True)
def test_values_have_one_key_just_when_they_are_the_same(one, other):
    assert (key_of(one) == key_of(other)) is same(one, other)


@given(JSON, JSON)
@example({"a": [1, 2]}, {"a": (1, 2)})
@example({"a": [1, {"b": (1.0,)}]}, {"a": [1, {"b": (1,)}, 3]})
@example({"a": []}, {"a": [1]})
@example({"a": "[1]"}, {"a": [1]})
def test_arguments_have_one_key_just_when_they_are_the_same(one, other):
    keys = ArgumentKeys()
    one_key, other_key = keys.key_of(raw(one)), keys.key_of(raw(other))

    assert (one_key == other_key) is same(one, other)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("max_tool_calls", {"count": 1, "same_arguments": True}),
        ("trajectory.no_loop", 2),
        ("effect.exactly_once", {"tool": "charge", "per": "$.eur"}),
    ],
)
def test_calls_whose_arguments_are_the_same_number_are_alike(kind, value):
    twice = run_of(("charge", {"eur": 5}, "ok"), ("charge", {"eur": 5.0}, "ok"))
    apart = run_of(("charge", {"eur": 5}, "ok"), ("charge", {"eur": "5"}, "ok"))

    assert not parse_assertion(kind, value).check(twice, Side.DESIRED).holds
    assert parse_assertion(kind, value).check(apart, Side.DESIRED).holds


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.data())
def test_a_part_of_an_object_is_within_it(whole, data):
    kept = data.draw(st.sets(st.sampled_from(sorted(whole)))) if whole else set()

    assert within({key: whole[key] for key in kept}, whole)
    assert within(whole, whole)


@given(st.lists(st.text(alphabet="ab *", max_size=4), min_size=1, max_size=5), st.text(alphabet="ab ", max_size=3))
def test_a_star_stands_for_any_text(pieces, filling):
    assert matches("*".join(pieces), filling.join(piece.replace("*", "") for piece in pieces))


@given(st.text(alphabet="ab*", max_size=8), st.text(alphabet="ab", max_size=10))
def test_matching_agrees_with_a_regular_expression(pattern, text):
    import re

    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None

    assert matches(pattern, text) is expected


def test_one_letter_is_not_both_the_beginning_and_the_end():
    assert not matches("ab*ba", "aba")
    assert matches("ab*ba", "abba")


def test_matching_takes_linear_time():
    assert not matches("a*" * 2000 + "b", "a" * 20_000)
