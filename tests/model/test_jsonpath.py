"""Paths that leave members of a value out of a comparison."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.jsonpath import parse_path, remove_paths

VALUE = {
    "request_id": "r-1",
    "items": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"deep": {"id": 3}}],
    "it's [odd]": True,
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=20,
)
steps = st.sampled_from([".a", ".b", "['c']", "[0]", "[1]", "[*]", ".*", "..a", "..b"])
paths = st.lists(steps, max_size=4).map(lambda parts: "$" + "".join(parts))


def without(value, *texts, tool=None):
    return remove_paths(value, [parse_path(text) for text in texts], tool=tool)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.request_id", {key: VALUE[key] for key in ("items", "it's [odd]")}),
        ("$['it\\'s [odd]']", {key: VALUE[key] for key in ("request_id", "items")}),
        ('$["it\'s [odd]"]', {key: VALUE[key] for key in ("request_id", "items")}),
        ("$.items[*].id", VALUE | {"items": [{"name": "a"}, {"name": "b"}, {"deep": {"id": 3}}]}),
        ("$.items[1]", VALUE | {"items": [VALUE["items"][0], VALUE["items"][2]]}),
        ("$..id", VALUE | {"items": [{"name": "a"}, {"name": "b"}, {"deep": {}}]}),
        ("$.items.*.deep..id", VALUE | {"items": [*VALUE["items"][:2], {"deep": {}}]}),
        ("$.*", {}),
        ("$", None),
        ("$.absent.anywhere[3]", VALUE),
    ],
)
def test_a_path_removes_what_it_names(path, expected):
    assert without(VALUE, path) == expected


def test_removing_one_item_does_not_shift_the_next():
    assert without(["a", "b", "c"], "$[0]", "$[1]") == ["c"]


def test_a_path_with_a_tool_applies_to_that_tool_only():
    path = "ns:search:$.request_id"

    assert parse_path(path).tool == "ns:search"
    assert without(VALUE, path, tool="other") == VALUE
    assert "request_id" not in without(VALUE, path, tool="ns:search")


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 1), ("name", 1), (":$", 1), ("$x", 2), ("$.a[", 4), ("$.a[-1]", 4), ("$..", 2), ("$['a]", 2), ("$.a b", 4)],
)
def test_a_bad_path_says_at_which_character(text, position):
    with pytest.raises(ValueError) as caught:
        parse_path(text)

    assert f"at character {position}:" in str(caught.value)


@given(json_values, st.lists(paths, max_size=4))
def test_the_value_itself_is_never_changed(value, texts):
    before = copy.deepcopy(value)

    without(value, *texts)

    assert value == before


@given(json_values, paths)
def test_a_path_without_indexes_finds_nothing_the_second_time(value, text):
    if "[0]" in text or "[1]" in text or text == "$":
        return  # the items behind a removed one move up

    once = without(value, text)

    assert without(once, text) == once
