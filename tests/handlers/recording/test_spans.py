"""A recording says where each call begins and ends, and a case keeps it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path

import msgspec
import pytest

import replaykit as rk
from replaykit.cases.fixtures import read_fixtures, write_fixtures
from replaykit.cases.scaffold import scaffold
from replaykit.handlers.recording.recorder import Recorder
from replaykit.model.events import Call, CallSpan, decode_event, encode_event
from replaykit.seam.scope import PendingCall


@rk.tool
def work(name: str, seconds: float) -> str:
    time.sleep(seconds)
    return name


@rk.tool
async def awork(name: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return name


@rk.tool
async def instant(name: str) -> str:
    return name


def spans_of(run: rk.TraceRun) -> dict[str, CallSpan]:
    return {call.arguments["name"]: call.span for call in run.calls}  # type: ignore[misc]


def test_calls_that_overlap_are_counted_in_one_order(store: rk.Store) -> None:
    with rk.record("overlap", store=store) as run, ThreadPoolExecutor(2) as pool:
        slow = pool.submit(work, "slow", 0.2)
        time.sleep(0.05)
        pool.submit(work, "quick", 0.02).result()
        slow.result()

    spans = spans_of(store.load(run.id))
    slow_span, quick_span = spans["slow"], spans["quick"]
    assert (slow_span.begin, quick_span.begin, quick_span.end, slow_span.end) == (0, 1, 2, 3)
    assert slow_span.begin_s < quick_span.begin_s < quick_span.end_s < slow_span.end_s  # type: ignore[operator]


def test_calls_are_numbered_in_the_order_of_their_begins(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    has_number, has_begun, serve = threading.Event(), threading.Event(), Recorder.serve

    def served(recorder: Recorder, call: PendingCall) -> None:
        if "first" in str(call.arguments):  # it has its number, and its thread is held up
            has_number.set()
            has_begun.wait(5)
        serve(recorder, call)
        has_begun.set()

    monkeypatch.setattr(Recorder, "serve", served)
    with rk.record("overlap", store=store) as run, ThreadPoolExecutor(2) as pool:
        first = pool.submit(work, "first", 0.0)
        has_number.wait(5)
        pool.submit(work, "second", 0.0).result()
        first.result()

    calls = store.load(run.id).calls
    assert [call.arguments["name"] for call in calls] == ["second", "first"]
    assert [call.span.begin for call in calls if call.span] == sorted(call.span.begin for call in calls if call.span)


def test_a_call_that_gave_way_says_in_which_turn_of_its_loop_it_ended(store: rk.Store) -> None:
    async def agent() -> None:
        await asyncio.gather(awork("a", 0.05), awork("b", 0.05), awork("late", 0.15))
        await instant("instant")

    with rk.record("turns", store=store) as run:
        asyncio.run(agent())

    spans = spans_of(store.load(run.id))
    assert spans["a"].loop is not None
    assert spans["late"].loop is not None
    assert spans["late"].loop[0] > spans["a"].loop[0]
    assert spans["instant"].loop is None


def test_a_cancelled_call_says_when_it_was_left(store: rk.Store) -> None:
    async def agent() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(awork("x", 5), 0.05)

    with rk.record("cancelled", store=store) as run:
        asyncio.run(agent())

    (call,) = store.load(run.id).calls
    assert not call.complete
    assert not call.answered
    assert call.span is not None
    assert call.span.end == 1


def test_a_call_that_outlives_its_run_is_recorded_as_abandoned(store: rk.Store) -> None:
    pool = ThreadPoolExecutor(1)
    with rk.record("left", store=store) as run:
        future = pool.submit(work, "x", 0.3)
        with pytest.raises(FutureTimeout):
            future.result(timeout=0.05)
    assert future.result() == "x"
    pool.shutdown()

    (call,) = store.load(run.id).calls
    assert not call.complete
    assert call.span == CallSpan(begin=0, begin_s=call.span.begin_s)  # type: ignore[union-attr]


def test_a_case_keeps_spans_and_abandoned_calls(store: rk.Store) -> None:
    async def agent() -> None:
        await asyncio.wait_for(awork("x", 5), 0.05)

    with pytest.raises(asyncio.TimeoutError), rk.record("timeout", store=store) as run:
        asyncio.run(agent())
    trace = store.load(run.id)
    scaffold(trace, "case")

    (kept,) = read_fixtures("case")
    (recorded,) = trace.calls
    assert kept.span == recorded.span
    assert not kept.complete
    assert '"span": {"begin": 0, ' in Path("case/fixtures/awork.json").read_text()


def test_events_and_fixtures_without_spans_are_read(store: rk.Store) -> None:
    with rk.record("old", store=store) as run:
        work("x", 0.0)
    (call,) = store.load(run.id).calls
    old = msgspec.structs.replace(call, span=None)

    assert b"span" not in encode_event(old)
    assert decode_event(encode_event(old)) == old
    write_fixtures(Path("case"), [old])
    (read,) = read_fixtures("case")
    assert isinstance(read, Call)
    assert read.span is None
    with rk.replaying(rk.Tape([read])):
        assert work("x", 0.0) == "x"


def test_a_run_that_took_long_makes_a_case_that_may_take_longer(store: rk.Store) -> None:
    with rk.record("long", store=store) as run:
        work("x", 0.0)
    trace = store.load(run.id)
    long = msgspec.structs.replace(trace, ended_at=trace.started_at + 65)

    assert scaffold(trace, "short-case").scenario.timeout_s == 60
    assert scaffold(long, "long-case").scenario.timeout_s == 130
