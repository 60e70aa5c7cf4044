"""The members of a file, however it holds them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.damage import as_lines

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.registry import first_items, is_sse, items_of, mostly
from replaykit.formats.core.source import Source

VALUES = [{"a": 1}, {"b": [2]}, {"c": {"d": "data: x"}}]


def as_stream(values: list[Any], end: bytes = b"\n") -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + end * 2 for value in values)


FORMS = {
    "a list": json.dumps(VALUES).encode(),
    "a list over several lines": json.dumps(VALUES, indent=2).encode(),
    "lines": as_lines(VALUES),
    "an event stream": as_stream(VALUES),
    "an event stream with other line ends": as_stream(VALUES, b"\r\n"),
    "an event stream without its last empty line": as_stream(VALUES).rstrip(),
    "an event stream with more fields": b": hi\n\nevent: x\nid: 1\nretry: 5\n" + as_stream(VALUES),
    "a stream that says it is done": as_stream(VALUES) + b"data: [DONE]\n\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_members(form: str) -> None:
    source = Source(FORMS[form], "f")
    assert [item.value for item in items_of(source) if isinstance(item, TraceItem)] == VALUES
    assert first_items(source) == VALUES


def test_data_over_several_lines_is_one_member() -> None:
    (item,) = items_of(Source(b'data: {"a":\ndata: 1}\n\n', "f"))
    assert isinstance(item, TraceItem)
    assert item.value == {"a": 1}


def test_a_document_that_is_no_list_is_its_only_member() -> None:
    (item,) = items_of(Source(b'{"a": 1}', "f"))
    assert isinstance(item, TraceItem)
    assert item.value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "line"),
    [(b'{"a": 1}\n{bad\n{"b": 2}\n', 2), (b'data: {"a": 1}\n\ndata: {bad\n\ndata: {"b": 2}\n\n', 3)],
)
def test_a_bad_member_says_its_line_and_the_others_are_there(text: bytes, line: int) -> None:
    first, bad, last = items_of(Source(text, "f"))
    assert isinstance(bad, InvalidFile)
    assert bad.line == line
    assert isinstance(first, TraceItem)
    assert isinstance(last, TraceItem)


def test_a_document_that_is_no_json_is_an_error() -> None:
    with pytest.raises(InvalidFile, match="not JSON"):
        list(items_of(Source(b'[{"a": 1}', "f")))


def test_what_is_wrong_with_a_member_is_told_with_the_line_of_the_file() -> None:
    items = list(items_of(Source(b'[\n{"a": 1},\n{\n"b": 2}]', "f")))
    assert isinstance(items[1], TraceItem)
    assert items[1].error("no", "b").line == 4


@pytest.mark.parametrize("text", [b"", b"hello", b"datum: 1\n", b"\x00\x01data:", b"event: x\n\n", b'{"data": 1}'])
def test_what_is_no_stream_is_not_taken_for_one(text: bytes) -> None:
    assert not is_sse(Source(text, "f"))


def test_most_are_more_than_half() -> None:
    assert mostly(bool, [1, 1, 0])
    assert not mostly(bool, [1, 0])
    assert not mostly(bool, [])
