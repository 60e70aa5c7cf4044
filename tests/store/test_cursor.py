"""Cursors: the events of a run, each once, also while the run grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.store.test_sqlite import damaged

import replaykit as rk
from replaykit.errors import CorruptStore, StoreError
from replaykit.model.events import Shared, ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.store.cursor import MAX_ANCESTORS, EventCursor
from replaykit.testing import sample_call, sample_run


def growing_call(seq: int) -> ToolCall:
    """Return a call whose arguments are mostly those of the call before it."""
    text = "".join(f"message {number}: {'x' * 40} " for number in range(60 + seq))
    return ToolCall(seq=seq, name="talk", arguments_json=raw({"text": text}))


def test_a_cursor_reads_each_event_once(store: rk.Store) -> None:
    calls = [growing_call(seq) for seq in range(300)]
    writer = store.begin(RunHeader(id="talk"))
    cursor = EventCursor(store, "talk")
    seen = []

    for call in calls:
        writer.append(call)
        if call.seq % 7 == 0:
            seen += cursor.read()

    writer.finish(RunHeader(id="talk", status=RunStatus.SUCCESS, event_count=300))
    seen += cursor.read()
    assert seen == calls, "also those whose arguments are stored as a change of earlier ones"
    assert list(cursor.read()) == []
    assert cursor.header.status is RunStatus.SUCCESS


def test_a_cursor_of_another_store_sees_what_is_written_meanwhile(store: rk.Store) -> None:
    writer = store.begin(RunHeader(id="run"))

    with rk.Store.open(store.path, read_only=True) as reader:
        cursor = EventCursor(reader, "run")
        assert list(cursor.read()) == []
        writer.append(sample_call(0))
        assert [event.seq for event in cursor.read()] == [0]
        writer.append(sample_call(1))
        assert [event.seq for event in cursor.read()] == [1]
    writer.finish(RunHeader(id="run", event_count=2))


def test_a_fork_is_read_with_the_events_of_its_parent(store: rk.Store) -> None:
    store.add(sample_run("parent", 3))
    writer = store.begin(RunHeader(id="fork"))
    writer.append(Shared(seq=0, run="parent", of=1))
    cursor = EventCursor(store, "fork")

    (shared,) = cursor.read()
    writer.append(sample_call(1))

    parent = store.load("parent")
    assert shared.name == parent.events[1].name
    assert shared.seq == 0
    assert [event.seq for event in cursor.read()] == [1]
    writer.finish(RunHeader(id="fork", event_count=2))


def fork(store: rk.Store, run_id: str, *shared: tuple[str, int]) -> None:
    """Store a run that shares these events: the run and the number of each."""
    writer = store.begin(RunHeader(id=run_id))
    for seq, (parent, of) in enumerate(shared):
        writer.append(Shared(seq=seq, run=parent, of=of))
    writer.finish(RunHeader(id=run_id, event_count=len(shared)))


def test_each_ancestor_is_read_once(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(sample_run("a-0", 2))
    store.add(sample_run("b-0", 2))
    for depth in range(1, 13):
        for name in "ab":
            fork(store, f"{name}-{depth}", (f"a-{depth - 1}", 0), (f"b-{depth - 1}", 1))
    read_runs: list[str] = []
    find = store.find
    monkeypatch.setattr(store, "find", lambda run_id: read_runs.append(run_id) or find(run_id))

    events = list(EventCursor(store, "a-12").read())

    assert [event.name for event in events] == [event.name for event in store.load("a-0").events[:2]]
    assert len(read_runs) <= 2 * 2 * 13 + 2


@pytest.mark.parametrize("count", [MAX_ANCESTORS, MAX_ANCESTORS + 1])
def test_a_long_line_of_forks_is_read_up_to_a_limit(store: rk.Store, count: int) -> None:
    store.add(sample_run("run-0", 1))
    for number in range(1, count + 1):
        fork(store, f"run-{number}", (f"run-{number - 1}", 0))

    if count > MAX_ANCESTORS:
        with pytest.raises(StoreError, match="run run-0 is shared by forks of forks, more than 100"):
            store.load(f"run-{count}")
    else:
        assert len(store.load(f"run-{count}").events) == 1


@pytest.mark.parametrize("name", ["one", "on"])
def test_a_run_that_is_its_own_ancestor_is_corrupt(store: rk.Store, name: str) -> None:
    fork(store, "one", ("two", 0))
    fork(store, "two", (name, 0))

    with pytest.raises(CorruptStore, match="is its own ancestor"):
        store.load("one")


def test_a_damaged_event_is_never_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    with rk.Store.open(path) as store:
        store.add(TraceRun(id="run", events=tuple(map(growing_call, range(4)))))
        store.add(sample_run("other", 2))
        writer = store.begin(RunHeader(id="fork"))
        for seq in range(3):
            writer.append(Shared(seq=seq, run="other", of=seq))
        writer.finish(RunHeader(id="fork", event_count=3))

    with rk.Store.open(path, read_only=True) as store:
        cursor = EventCursor(store, "fork")
        for _ in range(2):
            with pytest.raises(CorruptStore, match="cannot be reconstructed"):
                list(cursor.read())
    damaged(path, "DELETE FROM packs WHERE key >= 1 << 32 AND key < 2 << 32")
    with rk.Store.open(path, read_only=True) as store, pytest.raises(CorruptStore, match="missing"):
        list(EventCursor(store, "run").read())


def test_a_shared_run_may_grow_between_its_header_and_its_events(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = store.share("thread")

    def write_turn(seq: int) -> None:
        with shared.turn():
            shared.write_header(RunHeader(id="thread", event_count=seq + 1))
            shared.append(growing_call(seq))

    def batches_after_another_turn(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        write_turn(1)
        return store.batches(*arguments, **options)

    write_turn(0)
    cursor = EventCursor(store, "thread")
    monkeypatch.setattr(store, "batches", batches_after_another_turn)

    assert list(cursor.read()) == [growing_call(0), growing_call(1)]


def test_a_run_that_is_replaced_is_not_read_on(store: rk.Store) -> None:
    store.add(sample_run("talk", 3))
    cursor = EventCursor(store, "talk")
    list(cursor.read())
    store.delete(["talk"])
    store.add(sample_run("talk", 3))

    with pytest.raises(StoreError, match="was replaced while it was read"):
        list(cursor.read())
