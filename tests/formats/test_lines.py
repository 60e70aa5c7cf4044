"""Finding the line of a JSON path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.json_positions import line_of

TEXT = b"""{
 "run_id": "a \\" { [ , b",
 "events": [
   {"type": "a"},
   {"type": "b",
    "tool_args": {
      "x": [1,
       2]
   }},
   3
 ],
 "z\\u00e4": {}
}"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("run_id",), 2),
        (("events",), 3),
        (("events", 0), 4),
        (("events", 1), 5),
        (("events", 1, "tool_args"), 6),
        (("events", 1, "tool_args", "x", 0), 7),
        (("events", 1, "tool_args", "x", 1), 8),
        (("events", 2), 10),
        (("zä",), 12),
        (("zä", "missing"), 12),
        (("events", 9), 3),
        (("nothing", 3), 1),
    ],
)
def test_a_path_has_a_line_or_that_of_what_is_around_it(path, line):
    assert line_of(TEXT, path) == line


def test_of_a_key_that_is_there_twice_the_last_counts():
    assert line_of(b'{\n"a": 1,\n"a": 2}', ("a",)) == 3


def test_depth_and_damage_do_no_harm():
    assert line_of(b"\n[" * 50_000, (0, 0)) == 4
    assert line_of(b'{"a": "unfinished', ("a",)) == 1
    assert line_of(b"}}]],,::\xff\n{", ("a", 0)) == 2


@given(st.binary(max_size=40), st.lists(st.text(max_size=2) | st.integers(0, 3), max_size=3))
def test_any_bytes_have_some_line(text, path):
    assert 1 <= line_of(text, path) <= text.count(b"\n") + 1


LEAVES = st.none() | st.integers(0, 9) | st.text(max_size=3)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(max_size=3), inner, min_size=1),
    max_leaves=12,
)


@given(JSON, st.data())
def test_every_value_of_a_printed_document_is_found(value, data):
    mark = "the mark ✓"
    path: list[str | int] = []
    outer: list = [value]
    inner, last = outer, 0
    while isinstance(inner[last], dict | list):
        inner = inner[last]
        last = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
        path.append(last)
    inner[last] = mark

    text = json.dumps(outer[0], indent=1, ensure_ascii=False)

    expected = next(n for n, line in enumerate(text.split("\n"), 1) if mark in line)
    assert line_of(text.encode(), path) == expected
