"""Arguments that repeat each other: split into shared parts and the rest, and put together again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.json_layout import MAX_LINE_BYTES, laid_out
from replaykit.model.shared_parts import (
    BadReference,
    ExpansionBudget,
    ListSplitter,
    PartReader,
    PartWriter,
    distinct_texts,
)
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

    reader = PartReader(writer.tables, ExpansionBudget())
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
    reader = PartReader(tables, ExpansionBudget(1000))

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


lists = st.lists(st.sampled_from([1, 12, "a", "b" * 70, [1], {"a": [1, 2]}, {"role": "user"}, ","]), max_size=8)


@given(st.lists(lists, max_size=6), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_a_list_is_split_into_its_items_whatever_list_came_before(many: list[list[Any]], separators: Any) -> None:
    splitter = ListSplitter()
    for value in many:
        items = splitter.items(json.dumps(value, separators=separators).encode())

        assert items == [json.dumps(item, separators=separators).encode() for item in value]


def test_items_that_the_list_before_had_are_the_same_objects() -> None:
    splitter = ListSplitter()
    before = splitter.items(b'["one","two","three"]')

    grown = splitter.items(b'["one","two","three","four"]')
    assert all(item is other for item, other in zip(before, grown, strict=False))

    changed = splitter.items(b'["one","two","other","four"]')
    assert [item is other for item, other in zip(grown, changed, strict=True)] == [True, True, False, False]


@given(st.lists(values, max_size=4))
def test_texts_of_values_hold_each_of_their_words(pool: list[Any]) -> None:
    texts = b"\n".join(distinct_texts(Raw(canonical(value)) for value in pool))

    for value in pool:
        assert all(json.dumps(word, ensure_ascii=False).strip('"').encode() in texts for word in words_in(value))


def words_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for name, member in value.items() for word in (name, *words_in(member))]
    if isinstance(value, list):
        return [word for item in value for word in words_in(item)]
    return [value] if isinstance(value, str) else []


def test_texts_of_a_conversation_hold_each_message_once() -> None:
    messages = [{"role": "user", "content": f"{n} " + "word " * 200} for n in range(40)]
    arguments = [Raw(canonical({"body": {"messages": messages[: n + 1]}})) for n in range(40)]

    texts = list(distinct_texts(arguments))

    assert sum(map(len, texts)) < 1.1 * len(arguments[-1])
