"""Searching the pages of a run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.memory import traced_memory

from replaykit.model.events import AnyEvent, LlmCall, Message, ToolCall
from replaykit.model.values import raw
from replaykit.viewer.events import EventPages
from replaykit.viewer.page_types import Occurrence
from replaykit.viewer.search import MAX_OCCURRENCES, find_text


def found(text: str, *events: AnyEvent) -> list[Occurrence]:
    pages = EventPages(started_at=0.0)
    return list(find_text([msgspec.json.encode(pages.page(event)) for event in events], text))


def call(arguments: Any = None, result: Any = None) -> ToolCall:
    return ToolCall(seq=0, name="track", arguments_json=raw(arguments), result_json=raw(result))


@pytest.mark.parametrize(
    ("text", "result", "is_exact"),
    [
        ("in Lyon", "it is in Lyon today", True),
        ("IN  lyon", "it is in Lyon today", False),
        ("1250", 1250, True),
        ("1,250.00", 1250, False),
        ("1250", "EUR 1,250.00 in all", False),
        ("1'250", "1250.0", False),
        ("-7.0", "it is -7 degrees", False),
        ("125", 1250, True),
        ("<b>", "a <b> c", True),
        ('say "no"\\', 'they say "no"\\ twice', True),
        ("straße", "STRASSE", False),
        ("line\nbreak", "a line\nbreak here", True),
    ],
)
def test_a_text_is_found_in_any_spelling(text: str, result: Any, is_exact: bool) -> None:
    (occurrence,) = found(text, call(result=result))

    assert (occurrence.place, occurrence.path, occurrence.is_exact) == ("result", "$", is_exact)


@pytest.mark.parametrize(
    ("text", "result"), [("1250.5", 1250), ("1,250", "12,500"), ("", "x"), ("   ", "a   b"), ("cat", "dog")]
)
def test_what_is_not_there_is_not_found(text: str, result: Any) -> None:
    assert found(text, call(result=result)) == []


def test_each_place_has_a_path() -> None:
    nested = {"items": [{"unit price": 5}, {"id": "A-17"}]}
    events = (call(arguments={"id": "A-17"}, result=nested), Message(seq=1, role="user", content_json=raw("find A-17")))

    places = [(one.seq, one.place, one.path) for one in found("A-17", *events)]

    assert places == [(0, "arguments", "$.id"), (0, "result", "$.items[1].id"), (1, "content", "$")]
    assert found("unit price", *events)[0].path == "$.items[0]['unit price']", "also the name of a member"


def test_a_message_counts_once_though_every_request_repeats_it() -> None:
    messages = [{"role": "user", "content": "order 4711"}, {"role": "assistant", "content": "let me see"}]
    calls = [LlmCall(seq=seq, name="m", arguments_json=raw({"messages": messages[: seq + 1]})) for seq in range(2)]

    (occurrence,) = found("4711", *calls)

    assert (occurrence.seq, occurrence.path) == (0, "$[0].parts[0].text")


def test_the_title_is_found_where_nothing_else_is() -> None:
    (occurrence,) = found("track", call())

    assert (occurrence.place, occurrence.path) == ("row", "$.title")


def test_an_excerpt_is_short() -> None:
    (occurrence,) = found("needle", call(result="x" * 10_000 + "needle" + "y" * 10_000))

    assert "needle" in occurrence.excerpt
    assert len(occurrence.excerpt) < 200


def test_the_first_occurrences_are_enough() -> None:
    assert len(found("x", call(result=["x"] * 5000))) == MAX_OCCURRENCES


def test_deep_values_are_searched() -> None:
    deep: Any = "needle"
    for _ in range(200):
        deep = [deep]

    (occurrence,) = found("needle", call(result=deep))

    assert occurrence.path == "$" + "[0]" * 200


def test_long_names_take_neither_memory_nor_room() -> None:
    name = "x" * 50_000
    value = {name: {name: {f"k{number}": {"text": "needle"} for number in range(4000)}}}

    with traced_memory() as peak:
        occurrences = found("needle", call(result=value))

    assert peak() < 20_000_000
    assert len(occurrences) == MAX_OCCURRENCES
    assert {one.path for one in occurrences} == {f"$.{name[:998]}…"}


def test_a_deep_path_is_short() -> None:
    value: Any = "needle"
    for number in range(100):
        value = {f"level {number}": [value]}

    (occurrence,) = found("needle", call(result=value))

    assert len(occurrence.path) == 1001
    assert occurrence.path.startswith("$['level 99'][0]['level 98'][0]")
