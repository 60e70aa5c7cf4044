"""Objects that grow are read as others are, only faster."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model import growing_objects
from replaykit.model.growing_objects import ObjectSplitter
from replaykit.model.values import Raw


def plainly(text: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in msgspec.json.decode(text, type=dict[str, Raw]).items()}


def read(splitter: ObjectSplitter, text: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in splitter.members(Raw(text)).items()}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.fixture(autouse=True)
def _short_texts(monkeypatch):
    monkeypatch.setattr(growing_objects, "_MIN_BYTES", 0)


ITEMS = st.lists(st.one_of(st.integers(), st.text(), st.lists(st.integers(), max_size=2)), max_size=5)


@given(st.lists(st.tuples(ITEMS, ITEMS, st.text(max_size=3)), min_size=2, max_size=5))
def test_members_are_those_of_a_plain_reader(objects):
    splitter = ObjectSplitter()
    grown: list[object] = []
    for items, others, text in objects:
        grown = [*grown, *items]
        for value in ({"a": others, "m": grown, "z": text}, {"m": grown, "z": 1}):
            assert read(splitter, compact(value)) == plainly(compact(value))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"m":[1,2],"z":3}', b'{"m":[1,2],"y":[4],"z":3}'),
        (b'{"m":["a"],"z":"],"}', b'{"m":["a"],"z":"],","z":"],"}'),
        (b'{"m":[1]}', b'{"m":[1],"n":[1]}'),
        (b'{"m":[1]}', b'{"m":[12]}'),
        (b'{"m":[[1]]}', b'{"m":[[1],[2]]}'),
        (b'{"m":[1], "z": 2}', b'{"m":[1,2], "z": 2}'),
        (b'{"m":[1],"m":[1,2]}', b'{"m":[1,2],"m":[1,2]}'),
        (b'{"m":[]}', b'{"m":[1]}'),
    ],
)
def test_what_only_looks_grown_is_read_plainly(before, after):
    splitter = ObjectSplitter()
    read(splitter, before)

    assert read(splitter, after) == plainly(after)


def test_only_new_items_of_a_grown_list_are_read(monkeypatch):
    splitter = ObjectSplitter()
    read(splitter, compact({"messages": list(range(100)), "model": "m"}))
    monkeypatch.setattr(growing_objects, "read_members", None)

    members = read(splitter, compact({"messages": list(range(102)), "model": "m"}))

    assert json.loads(members["messages"]) == list(range(102))
