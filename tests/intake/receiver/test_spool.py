"""The spool: what was acknowledged is there, for as long as it may still be needed, and damage has a name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaykit.errors import CorruptStore, FormatTooNew, StoreError
from replaykit.formats.spans.span import Span, SpanEvent
from replaykit.intake.receiver import spool as spools
from replaykit.intake.receiver.spool import Spool, spool_beside


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def spool(tmp_path: Path, clock: Clock) -> Iterator[Spool]:
    opened = Spool(tmp_path / "spool.db", clock=clock)
    yield opened
    opened.close()


def span(trace: str = "a", number: str = "1", **more: Any) -> Span:
    return Span(**{"trace": trace, "id": number, "name": f"{trace}{number}", **more})


def test_spans_come_back_as_they_were_given(spool: Spool) -> None:
    given = [
        span(
            "a",
            "1",
            parent="0",
            started_ns=2**64 - 1,
            ended_ns=7,
            failed=True,
            message="no",
            attributes={"x": [1, None, {"y": "ü"}]},
            happenings=(SpanEvent(name="h", at_ns=5, attributes={"k": 1.5}, body={"b": [2]}),),
            scope="lib",
            resource={"service.name": "s"},
        ),
        span("a", "2", is_aside=True),
        span("b", "3"),
    ]

    spool.keep(given)
    spool.keep([span("a", "4")])

    assert spool.spans("a")[0] == [given[0], given[1], span("a", "4")]
    assert spool.spans("b")[0] == [given[2]]


def test_what_is_kept_is_there_for_whoever_opens_the_file_next(spool: Spool) -> None:
    spool.keep([span()])

    other = Spool(spool.path)
    assert other.spans("a")[0] == [span()]
    assert other.waiting() == 1
    other.close()


def test_a_trace_is_due_when_it_is_quiet_or_its_root_has_ended(spool: Spool, clock: Clock) -> None:
    spool.keep([span("open", parent="9"), span("rooted", ended_ns=5)])
    assert [(due.trace, due.is_quiet) for due in spool.due(10)] == [("rooted", False)]

    clock.now += 10

    assert {(due.trace, due.is_quiet) for due in spool.due(10)} == {("open", True), ("rooted", True)}


def test_a_trace_that_lacks_something_waits_until_more_comes(spool: Spool) -> None:
    spool.keep([span("a", ended_ns=5)])
    spool.wait("a")
    assert spool.due(10) == []

    spool.keep([span("a", "2", parent="1")])

    assert [due.trace for due in spool.due(10)] == ["a"]


def test_a_trace_is_done_when_its_run_holds_all_that_came(spool: Spool, clock: Clock) -> None:
    spool.keep([span()])
    clock.now += 100
    _spans, last = spool.spans("a")
    spool.keep([span("a", "2", parent="1")])  # while the run is made
    clock.now += 100
    spool.settle("a", last)
    assert [due.trace for due in spool.due(10)] == ["a"]

    spool.settle("a", spool.spans("a")[1])

    assert spool.due(10) == []
    assert spool.waiting() == 0


def test_a_clock_that_was_set_back_keeps_no_trace_waiting(spool: Spool, clock: Clock) -> None:
    spool.keep([span("a", parent="9")])
    clock.now -= 500

    assert [due.trace for due in spool.due(10)] == ["a"]


def test_spans_leave_when_their_trace_was_done_long_ago_and_late_ones_are_refused(spool: Spool, clock: Clock) -> None:
    spool.keep([span("done"), span("open", parent="9")])
    spool.settle("done", 1)
    clock.now += 3600

    spool.forget(3600, 7200)

    assert spool.spans("done")[0] == []
    assert len(spool.spans("open")[0]) == 1
    kept = spool.keep([span("done", "2"), span("done", "3"), span("fresh", parent="9")])
    assert (kept.refused, "trace done is closed" in kept.problem) == (2, True)
    assert len(spool.spans("fresh")[0]) == 1
    clock.now += 7200
    spool.forget(3600, 7200)
    assert spool.keep([span("done", "2")]).refused == 0, "after a week nobody remembers"


def test_a_trace_that_never_ends_does_not_fill_the_disk(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "MAX_TRACE_BYTES", 700)
    kept = [
        spool.keep([span("a", str(number), name="".join(map(chr, range(97 + number, 250))))]) for number in range(9)
    ]

    assert kept[0].refused == 0
    assert (kept[-1].refused, "too large" in kept[-1].problem) == (1, True)
    assert spool.keep([span("b")]).refused == 0


def test_only_what_people_wrote_is_cleaned(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def clean(text: bytes) -> bytes:
        seen.append(text)
        return text.replace(b"hunter2", b"<password>").replace(b"abc123", b"gone")

    spool = Spool(tmp_path / "s.db", clean=clean)
    spool.keep([Span(trace="abc123", id="abc123", name="login", attributes={"password": "hunter2"})])

    (found,) = spool.spans("abc123")[0]
    assert (found.trace, found.id, found.attributes) == ("abc123", "abc123", {"password": "<password>"})
    assert len(seen) == 1
    spool.close()
    assert b"hunter2" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_nothing_is_kept_of_a_request_that_could_not_be_cleaned(tmp_path: Path) -> None:
    def clean(_text: bytes) -> bytes:
        raise RuntimeError

    spool = Spool(tmp_path / "s.db", clean=clean)
    with pytest.raises(RuntimeError):
        spool.keep([span()])

    assert spool.waiting() == 0
    spool.close()


@pytest.mark.parametrize("form", ["CAST({} AS BLOB)", "{}"])
def test_a_damaged_part_is_named(spool: Spool, form: str) -> None:
    spool.keep([span()])
    damaged = form.format("substr(body, 1, 10) || X'00' || substr(body, 12)")
    with sqlite3.connect(spool.path) as db:
        db.execute(f"UPDATE parts SET body = {damaged}")
    db.close()

    with pytest.raises(CorruptStore, match="part 1"):
        spool.spans("a")


def test_another_database_is_no_spool_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (a)")
    db.close()
    with pytest.raises(StoreError, match="not a spool"):
        Spool(path)

    path = tmp_path / "y.db"
    Spool(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(FormatTooNew):
        Spool(path)

    (tmp_path / "z.db").write_bytes(b"no database at all, " * 100)
    with pytest.raises(CorruptStore):
        Spool(tmp_path / "z.db")


def test_two_stores_in_one_directory_have_two_spools() -> None:
    assert spool_beside(Path("d/store.db")) == Path("d/store-otlp.db")
    assert spool_beside(Path("d/other.db")) == Path("d/other-otlp.db")
