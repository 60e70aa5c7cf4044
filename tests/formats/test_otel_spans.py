"""Spans as the SDK of OpenTelemetry prints them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.samples import sample, samples_below, unpacked
from tests.formats.story import check_story
from tests.matrix import examples

from replaykit.errors import InvalidFile, ReplayKitError
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace

STORY = "openinference/openai_chat_agent.sdk_to_json.json"
ROOMS = ("otel_genai", "openinference", "openllmetry", "langfuse", "pydantic_ai")
PRINTED = [name for room in ROOMS for name in samples_below(room) if name.endswith("sdk_to_json.json")]


def spans(name: str = STORY) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(unpacked(sample(name)))
    return found


FORMS = {
    "a list": lambda items: json.dumps(items),
    "a list, printed": lambda items: json.dumps(items, indent=4),
    "one a line": lambda items: "\n".join(map(json.dumps, items)) + "\n",
    "one after another": lambda items: "\n".join(json.dumps(item, indent=4) for item in items) + "\n",
    "nothing between them": lambda items: "".join(json.dumps(item, indent=1) for item in items),
    "texts in a list": lambda items: json.dumps([json.dumps(item) for item in items]),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_ways_to_keep_them_are_read_alike(form: str) -> None:
    text = FORMS[form](spans()).encode()

    found = import_source(Source(text, "spans.json"), None if form != "texts in a list" else "otel_spans")

    assert found.format == "otel_spans"
    assert found.remarks == ()
    (run,) = found.runs
    check_story(run)
    assert run == import_trace(sample(STORY)).runs[0]
    assert run.origin.format == "otel_spans"


@pytest.mark.parametrize("name", PRINTED)
def test_every_sample_is_read_whole(name: str) -> None:
    found = import_trace(sample(name))

    assert found.format == "otel_spans"
    assert found.left_out == ()
    assert {run.id for run in found.runs} == {span["context"]["trace_id"].removeprefix("0x") for span in spans(name)}


def test_one_span_alone_is_a_run() -> None:
    model = next(span for span in spans() if span["name"] == "ChatCompletion")

    found = import_source(Source(json.dumps(model).encode(), "span.json"))

    assert len(found.runs[0].llm_calls) == 1
    assert "1 of its spans are named by others" in found.notes[0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"context": {"trace_id": "0xzz", "span_id": "0x01"}}, "trace id"),
        ({"context": {"trace_id": "0x" + "0" * 32, "span_id": "0x" + "1" * 16}}, "without a trace id"),
        ({"parent_id": 5}, "link to a span"),
        ({"start_time": "yesterday"}, "start_time: expected an ISO time"),
        ({"attributes": []}, "attributes: expected an object"),
        ({"events": [5]}, "expected an object"),
        ({"status": None, "name": None, "context": None}, "not a span of the SDK"),
    ],
)
def test_a_bad_span_is_named_with_its_line_and_stops_no_other(changed: dict[str, Any], said: str) -> None:
    items = spans()
    text = "\n".join(map(json.dumps, [*items, items[0] | changed])).encode()

    found = import_source(Source(text, "spans.jsonl"))

    assert len(found.runs) == 1
    assert len(found.left_out) == 1
    assert said in found.left_out[0]
    assert found.left_out[0].startswith(f"spans.jsonl:{len(items) + 1}: ")


def test_what_ends_in_the_middle_gives_what_came_before_and_says_where() -> None:
    text = FORMS["one after another"](spans()).encode()

    found = import_source(Source(text[: len(text) - 900], "spans.txt"))

    assert len(found.runs) == 1
    assert "not JSON" in found.left_out[0]
    assert int(found.left_out[0].split(":")[1]) > 100


def test_something_else_by_that_name_is_an_error() -> None:
    for text in (b'{"a": 1}', b"[1]", b"hello", b"", b"[]"):
        with pytest.raises(InvalidFile):
            import_source(Source(text, "x"), "otel_spans")


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 30_000), st.binary(max_size=6), st.sampled_from(sorted(FORMS)))
def test_a_damaged_file_is_an_error_or_is_read_in_part(place: int, put: bytes, form: str) -> None:
    text = FORMS[form](spans()).encode()
    damaged = text[: place % len(text)] + put + text[place % len(text) + len(put) + 1 :]
    with suppress(ReplayKitError):
        import_source(Source(damaged, "x"), "otel_spans")
