"""Patches: keys merged, JSON Patch applied, nothing given is changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.patch import PatchError, apply_patch, merge, missing_keys

STATE = {"n": 1, "list": [1, 2, 3], "deep": {"a": {"b": 2}}, "a/b": 0, "m~n": 0}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/list/1", "value": 9}], {"list": [1, 9, 2, 3]}),
        ([{"op": "add", "path": "/list/-", "value": 9}], {"list": [1, 2, 3, 9]}),
        ([{"op": "add", "path": "/new", "value": {}}], {"new": {}}),
        ([{"op": "remove", "path": "/list/0"}], {"list": [2, 3]}),
        ([{"op": "replace", "path": "/deep/a/b", "value": 5}], {"deep": {"a": {"b": 5}}}),
        ([{"op": "replace", "path": "/list/1", "value": 5}], {"list": [1, 5, 3]}),
        ([{"op": "move", "from": "/list/2", "path": "/list/0"}], {"list": [3, 1, 2]}),
        ([{"op": "copy", "from": "/n", "path": "/deep/n"}], {"deep": {"a": {"b": 2}, "n": 1}}),
        ([{"op": "test", "path": "/n", "value": 1}, {"op": "replace", "path": "/n", "value": 2}], {"n": 2}),
        ([{"op": "replace", "path": "/a~1b", "value": 1}], {"a/b": 1}),
        ([{"op": "replace", "path": "/m~0n", "value": 1}], {"m~n": 1}),
    ],
)
def test_each_operation_does_what_the_standard_says(operations: list[Any], expected: dict[str, Any]) -> None:
    assert apply_patch(STATE, operations) == {**STATE, **expected}


def test_the_whole_value_can_be_replaced() -> None:
    assert apply_patch(STATE, [{"op": "replace", "path": "", "value": 7}]) == 7


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nothing"},
        {"op": "remove", "path": "/list/9"},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "replace", "path": "/nothing", "value": 1},
        {"op": "test", "path": "/n", "value": 2},
        {"op": "add", "path": "n", "value": 1},
        {"op": "add", "path": "/n"},
        {"op": "jump", "path": "/n"},
        {"op": "move", "path": "/n"},
        {},
        "text",
    ],
)
def test_what_does_not_fit_is_an_error_that_counts_the_operations(operation: Any) -> None:
    with pytest.raises(PatchError, match="operation 2"):
        apply_patch(STATE, [{"op": "test", "path": "/n", "value": 1}, operation])


@given(st.dictionaries(st.text(min_size=1).filter(lambda key: "." not in key), st.integers(), max_size=4))
def test_merging_sets_keys_and_leaves_the_rest(changes: dict[str, int]) -> None:
    assert merge(STATE, changes) == {**STATE, **changes}


def test_dotted_keys_reach_inside() -> None:
    assert merge(STATE, {"deep.a.b": 9})["deep"] == {"a": {"b": 9}}
    with pytest.raises(PatchError, match="no object at 'x'"):
        merge(STATE, {"deep.x.y": 1})
    with pytest.raises(PatchError, match="in an object only"):
        merge([1], {"a": 1})


def test_nothing_that_was_given_is_changed() -> None:
    before = repr(STATE)
    apply_patch(STATE, [{"op": "add", "path": "/list/0", "value": 0}, {"op": "remove", "path": "/deep/a"}])
    merge(STATE, {"deep.a.b": 9})

    assert repr(STATE) == before


def test_the_keys_that_an_object_does_not_have_are_found_inside_as_well() -> None:
    changes = {"n": 2, "m": 2, "deep.a.b": 3, "deep.a.c": 3, "n.x": 4, "new": {}, "new.x": 5}

    assert missing_keys(STATE, changes) == ["m", "deep.a.c", "n.x", "new", "new.x"]
