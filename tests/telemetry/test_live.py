"""Runs told to OpenTelemetry as they happen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import replaykit as rk
from replaykit.errors import StoreError
from replaykit.telemetry.span import nanoseconds

_A_MICROSECOND_NS = 1_000
"""More than a time in seconds loses when it is rounded."""


def duration_ns(span: Any) -> int:
    return int(span.end_time - span.start_time)


@rk.tool(effects="none")
def search(query: str) -> str:
    return f"found {query}"


@rk.tool
def research(topic: str) -> str:
    return search(query=topic)


@rk.tool
def pay(amount: int) -> int:
    return amount


@rk.tool
def late() -> None:
    raise TimeoutError("no answer in 5 s")


def parents(spans: list[ReadableSpan]) -> dict[str, str | None]:
    """The name of each span's parent."""
    names = {span.context.span_id: span.name for span in spans}
    return {span.name: None if span.parent is None else names[span.parent.span_id] for span in spans}


def test_a_run_is_a_trace_with_a_span_for_each_step_and_call(told: Any, store: rk.Store) -> None:
    with rk.record("billing", agent="helper", store=store) as run:
        with run.step("plan"):
            research("refunds")
        pay(amount=3)

    assert parents(told.spans) == {
        "invoke_agent helper": None,
        "plan": "invoke_agent helper",
        "execute_tool research": "plan",
        "execute_tool search": "execute_tool research",
        "execute_tool pay": "invoke_agent helper",
    }
    assert len({span.context.trace_id for span in told.spans}) == 1
    assert all(span.attributes["replaykit.run.id"] == run.id for span in told.spans)


def test_times_are_those_of_the_log(told: Any, store: rk.Store) -> None:
    with rk.record("billing", store=store) as run:
        search(query="a")

    (event,) = store.events(run.id)
    header, span, root = store.header(run.id), told.span("execute_tool search"), told.span("invoke_agent billing")
    assert span.start_time == nanoseconds(event.at)
    assert span.end_time == nanoseconds(event.at) + nanoseconds(event.duration_s)
    assert (root.start_time, root.end_time) == (nanoseconds(header.started_at), nanoseconds(header.ended_at or 0))


def test_a_call_is_told_when_it_is_over_and_not_at_the_end_of_the_run(told: Any, store: rk.Store) -> None:
    with rk.record("billing", store=store):
        search(query="a")
        assert [span.name for span in told.spans] == ["execute_tool search"]


def test_an_error_is_told_with_its_class_and_its_message(told: Any, store: rk.Store) -> None:
    with pytest.raises(TimeoutError), rk.record("billing", store=store):
        late()

    for name in ("execute_tool late", "invoke_agent billing"):
        span = told.span(name)
        (event,) = span.events
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "no answer in 5 s"
        assert span.attributes["error.type"] == "TimeoutError"
        assert event.name == "exception"
        assert event.attributes["exception.type"] == "TimeoutError"
        assert event.timestamp == span.end_time
    assert "Traceback" in told.span("invoke_agent billing").events[0].attributes["exception.stacktrace"]
    assert told.span("invoke_agent billing").attributes["replaykit.run.status"] == "timeout"


def test_an_error_that_the_agent_caught_is_an_event_of_its_step(told: Any, store: rk.Store) -> None:
    with rk.record("billing", store=store) as run, run.step("plan"):
        run.error(ValueError("odd"))

    (event,) = told.span("plan").events
    assert event.attributes["exception.type"] == "ValueError"
    assert told.span("plan").status.status_code is StatusCode.UNSET


def test_calls_side_by_side_have_the_parents_that_made_them(told: Any, store: rk.Store) -> None:
    @rk.tool
    async def crawl(site: str) -> str:
        await asyncio.sleep(0)
        return await fetch(site)

    @rk.tool
    async def fetch(site: str) -> str:
        await asyncio.sleep(0)
        return site

    async def agent() -> None:
        await asyncio.gather(*(crawl(site=f"s{number}") for number in range(5)))

    told.enable(content=True)
    with rk.record("billing", store=store):
        asyncio.run(agent())

    crawls = {s.context.span_id: s for s in told.spans if s.name == "execute_tool crawl"}
    fetches = [s for s in told.spans if s.name == "execute_tool fetch"]
    assert len(crawls) == len(fetches) == 5
    for fetched in fetches:
        around = crawls[fetched.parent.span_id]
        assert around.attributes["gen_ai.tool.call.arguments"] == fetched.attributes["gen_ai.tool.call.arguments"]
        # A duration is measured by another clock than the start, and from when the start is in the store: of calls
        # inside of each other, the ends say less than the durations.
        assert around.start_time <= fetched.start_time
        assert 0 <= duration_ns(fetched) <= duration_ns(around) + _A_MICROSECOND_NS


def test_a_step_spans_all_calls_that_threads_made_in_it(told: Any, store: rk.Store) -> None:
    gate = threading.Barrier(3)

    @rk.tool
    def meet(number: int) -> int:
        gate.wait(10)
        return number

    with rk.record("billing", store=store) as run, run.step("together"), ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda number: meet(number=number), range(3)))

    step, calls = told.span("together"), [span for span in told.spans if span.name == "execute_tool meet"]
    assert [span.parent.span_id for span in calls] == [step.context.span_id] * 3
    assert step.start_time == min(span.start_time for span in calls)
    assert step.end_time == max(span.end_time for span in calls)
    assert len({span.context.span_id for span in told.spans}) == 5


def test_a_stream_is_one_span_and_says_when_it_was_left(told: Any, store: rk.Store) -> None:
    @rk.tool
    def count(until: int) -> Iterator[int]:
        yield from range(until)

    @rk.tool
    async def acount(until: int) -> AsyncIterator[int]:
        for number in range(until):
            yield number

    async def whole() -> list[int]:
        return [number async for number in acount(until=2)]

    told.enable(content=True)
    with rk.record("billing", store=store):
        assert asyncio.run(whole()) == [0, 1]
        items = count(until=9)
        next(items)
        items.close()

    assert told.span("execute_tool acount").attributes["gen_ai.tool.call.result"] == "[0,1]"
    assert "replaykit.complete" not in told.span("execute_tool acount").attributes
    assert told.span("execute_tool count").attributes["replaykit.complete"] is False


def test_contents_are_left_out_unless_they_are_asked_for(
    told: Any, store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attributes() -> set[str]:
        with rk.record("billing", input="why?", store=store) as run:
            run.output = search(query="x")
        return {name for span in told.spans[-2:] for name in span.attributes}

    contents = {
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
    }
    assert not attributes() & contents
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    assert not attributes() & contents  # it is read when telemetry is turned on
    told.enable()
    assert attributes() >= contents
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT")
    told.enable()
    assert not attributes() & contents
    told.enable(content=True)
    assert attributes() >= contents


def test_what_is_told_is_redacted_as_what_is_stored(told: Any, store: rk.Store) -> None:
    told.enable(content=True)
    secret = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ" * 2

    with pytest.raises(ValueError, match="broke"), rk.record("billing", input=f"use {secret}", store=store):
        search(query=f"mail bob@example.org with {secret}")
        raise ValueError(f"broke with {secret}")

    everything = "".join(span.to_json() for span in told.spans)
    assert "execute_tool search" in everything
    assert "broke with sk-proj-<" in everything
    assert secret not in everything
    assert "bob@example.org" not in everything


def test_a_run_under_a_span_of_the_application_is_part_of_its_trace(told: Any, store: rk.Store) -> None:
    with told.tracers.get_tracer("app").start_as_current_span("request") as request, rk.record("b", store=store) as run:
        search(query="a")
        with told.tracers.get_tracer("app").start_as_current_span("query"):
            pass

    root = told.span("invoke_agent b")
    assert root.parent.span_id == request.get_span_context().span_id
    assert told.span("query").parent.span_id == root.context.span_id
    assert {span.context.trace_id for span in told.spans} == {request.get_span_context().trace_id}
    assert store.header(run.id).metadata["trace_id"] == f"{root.context.trace_id:032x}"
    assert not trace.get_current_span().get_span_context().is_valid


def test_the_run_names_its_trace_beside_the_users_metadata(told: Any, store: rk.Store) -> None:
    with rk.record("billing", metadata={"ticket": 7}, store=store) as run:
        pass

    root = told.span("invoke_agent billing")
    assert store.header(run.id).metadata == {"ticket": 7, "trace_id": f"{root.context.trace_id:032x}"}
    assert root.attributes["replaykit.run.id"] == run.id
    assert root.kind is SpanKind.INTERNAL


def test_a_fork_is_a_trace_of_its_own_that_links_to_its_origin(told: Any, store: rk.Store) -> None:
    def agent(question: str) -> str:
        with rk.record("inner") as run:
            with run.step("one"):
                first = search(query=question)
            with run.step("two"):
                return search(query=first)

    with rk.record("billing", input="q", store=store) as run:
        run.output = agent("q")
    root = told.span("invoke_agent billing")

    fork_id, journey = rk.fork(run.id, "one", rk.Edits(result="other"), agent=agent, store=store)

    fork = told.spans[-1]
    assert journey.status == "success"
    assert fork.attributes["replaykit.origin.run"] == run.id
    assert fork.attributes["replaykit.origin.step"] == "one"
    assert fork.context.trace_id != root.context.trace_id
    assert [link.context.span_id for link in fork.links] == [root.context.span_id]
    assert [link.context.trace_id for link in fork.links] == [root.context.trace_id]
    metadata = store.header(fork_id).metadata
    assert metadata["trace_id"] == f"{fork.context.trace_id:032x}"
    assert metadata["origin_trace_id"] == f"{root.context.trace_id:032x}"
    assert told.figures("replaykit.forks") == [({"replaykit.origin.kind": "forked", "replaykit.diverged": True}, 1)]


def test_a_fork_without_telemetry_does_not_claim_its_origins_trace(told: Any, store: rk.Store) -> None:
    def agent(question: str) -> str:
        return search(query=question)

    with rk.record("billing", input="q", store=store) as run:
        run.output = agent("q")
    rk.telemetry.disable()

    fork_id, _ = rk.fork(run.id, "step_1", agent=agent, store=store)

    assert "trace_id" not in store.header(fork_id).metadata


def test_a_replay_is_a_trace_and_its_verdict_a_figure(told: Any, store: rk.Store) -> None:
    def agent(question: str) -> str:
        if question:
            late()
        return "done"

    with pytest.raises(TimeoutError), rk.record("billing", input="q", store=store) as run:
        agent("q")
    before = len(told.spans)

    results = [rk.replay(store.load(run.id), agent) for _ in range(2)]

    assert [result.verdict.value for result in results] == ["reproduced"] * 2
    spans = told.spans[before:]
    assert [span.name for span in spans[:2]] == ["execute_tool late", spans[1].name]
    assert spans[1].attributes["replaykit.origin.kind"] == "replayed"
    assert spans[0].parent.span_id == spans[1].context.span_id
    assert spans[1].context.trace_id != spans[3].context.trace_id
    said = {"replaykit.verdict": "reproduced", "replaykit.completed": True}
    assert told.figures("replaykit.replays") == [(said, 2)]
    assert told.figures("replaykit.replay.duration") == [(said, 2)]


def test_a_run_that_is_not_kept_is_told_to_its_end(told: Any, store: rk.Store) -> None:
    with rk.record("billing", store=store, sample=0):
        search(query="a")

    assert store.headers() == []
    assert parents(told.spans) == {"execute_tool search": "invoke_agent billing", "invoke_agent billing": None}


def test_figures_tell_how_runs_end_and_what_the_store_takes(told: Any, store: rk.Store) -> None:
    with rk.record("good", store=store):
        pass
    with pytest.raises(TimeoutError), rk.record("bad", store=store):
        late()

    assert sorted(told.figures("replaykit.runs"), key=str) == [
        ({"replaykit.run.status": "success", "replaykit.checkpointed": True}, 1),
        ({"replaykit.run.status": "timeout", "replaykit.checkpointed": True}, 1),
    ]
    ((said, size),) = told.figures("replaykit.store.size")
    assert said == {"replaykit.store": str(store.path)}
    assert size >= store.path.stat().st_size


def test_a_run_whose_log_was_lost_is_no_success_of_the_store(told: Any, store: rk.Store) -> None:
    with pytest.raises(StoreError), rk.record("billing", store=store) as run:
        store.delete([run.id])
        search(query="a")

    ((said, count),) = told.figures("replaykit.runs")
    assert (said["replaykit.checkpointed"], count) == (False, 1)


def test_what_a_sampler_drops_is_not_told(told: Any, store: rk.Store) -> None:
    told.tracers.sampler = ALWAYS_OFF
    with rk.record("billing", store=store) as run:
        search(query="a")

    assert told.spans == []
    assert "trace_id" in store.header(run.id).metadata


def test_requests_of_an_exporter_are_not_told(told: Any, store: rk.Store) -> None:
    with rk.record("billing", store=store):
        token = context.attach(context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        search(query="a")
        context.detach(token)

    assert [span.name for span in told.spans] == ["invoke_agent billing"]


class Failing(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("the collector is on fire")


def test_a_processor_that_fails_does_not_disturb_the_agent(
    told: Any, store: rk.Store, caplog: pytest.LogCaptureFixture
) -> None:
    told.tracers.add_span_processor(Failing())
    with rk.record("billing", store=store) as run:
        assert [search(query="a") for _ in range(3)] == ["found a"] * 3

    assert store.header(run.id).status == "success"
    assert "a run continues without telemetry: RuntimeError" in caplog.text


def test_an_exporter_that_blocks_does_not_hold_up_the_agent(told: Any, store: rk.Store) -> None:
    gate, asked = threading.Event(), threading.Event()

    class Blocking(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            asked.set()
            gate.wait(30)
            return SpanExportResult.FAILURE

    processor = BatchSpanProcessor(Blocking(), max_queue_size=4, max_export_batch_size=1)
    told.tracers.add_span_processor(processor)
    with rk.record("billing", store=store) as run:
        for number in range(50):
            search(query=f"{number}")
    assert asked.wait(10)
    assert store.header(run.id).event_count == 50  # the run is over, and the exporter still waits
    gate.set()


def test_a_tracer_of_another_make_is_left_alone(told: Any, store: rk.Store) -> None:
    rk.telemetry.enable(tracer_provider=trace.NoOpTracerProvider(), meter_provider=told.meters)
    with rk.record("billing", store=store) as run:
        search(query="a")

    assert store.header(run.id).event_count == 1
    assert told.figures("replaykit.runs")[0][1] == 1
