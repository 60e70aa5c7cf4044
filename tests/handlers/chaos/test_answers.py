"""Spoiled answers: of the same kind, of any shape, and never the caller's own value changed."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.handlers.chaos.answers import PAYLOAD, empty, malformed, partial, saying, with_hidden
from replaykit.model.jsonpath import parse_path, values_at
from replaykit.model.values import decode, freeze, raw

Json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
SPOILERS = [malformed, partial, empty, lambda value: saying(value, "EVIL"), lambda value: with_hidden(value, "EVIL")]


@pytest.mark.parametrize("spoil", SPOILERS)
@given(value=Json)
def test_whatever_the_answer_is_it_is_spoiled_and_left_as_it_was(spoil: Any, value: Any) -> None:
    before = copy.deepcopy(value)

    orjson.dumps(spoil(value))

    assert value == before


@given(Json)
def test_a_malformed_answer_is_no_json(value: Any) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(malformed(value))


@given(Json)
def test_a_payload_is_always_there_once(value: Any) -> None:
    assert orjson.dumps(saying(value, PAYLOAD)).count(PAYLOAD.encode()) == 1
    assert orjson.dumps(with_hidden(value, PAYLOAD)).count(PAYLOAD.encode()) == 1


@given(st.lists(Json, max_size=6), st.dictionaries(st.text(min_size=2, max_size=5), Json, min_size=2, max_size=6))
def test_half_of_an_answer_is_its_beginning(items: list[Any], members: dict[str, Any]) -> None:
    assert partial(items) == items[: len(items) // 2]
    assert list(partial(members).items()) == list(members.items())[: len(members) // 2]


@pytest.mark.parametrize(
    ("value", "half", "nothing"),
    [
        ((1, 2, 3, 4), (1, 2), ()),
        ({"a"}, set(), set()),
        ("text", "te", ""),
        (7, None, None),
        (b"bytes", None, None),
    ],
)
def test_what_json_cannot_say_stays_of_its_kind(value: Any, half: Any, nothing: Any) -> None:
    frozen = freeze(value)

    assert decode(raw(half)) == decode(orjson.dumps(partial(frozen)))
    assert decode(raw(nothing)) == decode(orjson.dumps(empty(frozen)))


def test_the_longest_text_is_found_wherever_it_is() -> None:
    value = {"a": "short", "b": [{"c": "the longest of all"}, "x"]}

    assert saying(value, "EVIL") == {"a": "short", "b": [{"c": "EVIL"}, "x"]}
    assert with_hidden([1, 2], "EVIL") == [1, 2, "EVIL"]
    assert with_hidden({"n": 1}, "EVIL") == {"n": 1, "message": "EVIL"}
    assert with_hidden(3, "EVIL") == "3\n\nEVIL"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", [{"a": [{"b": 1}, {"b": 2}], "c": {"b": 3}}]),
        ("$.a[1].b", [2]),
        ("$.a[*].b", [1, 2]),
        ("$..b", [1, 2, 3]),
        ("$.c.*", [3]),
        ("$.missing", []),
        ("$.c.b.deeper", []),
        ("$['c']['b']", [3]),
    ],
)
def test_the_members_that_a_path_names_are_found(path: str, expected: list[Any]) -> None:
    found = values_at({"a": [{"b": 1}, {"b": 2}], "c": {"b": 3}}, parse_path(path))

    assert sorted(found, key=str) == sorted(expected, key=str)
