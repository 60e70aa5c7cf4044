"""Spans that were taken out of Phoenix: by its API, and as rows of a data frame."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.story import check_story
from tests.matrix import examples
from tests.phoenix_server import annotation, spans_of

from replaykit.errors import InvalidFile, ReplayKitError
from replaykit.formats.core.labels import labels_of
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source
from replaykit.model.run import RunStatus

STORIES = ("openai_chat_agent", "openai_chat_stream", "langgraph_agent")


def imported(value: Any, format: str | None = None) -> Imported:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    found = import_source(Source(text, "spans.json"), format)
    assert found.format == "phoenix"
    return found


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Attributes inside of each other, with lists for numbers, as Phoenix stores them."""
    found: dict[str, Any] = {}
    for name, value in flat.items():
        inner, path = found, name.split(".")
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = value
    return _lists(found)


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(name.isdecimal() for name in value):
        return [_lists(value[name]) for name in sorted(value, key=int)]
    return {name: _lists(item) for name, item in value.items()}


def row(span: dict[str, Any], *, in_ms: bool = False) -> dict[str, Any]:
    """A span as a row: lists stay lists, and the names inside of them are flat."""
    made = {name: span[name] for name in ("name", "span_kind", "parent_id", "status_code", "status_message", "events")}
    for name in ("start_time", "end_time"):
        moment = dt.datetime.fromisoformat(span[name])
        made[name] = round(moment.timestamp() * 1000) if in_ms else span[name]
    made |= {f"context.{name}": span["context"][name] for name in ("span_id", "trace_id")}
    for name, value in nested(span["attributes"]).items():
        made |= {f"attributes.{key}": item for key, item in _flat(name, value).items()}
    return made


def _flat(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {name: [_inside(item) for item in value]}
    if not isinstance(value, dict):
        return {name: value}
    return {key: item for step, inner in value.items() for key, item in _flat(f"{name}.{step}", inner).items()}


def _inside(value: Any) -> Any:
    return (
        value if not isinstance(value, dict) else {k: i for step, v in value.items() for k, i in _flat(step, v).items()}
    )


FORMS = {
    "an answer": lambda spans: {"data": spans, "next_cursor": None},
    "a list": lambda spans: spans,
    "nested": lambda spans: [span | {"attributes": nested(span["attributes"])} for span in spans],
    "rows": lambda spans: [row(span) for span in spans],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", STORIES)
def test_the_story_comes_out_of_every_form(name: str, form: str) -> None:
    found = imported(FORMS[form](spans_of(name)))

    assert found.remarks == ()
    (run,) = found.runs
    check_story(run)
    assert run.origin.format == "phoenix"
    assert run.id == spans_of(name)[0]["context"]["trace_id"]


def test_a_data_frame_by_columns_is_read_too() -> None:
    rows = [row(span) for span in spans_of(STORIES[0])]
    names = list(dict.fromkeys(name for one in rows for name in one))
    columns = {name: {str(index): one.get(name) for index, one in enumerate(rows)} for name in names}

    check_story(imported(columns).runs[0])


def test_one_a_line_and_times_in_milliseconds() -> None:
    lines = [row(span, in_ms=True) for span in spans_of(STORIES[0])]

    found = imported("\n".join(map(json.dumps, lines)).encode())

    (run,) = found.runs
    assert [call.name for call in run.tool_calls] == ["get_order", "get_user", "refund_order"]
    assert run.started_at == pytest.approx(
        dt.datetime.fromisoformat(min(s["start_time"] for s in spans_of(STORIES[0]))).timestamp(), abs=0.01
    )


def test_pages_of_answers_on_lines_are_one_trace() -> None:
    spans = spans_of(STORIES[0])
    pages = [{"data": spans[first : first + 2], "next_cursor": "x"} for first in range(0, len(spans), 2)]

    found = imported("\n".join(map(json.dumps, pages)).encode())

    check_story(found.runs[0])
    assert len(found.runs) == 1


@pytest.mark.parametrize("of", ["span", "trace"])
def test_annotations_are_labels_and_one_that_says_failure_makes_the_run_one(of: str) -> None:
    spans = spans_of(STORIES[0])
    target = spans[0]["context"][f"{of}_id"]
    said = [
        annotation(of, target, "tone", score=1.0),
        annotation(of, target, "correctness", label="incorrect", score=0.0, explanation="made up"),
        annotation("span", "of another span", "correctness", label="incorrect"),
    ]

    (run,) = imported({"data": spans, "next_cursor": None, "annotations": said}).runs

    assert run.status is RunStatus.ERROR
    assert [(label.name, label.value, label.failed, label.why) for label in labels_of(run)] == [
        ("tone", 1.0, False, ""),
        ("correctness", "incorrect", True, "made up"),
    ]


def test_annotations_may_stand_in_the_span_they_are_of() -> None:
    spans = spans_of(STORIES[0])
    spans[0] |= {"annotations": [annotation("span", "x", "correctness", score=0)]}

    (run,) = imported(spans).runs

    assert [label.failed for label in labels_of(run)] == [True]


def test_a_span_that_failed_says_so() -> None:
    (run,) = imported(spans_of("langgraph_agent_tool_error")).runs

    assert run.status is RunStatus.TIMEOUT
    assert str(run.error) == "TimeoutError: payment gateway timed out after 30s"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"context": {"trace_id": "zz", "span_id": "y"}}, "trace id"),
        ({"start_time": []}, "start_time"),
        ({"events": {}}, "events: expected a list"),
        ({"status_code": 5}, "status_code: expected a text"),
        ({"context": None}, "not a span of Phoenix"),
    ],
)
def test_a_bad_span_is_named_with_its_line_and_stops_no_other(changed: dict[str, Any], said: str) -> None:
    spans = spans_of(STORIES[0])
    text = "\n".join(map(json.dumps, [*spans, spans[0] | changed])).encode()

    found = imported(text)

    assert len(found.runs) == 1
    assert len(found.left_out) == 1
    assert said in found.left_out[0]
    assert found.left_out[0].startswith(f"spans.json:{len(spans) + 1}: ")


def test_something_else_by_that_name_is_an_error() -> None:
    for text in (b'{"a": 1}', b"[1]", b"[]", b"hello", b'{"data": []}', b'{"context.trace_id": {}, "name": {}}'):
        with pytest.raises(InvalidFile):
            import_source(Source(text, "x"), "phoenix")


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 40_000), st.binary(max_size=6), st.sampled_from(sorted(FORMS)))
def test_a_damaged_file_is_an_error_or_is_read_in_part(place: int, put: bytes, form: str) -> None:
    text = json.dumps(FORMS[form](spans_of(STORIES[0]))).encode()
    damaged = text[: place % len(text)] + put + text[place % len(text) + len(put) + 1 :]
    with suppress(ReplayKitError):
        import_source(Source(damaged, "x"), "phoenix")
