"""The log of a shared run: what a kill leaves in it, who moves it, and who may not write it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.errors import CorruptStore, StoreError
from replaykit.model.run import RunHeader
from replaykit.store.protocol import Durability
from replaykit.store.shared_writer import SharedWriter
from replaykit.store.sqlite import SQLiteStore
from replaykit.testing import sample_call

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every turn is a transaction")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    with rk.Store.open(tmp_path / "store.db") as found:
        yield found


def thread_of(store: SQLiteStore, events: int) -> SharedWriter:
    """A shared run with so many events, all but the first of them in its log."""
    writer = store.share("thread")
    for _ in range(events):
        append(writer)
    return writer


def append(writer: SharedWriter) -> None:
    with writer.turn():
        if writer.header is None:
            writer.write_header(RunHeader(id="thread"))
        writer.append(sample_call(writer.next_seq))


def numbers(store: SQLiteStore) -> list[int]:
    return [event.seq for event in store.events("thread")]


def log_of(store: SQLiteStore) -> Path:
    return store.logs.path_of(store.number_of("thread"), "thread")


def test_a_frame_that_a_kill_cut_gives_way_to_the_next_event(store: SQLiteStore) -> None:
    thread_of(store, 3)
    data = log_of(store).read_bytes()
    for size in range(1, len(data) // 2, 7):
        log_of(store).write_bytes(data + data[:size])
        assert numbers(store) == [0, 1, 2]

    append(store.share("thread"))
    assert numbers(store) == [0, 1, 2, 3]
    assert list(store.verify()) == []


def test_a_log_that_a_kill_left_after_it_was_moved_doubles_nothing(store: SQLiteStore) -> None:
    writer = thread_of(store, 4)
    data, path = log_of(store).read_bytes(), log_of(store)
    writer.close()
    assert not path.exists()
    path.write_bytes(data)

    assert numbers(store) == [0, 1, 2, 3]
    for _ in range(2):
        append(store.share("thread"))
    with writer.turn() as news:
        assert [event.seq for event in news.events] == [4, 5]
    assert numbers(store) == list(range(6))
    assert list(store.verify()) == []


def test_the_next_process_folds_a_log_and_its_writer_goes_on(store: SQLiteStore) -> None:
    writer = thread_of(store, 4)
    with rk.Store.open(store.path) as other:
        other.begin(RunHeader(id="another"))
        assert not log_of(store).exists()
    append(writer)
    assert numbers(store) == list(range(5))


def test_a_hole_in_a_log_is_a_named_error(store: SQLiteStore) -> None:
    thread_of(store, 4)
    data = log_of(store).read_bytes()
    log_of(store).write_bytes(data[len(data) // 3 :])
    with pytest.raises(CorruptStore, match="missing"):
        store.share("thread").news()
    with pytest.raises(CorruptStore, match="missing"):
        append(store.share("thread"))


def test_a_store_that_is_only_read_takes_no_turn(store: SQLiteStore) -> None:
    thread_of(store, 2)
    with rk.Store.open(store.path, read_only=True) as reader, pytest.raises(StoreError):
        append(reader.share("thread"))
    assert numbers(store) == [0, 1]


def test_a_turn_inside_of_another_one_is_an_error(store: SQLiteStore) -> None:
    writer = thread_of(store, 1)
    with writer.turn(), pytest.raises(StoreError, match="inside of another"):
        append(store.share("thread"))
    append(writer)
    assert numbers(store) == [0, 1]


def test_a_child_that_was_forked_in_a_turn_does_not_hold_it(store: SQLiteStore) -> None:
    writer = thread_of(store, 1)
    ready, done = os.pipe()
    with writer.turn():
        child = os.fork()
        if not child:
            os.close(done)
            os.read(ready, 1)
            os._exit(0)
        store.live.close()  # as if this process were gone
        with rk.Store.open(store.path) as other:
            append(other.share("thread"))
    os.write(done, b"x")
    os.waitpid(child, 0)
    assert numbers(store) == [0, 1]


@pytest.mark.parametrize(("durability", "syncs"), [(Durability.POWER, 2), (Durability.PROCESS, 0)])
def test_a_turn_is_on_the_platter_only_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability, syncs: int
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("replaykit.store.event_log._sync_file", synced.append)
    with rk.Store.open(tmp_path / "synced.db", durability=durability) as found:
        thread_of(found, 3)  # the first turn is a transaction
    assert len(synced) == syncs


@pytest.mark.skipif(sys.platform != "linux", reason="limits of file sizes")
def test_a_turn_whose_commit_failed_does_not_remove_what_others_write_later(store: SQLiteStore) -> None:
    import resource

    writer = thread_of(store, 3)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with SQLiteStore.open(store.path) as other:
        with pytest.raises(StoreError, match="disk is full"):
            try:
                with writer.turn():
                    for _ in range(2):  # too many for the log
                        writer.append(sample_call(writer.next_seq))
                    wal = store.path.with_name(f"{store.path.name}-wal")
                    resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size, limits[1]))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        append(other.share(writer.run_id))

        store.tag(writer.run_id, add=["seen"])

    assert numbers(store) == [0, 1, 2, 3]
