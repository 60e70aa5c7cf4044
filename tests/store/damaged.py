"""A store with everything in it, and who of it lives on which page, as SQLite itself tells."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

import msgspec

import replaykit as rk
from replaykit.model.changes import StateFold
from replaykit.model.events import Shared, State
from replaykit.model.run import Origin, RunHeader, RunStatus
from replaykit.model.values import Raw, raw
from replaykit.store.event_log import log_directory, log_rows
from replaykit.testing import sample_call

PAGE = 4096


def full_store(path: Path, seed: int = 7) -> rk.Store:
    """Runs with packs, tails, growing states and arguments, large values, a fork, a thread, and deleted ones."""
    rng = random.Random(seed)
    store = rk.Store.open(path)
    for name in ("gone-1", "first", "second"):
        run(store, rng, name, events=rng.randrange(30, 220))
    store.query("PRAGMA wal_checkpoint(TRUNCATE)")
    store.query("PRAGMA wal_autocheckpoint = 0")  # what follows stays in the log
    for name in ("gone-2", "third"):
        run(store, rng, name, events=rng.randrange(30, 220))
    run(store, rng, "open", events=100, finish=False)
    fork(store, "fork", "second")
    thread(store, "thread")
    run(store, rng, "last", events=70)
    store.delete(["gone-1", "gone-2"])
    return store


def run(store: rk.Store, rng: random.Random, run_id: str, *, events: int, finish: bool = True) -> None:
    header = RunHeader(id=run_id, name=f"name of {run_id}", started_at=1.7e9 + events, input_json=raw({"ask": run_id}))
    writer, fold, seen = store.begin(header), StateFold(), list[str]()
    for seq in range(events):
        seen.append(rng.randbytes(rng.choice([5, 50, 400])).hex())
        if seq % 5 == 4:
            state, change = fold.advance({"seen": list(seen), "n": seq})
            writer.append(State(seq=seq, at=1.7e9 + seq, state_json=state, change=change))
        else:
            size = 70_000 if rng.random() < 0.02 else rng.choice([10, 300, 3000])
            result = rng.randbytes(size // 2).hex()
            # What changes from call to call is small, and drifts: a cut of an older call would fit, and be wrong.
            said = {"said": seen[:14], "x": f"{seq // 10:06}", "y": f"{seq:06}"}
            writer.append(sample_call(seq, result, **said))
    if finish:
        writer.finish(msgspec.structs.replace(header, status=RunStatus.SUCCESS))


def fork(store: rk.Store, run_id: str, parent: str) -> None:
    origin = Origin(kind="forked", run=parent, step="s")
    writer = store.begin(RunHeader(id=run_id, origin=origin))
    for event in list(store.events(parent))[:20]:
        writer.append(Shared(seq=event.seq, at=event.at, run=parent, of=event.seq))
    writer.append(State(seq=20, state_json=raw({"fork": True})))
    writer.finish(RunHeader(id=run_id, status=RunStatus.ERROR, origin=origin))


def thread(store: rk.Store, run_id: str) -> None:
    shared, fold = store.share(run_id), StateFold()
    for seq in range(90):
        with shared.turn():
            if shared.header is None:
                shared.write_header(RunHeader(id=run_id, origin=Origin(format="langgraph")))
            state, change = fold.advance({"messages": [f"message {n}" * 9 for n in range(seq + 1)]})
            shared.append(State(seq=seq, state_json=state, change=change, about_json=Raw(b'{"id":"c%03d"}' % seq)))


def copied(source: Path, target: Path) -> Path:
    """The files of a store, as they lie there."""
    for suffix in ("", "-wal"):
        if (file := source.with_name(source.name + suffix)).exists():
            shutil.copyfile(file, target.with_name(target.name + suffix))
    if (logs := log_directory(source)).exists():
        shutil.copytree(logs, log_directory(target), dirs_exist_ok=True)
    return target


def store_files(store: Path) -> list[Path]:
    """The file of a store, and all that lie beside it for the store's sake."""
    return [file for file in (*store.parent.glob(f"{store.name}*"), *log_directory(store).glob("*")) if file.is_file()]


def spoil_logged_event(store: rk.Store, run_id: str, index: int) -> None:
    """Damage one event in the log of a run that is being written."""
    path = store.logs.path_of(store.number_of(run_id), run_id)
    file = os.open(path, os.O_RDWR)
    data = os.pread(file, os.fstat(file).st_size, 0)
    row = log_rows(data, run_id)[index][1]
    os.pwrite(file, bytes([row[40] ^ 1]), data.index(row) + 40)
    os.close(file)


def pages_of_rows(path: Path) -> dict[tuple[str, int], set[int]]:
    """For each row of the tables, by its key, the pages that hold it."""
    db = sqlite3.connect(path)
    found: dict[tuple[str, int], set[int]] = {}
    for table in ("runs", "events", "packs", "blobs"):
        key = "key" if table in ("events", "packs") else "n"
        keys = [number for (number,) in db.execute(f"SELECT {key} FROM {table} NOT INDEXED ORDER BY {key}")]
        rows = db.execute("SELECT path, pageno, pagetype, ncell FROM dbstat WHERE name = ?", (table,)).fetchall()
        leaves = sorted((place, number, count) for place, number, kind, count in rows if kind == "leaf")
        place_of = {}
        for place, number, count in leaves:
            for index in range(count):
                found[table, keys[len(place_of)]] = {number}
                place_of[f"{place}{index:03x}"] = keys[len(place_of)]
        for place, number, kind, _ in rows:
            if kind == "overflow":
                found[table, place_of[place.partition("+")[0]]].add(number)
    db.close()
    return found
