"""What tools were called with, what they gave back, and how often."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.reading import glob
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.result import Finding, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Raw, canonical, raw


def call(seq: int, name: str, arguments: Any, result: Any = "ok", **more: Any) -> ToolCall:
    return ToolCall(seq=seq, name=name, arguments_json=Raw(canonical(arguments)), result_json=raw(result), **more)


RUN = TraceRun(
    id="r",
    events=(
        call(0, "search", {"q": "plans", "limit": 10}, {"hits": [{"id": 1}, {"id": 2}]}),
        call(1, "search", {"q": "prices", "id": "x7"}, {"hits": []}),
        ToolCall(
            seq=2, name="pay", arguments_json=Raw(b'{"sum":9}'), error=ErrorInfo(type="TimeoutError", message="late")
        ),
        ToolCall(seq=3, name="watch", items_json=(raw("a"), raw("b"))),
    ),
)


def found(kind: str, value: Any) -> Finding:
    return parse_assertion(kind, value).check(RUN, Side.DESIRED)


@pytest.mark.parametrize(
    ("more", "holds", "seq"),
    [
        ({"arguments": {"q": "plans", "limit": 10}}, True, 0),
        ({"arguments": {"q": "plans"}}, False, 1),
        ({"arguments": {"q": "plans"}, "match": "superset"}, True, 0),
        ({"arguments": {"q": "plans", "limit": 10, "page": 1}, "match": "superset"}, False, 1),
        ({"arguments": {"q": "plans", "limit": 10, "page": 1}, "match": "subset"}, True, 0),
        ({"arguments": {}, "match": "ignore"}, True, 0),
        ({"arguments": {"q": "prices", "limit": 10}, "defaults": {"limit": 10}, "ignore": ["$.id"]}, True, 1),
        ({"arguments": {"q": "plans"}, "defaults": {"limit": 10}}, True, 0),
        ({"arguments": {"q": "prices"}, "ignore": ["$.id"], "occurrence": "last"}, True, 1),
        ({"arguments": {"q": "prices"}, "ignore": ["$.id"], "occurrence": "first"}, False, 0),
        ({"arguments": {"q": "prices"}, "ignore": ["$.id"], "occurrence": 2}, True, 1),
        ({"arguments": {"q": "prices"}, "match": "ignore", "occurrence": 3}, False, 3),
        ({"arguments": {"q": "plans"}, "match": "superset", "occurrence": "all"}, False, 1),
    ],
)
def test_arguments_are_compared_in_the_mode_that_is_named(more, holds, seq):
    finding = found("tool.args", {"tool": "search", **more})

    assert (finding.holds, finding.seq) == (holds, seq)


def test_a_tool_that_was_not_called_has_no_arguments():
    finding = found("tool.args", {"tool": "refund", "arguments": {}, "match": "ignore"})

    assert not finding.holds
    assert finding.text == "Tool 'refund' was not called"


def test_a_schema_is_for_every_call_unless_one_is_named():
    schema = {"required": ["limit"]}

    finding = found("tool.args_schema", {"tool": "search", "schema": schema})

    assert not finding.holds
    assert (finding.seq, finding.actual) == (1, "$: 'limit' is a required property")
    assert found("tool.args_schema", {"tool": "search", "schema": schema, "occurrence": "first"}).holds
    assert not found("tool.args_schema", {"tool": "refund", "schema": {}}).holds


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ({"tool": "search", "path": "$.hits[1].id", "equals": 2}, True),
        ({"tool": "search", "path": "$.hits[0]", "occurrence": "last"}, False),
        ({"tool": "search", "matches": {"hits": []}, "occurrence": 2}, True),
        ({"tool": "search", "contains": "hits", "occurrence": "all"}, True),
        ({"tool": "pay", "contains": "late"}, False),
        ({"tool": "watch", "equals": ["a", "b"]}, True),
        ({"tool": "*", "path": "$.hits", "occurrence": "any"}, True),
    ],
)
def test_a_result_is_looked_at_whole_or_by_path(value, holds):
    assert found("tool.result", value).holds is holds


@pytest.mark.parametrize(
    ("value", "holds", "seq"),
    [
        ("pay", True, 2),
        ({"tool": "*", "like": "TimeoutError: *"}, True, 2),
        ({"tool": "pay", "like": "never"}, False, 2),
        ("search", False, 1),
    ],
)
def test_a_tools_failure_is_found_and_read(value, holds, seq):
    finding = found("tool.error", value)

    assert (finding.holds, finding.seq) == (holds, seq)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ({"tool": "search", "min": 2, "max": 2}, True),
        ({"tool": "search", "arguments": {"q": "plans"}, "min": 2}, False),
        ({"tool": "s*", "max": 1}, False),
        ("s*h", True),
        ("S*", False),
    ],
)
def test_calls_are_counted_by_name_pattern_and_arguments(value, holds):
    assert found("tool.called", value).holds is holds


def test_one_call_too_many_is_pointed_at():
    assert found("tool.called", {"tool": "search", "max": 1}).seq == 1
    assert found("tool.calls", {"max": 2}).seq == 2


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_glob_agrees_with_trying_every_stretch(pattern, text):
    def tried(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(tried(pattern[1:], text[start:]) for start in range(len(text) + 1))
        return text[:1] == pattern[0] and tried(pattern[1:], text[1:])

    assert glob(pattern, text) is tried(pattern, text)


def test_only_the_star_is_special_in_a_name():
    assert glob("GET shop.test/a?b=[1]", "GET shop.test/a?b=[1]")
    assert not glob("a?c", "abc")
