"""Assertions from files that people wrote: what is wrong is said, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import ASSERTIONS, Assertion, BadAssertion, parse_assertion
from replaykit.errors import ExitCode, UsageError

BAD = [
    ("max_tol_calls", 3, (), "did you mean 'max_tool_calls'?"),
    ("max_tool_calls", "3", (), "expected a whole number, got a text"),
    ("max_tool_calls", True, (), "expected a whole number, got true or false"),
    ("max_tool_calls", -1, (), "0 or more"),
    ("max_tool_calls", {"tol": "x", "count": 3}, ("tol",), "did you mean 'tool'?"),
    ("max_tool_calls", {"tool": "x"}, (), "missing parameter `count`"),
    ("max_tool_calls", {"count": "3"}, ("count",), "expected a whole number"),
    ("min_tool_calls", 0, (), "1 or more"),
    ("status_is", "eror", (), "did you mean 'error'?"),
    ("status_is", [], (), "at least one status"),
    ("status_is", ["error", 3], (1,), "expected a text"),
    ("final_output_exists", "yes", (), "expected true or false"),
    ("final_output_exists", {"exists": True}, (), "expected true or false"),
    ("output_contains", "", (), "some text"),
    ("error_like", " ", (), "the text of an error"),
    ("tool_called", {"tool": "x", "arguments": [1]}, ("arguments",), "a mapping"),
    ("tool_sequence", ["a", 4], (1,), "expected a text"),
    ("ignored_tool_error", {"tool": "x", "acknowledged_by": ["a", 3]}, ("acknowledged_by", 1), "expected a text"),
    ("ignored_tool_error", {"tool": "x", "acknowledged_by": [""]}, (), "every answer"),
    ("unretried_tool_error", None, (), "expected a text"),
    ("not", "status_is", (), "one assertion inside"),
    ("not", {"status_is": "error", "max_tool_calls": 1}, (), "one assertion inside"),
    ("not", {"max_tool_calls": {"cuont": 1}}, ("max_tool_calls", "cuont"), "did you mean 'count'?"),
    ("not", {"nto": 1}, ("nto",), "unknown assertion"),
    ("not", {"not": {"status_is": "error"}}, ("not",), "take both away"),
]


@pytest.mark.parametrize(("kind", "value", "path", "message"), BAD)
def test_a_bad_assertion_is_told_with_its_place(kind, value, path, message):
    with pytest.raises(BadAssertion) as caught:
        parse_assertion(kind, value)

    assert caught.value.path == path
    assert message in str(caught.value)
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code is ExitCode.USAGE


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
