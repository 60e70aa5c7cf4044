"""Arguments that repeat each other: split into shared parts and the rest, and put together again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.json_layout import MAX_LINE_BYTES, laid_out
from replaykit.model.shared_parts import BadReference, Budget, PartReader, PartWriter
from replaykit.model.values import Raw, canonical

long_texts = st.sampled_from(["a" * 70, "b" * 300, "c" * 1200])
leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | long_texts
names = st.sampled_from(["messages", "body", "a.b", "", "$tuple", "input", "é"])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=4), max_leaves=20
)


@given(st.lists(values, min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=2, max_size=12))
def test_what_is_split_is_put_together_again(pool: list[Any], picks: list[int]) -> None:
    arguments = [Raw(canonical(pool[pick % len(pool)])) for pick in picks]
    writer = PartWriter(arguments)

    split = [writer.split(value) for value in arguments]

    reader = PartReader(writer.tables, Budget())
    for value, one in zip(arguments, split, strict=True):
        large = {path: bytes(member) for path, member in one.large.items()}
        assert reader.joined(one.rest, one.parts, large) == value


def test_a_conversation_takes_room_for_its_messages_once() -> None:
    messages = [{"role": "user", "content": f"{n} " + "word " * 200} for n in range(60)]
    arguments = [Raw(canonical({"messages": messages[: n + 1]})) for n in range(60)]
    writer = PartWriter(arguments)

    split = [writer.split(value) for value in arguments]

    shared = sum(len(item) for item in writer.tables["messages"])
    assert shared < 1.1 * len(arguments[-1])
    assert sum(len(one.rest) for one in split) < 500


def test_the_budget_holds_for_all_calls_together() -> None:
    tables = {"m": [Raw(b'"%b"' % (b"x" * 98))]}
    reader = PartReader(tables, Budget(1000))

    for _ in range(9):
        reader.joined(Raw(b"{}"), {"m": 0}, {})
    with pytest.raises(BadReference, match="more than 1,000 bytes"):
        reader.joined(Raw(b"{}"), {"m": "0,0"}, {})


def test_short_things_stand_on_one_line_and_long_ones_on_several() -> None:
    text = canonical({"a": {"b": [1, 2], "c": ""}, "d": ["x" * MAX_LINE_BYTES, {"e": 1}], "f": []})

    assert laid_out(text, open_levels=1).decode().splitlines() == [
        "{",
        '  "a": {"b": [1, 2], "c": ""},',
        '  "d": [',
        f'    "{"x" * MAX_LINE_BYTES}",',
        '    {"e": 1}',
        "  ],",
        '  "f": []',
        "}",
    ]


@given(values)
def test_the_layout_changes_no_value(value: Any) -> None:
    text = canonical(value)

    assert msgspec.json.format(laid_out(text, open_levels=2), indent=-1) == text
