"""Pruning a store: what goes is gone, what changed meanwhile stays, and the file shrinks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.model.events import Shared
from replaykit.model.run import Origin, RunHeader, RunStatus, TraceRun
from replaykit.retention.plan import plan_pruning
from replaykit.retention.policy import DAY_S, FOREVER, RetentionPolicy
from replaykit.retention.prune import prune
from replaykit.store import bulk_removal
from replaykit.store.bulk_removal import discard
from replaykit.store.summaries import RunSummary, contents
from replaykit.testing import sample_call

NOW = 1_800_000_000.0
ALL = RetentionPolicy(successful_s=0, failed_s=0)


def add(store: rk.Store, run_id: str, days: float = 100, *, size: int = 10, **more: Any) -> None:
    more = {"status": RunStatus.SUCCESS, "ended_at": NOW - days * DAY_S, **more}
    store.add(TraceRun(id=run_id, events=(sample_call(0, os.urandom(size).hex()),), **more))


def ids(store: rk.Store) -> set[str]:
    return {header.id for header in store.headers()}


def fork(store: rk.Store, run_id: str, parent: str) -> None:
    origin = Origin(kind="forked", run=parent, step="s")
    writer = store.begin(RunHeader(id=run_id, origin=origin))
    writer.append(Shared(seq=0, run=parent, of=0))
    writer.finish(RunHeader(id=run_id, status=RunStatus.SUCCESS, ended_at=NOW, origin=origin))


def test_what_goes_is_gone_and_the_file_is_as_small_as_what_stays(store: rk.Store) -> None:
    for number in range(60):
        add(store, f"old-{number}", size=30_000)
    add(store, "young", days=1, size=30_000)

    result = prune(store, RetentionPolicy(), now=NOW)

    assert ids(store) == {"young"}
    assert len(result.runs) == 60
    assert result.remaining == 1
    assert result.freed_bytes > 60 * 30_000
    assert result.file_bytes == store.path.stat().st_size < result.file_bytes_before / 8
    assert result.free_bytes == 0
    assert list(store.verify()) == []
    assert len(list(store.load("young").calls)) == 1


def test_a_dry_run_says_the_same_and_takes_nothing(store: rk.Store) -> None:
    add(store, "old")
    add(store, "young", days=1)

    told = prune(store, RetentionPolicy(), now=NOW, dry_run=True)

    assert [run.run for run in told.runs] == ["old"]
    assert (told.remaining, told.dry_run) == (1, True)
    assert ids(store) == {"old", "young"}
    assert prune(store, RetentionPolicy(), now=NOW).runs == told.runs


def test_blobs_go_with_the_last_run_that_holds_them(store: rk.Store) -> None:
    shared = os.urandom(60_000).hex()
    for run_id, days in (("a", 100), ("b", 1)):
        call = sample_call(0, shared)
        store.add(TraceRun(id=run_id, status=RunStatus.SUCCESS, ended_at=NOW - days * DAY_S, events=(call,)))

    prune(store, RetentionPolicy(), now=NOW)
    assert next(iter(store.load("b").calls)).result == shared
    prune(store, ALL, now=NOW)
    assert store.query("SELECT count(*) FROM blobs") == [(0,)]


def changes() -> list[Callable[[rk.Store], None]]:
    def tagged(store: rk.Store) -> None:
        store.tag("run", add=["keep"])

    def forked(store: rk.Store) -> None:
        fork(store, "fork", "run")

    def rewritten(store: rk.Store) -> None:
        store.replace([store.load("run")])

    def grown(store: rk.Store) -> None:
        shared = store.share("open")
        with shared.turn():
            shared.append(sample_call(shared.next_seq))

    return [tagged, forked, rewritten, grown]


@pytest.mark.parametrize("change", changes())
def test_a_run_that_changed_since_it_was_looked_at_stays(store: rk.Store, change: Callable[[rk.Store], None]) -> None:
    add(store, "run")
    shared = store.share("open")
    with shared.turn():
        shared.write_header(RunHeader(id="open", started_at=NOW - 1000 * DAY_S))
        shared.append(sample_call(0))
    found = contents(store)
    doomed = plan_pruning(ALL, found, now=NOW).runs
    assert {run.id for run in doomed} == {"run", "open"}

    change(store)
    gone = discard(store, doomed, newest=found.newest)

    spared = "open" if change.__name__ == "grown" else "run"
    assert {run.id for run in gone} == {"run", "open"} - {spared}
    assert spared in ids(store)
    assert list(store.verify()) == []
    for run_id in ids(store):
        store.load(run_id)


def test_a_kill_between_two_transactions_leaves_no_fork_without_its_history(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, "parent")
    fork(store, "child", "parent")
    fork(store, "grandchild", "child")
    monkeypatch.setattr(bulk_removal, "_AT_ONCE", 1)
    found = contents(store)
    doomed = plan_pruning(ALL, found, now=NOW + DAY_S).runs
    assert len(doomed) == 3
    left: list[set[str]] = []

    def killed(db: Any, run_id: str, remove: Any = bulk_removal.remove_run) -> Any:
        left.append(ids(store))
        for run in left[-1]:
            store.load(run)
        return remove(db, run_id)

    monkeypatch.setattr(bulk_removal, "remove_run", killed)
    discard(store, doomed, newest=found.newest)

    assert left == [{"parent", "child", "grandchild"}, {"parent", "child"}, {"parent"}]


def test_a_run_with_a_damaged_header_stays_and_is_named(store: rk.Store) -> None:
    add(store, "bad")
    add(store, "old")
    store.query("UPDATE runs SET header = substr(header, 1, 30) WHERE id = 'bad'")

    result = prune(store, ALL, now=NOW)

    assert [run.run for run in result.runs] == ["old"]
    assert "run bad, header is damaged, its run stays" in result.notes[0]


def test_a_small_store_that_was_made_without_a_way_to_shrink_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with rk.Store.open(path) as store:
        add(store, "old", size=300_000)
        store.query("PRAGMA auto_vacuum = NONE")
        store.query("VACUUM")
        assert store.query("PRAGMA auto_vacuum") == [(0,)]

        result = prune(store, ALL, now=NOW)

        assert result.file_bytes < 100_000 < result.file_bytes_before
        assert store.query("PRAGMA auto_vacuum") == [(2,)]


def test_a_large_one_is_rewritten_only_when_somebody_asks(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.store.vacuum._IN_ONE_GO", 0)
    store.query("PRAGMA auto_vacuum = NONE")
    store.query("VACUUM")
    add(store, "old", size=300_000)

    result = prune(store, ALL, now=NOW)
    assert "replaykit store prune --compact" in result.notes[0]
    assert result.free_bytes > 300_000
    result = prune(store, ALL, now=NOW, compact=True)
    assert (result.free_bytes, result.notes) == (0, ())


def test_the_last_step_of_a_thread_says_how_old_it_is(store: rk.Store) -> None:
    for name, days in (("quiet", 40), ("busy", 1)):
        shared = store.share(name)
        with shared.turn():
            shared.write_header(RunHeader(id=name, started_at=NOW - 400 * DAY_S, origin=Origin(format="langgraph")))
            shared.append(msgspec.structs.replace(sample_call(0), at=NOW - days * DAY_S))

    result = prune(store, RetentionPolicy(threads_s=30 * DAY_S), now=NOW)

    assert ids(store) == {"busy"}
    assert result.runs[0].why == "a thread without a step for 30 days"


def test_nothing_old_changes_nothing(store: rk.Store) -> None:
    add(store, "young", days=1)
    before = store.path.stat().st_size
    result = prune(store, RetentionPolicy(failed_s=FOREVER), now=NOW)
    assert (result.runs, result.remaining, result.stays, result.notes) == ((), 1, {}, ())
    assert result.file_bytes <= max(before, result.file_bytes_before)


def test_summaries_tell_sizes_without_reading_events(store: rk.Store) -> None:
    add(store, "a", size=500)
    with rk.record("open", store=store) as run:
        run.note("n", "x" * 1000)
        found = contents(store)

    def of(run_id: str) -> RunSummary:
        return next(one for one in found.runs if one.id == run_id)

    packed, tail = found.sizes[of("a").number], found.sizes[of(run.id).number]
    assert (packed.events, tail.events) == (1, 1)
    assert packed.raw > packed.stored > 500
    assert tail.raw == tail.stored > 1000
