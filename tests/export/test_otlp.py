"""`export --format otlp`: a run as OTLP JSON, and back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.telemetry.runs import everything

import replaykit as rk
from replaykit.cli import run as cli
from replaykit.export.forms import export_run
from replaykit.formats.files import import_trace
from replaykit.model.events import ErrorInfo, Exchange, LlmCall, ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.telemetry.span import call_id, nanoseconds, root_id, trace_id_of


def spans_in(text: bytes) -> list[dict[str, Any]]:
    (resource,) = json.loads(text)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    assert scope["scope"]["name"] == "replaykit"
    return list(scope["spans"])


def imported(text: bytes, directory: Path) -> TraceRun:
    file = directory / "trace.json"
    file.write_bytes(text)
    (run,) = import_trace(file).runs
    return run


def test_it_is_what_the_protocol_says() -> None:
    text = export_run(everything(), "otlp")
    document = json.loads(text)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:  # hex in OTLP's JSON, base64 in protobuf's
        for name in ("traceId", "spanId", "parentSpanId"):
            span[name] = base64.b64encode(bytes.fromhex(span.get(name, ""))).decode()

    request = json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=False)

    assert len(request.resource_spans[0].scope_spans[0].spans) == 9
    assert text.count(b"\n") == 1
    assert text.endswith(b"\n")


def test_the_same_run_gives_the_same_bytes() -> None:
    assert export_run(everything(), "otlp") == export_run(everything(), "otlp")


def test_what_was_told_live_bears_the_same_ids(store: rk.Store) -> None:
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    rk.telemetry.enable(tracer_provider=provider, meter_provider=NoOpMeterProvider())
    try:
        run = everything()
        writer = store.begin(run.header)
        for event in run.events:
            writer.append(event)
        writer.finish(run.header)
    finally:
        rk.telemetry.disable()

    live = {(span.name, f"{span.context.span_id:016x}") for span in exporter.get_finished_spans()}
    assert live == {(span["name"], span["spanId"]) for span in spans_in(export_run(store.load(run.id), "otlp"))}


def test_imported_again_it_is_the_same_run(tmp_path: Path) -> None:
    run = everything()
    back = imported(export_run(run, "otlp"), tmp_path)

    assert back.id == trace_id_of(run)
    assert (back.name, back.agent, back.agent_version) == ("clerk", "clerk", "1.2")
    assert (back.input, back.output, back.status) == (run.input, run.output, run.status)
    assert (back.started_at, back.ended_at) == (run.started_at, run.ended_at)
    before, after = list(run.calls), list(back.calls)
    kept = [call for call in before if isinstance(call, LlmCall | ToolCall)]
    for ours, theirs in zip(kept, after, strict=True):
        assert type(theirs) is type(ours)
        assert (theirs.name, theirs.at, theirs.step) == (ours.name, ours.at, ours.step)
        assert theirs.duration_s == pytest.approx(ours.duration_s, abs=1e-6)
        if isinstance(ours, LlmCall) and isinstance(theirs, LlmCall):
            assert (theirs.usage, theirs.result) == (ours.usage, ours.result)
            assert ours.error is not None or theirs.finish_reason == ours.finish_reason
        else:
            assert (theirs.arguments, theirs.result) == (ours.arguments, ours.result)
        if ours.error is not None:
            assert theirs.error is not None
            assert (theirs.error.type, theirs.error.module) == (ours.error.type, ours.error.module)
            assert (theirs.error.message, theirs.error.traceback) == (ours.error.message, ours.error.traceback)


def test_a_second_journey_changes_nothing_more(tmp_path: Path) -> None:
    run = everything()
    calls = tuple(
        call for call in run.calls if not isinstance(call, Exchange)
    )  # a request that failed becomes an error
    once = imported(export_run(TraceRun.of(run.header, calls), "otlp"), tmp_path)  # type: ignore[arg-type]
    twice = imported(export_run(once, "otlp"), tmp_path)

    def bare(run: TraceRun) -> TraceRun:
        return msgspec.structs.replace(run, metadata_json=raw({}))

    assert bare(twice) == bare(once)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, VALUES, st.floats(1.6e9, 1.9e9), st.integers(0, 10**9).map(lambda micros: micros / 1e6))
def test_whatever_a_run_holds_can_be_exported(value: Any, answer: Any, at: float, duration_s: float) -> None:
    call = ToolCall(seq=0, at=at, duration_s=duration_s, name="t", arguments_json=raw(value), result_json=raw(answer))
    asked = LlmCall(seq=1, at=at, name="m", arguments_json=raw({"messages": value}), result_json=raw(answer))
    run = TraceRun(id="r", input_json=raw(value), output_json=raw(answer), started_at=at, events=(call, asked))

    root, first, *_ = spans_in(export_run(run, "otlp"))

    assert int(first["startTimeUnixNano"]) / 1e9 == pytest.approx(at)
    assert root["spanId"] == first["parentSpanId"]


@given(st.floats(0, 4e9))
def test_times_survive_being_counted_in_nanoseconds(at: float) -> None:
    assert nanoseconds(at) / 1_000_000_000 == pytest.approx(at, abs=5e-10, rel=0)
    if at > 1e9:
        assert nanoseconds(at) / 1_000_000_000 == at


def test_ids_of_a_run_are_never_the_same() -> None:
    root = root_id("20260215-143200-4f9cab12cd")
    ids = {root, *(call_id(root, seq) for seq in range(100_000))}
    assert len(ids) == 100_001
    assert all(0 < identity < 2**64 for identity in ids)


def test_the_command_writes_it_redacted(store: rk.Store, tmp_path: Path) -> None:
    secret = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ" * 2
    with rk.record("billing", input=f"use {secret}", store=store) as run:
        run.output = "done"

    assert cli(["export", "billing", "--format", "otlp", "--store", str(store.path), "-o", "trace.json"]) == 0

    text = (tmp_path / "trace.json").read_bytes()
    assert secret.encode() not in text
    assert spans_in(text)[0]["attributes"][2] == {"key": "replaykit.run.id", "value": {"stringValue": run.id}}


def untimed(**more: Any) -> TraceRun:
    """A run as logged conversations have it: calls in their order, a step among them, and no time anywhere."""
    names = [*(f"tool_{number}" for number in range(12)), "tool_3", "tool_0"]
    calls = tuple(
        ToolCall(
            seq=seq,
            name=name,
            step="inner" if seq in (2, 5) else None,
            arguments_json=raw({"n": seq}),
            result_json=raw({"m": seq}),
        )
        for seq, name in enumerate(names)
    )
    last = LlmCall(seq=len(calls), name="", arguments_json=raw({"messages": []}), result_json=raw({"content": "Done."}))
    given = {"status": RunStatus.SUCCESS, "output_json": raw("Done."), **more}
    return TraceRun(id="untimed", event_count=len(calls) + 1, events=(*calls, last), **given)


def test_a_run_without_times_comes_back_in_its_order_and_has_ended(tmp_path: Path) -> None:
    run = untimed()

    back = imported(export_run(run, "otlp"), tmp_path)

    tools = [event for event in back.events if isinstance(event, ToolCall)]
    assert [(call.name, call.arguments) for call in tools] == [
        (event.name, event.arguments) for event in run.events if isinstance(event, ToolCall)
    ]
    assert isinstance(back.events[-1], LlmCall)
    assert (back.status, back.started_at, back.ended_at) == (RunStatus.SUCCESS, 0, None)


def test_a_model_without_a_name_leaves_no_space_behind_the_operation() -> None:
    names = [span["name"] for span in spans_in(export_run(untimed(), "otlp"))]

    assert "chat" in names


def test_what_a_failed_run_gave_all_the_same_comes_back(tmp_path: Path) -> None:
    error = ErrorInfo(type="Judged", message="rude")

    back = imported(export_run(untimed(status=RunStatus.ERROR, error=error), "otlp"), tmp_path)
    without = imported(export_run(untimed(status=RunStatus.ERROR, error=error, output_json=raw("")), "otlp"), tmp_path)

    assert (back.status, back.output) == (RunStatus.ERROR, "Done.")
    assert (without.status, bytes(without.output_json)) == (RunStatus.ERROR, b"")


@pytest.mark.parametrize("given", ["", None, "text", {"a": 1}, ["x"]], ids=repr)
def test_an_empty_answer_comes_back_empty(given: Any, tmp_path: Path) -> None:
    back = imported(export_run(untimed(output_json=raw(given)), "otlp"), tmp_path)

    assert back.output == given
