"""Backups: of one moment while others write, checked, and put in place as a whole or not at all."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.errors import CorruptStore, StoreError, UsageError
from replaykit.store import backup as module
from replaykit.store.backup import backup, restore
from replaykit.testing import sample_run


def store_with(path: Path, *runs: str) -> Path:
    with rk.Store.open(path) as store:
        for run in runs:
            store.add(sample_run(run, 70))
    return path


def ids(path: Path) -> set[str]:
    with rk.Store.open(path, read_only=True) as store:
        assert list(store.verify()) == []
        return {header.id for header in store.headers()}


def files(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir() if not file.name.endswith("-live")}


def test_a_backup_holds_what_the_store_held_and_is_one_file(tmp_path: Path) -> None:
    with rk.Store.open(tmp_path / "store.db") as store:
        store.add(sample_run("a", 70))
        copied = backup(store, tmp_path / "copy.db")
        store.add(sample_run("b", 70))

    assert (copied.runs, copied.size_bytes) == (1, (tmp_path / "copy.db").stat().st_size)
    assert files(tmp_path) == {"store.db", "copy.db"}
    assert ids(tmp_path / "copy.db") == {"a"}


def test_a_file_that_is_there_is_replaced_only_when_somebody_says_so(tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    with rk.Store.open(store_with(tmp_path / "store.db", "a")) as store:
        with pytest.raises(UsageError, match="already exists"):
            backup(store, tmp_path / "copy.db")
        assert (tmp_path / "copy.db").read_text() == "precious"
        backup(store, tmp_path / "copy.db", force=True)
        with pytest.raises(UsageError, match="is the store itself"):
            backup(store, store.path, force=True)
    assert ids(tmp_path / "copy.db") == {"a"}


def test_a_damaged_store_gives_no_backup_and_the_old_one_stays(tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    with rk.Store.open(store_with(tmp_path / "store.db", "a")) as store:
        store.query("UPDATE packs SET data = substr(data, 1, 50)")
        with pytest.raises(CorruptStore, match="the store is damaged, and so is its copy"):
            backup(store, tmp_path / "copy.db", force=True)
    assert (tmp_path / "copy.db").read_text() == "precious"
    assert files(tmp_path) == {"store.db", "copy.db"}


WRITER = """
import sys
import replaykit as rk

@rk.tool
def work(n: int) -> str:
    return "x" * 3000

with rk.Store.open(sys.argv[1]) as store:
    print("ready", flush=True)
    while True:
        with rk.record("busy", store=store):
            for n in range(20):
                work(n)
"""


def test_backups_are_whole_while_others_write(tmp_path: Path) -> None:
    path = store_with(tmp_path / "store.db", "a")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        with rk.Store.open(path, read_only=True) as store:
            counts = [backup(store, tmp_path / f"copy-{number}.db").runs for number in range(5)]
    finally:
        writer.kill()
        writer.communicate()
    assert counts == sorted(counts)
    for number in range(5):
        assert "a" in ids(tmp_path / f"copy-{number}.db")


def test_a_restored_store_is_the_backup_and_goes_on(tmp_path: Path) -> None:
    with rk.Store.open(store_with(tmp_path / "store.db", "a")) as store:
        backup(store, tmp_path / "copy.db")
        store.add(sample_run("b", 70))

    with pytest.raises(UsageError, match="there is a store at"):
        restore(tmp_path / "copy.db", tmp_path / "store.db")
    restored = restore(tmp_path / "copy.db", tmp_path / "store.db", force=True)

    assert restored.runs == 1
    with rk.Store.open(tmp_path / "store.db") as store:
        store.add(sample_run("c", 70))
        assert store.query("PRAGMA journal_mode") == [("wal",)]
    assert ids(tmp_path / "store.db") == {"a", "c"}
    assert ids(tmp_path / "copy.db") == {"a"}
    assert files(tmp_path) == {"store.db", "copy.db"}


def test_where_there_is_no_store_one_is_made(tmp_path: Path) -> None:
    copy = store_with(tmp_path / "copy.db", "a")
    restore(copy, tmp_path / ".replaykit" / "store.db")
    assert ids(tmp_path / ".replaykit" / "store.db") == {"a"}


def test_a_store_in_use_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT_S", 0)
    copy = store_with(tmp_path / "copy.db", "a")
    with rk.Store.open(store_with(tmp_path / "store.db", "b")) as store:
        with pytest.raises(StoreError, match="other processes have the store open"):
            restore(copy, store.path, force=True)
        store.add(sample_run("c", 1))
    assert ids(tmp_path / "store.db") == {"b", "c"}


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_backup_replaces_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    copy, path = store_with(tmp_path / "copy.db", "a"), store_with(tmp_path / "store.db", "b")
    with rk.Store.open(copy) as store:
        (page,) = store.query("SELECT rootpage FROM sqlite_master WHERE name = 'packs'")[0]
    data = bytearray(copy.read_bytes())
    damage = rng.choice(["cut", "zero", "flip", "garbage"])
    if damage == "cut":
        del data[rng.randrange(1, len(data) - 4096) :]
    elif damage == "zero":
        data[(page - 1) * 4096 : page * 4096] = bytes(4096)
    elif damage == "flip":
        data[page * 4096 - rng.randrange(1, 300)] ^= 0x40
    else:
        data[:200] = rng.randbytes(200)
    copy.write_bytes(data)

    with pytest.raises(StoreError):
        restore(copy, path, force=True)

    assert ids(path) == {"b"}
    assert files(tmp_path) == {"store.db", "copy.db"}


def test_a_damaged_store_is_replaced_and_its_log_is_not_read_into_the_new_one(tmp_path: Path) -> None:
    copy = store_with(tmp_path / "copy.db", "a", "c")
    with rk.Store.open(store_with(tmp_path / "old.db", "b")) as store:
        store.query("PRAGMA wal_checkpoint(TRUNCATE)")
        store.tag("b", add=["changed"])  # on a page that the file has already: the log alone makes no database
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{store.path}{suffix}", tmp_path / f"store.db{suffix}")
    data = bytearray((tmp_path / "store.db").read_bytes())
    data[:100] = os.urandom(100)
    (tmp_path / "store.db").write_bytes(data)

    restore(copy, tmp_path / "store.db", force=True)

    assert ids(tmp_path / "store.db") == {"a", "c"}


KILLED = """
import os, signal, sys
from pathlib import Path
from replaykit.store import backup
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
setattr(backup.os if sys.argv[3] == "replace" else backup, sys.argv[3], kill)
backup.restore(Path(sys.argv[1]), Path(sys.argv[2]), force=True)
"""


@pytest.mark.parametrize("moment", ["_checked", "_in_wal_mode", "_put_aside", "replace"])
def test_a_kill_at_any_moment_leaves_the_old_store(tmp_path: Path, moment: str) -> None:
    copy, path = store_with(tmp_path / "copy.db", "a"), store_with(tmp_path / "store.db", "b")
    done = subprocess.run([sys.executable, "-c", KILLED, str(copy), str(path), moment], timeout=60)
    assert done.returncode == -signal.SIGKILL
    with rk.Store.open(path) as store:
        assert store.query("PRAGMA journal_mode") == [("wal",)]
    assert ids(path) == {"b"}


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no backup at"):
        restore(tmp_path / "copy.db", tmp_path / "store.db")
    for text in ("hello " * 1000, ""):
        (tmp_path / "copy.db").write_text(text)
        with pytest.raises(StoreError) as refused:
            restore(tmp_path / "copy.db", tmp_path / "store.db")
        assert str(refused.value).startswith(str(tmp_path / "copy.db")), "not the copy of it, which is gone"
    assert files(tmp_path) == {"copy.db"}


def test_who_waits_for_a_store_that_is_restored_gets_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replaykit.store import schema

    path, copy = store_with(tmp_path / "store.db", "old"), store_with(tmp_path / "copy.db", "new")
    prepare, waited = schema._prepare, []

    def meanwhile(*args: object, **kwargs: object) -> None:
        if not waited:
            waited.append(True)
            os.replace(copy, path)
        prepare(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(schema, "_prepare", meanwhile)
    assert ids(path) == {"new"}
