"""The desk: requests in, runs out, whatever comes in whatever order."""

from __future__ import annotations

import gzip
import itertools
import json
import sqlite3
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import START, TRACE, agent, document, logs, read, record, span, story, tool

import replaykit as rk
from replaykit.errors import StoreError
from replaykit.formats.spans.runs import run_of
from replaykit.intake.receiver import otlp_http, trace_processor
from replaykit.intake.receiver.otlp_http import JSON, PROTOBUF, ExportReply, ExportRequest, Signal
from replaykit.intake.receiver.spool import Spool
from replaykit.intake.receiver.trace_processor import SettledTrace, TraceProcessor
from replaykit.model.events import ToolCall
from replaykit.model.run import RunHeader, RunStatus


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Room:
    """A desk with its spool, its store and a clock."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.clock = Clock()
        self.settled: list[SettledTrace] = []
        self.store = rk.Store.open(directory / "store.db")
        self.spool = Spool(directory / "spool.db", clock=self.clock)
        self.desk = TraceProcessor(self.spool, self.store, on_settled=self.settled.append, **options)

    def post(self, held: Any, **more: Any) -> ExportReply:
        body = held if isinstance(held, bytes) else json.dumps(held).encode()
        return self.desk.take(ExportRequest(**{"signal": Signal.TRACES, "body": body, "content_type": JSON, **more}))

    def run(self) -> rk.TraceRun:
        return self.store.load(TRACE)

    def close(self) -> None:
        self.spool.close()
        self.store.close()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.close()


def test_a_whole_trace_becomes_a_run_at_once(room: Room) -> None:
    assert room.post(document(*story())).status == HTTPStatus.OK
    assert room.store.headers() == [], "nothing is made in the request"

    room.desk.settle()

    assert room.run() == run_of(read(*story())).run
    assert (room.desk.totals.spans, room.desk.totals.runs) == (7, 1)
    assert room.settled[0].landing == "imported"


def test_half_of_a_character_does_not_cost_the_batch(room: Room) -> None:
    held = document(agent(1), tool(2, 1, "half \ud83d", {}, result="x"))

    assert room.post(held).status == HTTPStatus.OK
    room.desk.settle()

    (call,) = room.run().events
    assert isinstance(call, ToolCall)
    assert (call.name, call.result) == ("half \ufffd", "x")


def test_a_trace_that_lacks_something_is_waited_for_until_it_is_quiet(room: Room) -> None:
    room.post(document(agent(1), tool(5, 4, "t", {}, result="x")))
    room.desk.settle()
    room.desk.settle()
    assert room.store.headers() == []

    room.clock.now += 10
    room.desk.settle()

    assert room.run().status is RunStatus.SUCCESS
    assert "named by others" in room.settled[0].notes[0]


def test_a_span_that_comes_late_makes_the_run_anew_in_its_place(room: Room) -> None:
    room.post(document(agent(1), tool(2, 1, "first", {}, result="x")))
    room.desk.settle()
    room.post(document(tool(3, 1, "second", {}, result="y")))
    room.desk.settle()

    assert [call.name for call in room.run().calls] == ["first", "second"]
    assert [settled.landing for settled in room.settled] == ["imported", "updated"]
    assert room.desk.totals.runs == 1
    assert len(room.store.headers()) == 1


def test_log_records_complete_the_calls_of_models(room: Room) -> None:
    plain = span(2, 1, attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt"})
    room.post(document(agent(1), plain))
    records = [
        record(2, "gen_ai.user.message", {"content": "hi"}),
        record(2, "gen_ai.choice", {"finish_reason": "stop", "message": {"role": "assistant", "content": "ho"}}),
    ]
    room.post(logs(*records), signal=Signal.LOGS)
    room.desk.settle()

    (call,) = room.run().llm_calls
    assert (call.arguments["messages"][0]["content"], call.result["content"], call.finish_reason) == (
        "hi",
        "ho",
        "stop",
    )
    assert room.run().output == "ho"


def batched(spans: list[Any], cuts: list[int]) -> list[list[Any]]:
    edges = [0, *sorted(cut % (len(spans) + 1) for cut in cuts), len(spans)]
    return [spans[start:end] for start, end in itertools.pairwise(edges) if start < end]


@given(
    st.permutations(story()),
    st.lists(st.sampled_from(story()), max_size=5),
    st.lists(st.integers(0, 20), max_size=4),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_any_order_repetition_and_batching_give_the_same_run(
    tmp_path_factory: pytest.TempPathFactory, spans: list[Any], again: list[Any], cuts: list[int], settles: list[bool]
) -> None:
    room = Room(tmp_path_factory.mktemp("law"))
    try:
        for number, batch in enumerate(batched([*spans, *again], cuts)):
            reply = (
                room.post(as_protobuf(document(*batch)), content_type=PROTOBUF)
                if number % 2
                else room.post(gzip.compress(json.dumps(document(*batch)).encode()), encoding="gzip")
            )
            assert reply.status == HTTPStatus.OK
            if settles[number % 8]:
                room.desk.settle()
        room.clock.now += 60
        room.desk.finish()

        assert room.run() == run_of(read(*story())).run
    finally:
        room.close()


def test_only_failed_runs_are_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    room = Room(tmp_path, only_failed=True)
    room.post(document(*story()))
    room.post(document(agent(1, traceId="b" * 32, error="boom")))
    room.post(document(agent(1, traceId="c" * 32, error="TimeoutError: slow")))
    room.desk.settle()

    assert {header.id: header.status.value for header in room.store.headers()} == {
        "b" * 32: "error",
        "c" * 32: "timeout",
    }
    assert (room.desk.totals.runs, room.desk.totals.failed_runs, room.desk.totals.aside) == (2, 2, 1)
    room.close()


def test_traces_of_no_agent_are_set_aside(room: Room) -> None:
    for number in (1, 2):
        room.post(document(span(number, number - 1 or None, name="GET /")))
        room.desk.settle()

    assert room.store.headers() == []
    assert (room.desk.totals.aside, room.desk.totals.traces, room.spool.waiting()) == (1, 1, 0)


def test_a_run_that_turns_out_to_have_failed_is_counted_once(room: Room) -> None:
    for error in (None, "boom", "boom again"):
        room.post(document(agent(1, error=error, endTimeUnixNano=str(START + 10**9 + len(error or "")))))
        room.desk.settle()

    assert (room.desk.totals.runs, room.desk.totals.failed_runs, room.run().status) == (1, 1, "error")


def test_at_the_end_what_is_done_becomes_runs_and_the_rest_stays(room: Room) -> None:
    room.post(document(*story()))
    room.post(document(agent(1, traceId="c" * 32, endTimeUnixNano="0")))

    room.desk.finish()

    assert [header.id for header in room.store.headers()] == [TRACE]
    assert room.desk.waiting() == 1


def test_a_run_that_was_recorded_here_is_not_overwritten(room: Room) -> None:
    header = RunHeader(id=TRACE, name="mine")
    room.store.begin(header).finish(header)
    room.post(document(*story()))
    room.desk.settle()

    assert room.store.header(TRACE).name == "mine"
    assert "holds another run" in room.settled[0].problem
    assert room.desk.settle() == 0, "it is told once"


@pytest.mark.parametrize("what", ["run_of", "store_run"])
def test_a_fault_of_ours_stops_no_other_trace_and_is_tried_again_by_the_next_receiver(
    room: Room, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    real = getattr(trace_processor, what)

    def fails(*given_: Any) -> Any:
        if (given_[0][0].trace if what == "run_of" else given_[1].id) != TRACE:
            raise RecursionError("deep")
        return real(*given_)

    room.post(document(agent(1, traceId="d" * 32)))
    room.post(document(*story()))
    with monkeypatch.context() as patch:
        patch.setattr(trace_processor, what, fails)
        room.desk.finish()

    assert [header.id for header in room.store.headers()] == [TRACE]
    assert [s.problem for s in room.settled if s.problem] == ["no run could be made of it: RecursionError: deep"]
    TraceProcessor(room.spool, room.store).finish()
    assert {header.id for header in room.store.headers()} == {TRACE, "d" * 32}


def test_a_store_that_cannot_be_written_loses_nothing_and_is_tried_again(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: Any) -> Any:
        raise StoreError("the disk is full")

    room.post(document(*story()))
    with monkeypatch.context() as patch:
        patch.setattr(trace_processor, "store_run", full)
        room.desk.finish()
    assert (room.desk.waiting(), room.desk.totals.problems, room.store.headers()) == (1, 1, [])

    room.desk.finish()

    assert room.run().status is RunStatus.SUCCESS


def test_spans_that_are_damaged_or_gone_stop_no_other_trace(room: Room) -> None:
    for letter in "def":
        room.post(document(agent(1, traceId=letter * 32)))
    with sqlite3.connect(room.spool.path) as db:
        db.execute("DELETE FROM parts WHERE trace = ?", ("d" * 32,))
        db.execute("UPDATE parts SET body = X'00' WHERE trace = ?", ("e" * 32,))
    db.close()

    room.desk.finish()

    assert [header.id for header in room.store.headers()] == ["f" * 32]
    told = {settled.trace[0]: settled.problem for settled in room.settled if settled.problem}
    assert told["d"] == "its spans are gone"
    assert "not a sealed value" in told["e"]


def test_some_of_a_request_is_taken_and_the_rest_is_told(room: Room) -> None:
    held = document(agent(1), agent(2, traceId="nope!"))

    assert json.loads(room.post(held).body) == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": "not a trace id: 'nope!'"}
    }
    answered = room.post(logs(record(1, "gen_ai.choice", spanId="x!")), signal=Signal.LOGS)
    assert json.loads(answered.body)["partialSuccess"]["rejectedLogRecords"] == "1"
    request = as_protobuf(document(agent(1), agent(2))).replace(bytes.fromhex(f"{2:016x}"), bytes(8))
    response = ExportTraceServiceResponse.FromString(room.post(request, content_type=PROTOBUF).body)
    assert response.partial_success.rejected_spans == 1
    assert response.partial_success.error_message == "a span without a span id"
    assert (room.desk.totals.spans, room.desk.totals.rejected) == (2, 3)


BOMB = gzip.compress(bytes(otlp_http.MAX_INFLATED + 1))


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        ({"body": b"{"}, 400, "not JSON"),
        ({"body": b"[]"}, 400, "expected an object"),
        ({"body": b"[" * 100_000}, 400, "not JSON"),
        ({"body": b"\xff\xff", "content_type": PROTOBUF}, 400, "not OTLP"),
        ({"body": b"{}", "content_type": "text/plain"}, 415, "content type 'text/plain'"),
        ({"body": b"{}", "encoding": "br"}, 415, "content encoding 'br'"),
        ({"body": b"{}", "encoding": "gzip"}, 400, "not gzip"),
        ({"body": gzip.compress(b"{}")[:-9], "encoding": "gzip"}, 400, "ends early"),
        ({"body": BOMB, "encoding": "gzip"}, 413, "unpacked"),
        ({"body": bytes(otlp_http.MAX_BODY + 1)}, 413, "more than"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_its_reason(
    room: Room, request_: dict[str, Any], status: int, said: str
) -> None:
    reply = room.desk.take(ExportRequest(**{"signal": Signal.TRACES, "content_type": JSON, **request_}))

    assert reply.status == status
    assert said in reply.body.decode(errors="replace")
    assert reply.retry_after_s is None, "to send it again would not help"
    assert room.desk.totals.refused == 1
    assert room.spool.waiting() == 0


def test_a_disk_that_takes_no_more_asks_to_come_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_spans: Any) -> Any:
        raise StoreError("the disk is full")

    monkeypatch.setattr(room.spool, "keep", full)
    reply = room.post(document(*story()))

    assert (reply.status, reply.retry_after_s) == (503, otlp_http.RETRY_AFTER_S)
    assert json.loads(reply.body)["message"] == "the disk is full"


def test_spans_leave_the_spool_an_hour_after_their_run_was_made(room: Room) -> None:
    room.post(document(*story()))
    room.desk.settle()
    room.clock.now += 3600
    room.desk.tidy()

    reply = room.post(document(tool(9, 1, "late", {})))

    assert "closed" in json.loads(reply.body)["partialSuccess"]["errorMessage"]
    assert len(room.run().tool_calls) == 3, "a late span does not make a run of itself alone"
