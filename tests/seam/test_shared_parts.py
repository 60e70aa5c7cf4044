"""Results in which several places hold one object: a replay gives back one object as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.model.values import Raw, raw
from replaykit.seam.rebuild import value_of
from replaykit.seam.results import ToolValues
from replaykit.seam.shared_parts import has_shared_parts


def kept(value: Any) -> Raw:
    return ToolValues("grid", None).keep(value)


def given_back(value: Any) -> Any:
    return value_of(kept(value))


def test_rows_that_are_one_list_change_together_in_a_replay(store: rk.Store) -> None:
    @rk.tool
    def grid() -> list[list[int]]:
        return [[0] * 2] * 3

    def agent(question: str) -> list[list[int]]:
        rows = grid()
        rows[0][0] = 1
        return rows

    with rk.record("grid", store=store) as run:
        recorded = agent("")
    replayed = rk.replay(store.load(run.id), agent)

    assert recorded == [[1, 0], [1, 0], [1, 0]]
    assert replayed.run is not None
    assert replayed.run.output == recorded


@pytest.mark.parametrize("shared", [[], {}, [1], {"a": [2]}])
def test_one_object_in_several_places_stays_one(shared: Any) -> None:
    value = {"first": shared, "inner": ({"again": shared}, [shared]), 3: shared}

    back = given_back(value)

    assert back == value
    assert back["first"] is back["inner"][0]["again"]
    assert back["first"] is back["inner"][1][0]
    assert back["first"] is back[3]


@dataclass
class Row:
    first: Any
    again: Any


@dataclass(slots=True, frozen=True)
class SlottedRow:
    first: Any
    again: Any


class Pair(NamedTuple):
    first: Any
    again: Any


@pytest.mark.parametrize("kind", [Row, SlottedRow, Pair])
@pytest.mark.parametrize("shared", [["x"], {"a": 1}, {"x"}, bytearray(b"x"), Row("a", "b")])
def test_one_object_in_several_fields_stays_one(kind: Any, shared: Any) -> None:
    value = kind([shared], [shared])

    back = ToolValues("grid", given_back).give(kept(value))

    assert back == value
    assert back.first[0] is back.again[0]


@pytest.mark.parametrize("kind", [Row, SlottedRow])
def test_fields_that_are_one_object_stay_one(kind: Any) -> None:
    shared = ["x"]

    back = ToolValues("grid", given_back).give(kept([kind(shared, shared), shared]))

    assert back[0].first is back[0].again
    assert back[0].first is back[1]


@pytest.mark.parametrize("name", ["__dict__", "__class__", "other", 0, -1])
def test_a_step_that_is_no_field_is_damage(name: Any) -> None:
    text = kept([Row(1, 2), Row(3, 4)])
    crafted = b'{"$obj": ["shared", %b, "replaykit", [[[0, %b], [1, %b]]]]}' % (text, raw(name), raw(name))

    assert ToolValues("grid", given_back).give(Raw(crafted)) == [Row(1, 2), Row(3, 4)]


def test_crafted_places_join_no_object_into_itself() -> None:
    text = kept([Row(Row(1, 2), 3), Row(Row(1, 2), 3)])
    crafted = b'{"$obj": ["shared", %b, "replaykit", [[[0], [1]], [[0], [1, "first"]]]]}' % text

    back = ToolValues("grid", given_back).give(Raw(crafted))

    assert back[0].first == Row(1, 2)


def test_two_equal_objects_stay_two() -> None:
    back = given_back([[0], [0]])

    assert back[0] is not back[1]
    assert not has_shared_parts([[0], [0], (), ()])
    assert bytes(kept([[0], [0]])) == b"[[0],[0]]"


@pytest.mark.parametrize("key", [2**60, "\ud800", 1.5, None, (1, 2)])
def test_a_key_that_json_does_not_have_leaves_the_objects_apart(key: Any) -> None:
    shared = [1]
    back = given_back({key: shared, "b": shared})

    assert back["b"] == [1]


def test_a_list_that_holds_itself_is_reported_as_before() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert b"$opaque" in bytes(kept(loop))


def test_a_deep_result_is_no_problem() -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]

    assert not has_shared_parts(deep)


@pytest.mark.parametrize(
    "places", [None, [[]], [[[0], [0, 0]]], [[[7], [1]]], [[[0], []]], [[["x"], [1]]], [[[0], [1, "a"]]], "text"]
)
def test_places_that_do_not_fit_are_damage_and_nothing_else(places: Any) -> None:
    values = ToolValues("grid", None)
    text = b'{"$obj": ["shared", [[], {}], "replaykit", %b]}' % bytes(raw(places))

    assert values.give(Raw(text)) == [[], {}]


@given(st.recursive(st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), st.data())
def test_any_result_with_a_shared_part_comes_back_equal_and_joined(shared: Any, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    value = {"parts": [shared] * count, "other": [shared, 1]}

    back = given_back(value)

    assert back == value
    if isinstance(shared, list | dict):
        assert all(part is back["other"][0] for part in back["parts"])
