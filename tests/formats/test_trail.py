"""TRAIL: traces of the benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.damage import as_lines, damaged, read_without_a_traceback, truncated
from tests.formats.samples import corpora_below, corpus, unpacked
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import Imported
from replaykit.formats.core.replayability import replayability
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.files import find_runs, import_source, import_trace
from replaykit.model.run import RunStatus, TraceRun

TRACES = corpora_below("trail/traces")
ANNOTATIONS = corpora_below("trail/annotations")


def document(name: str) -> Any:
    return json.loads(unpacked(corpus(name)))


def of(value: Any, format: str | None = None) -> Imported:
    return import_source(Source(json.dumps(value).encode(), "trace.json"), format)


def only(value: Any) -> TraceRun:
    (run,) = of(value).runs
    return run


def span(name: str, kind: str | None = None, *inner: Any, **more: Any) -> dict[str, Any]:
    """A span with those inside of it; attributes are given with `__` for a dot."""
    fields = {key: more.pop(key) for key in ("duration", "status_code", "status_message", "events") if key in more}
    attributes = {key.replace("__", "."): value for key, value in more.items()}
    return {
        "timestamp": "2025-03-19T16:37:54.000000Z",
        "trace_id": "t1",
        "span_id": f"id-{name}",
        "parent_span_id": None,
        "span_name": name,
        "span_attributes": attributes | ({"openinference.span.kind": kind} if kind else {}),
        "duration": "PT2.5S",
        "status_code": "Ok",
        "status_message": "",
        "events": [],
        "child_spans": list(inner),
        **fields,
    }


def trace(*spans: Any) -> dict[str, Any]:
    return {"trace_id": "t1", "spans": list(spans)}


def _all(spans: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in spans:
        yield one
        yield from _all(one["child_spans"])


@pytest.mark.parametrize("name", TRACES)
def test_the_corpus_counts_what_its_files_count(name: str) -> None:
    told = document(name)
    spans = list(_all(told["spans"]))
    kinds = [one["span_attributes"].get("openinference.span.kind") for one in spans]
    models = [one["span_attributes"] for one, kind in zip(spans, kinds, strict=True) if kind == "LLM"]

    found = import_trace(corpus(name))

    assert (found.format, found.left_out, found.notes) == ("trail", (), ())
    (run,) = found.runs
    assert run.id == told["trace_id"]
    assert len(run.llm_calls) == len(models)
    assert len(run.tool_calls) == kinds.count("TOOL")
    for counted, field in (("prompt", "input_tokens"), ("completion", "output_tokens")):
        expected = sum(int(said[f"llm.token_count.{counted}"]) for said in models)
        assert sum(getattr(call.usage, field) for call in run.llm_calls) == expected
    errors = [one for one in spans if one["status_code"] == "Error"]
    assert sum(call.error is not None for call in (*run.llm_calls, *run.tool_calls)) == len(errors)
    assert (run.status is RunStatus.SUCCESS) == (not errors)
    assert all(call.arguments["messages"] and call.result for call in run.llm_calls)


def test_a_trace_of_the_corpus() -> None:
    (run,) = import_trace(corpus("trail/traces/08be1639c58e086cf0bb8c269039973d.json")).runs

    assert run.agent == "CodeAgent.run"
    assert run.output == "3.1.3.1;1.11.1.7"
    (tool,) = run.tool_calls
    assert (tool.name, tool.arguments) == ("final_answer", {"answer": "3.1.3.1;1.11.1.7"})
    assert tool.result == "3.1.3.1;1.11.1.7", "smolagents' last tool returns what it is given"
    assert replayability(run).lacking == ()
    assert run.duration_s == pytest.approx(52.851384, abs=1e-6)


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_an_annotation_says_what_it_is(name: str) -> None:
    told = document(name)

    (said,) = find_runs(read_source(corpus(name)))

    assert isinstance(said, str)
    which = f"trace {told['trace_id']}" if "trace_id" in told else "a trace"
    assert f"wrong in {which} ({len(told['errors'])} errors), and no trace" in said
    with pytest.raises(InvalidFile, match="the file holds no run"):
        import_trace(corpus(name))


def test_errors_of_spans_are_errors() -> None:
    message = "Traceback…\nValueError: no such page"
    thrown = {"Name": "exception", "Timestamp": "2025-03-19T16:37:55Z"}
    thrown["Attributes"] = {"exception.type": "ValueError", "exception.message": "no such page"}  # type: ignore[assignment]
    run = only(
        trace(
            span(
                "agent",
                "AGENT",
                span("visit", "TOOL", status_code="Error", status_message=message, events=[thrown], tool__name="visit"),
                span("find", "TOOL", status_code="Error", status_message="TimeoutError: late", tool__name="find"),
                output__value="done",
            )
        )
    )

    assert run.status is RunStatus.SUCCESS
    assert [str(call.error) for call in run.tool_calls] == ["TimeoutError: late", "ValueError: no such page"]


@pytest.mark.parametrize(
    ("called", "arguments"),
    [
        ({"args": [], "sanitize_inputs_outputs": True, "kwargs": {"query": "q"}}, {"query": "q"}),
        ({"args": ["q", 3], "kwargs": {}}, {"query": "q", "limit": 3}),
        ({"args": ["q"], "kwargs": {"limit": 3}}, {"query": "q", "limit": 3}),
    ],
)
def test_smolagents_arguments_get_the_names_of_the_tools_schema(called: Any, arguments: Any) -> None:
    schema = json.dumps({"query": {"type": "string"}, "limit": {"type": "integer"}})
    tool = span("Find", "TOOL", tool__name="find", tool__parameters=schema, input__value=json.dumps(called))

    assert only(trace(tool)).tool_calls[0].arguments == arguments


@pytest.mark.parametrize(
    ("told", "seconds"), [("PT0.5S", 0.5), ("PT1M2.25S", 62.25), ("PT1H", 3600), ("P1DT1S", 86401), ("PT0S", 0)]
)
def test_durations(told: str, seconds: float) -> None:
    assert only(trace(span("a", "AGENT", duration=told))).duration_s == pytest.approx(seconds)


def test_what_is_wrong_is_told_with_its_place_and_the_rest_is_read() -> None:
    found = of(trace(span("a", "AGENT", span("b", "TOOL", duration="2.5"), 7, output__value="x")))

    assert len(found.runs) == 1
    assert sorted(found.left_out) == [
        "trace.json:1: duration: expected an ISO 8601 duration such as PT2.5S, got '2.5'",
        "trace.json:1: expected a span, got a number",
    ]
    with pytest.raises(InvalidFile, match="a trace without a span that can be read"):
        of({"trace_id": "t", "spans": []}, "trail")
    with pytest.raises(InvalidFile, match="expected a trace of TRAIL, got a list"):
        of([1], "trail")


def test_a_trace_a_line() -> None:
    lines = as_lines([document(TRACES[0]), document(TRACES[1])]) + b"nonsense\n"

    found = import_source(Source(lines, "traces.jsonl"))

    assert (found.format, len(found.runs)) == ("trail", 2)
    assert found.left_out[0].startswith("traces.jsonl:3: not JSON")


def test_spans_may_be_many_levels_deep() -> None:
    deep = span("s0", "CHAIN")
    for number in range(1, 150):
        deep = span(f"s{number}", "CHAIN", deep)

    assert only(trace(deep)).name == "s149"


@given(damaged(trace(span("a", "AGENT", span("b", "TOOL", input__value="{}"), span("c", "LLM"), output__value="x"))))
@settings(max_examples=examples(60), deadline=None)
def test_damage_never_ends_in_a_traceback(told: Any) -> None:
    read_without_a_traceback("trail", json.dumps(told).encode())


@given(st.data())
@settings(max_examples=examples(10), deadline=None)
def test_a_truncated_file_is_told_as_such(data: st.DataObject) -> None:
    content = data.draw(truncated(unpacked(corpus(TRACES[0]))))

    assert read_without_a_traceback("trail", content) == []
