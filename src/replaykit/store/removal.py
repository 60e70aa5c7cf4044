"""Delete and replace runs. A fork gets its own copy of the events that it shares with a removed run."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from replaykit.model.run import TraceRun
from replaykit.store import blobs
from replaykit.store.event_log import LogName
from replaykit.store.rows import read_header
from replaykit.store.writer import add_run

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore


def delete_runs(store: SQLiteStore, run_ids: Collection[str]) -> int:
    """Delete runs by their full ids; return how many existed."""
    with store.between_turns() as db:
        orphans = list(_orphans(store, set(run_ids)))
        removed = [number for run_id in dict.fromkeys(run_ids) if (number := remove_run(store, run_id)) is not None]
        for run in orphans:
            _put_in_place(store, db, run)
    for number in removed:
        store.live.let_go(number)
    return len(removed)


def replace_runs(store: SQLiteStore, runs: Collection[TraceRun]) -> None:
    """Replace the runs with the same ids."""
    with store.between_turns() as db:
        for run in [*_orphans(store, {run.id for run in runs}), *runs]:
            _put_in_place(store, db, run)


def _orphans(store: SQLiteStore, going: set[str]) -> Iterator[TraceRun]:
    """Yield the complete forks of removed runs, so that they can hold the shared events themselves."""
    sql = "SELECT n, id, header FROM runs WHERE n > (SELECT n FROM runs WHERE id = ?) AND instr(header, ?)"
    for parent in going:
        # A fork always starts after its parent. Searching the header text first avoids decoding most headers.
        mark = b'"run":' + msgspec.json.encode(parent)
        for number, run_id, data in store.query(sql, parent, mark):
            origin = read_header(number, run_id, data).origin
            if origin.run == parent and origin.kind != "subgraph" and run_id not in going:
                yield store.load(run_id)


def _put_in_place(store: SQLiteStore, db: sqlite3.Connection, run: TraceRun) -> None:
    """Write a run under a new number, which tells readers of the old one that it was replaced."""
    remove_run(store, run.id)
    add_run(db, run if run.event_count is None else msgspec.structs.replace(run, event_count=len(run.events)))


def remove_run(store: SQLiteStore, run_id: str) -> int | None:
    """Delete one run and return its number. Call inside a transaction."""
    db = store.db
    row = db.execute("SELECT n FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    # Keys start with the run's number, so a run is one range in each table.
    low, high = row[0] << 32, (row[0] + 1) << 32
    for table in ("events", "packs"):
        db.execute(f"DELETE FROM {table} WHERE key >= ? AND key < ?", (low, high))
    blobs.release(db, row[0])
    db.execute("DELETE FROM runs WHERE n = ?", row)
    number = int(row[0])
    store.after_commit(partial(store.logs.remove, LogName.of(number, run_id)))
    return number
