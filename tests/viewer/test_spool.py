"""The spool of a run: read once, in batches, while it grows; where it went wrong, and its states."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.memory import traced_memory

import replaykit as rk
from replaykit.errors import StoreError, UsageError
from replaykit.model.events import AnyEvent, ErrorEvent, ErrorInfo, LlmCall, Note, State, ToolCall, Usage
from replaykit.model.run import Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.unreplayable import MUTATED
from replaykit.model.values import Raw, raw
from replaykit.viewer.page_types import RunPage
from replaykit.viewer.sources import LoadedRun, StoredRun
from replaykit.viewer.spool import RunSpool

decode_batch = msgspec.json.Decoder(dict[str, Any]).decode
BOOM = ErrorInfo(type="Boom", message="no")
OTHER = ErrorInfo(type="Other", message="well")


def call(seq: int, **members: Any) -> ToolCall:
    return ToolCall(seq=seq, name="track", arguments_json=raw({"order": seq}), **{"result_json": raw(seq), **members})


def loaded(*events: AnyEvent, **header: Any) -> RunSpool:
    return RunSpool(LoadedRun(TraceRun(id="run", events=events, **header)), "run")


def batches(spool: RunSpool) -> list[dict[str, Any]]:
    return list(map(decode_batch, spool.row_batches()))


def failed_page(*events: AnyEvent, error: ErrorInfo | None = BOOM) -> RunPage:
    return loaded(*events, status=RunStatus.ERROR, error=error).finished_page()


def test_the_stream_ends_with_the_page_of_the_run() -> None:
    usage = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    spool = loaded(
        call(0), LlmCall(seq=1, name="m", usage=usage), LlmCall(seq=2, name="m", usage=usage), call(3, error=BOOM)
    )
    assert spool.page().totals is None

    *rows, last = batches(spool)

    assert [row[0] for batch in rows for row in batch["rows"]] == [0, 1, 2, 3]
    totals = {"events": 4, "calls": 4, "errors": 1, "input_tokens": 20, "output_tokens": 4, "cost_usd": 1.0}
    assert last["page"]["totals"] == totals
    assert spool.page().totals is not None


def test_the_first_batch_is_small_and_none_is_large() -> None:
    spool = loaded(*(call(seq) for seq in range(3000)))
    assert [len(batch.get("rows", ())) for batch in batches(spool)] == [256, 1024, 1024, 696, 0]

    heavy = loaded(*(call(seq, result_json=raw("x" * 3_000_000)) for seq in range(5)))
    assert [len(batch.get("rows", ())) for batch in batches(heavy)] == [2, 2, 1, 0]


def test_events_are_found_by_number_in_whatever_order_they_were_written() -> None:
    seqs = [2, 1, 0, 500, *range(3, 500)]
    spool = loaded(*(call(seq) for seq in seqs))

    assert [spool.event(seq).row.seq for seq in (500, 0, 2, 77)] == [500, 0, 2, 77]
    assert [msgspec.json.decode(line)["row"][0] for line in spool.events_json()] == list(range(501))
    with pytest.raises(UsageError, match="the run has no event 501"):
        spool.event(501)


@pytest.mark.parametrize(
    ("events", "opens_at"),
    [
        ([call(0), call(1, error=BOOM), call(2, error=OTHER), call(3)], 1),
        ([call(2, error=BOOM), call(1, error=BOOM), call(0, error=BOOM)], 2),
        ([call(0, error=OTHER), call(1), call(2, error=OTHER), call(3)], 2),
        ([call(0), ErrorEvent(seq=1, error=BOOM), call(2)], 1),
        ([call(0, result_json=raw({"error": "no such order"})), call(1)], 0),
        ([call(0), call(1)], 1),
        ([], None),
    ],
    ids=[
        "the call with the error of the run",
        "the innermost of nested calls",
        "the last error",
        "an error outside of calls",
        "a result that reports an error",
        "the last event",
        "no event",
    ],
)
def test_a_failed_run_opens_at_the_event_that_caused_it(events: list[AnyEvent], opens_at: int | None) -> None:
    assert failed_page(*events).opens_at == opens_at


def test_the_page_says_why_the_run_failed() -> None:
    assert failed_page(call(0, error=BOOM)).why == "track: Boom: no"
    assert failed_page(call(0)).why == "Boom: no"
    assert failed_page(call(0), error=None).why == "the run ended here with the status error"


def test_a_run_that_succeeded_opens_nowhere_even_after_errors() -> None:
    page = loaded(call(0, error=BOOM), call(1), status=RunStatus.SUCCESS).finished_page()

    assert (page.opens_at, page.why) == (None, "")


def test_the_page_says_what_a_replay_would_lack() -> None:
    note = Note(seq=0, name=MUTATED, content_json=raw({"tool": "sort", "text": "`sort` changed `items`"}))

    assert loaded(note).finished_page().remarks == ("`sort` changed `items`",)


def test_the_page_says_what_an_imported_trace_lacks() -> None:
    imported = Origin(kind="imported", format="otlp")
    page = loaded(call(0), ToolCall(seq=1, name="track"), origin=imported).finished_page()

    assert page.remarks == ("1 of 2 calls can be replayed exactly (result missing)",)
    assert loaded(ToolCall(seq=1, name="track")).finished_page().remarks == ()


def test_a_run_that_is_recorded_grows(store: rk.Store) -> None:
    writer = store.begin(RunHeader(id="live"))
    writer.append(call(0))
    spool = RunSpool(StoredRun(store, "live"), "live")
    assert spool.page().is_running

    first, is_last = spool.rows(0)
    assert not is_last
    assert spool.rows(len(first)) == (b"", False)

    writer.append(call(1, error=BOOM))
    assert spool.event(1).errors
    second, is_last = spool.rows(len(first))
    assert [row[0] for row in decode_batch(second)["rows"]] == [1]
    assert not is_last
    assert spool.finished_page().is_running

    writer.append(call(2))
    writer.finish(RunHeader(id="live", status=RunStatus.ERROR, error=BOOM, event_count=3))
    assert spool.page().header.status is RunStatus.ERROR, "before its last events are read"
    *lines, last = batches(spool)
    assert [row[0] for line in lines for row in line["rows"]] == [0, 1, 2]
    assert last["page"]["opens_at"] == 1
    assert not spool.page().is_running


def test_a_recording_that_was_killed_ends_at_its_last_event(store: rk.Store, tmp_path: Path) -> None:
    writer = store.begin(RunHeader(id="killed"))
    writer.append(call(0))
    store.close()  # releases the lock that marks the run as being written, as a kill does

    with rk.Store.open(tmp_path / "store.db", read_only=True) as reader:
        page = RunSpool(StoredRun(reader, "killed"), "killed").finished_page()

    assert (page.is_running, page.opens_at) == (False, 0)
    assert page.why == "the recording stopped here: its process ended"


def test_states_come_with_the_state_before(store: rk.Store) -> None:
    with rk.record("counting", store=store) as run:
        for number in range(3):
            run.checkpoint({"n": number})
    spool = RunSpool(StoredRun(store, "counting"), "counting")
    spool.finished_page()
    last = spool.state_seqs()[-1]

    page = spool.state(last + 5)

    assert (page.seq, bytes(page.state), bytes(page.before)) == (last, b'{"n":2}', b'{"n":1}')
    assert not spool.state(spool.state_seqs()[0]).before


def test_states_of_runs_outside_of_the_store_are_folded() -> None:
    spool = loaded(State(seq=0, state_json=raw({"n": 1})), call(1), State(seq=2), call(3))

    assert bytes(spool.state(1).state) == b'{"n":1}'
    assert "was not stored" in spool.state(3).missing
    assert "no checkpoint" in loaded(call(0)).state(0).missing


def test_damage_ends_the_stream_with_a_problem() -> None:
    class Damaged(LoadedRun):
        def read(self) -> Any:
            yield call(0)
            raise StoreError("the pack is damaged")

    spool = RunSpool(Damaged(TraceRun(id="run")), "run")

    data, is_last = spool.rows(0)

    assert is_last
    assert decode_batch(data) == {"problem": "the pack is damaged"}
    with pytest.raises(StoreError, match="the pack is damaged"):
        spool.event(0)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (call(2**63), "OverflowError"),
        (LlmCall(seq=1, name="\ud800"), "UnicodeEncodeError"),
        (LlmCall(seq=1, name="m", result_json=Raw(b"{}}")), "DecodeError"),
        (LlmCall(seq=1, name="m", result_json=Raw(b"[" * 100_000)), "JSONDecodeError"),
    ],
)
def test_an_event_that_cannot_be_shown_ends_the_stream_with_a_problem(event: AnyEvent, kind: str) -> None:
    spool = loaded(call(0), event)

    data, is_last = spool.rows(0)

    assert is_last
    assert kind in decode_batch(data)["problem"]
    with pytest.raises(StoreError, match=kind):
        spool.finished_page()


def test_memory_stays_flat() -> None:
    source = LoadedRun(TraceRun(id="run"))
    events = (call(seq, result_json=raw("x" * 2000)) for seq in range(20_000))
    source.read = lambda: events  # type: ignore[method-assign]
    spool = RunSpool(source, "run")

    with traced_memory() as peak:
        count = sum(1 for _ in spool.row_batches())

    assert count > 20
    assert peak() < 12_000_000, "the run has 40 MB"


def test_several_readers_share_a_spool() -> None:
    spool = loaded(*(call(seq) for seq in range(5000)))
    found: list[list[int]] = []

    def read() -> None:
        found.append([row[0] for batch in batches(spool) for row in batch.get("rows", ())])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [list(range(5000))] * 4


def test_values_of_an_indented_file_make_one_line() -> None:
    spool = loaded(call(0, result_json=Raw(b'{\n  "a": "x\\ny"\n}')), input_json=Raw(b"[\n1\n]"))

    assert spool.event_json(0).count(b"\n") == 1
    assert bytes(spool.event(0).result) == b'{"a":"x\\ny"}'
    assert batches(spool)[-1]["page"]["header"]["input"] == [1]
