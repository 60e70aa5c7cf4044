"""Assertions from files that people wrote: what is wrong is said, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import ASSERTIONS, Assertion, BadAssertion, parse_assertion
from replaykit.errors import ExitCode, UsageError

BAD = [
    ("max_tol_calls", 3, (), "did you mean 'max_tool_calls'?"),
    ("max_tool_calls", "3", (), "expected a whole number of at least 0, got '3'"),
    ("max_tool_calls", True, (), "expected a whole number of at least 0, got true"),
    ("max_tool_calls", -1, (), "expected a whole number of at least 0, got -1"),
    ("max_tool_calls", {"tol": "x", "count": 3}, ("tol",), "did you mean 'tool'?"),
    ("max_tool_calls", {"tool": "x"}, (), "the parameter 'count' is missing"),
    ("max_tool_calls", {"count": "3"}, ("count",), "expected a whole number"),
    ("tool.calls", {}, (), "`min`, `max` or both"),
    ("status_is", "eror", (), "did you mean 'error'?"),
    ("status_is", [], (), "at least one status"),
    ("status_is", ["error", 3], (1,), "expected a text"),
    ("final_output_exists", "yes", (), "expected true or false"),
    ("final_output_exists", {"exists": True}, (), "expected true or false"),
    ("output.contains", "", (), "some text"),
    ("run.error", " ", (), "the text of an error"),
    ("tool.called", {"tool": "x", "arguments": [1]}, ("arguments",), "a mapping"),
    ("trajectory.match", ["a", 4], (1,), "expected a text"),
    ("tool.ignored_error", {"tool": "x", "acknowledged_by": ["a", 3]}, ("acknowledged_by", 1), "expected a text"),
    ("tool.ignored_error", {"tool": "x", "acknowledged_by": [""]}, (), "every answer"),
    ("tool.unretried_error", None, (), "expected a text"),
    ("output.regex", "(a", (), "bad pattern"),
    ("output.regex", "", (), "an empty one is in every text"),
    ("output.regex", "a" * 1001, (), "at most 1,000 characters"),
    ("output.json", "objct", (), "did you mean 'object'?"),
    ("output.json_schema", {"type": "objekt"}, (), "bad JSON Schema at $.type"),
    ("output.json_schema", {"pattern": "(a"}, (), "bad pattern"),
    ("output.json_schema", [], (), "expected a mapping"),
    ("output.json_path", "paid", (), "expected $"),
    ("output.json_path", "search:$.paid", (), "without a tool"),
    ("output.json_path", {"path": "$.a", "min": "1"}, ("min",), "expected a number"),
    ("output.json_path", {"path": "$.a", "min": float("nan")}, (), "nothing is above or below nan"),
    ("tool.result", {"tool": "x", "max": float("nan")}, (), "nothing is above or below nan"),
    ("output.contains", 42, (), "expected a text, got 42"),
    ("output.contains", 49.9, (), "expected a text, got 49.9"),
    ("output.contains_all", ["a", True], (1,), "[1]: expected a text, got true"),
    ("output.length", {}, (), "`min`, `max` or both"),
    ("output.length", {"min": 3, "max": 2}, (), "nothing is at least 3 and at most 2"),
    ("output.length", {"max": 2, "unit": "word"}, ("unit",), "did you mean 'words'?"),
    ("output.similar", {"to": "x", "min": 2}, ("min",), "min: expected a number of at least 0 and at most 1, got 2"),
    (
        "output.edit_distance",
        {"to": "x", "max": 5000},
        ("max",),
        "max: expected a whole number of at least 0 and at most 1000, got 5000",
    ),
    ("tool.args", {"tool": "x", "arguments": {}, "match": "exat"}, ("match",), "did you mean 'exact'?"),
    ("tool.args", {"tool": "x", "arguments": {}, "occurrence": 0}, (), "1 or more"),
    ("tool.args", {"tool": "x", "arguments": {}, "occurrence": "lst"}, ("occurrence",), "did you mean 'last'?"),
    ("tool.args", {"tool": "x", "arguments": {}, "ignore": ["a"]}, (), "bad JSON path"),
    ("tool.result", {"tool": "x"}, (), "expected one of equals"),
    ("tool.called", {"tool": "x", "min": 0}, ("min",), "min: expected a whole number of at least 1, got 0"),
    ("trajectory.match", {"calls": ["a", {"tol": "b"}]}, ("calls", 1, "tol"), "did you mean 'tool'?"),
    ("trajectory.match", {"calls": [], "mode": "sub_set"}, ("mode",), "did you mean 'subset'?"),
    ("trajectory.match", {"calls": [], "overrides": {"a": "exat"}}, ("overrides", "a"), "did you mean 'exact'?"),
    ("trajectory.match", {"calls": ["a"] * 1001}, (), "at most 1,000 calls"),
    ("trajectory.no_loop", 1, (), "expected a whole number of at least 2, got 1"),
    ("trajectory.allowlist", {}, (), "`allow`, `deny` or both"),
    ("trajectory.f1", {"tools": [], "min": 0.5}, (), "at least one tool"),
    ("state.hash", "abc", (), "64 hexadecimal digits"),
    ("state.diff", {"from": "step_1"}, (), "expected `changed`"),
    ("state.diff", {"form": "step_1"}, ("form",), "did you mean 'from'?"),
    ("effect.none", [], (), "the log does not say"),
    ("budget.tokens", {}, (), "expected `max`, `input` or `output`"),
    ("budget.latency", -1, (), "expected a number of at least 0, got -1"),
    ("replay.no_divergence", {"allow": ["movd"]}, ("allow", 0), "did you mean 'moved'?"),
    ("replay.diverges_at", {}, (), "expected `call`, `name` or `kind`"),
    ("safety.no_pii", ["outputs"], (0,), "did you mean 'output'?"),
    ("safety.no_pii", {"kinds": ["emial"]}, (), "did you mean 'email'?"),
    ("safety.no_pii", [], (), "at least one place"),
    ("span.exists", {"knd": "tool"}, ("knd",), "did you mean 'kind'?"),
    ("span.duration", {"name": "x"}, (), "`min_s`, `max_s` or both"),
    ("custom.python", {"limit": 3}, (), "the name of a check"),
    ("custom.python", {"check": "x", "a b": 3}, ("a b",), "not the name of an argument"),
    ("all", [], (), "at least one"),
    ("any", [{"status_is": "success"}, {"status_iz": "x"}], (1, "status_iz"), "did you mean 'status_is'?"),
    (
        "threshold",
        {"of": [{"status_is": "success"}], "min": 2},
        ("min",),
        "min: expected a number of at least 0 and at most 1, got 2",
    ),
    ("threshold", {"of": [{"status_is": "success"}], "min": 1, "weights": [1, 2]}, ("weights",), "as many weights"),
    ("threshold", {"of": [{"status_is": "success"}], "min": 1, "weights": [0]}, ("weights",), "above 0"),
    ("threshold", {"of": [{"status_is": 3}], "min": 1}, ("of", 0, "status_is"), "expected a text, or a list, got 3"),
    ("not", "status_is", (), "one assertion inside"),
    ("not", {"status_is": "error", "max_tool_calls": 1}, (), "one assertion inside"),
    ("not", {"max_tool_calls": {"cuont": 1}}, ("max_tool_calls", "cuont"), "did you mean 'count'?"),
    ("not", {"nto": 1}, ("nto",), "unknown assertion"),
    ("not", {"not": {"status_is": "error"}}, ("not",), "remove both"),
]


@pytest.mark.parametrize(("kind", "value", "path", "message"), BAD)
def test_a_bad_assertion_is_told_with_its_place(kind, value, path, message):
    with pytest.raises(BadAssertion) as caught:
        parse_assertion(kind, value)

    assert caught.value.path == path
    assert message in str(caught.value)
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_number_where_a_text_belongs_is_shown_in_quotes():
    with pytest.raises(BadAssertion) as caught:
        parse_assertion("output.contains", 42)

    assert caught.value.hint == 'Quote it: "42"'


def test_an_assertion_keeps_its_value_as_it_was_written():
    value = {"tool": "lookup_billing", "count": 5}

    assertion = parse_assertion("max_tool_calls", value)

    assert (assertion.kind, assertion.value) == ("max_tool_calls", value)
    assert assertion == parse_assertion("max_tool_calls", dict(value))
    assert assertion != parse_assertion("max_tool_calls", 5)


def test_an_assertion_cannot_be_changed():
    with pytest.raises(AttributeError):
        parse_assertion("status_is", "error").kind = "other"


@given(
    st.sampled_from(sorted(ASSERTIONS)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["tool", "count", "arguments", "text", "status_is", "not", "x"]), inner, max_size=3
            )
        ),
        max_leaves=6,
    ),
)
def test_any_value_gives_an_assertion_or_a_bad_assertion(kind, value):
    try:
        assertion = parse_assertion(kind, value)
    except BadAssertion:
        return
    assert isinstance(assertion, Assertion)


def test_an_unknown_kind_says_where_all_of_them_are_listed() -> None:
    with pytest.raises(BadAssertion) as caught:
        parse_assertion("status_iz", "success")

    assert caught.value.hint == "List all of them: replaykit help assertions"
