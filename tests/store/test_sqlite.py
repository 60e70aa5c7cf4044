"""The SQLite store: what is its own beyond the conformance suite."""

from __future__ import annotations

import os
import random
import resource
import sqlite3
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard

import replaykit as rk
from replaykit.errors import CorruptStore, FormatTooNew, RecordingWarning, ReplayKitError, StoreError
from replaykit.model.changes import StateFold
from replaykit.model.events import State, encode_event
from replaykit.model.run import RunHeader, TraceRun
from replaykit.store.rows import seal
from replaykit.testing import sample_call, sample_run


def damaged(path: Path, sql: str, *parameters: object) -> None:
    """Change a store behind its back."""
    with sqlite3.connect(path) as db:
        db.execute(sql, parameters)
    db.close()


def filled(path: Path) -> None:
    """A store with everything in it: packs, a log with a long event, the tail of a shared run, a blob, states."""
    with rk.Store.open(path) as store:
        store.add(sample_run("packed", 130))
        thread = store.share("thread")
        with thread.turn():
            thread.write_header(RunHeader(id="thread"))
            for seq in range(4):
                thread.append(sample_call(seq))
        writer = store.begin(RunHeader(id="open", name="tail"))
        fold = StateFold()
        for seq in range(5):
            whole, change = fold.advance({"messages": ["m" * 300] * seq})
            writer.append(State(seq=seq, state_json=whole, change=change))
        writer.append(sample_call(5, os.urandom(1_000).hex()))
        store.add(TraceRun(id="large", events=(sample_call(0, os.urandom(80_000).hex()),)))


def everything(path: Path) -> list[object]:
    with rk.Store.open(path, read_only=True) as store:
        headers = store.headers()
        return [headers, *(store.load(header.id) for header in headers), store.state_at("open")]


def verified(path: Path) -> list[object]:
    with rk.Store.open(path, read_only=True) as store:
        return list(store.verify())


def test_bytes_on_disk_grow_linearly_with_the_steps(tmp_path: Path) -> None:
    sizes = {}
    text = random.Random(1)
    messages = ["".join(text.choices("abcdefghij klmnop", k=1000)) for _ in range(400)]
    for steps in (100, 400):
        path = tmp_path / f"{steps}.db"
        with rk.Store.open(path) as store, rk.record("grow", store=store) as run:
            for step in range(steps):
                run.checkpoint({"messages": messages[: step + 1]})
        sizes[steps] = path.stat().st_size

    assert sizes[400] < 5 * sizes[100]
    assert sizes[400] < 400 * 1024


def test_bytes_on_disk_grow_linearly_with_a_conversation(tmp_path: Path) -> None:
    @rk.tool
    def complete(model: str, messages: list[str], temperature: float) -> str:
        return "ok"

    text = random.Random(1)
    messages = ["".join(text.choices("abcdefghij klmnop", k=1000)) for _ in range(200)]
    sizes = {}
    for calls in (50, 200):
        path = tmp_path / f"{calls}.db"
        with rk.Store.open(path) as store, rk.record("grow", store=store):
            for call in range(calls):
                complete("m", messages[: call + 1], 0.5)
        sizes[calls] = path.stat().st_size

    assert sizes[200] < 5 * sizes[50]
    assert sizes[200] < 300 * 1024


def test_a_large_value_is_stored_once_for_all_runs(tmp_path: Path) -> None:
    large = os.urandom(100_000).hex()
    with rk.Store.open(tmp_path / "s.db") as store:
        for number in range(10):
            store.add(TraceRun(id=f"r{number}", events=(sample_call(0, large),)))
        assert store.query("SELECT count(*) FROM blobs") == [(1,)]


def test_the_store_is_made_with_its_directory(tmp_path: Path) -> None:
    with rk.Store.open(tmp_path / "a" / "b" / "s.db") as store:
        assert store.headers() == []


def test_reading_a_store_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        rk.Store.open(tmp_path / "none" / "s.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    filled(path)
    damaged(path, "PRAGMA user_version = 99")
    before = path.read_bytes()

    with pytest.raises(FormatTooNew, match="newer ReplayKit"):
        rk.Store.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_directory_is_no_store(tmp_path: Path, read_only: bool) -> None:
    with pytest.raises(StoreError, match="is a directory") as told:
        rk.Store.open(tmp_path, read_only=read_only)

    assert told.value.hint == f"Name the file: {tmp_path / 'store.db'}"


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    damaged(path, "CREATE TABLE theirs (x)")
    before = path.read_bytes()

    with pytest.raises(StoreError, match="not a ReplayKit store"):
        rk.Store.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database" * 100, b"\0" * 5000])
def test_a_file_that_is_no_database_is_a_named_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)

    with pytest.raises(StoreError, match=r"s\.db"):
        rk.Store.open(path)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE packs SET data = substr(data, 1, 40) || x'00' || substr(data, 42)", "pack at event"),
        ("UPDATE packs SET data = x''", "pack at event"),
        ("UPDATE packs SET count = count + 1", "checksum"),
        ("UPDATE packs SET key = key + 1", "checksum"),
        ("UPDATE packs SET first_seq = first_seq + 1", "checksum"),
        ("DELETE FROM packs WHERE rowid IN (SELECT rowid FROM packs LIMIT 1)", "missing"),
        ("UPDATE events SET data = substr(data, 1, 20) || x'7f' || substr(data, 22)", "event"),
        ("DELETE FROM events WHERE key % 4294967296 = 2", "missing"),
        ("UPDATE blobs SET data = substr(data, 1, 40) || x'00' || substr(data, 42)", "blob"),
        ("DELETE FROM blobs", "blob"),
        ("UPDATE runs SET header = substr(header, 1, 20) || x'00' || substr(header, 22)", "header"),
        ("UPDATE runs SET status = 'success'", "row does not say"),
        ("DELETE FROM runs WHERE id = 'packed'", "without a run"),
    ],
)
def test_damage_is_named_by_verify_and_never_read_as_something_else(tmp_path: Path, sql: str, what: str) -> None:
    path = tmp_path / "s.db"
    filled(path)
    whole = everything(path)
    damaged(path, sql)

    with rk.Store.open(path, read_only=True) as store:
        found = list(store.verify())
    assert any(what in str(damage) for damage in found), found
    try:
        assert everything(path) != whole or "row does not say" in what
    except CorruptStore:
        pass


def test_any_flipped_byte_is_either_found_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    filled(path)
    whole, original, rng = everything(path), path.read_bytes(), random.Random(7)
    unnoticed = 0
    for _ in range(250):
        position = rng.randrange(len(original))
        flipped = bytearray(original)
        flipped[position] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        try:
            with rk.Store.open(path, read_only=True) as store:
                found = list(store.verify())
            if not found:
                unnoticed += 1
                assert everything(path) == whole, f"byte {position} changed what is read, and verify saw nothing"
        except ReplayKitError:
            pass
    assert unnoticed < 250


def test_random_bytes_in_the_file_give_clear_errors_only(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    filled(path)
    original, rng = path.read_bytes(), random.Random(11)
    for _ in range(60):
        broken = bytearray(original)
        start = rng.randrange(len(broken))
        broken[start : start + 600] = rng.randbytes(600)
        path.write_bytes(broken[: rng.choice([len(broken), start + 300])])
        for action in (everything, verified):
            try:
                action(path)
            except ReplayKitError:
                pass


def test_a_zstd_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    filled(path)
    bomb = b"z" + zstandard.ZstdCompressor().compress(b"\0" * 500_000_000)
    with rk.Store.open(path, read_only=True) as store:
        key = store.query("SELECT min(key) FROM packs")[0][0]
    damaged(path, "UPDATE packs SET data = ? WHERE key = ?", seal(key, bomb), key)
    damaged(path, "UPDATE blobs SET data = ?", bomb)

    tracemalloc.start()
    with rk.Store.open(path, read_only=True) as store:
        found = [str(damage) for damage in store.verify()]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert sum("not plausible" in text for text in found) >= 2
    assert peak < 10 * path.stat().st_size


def test_a_long_event_of_format_1_is_a_frame_in_its_row_and_a_bomb_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    long, short = sample_call(0, "yes " * 1_000), sample_call(1, "no")
    with rk.Store.open(path) as store:
        thread = store.share("r")
        with thread.turn():
            thread.write_header(RunHeader(id="r"))
            thread.append(long)
            thread.append(short)
        key = store.query("SELECT min(key) FROM events")[0][0]
        frame = b"z" + zstandard.ZstdCompressor().compress(encode_event(long))
        store.query("UPDATE events SET data = ? WHERE key = ?", seal(key, frame), key)
        assert store.load("r").events == (long, short)
    damaged(path, "UPDATE events SET data = ? WHERE key = ?", seal(key, b"z" + zstandard.compress(bytes(10**8))), key)

    with rk.Store.open(path, read_only=True) as store, pytest.raises(CorruptStore, match="not plausible"):
        store.load("r")


def test_a_lazy_writer_writes_packs_and_loses_nothing_when_it_ends(tmp_path: Path) -> None:
    events = [sample_call(seq, os.urandom(80_000).hex() if seq == 70 else "yes") for seq in range(100)]
    with rk.Store.open(tmp_path / "s.db") as store:
        writer = store.begin(RunHeader(id="r"), lazily=True)
        for event in events:
            writer.append(event)
        rows = store.query("SELECT count(*) FROM events")[0][0]
        seen = len(store.load("r").events)
        writer.finish(RunHeader(id="r"))

        assert (rows, seen) == (0, 64)
        assert list(store.load("r").events) == events
        assert list(store.verify()) == []


def test_a_full_disk_is_said_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with rk.Store.open(path) as store:
        writer = store.begin(RunHeader(id="r"))
        pages = store.query("PRAGMA page_count")[0][0]
        store.query(f"PRAGMA max_page_count = {pages + 12}")
        written = 0
        with pytest.raises(StoreError, match="disk is full"):
            for seq in range(10_000):
                writer.append(sample_call(seq, os.urandom(500).hex()))
                written += 1
        store.query("PRAGMA max_page_count = 1000000")
        assert [event.seq for event in store.load("r").events] == list(range(written))
        writer.append(sample_call(written))
        assert len(store.load("r").events) == written + 1
        assert list(store.verify()) == []


def test_a_state_that_could_not_be_written_leaves_those_before_it_whole(tmp_path: Path) -> None:
    with rk.Store.open(tmp_path / "s.db") as store, rk.record("r", store=store) as run:
        run.checkpoint({"n": 1})
        store.query(f"PRAGMA max_page_count = {store.query('PRAGMA page_count')[0][0]}")
        states = [{"n": n, "text": os.urandom(300).hex()} for n in range(2, 1000)]
        with pytest.warns(RecordingWarning, match="disk is full"):
            list(map(run.checkpoint, states))
        store.query("PRAGMA max_page_count = 1000000")
        run.checkpoint({"n": "after"})

        assert store.state_at(run.id)["n"] in range(1, 999)
        assert list(store.verify()) == []


def test_a_file_size_limit_is_an_error_too(tmp_path: Path) -> None:
    """The same with the real thing: the kernel refuses to let the file grow."""
    program = f"""
import resource, signal, os
import replaykit as rk
from replaykit.errors import StoreError
from replaykit.model.run import RunHeader
from replaykit.testing import sample_call
store = rk.Store.open({str(tmp_path / "s.db")!r})
writer = store.begin(RunHeader(id="r"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
written = 0
try:
    for seq in range(10_000):
        writer.append(sample_call(seq, os.urandom(500).hex()))
        written += 1
except StoreError as error:
    print(written, error, flush=True)
    os._exit(0)
"""
    assert hasattr(resource, "RLIMIT_FSIZE")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    written = int(done.stdout.split()[0])

    with rk.Store.open(tmp_path / "s.db") as store:
        assert len(store.load("r").events) == written > 0
        assert list(store.verify()) == []
