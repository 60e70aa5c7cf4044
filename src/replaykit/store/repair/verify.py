"""Verification: read every meaningful byte of a store and report the damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from replaykit.errors import CorruptStore, StoreError
from replaykit.model.changes import StateFold
from replaykit.model.events import Shared, State
from replaykit.model.run import RunHeader
from replaykit.model.text_splice import ArgumentsFold
from replaykit.store import blobs
from replaykit.store.protocol import Damage, OnProgress, ignore_progress
from replaykit.store.rows import read_header

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore


def verify_sqlite(store: SQLiteStore, on_progress: OnProgress = ignore_progress) -> Iterator[Damage]:
    """Yield the damage in an SQLite store: pages, runs with their packs and events, and blobs."""
    yield from _pages(store)
    runs = _rows(store, "runs", "SELECT id, name, status, started_at, header FROM runs WHERE n = ?", on_progress)
    for number, data in runs:
        if isinstance(data, Damage):
            yield data
        else:
            yield from _run(store, number, data)
    yield from _strays(store)
    for _, data in _rows(store, "blobs", "SELECT hash, size, data FROM blobs WHERE n = ?", on_progress):
        if isinstance(data, Damage):
            yield data
        else:
            yield from _blob(*data)


def _pages(store: SQLiteStore) -> Iterator[Damage]:
    """Run SQLite's own check of tree structure, indexes and free list."""
    try:
        for (message,) in store.query("PRAGMA integrity_check(100)"):
            if message != "ok":
                yield Damage(where="database pages", what=message)
    except StoreError as error:
        yield Damage(where="database pages", what=error.message)


def _rows(store: SQLiteStore, table: str, sql: str, on_progress: OnProgress) -> Iterator[tuple[int, Any]]:
    """Yield each row of a table by number. Each row has its own query, so a bad page does not hide the others."""
    try:
        numbers = store.query(f"SELECT n FROM {table} NOT INDEXED ORDER BY n")
    except StoreError as error:
        yield 0, Damage(where=f"table {table}", what=error.message)
        return
    for done, (number,) in enumerate(numbers):
        on_progress(done, len(numbers))
        try:
            rows = store.query(sql, number)
        except (StoreError, sqlite3.Error) as error:
            yield number, Damage(where=f"{table} row {number}", what=str(error))
            continue
        yield number, rows[0] if rows else Damage(where=f"{table} row {number}", what="cannot be found again")


def _run(store: SQLiteStore, number: int, row: tuple[Any, ...]) -> Iterator[Damage]:
    run_id, name, status, started_at, data = row
    try:
        header = read_header(number, run_id, data)
    except CorruptStore as error:
        yield Damage(where=error.where, what=error.reason)
        header = RunHeader(id=str(run_id))
    else:
        if (name, status, started_at) != (header.name, header.status.value, header.started_at):
            yield Damage(where=f"run {run_id}", what="the row does not say what its header says")
    yield from _events(store, number, header)


def _events(store: SQLiteStore, number: int, header: RunHeader) -> Iterator[Damage]:
    """Check every pack and event of a run, and that its states and arguments can be reconstructed."""
    fold, arguments, expected = StateFold(), ArgumentsFold(), 0
    try:
        reading = store.readers(number)
    except StoreError as error:
        yield _damage(header, error)
        return
    while True:
        try:
            first, batch = next(reading)()
        except StopIteration:
            break
        except StoreError as error:
            yield _damage(header, error)
            return
        if first != expected:
            yield Damage(where=f"run {header.id}", what=f"events {expected} to {first - 1} are missing")
        expected = first + len(batch)
        for event in batch:
            try:
                if not isinstance(event, Shared):
                    arguments.restore(event)
                if isinstance(event, State):
                    fold.apply(event)
            except (ValueError, KeyError, msgspec.MsgspecError) as error:
                yield Damage(where=f"run {header.id}, event {event.seq}", what=f"does not fold ({error})")
    if header.event_count is not None and expected != header.event_count:
        yield Damage(where=f"run {header.id}", what=f"{expected} events where it ended with {header.event_count}")


def _damage(header: RunHeader, error: StoreError) -> Damage:
    if isinstance(error, CorruptStore):
        return Damage(where=error.where, what=error.reason)
    return Damage(where=f"run {header.id}", what=error.message)


def _strays(store: SQLiteStore) -> Iterator[Damage]:
    """Report events and packs that belong to no run."""
    for table in ("events", "packs"):
        try:
            rows = store.query(
                f"SELECT DISTINCT key >> 32 FROM {table} WHERE key >> 32 NOT IN (SELECT n FROM runs NOT INDEXED)"
            )
        except StoreError as error:
            yield Damage(where=f"table {table}", what=error.message)
            continue
        for (number,) in rows:
            yield Damage(where=f"run {number}", what=f"{table} without a run")


def _blob(address: Any, size: Any, data: Any) -> Iterator[Damage]:
    where = f"blob {address.hex() if isinstance(address, bytes) else address!r}"
    try:
        blobs.check(where, address, size, data)
    except CorruptStore as error:
        yield Damage(where=where, what=error.reason)
