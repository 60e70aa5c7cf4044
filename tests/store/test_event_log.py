"""The logs of runs that are being written: read by everybody, lost by no kill, folded by whoever comes next."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.damaged import spoil_logged_event

import replaykit as rk
from replaykit.errors import CorruptStore, StoreError, StoreFull
from replaykit.model.events import AnyEvent
from replaykit.model.run import RunHeader
from replaykit.store import event_log
from replaykit.store.backup import backup, restore
from replaykit.store.event_log import LogName, log_directory, log_rows, salvaged_rows
from replaykit.store.protocol import Durability
from replaykit.store.summaries import contents
from replaykit.store.writer import LOG_PACKS, PACK_BYTES, PACK_EVENTS, SQLiteWriter
from replaykit.testing import sample_call

FULL = LOG_PACKS * PACK_EVENTS

KILLED = """
import os, signal, sys
import replaykit as rk
from replaykit.model.run import RunHeader
from replaykit.testing import sample_call
store = rk.Store.open(sys.argv[1])
writer = store.begin(RunHeader(id=sys.argv[2]))
for seq in range(int(sys.argv[3])):
    writer.append(sample_call(seq))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def begun(store: rk.Store, run_id: str = "run", *, events: int = 0) -> SQLiteWriter:
    writer = store.begin(RunHeader(id=run_id))
    append(writer, 0, events)
    return writer


def append(writer: SQLiteWriter, first: int, end: int) -> None:
    for seq in range(first, end):
        writer.append(sample_call(seq))


def killed(path: Path, run_id: str = "run", *, events: int = 5) -> None:
    """Write a run in a process that is killed before the run ends."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), run_id, str(events)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def events_of(path: Path, run_id: str = "run") -> list[AnyEvent]:
    with rk.Store.open(path, read_only=True) as store:
        assert list(store.verify()) == []
        return list(store.events(run_id))


def logs(path: Path) -> list[Path]:
    return sorted(log_directory(path).glob("*"))


def calls(count: int) -> list[AnyEvent]:
    return [sample_call(seq) for seq in range(count)]


@pytest.mark.parametrize("count", [1, FULL, FULL + 1, 2 * FULL + 7])
def test_others_read_what_is_written_at_once(path: Path, count: int) -> None:
    with rk.Store.open(path) as store:
        begun(store, events=count)
        assert events_of(path) == calls(count)


def test_a_full_log_becomes_packs_and_the_next_event_begins_another(path: Path) -> None:
    with rk.Store.open(path) as store:
        writer = begun(store, events=FULL)
        before = store.query("SELECT count(*) FROM packs")
        append(writer, FULL, FULL + 1)
        after = store.query("SELECT count FROM packs")
        (log,) = logs(path)

        assert (before, after) == ([(0,)], [(PACK_EVENTS,)] * LOG_PACKS)
        assert len(log_rows(log.read_bytes(), "")) == 1


def test_a_log_of_few_large_events_is_folded_too(path: Path) -> None:
    large = os.urandom(PACK_BYTES // 2).hex()
    with rk.Store.open(path) as store:
        writer = store.begin(RunHeader(id="run"))
        for seq in range(3 * LOG_PACKS):
            writer.append(sample_call(seq, large))
        assert store.query("SELECT count(*) FROM blobs") == [(1,)]  # their common value, once
        (log,) = logs(path)
        assert log.stat().st_size < (LOG_PACKS + 2) * PACK_BYTES
        assert [event.result for event in store.events("run")] == [large] * 3 * LOG_PACKS


def test_nothing_is_left_of_a_log_when_its_run_ends(path: Path) -> None:
    with rk.Store.open(path) as store:
        begun(store, events=5).finish(RunHeader(id="run"))
        assert logs(path) == []
    assert events_of(path) == calls(5)


@pytest.mark.skipif(sys.platform != "linux", reason="who writes a run is known from locks of open files")
def test_what_a_killed_process_wrote_is_read_and_folded_by_the_next_recording(path: Path) -> None:
    killed(path, events=FULL + 5)
    assert events_of(path) == calls(FULL + 5)
    assert len(logs(path)) == 1

    with rk.Store.open(path) as store:
        writer = begun(store, "next", events=2)
        assert [log.name for log in logs(path)] == [str(LogName.of(store.number_of("next"), "next"))]
        writer.finish(RunHeader(id="next"))
    assert events_of(path) == calls(FULL + 5)


def test_the_log_of_a_run_that_is_being_written_is_left_to_its_writer(path: Path) -> None:
    with rk.Store.open(path) as store, rk.Store.open(path) as other:
        writer = begun(store, events=3)
        begun(other, "other", events=1)
        append(writer, 3, 6)
        writer.finish(RunHeader(id="run"))
    assert events_of(path) == calls(6)


def test_a_kill_between_the_packs_and_the_end_of_the_log_doubles_nothing(path: Path) -> None:
    with rk.Store.open(path) as store:
        writer = begun(store, events=FULL)
        (log,) = logs(path)
        copy = log.read_bytes()
        writer.finish(RunHeader(id="run"))
    log.write_bytes(copy)
    assert events_of(path) == calls(FULL)

    with rk.Store.open(path) as store:
        begun(store, "next")
    assert logs(path) == []
    assert events_of(path) == calls(FULL)


def test_a_log_that_was_cut_anywhere_holds_the_events_before_the_cut(path: Path) -> None:
    with rk.Store.open(path) as store:
        begun(store, events=6)
    (log,) = logs(path)
    whole = log.read_bytes()
    rows = log_rows(whole, "")
    ends = [whole.index(data) + len(data) for _, data in rows]
    for size in range(len(whole) + 1):
        complete = sum(end <= size for end in ends)
        assert log_rows(whole[:size], "") == rows[:complete]
        assert log_rows(whole[:size] + bytes(40), "") == rows[:complete]  # as a loss of power may leave it
    log.write_bytes(whole[: ends[3] + 30] + bytes(4096))
    assert events_of(path) == calls(4)


def test_every_flipped_bit_of_a_log_is_found(path: Path) -> None:
    with rk.Store.open(path) as store:
        begun(store, events=3)
    (log,) = logs(path)
    whole, rng = log.read_bytes(), random.Random(5)
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << rng.randrange(8)
        log.write_bytes(flipped)
        with rk.Store.open(path, read_only=True) as store:
            assert list(store.verify()) != [], f"byte {position}"
            with pytest.raises(CorruptStore):
                store.load("run")


def test_a_damaged_log_stays_for_repair_when_the_next_run_begins(path: Path) -> None:
    with rk.Store.open(path) as store:
        begun(store, events=5)
        spoil_logged_event(store, "run", 2)
    with rk.Store.open(path) as store:
        begun(store, "next").finish(RunHeader(id="next"))
        assert [damage.what for damage in store.verify()] == ["the checksum does not match"]
    (log,) = logs(path)
    assert len(list(salvaged_rows(log.read_bytes()))) == 5


def test_a_write_that_was_never_acknowledged_is_not_there(path: Path) -> None:
    with rk.Store.open(path) as store:
        writer = begun(store, events=2)
        (log,) = logs(path)
        with log.open("ab") as file:  # as an interrupt leaves it, after the write and before anybody knows of it
            file.write(log.read_bytes())
        append(writer, 2, 4)
        assert events_of(path) == calls(4)


def test_a_full_disk_leaves_the_log_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rk.Store.open(path) as store:
        writer = begun(store, events=2)
        write, parts = os.write, iter([9, None])

        def half(file: int, data: bytes) -> int:
            size = next(parts)
            if size is None:
                raise OSError(28, "No space left on device")
            return write(file, data[:size])

        monkeypatch.setattr(event_log.os, "write", half)
        with pytest.raises(StoreFull, match="the last event was not written"):
            append(writer, 2, 3)
        monkeypatch.undo()
        append(writer, 2, 3)
        assert events_of(path) == calls(3)


def test_a_deleted_run_takes_its_log_along_and_its_writer_learns_it_at_once(path: Path) -> None:
    with rk.Store.open(path) as store, rk.Store.open(path) as other:
        writer = begun(store, events=3)
        other.delete(["run"])
        assert logs(path) == []
        with pytest.raises(StoreError, match="was deleted or rewritten while it was recorded"):
            append(writer, 3, 4)


def test_a_run_that_stays_after_all_keeps_its_log(path: Path) -> None:
    with rk.Store.open(path) as store:
        writer = begun(store, events=3)
        with pytest.raises(KeyboardInterrupt), store.exclusive():
            store.delete(["run"])
            raise KeyboardInterrupt
        append(writer, 3, 5)
    assert events_of(path) == calls(5)


def test_a_store_made_anew_does_not_take_the_logs_of_the_old_one_for_its_own(path: Path) -> None:
    killed(path, "old", events=3)
    for file in path.parent.glob("store.db*"):  # but not the directory of the logs
        if file.is_file():
            file.unlink()
    with rk.Store.open(path) as store:
        store.add(rk.TraceRun(id="new"))
        assert list(store.events("new")) == []
        begun(store, "next").finish(RunHeader(id="next"))
    assert logs(path) == []


def test_a_snapshot_holds_what_is_folded_meanwhile(path: Path) -> None:
    with rk.Store.open(path) as store, rk.Store.open(path) as reader:
        writer = begun(store, events=FULL)
        with reader.snapshot():
            assert len(list(reader.events("run"))) == FULL
            append(writer, FULL, FULL + 3)
            writer.finish(RunHeader(id="run"))
            assert [event.seq for event in reader.events("run")] == list(range(FULL))
        assert len(list(reader.events("run"))) == FULL + 3


def test_a_summary_counts_the_events_of_a_log(path: Path) -> None:
    with rk.Store.open(path) as store:
        begun(store, events=PACK_EVENTS + 3)
        (run,) = contents(store).runs
        (size,) = contents(store).sizes.values()
    assert (size.events, run.last_key, run.alive) == (PACK_EVENTS + 3, 1 << 32 | PACK_EVENTS + 2, True)


def test_a_backup_holds_the_events_of_logs_and_a_restored_store_has_no_others(path: Path, tmp_path: Path) -> None:
    with rk.Store.open(path) as store:
        writer = begun(store, events=FULL + 4)
        backup(store, tmp_path / "copy.db")
        append(writer, FULL + 4, FULL + 8)
    assert events_of(tmp_path / "copy.db") == calls(FULL + 4)

    restore(tmp_path / "copy.db", path, force=True)
    assert logs(path) == []
    assert events_of(path) == calls(FULL + 4)


def test_a_store_that_was_copied_by_hand_is_restored_with_its_logs(path: Path, tmp_path: Path) -> None:
    killed(path, events=7)
    restore(path, tmp_path / "other" / "store.db")
    assert events_of(tmp_path / "other" / "store.db") == calls(7)


@pytest.mark.parametrize(("durability", "syncs"), [(Durability.POWER, 3), (Durability.PROCESS, 0)])
def test_an_event_is_on_the_platter_only_where_that_is_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability, syncs: int
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(event_log, "_sync_file", synced.append)
    with rk.Store.open(path, durability=durability) as store:
        begun(store, events=3)
    assert len(synced) == syncs


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
@pytest.mark.parametrize(("rights", "directory"), [(0o600, 0o700), (0o660, 0o770), (0o640, 0o750)])
def test_logs_are_for_those_who_may_read_the_store(path: Path, rights: int, directory: int) -> None:
    with rk.Store.open(path) as store:
        path.chmod(rights)
        begun(store, events=1)
    (log,) = logs(path)
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (rights, directory)


def test_a_store_of_format_1_keeps_its_tails_and_gets_the_new_format_when_it_is_written(path: Path) -> None:
    with rk.Store.open(path) as store:
        thread = store.share("run")
        with thread.turn():
            thread.write_header(RunHeader(id="run"))
            for event in calls(3):
                thread.append(event)
        store.query("PRAGMA user_version = 1")
    assert events_of(path) == calls(3)

    with rk.Store.open(path) as store:
        assert store.query("PRAGMA user_version") == [(2,)]
        assert list(store.events("run")) == calls(3)


def test_a_run_goes_on_where_its_store_is_after_the_program_changes_its_directory(own_directory: Path) -> None:
    elsewhere = own_directory / "elsewhere"
    elsewhere.mkdir()
    with rk.record("walks") as run:
        run.message("user", "before")
        os.chdir(elsewhere)
        try:
            run.message("user", "after")
        finally:
            os.chdir(own_directory)

    with rk.Store.open(".replaykit/store.db") as store:
        assert [event.seq for event in store.events(run.id)] == [0, 1]
    assert list(elsewhere.iterdir()) == []


class InterruptedConnection:
    """A connection whose next COMMIT is interrupted by a signal, as by Ctrl-C, after SQLite has done it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._is_armed = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        cursor = self._db.execute(sql, *parameters)
        if sql == "COMMIT" and self._is_armed:
            self._is_armed = False
            signal.raise_signal(signal.SIGINT)
        return cursor


def test_a_run_goes_on_after_a_signal_interrupts_the_commit_of_a_full_log(path: Path) -> None:
    with rk.Store.open(path) as store:
        writer = begun(store, events=FULL)
        store.db = InterruptedConnection(store.db)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            append(writer, FULL, FULL + 1)
        append(writer, FULL, 2 * FULL + 1)
        writer.finish(RunHeader(id="run"))

        assert [event.seq for event in store.events("run")] == list(range(2 * FULL + 1))
    assert list(log_directory(path).iterdir()) == []


def test_a_link_in_the_place_of_a_log_is_neither_written_nor_read(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("not ours")
    with rk.Store.open(path) as store:
        writer = begun(store)
        log_directory(path).mkdir()
        log = log_directory(path) / str(LogName.of(1, "run"))
        log.symlink_to(other)

        with pytest.raises(StoreError, match="cannot be written"):
            append(writer, 0, 1)
        with pytest.raises(StoreError, match="cannot be read"):
            list(store.events("run"))
        with pytest.raises(StoreError, match="cannot be read"), store.snapshot():
            pass
    assert other.read_text() == "not ours"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_nobody_waits_for_a_pipe_in_the_place_of_a_log(path: Path) -> None:
    with rk.Store.open(path) as store:
        begun(store, events=1)
        os.mkfifo(log_directory(path) / str(LogName.of(2, "other")))

        with pytest.raises(StoreError, match="not a regular file"), store.snapshot():
            pass


def test_a_link_to_a_store_leads_to_the_logs_of_its_runs(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with rk.Store.open(path) as store:
        begun(store, events=3)
        with rk.Store.open(link) as linked:
            assert len(list(linked.events("run"))) == 3
            begun(linked, "through the link", events=2)
            assert len(list(store.events("through the link"))) == 2


def test_writers_through_a_link_and_through_the_path_take_turns(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with rk.Store.open(path) as store, rk.Store.open(link) as linked:
        writers = [store.share("run"), linked.share("run")]
        with writers[0].turn():
            writers[0].write_header(RunHeader(id="run"))
        for seq in range(6):
            with writers[seq % 2].turn():
                writers[seq % 2].append(sample_call(seq))

        assert [event.seq for event in store.events("run")] == list(range(6))


def test_a_log_that_is_being_written_stays_when_another_writer_has_changed_its_directory(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with rk.Store.open(path) as store, rk.Store.open(path.name) as other:
        writer = begun(store, events=3)
        monkeypatch.chdir(elsewhere)
        begun(other, "other", events=1)
        append(writer, 3, 5)

        assert [event.seq for event in store.events("run")] == list(range(5))


def test_a_backup_restored_through_a_link_replaces_the_store_and_not_the_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with rk.Store.open(path) as store:
        begun(store, events=3)
        backup(store, tmp_path / "backup.db")

    restore(tmp_path / "backup.db", link, force=True)

    assert link.is_symlink()
    assert len(events_of(path)) == 3
    assert list(log_directory(path).iterdir()) == []
