"""Vacuuming: return freed space to the file system a few pages at a time, while others write."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from replaykit.store.schema import is_locked, translate
from replaykit.store.sqlite import SQLiteStore

HELD_S = 0.02
"""How long one step holds the store, approximately."""
_SHORTEST_WAIT_S = 0.002
_PAGES = 64
_IN_ONE_GO = 64 * 1024 * 1024  # rewriting a store of this size takes about a second
_CHECKPOINT_WAIT_MS = 500


def file_bytes(store: SQLiteStore) -> int:
    """Return the size of the store's file and its logs on the disk."""
    size = store.path.stat().st_size
    log = store.path.with_name(store.path.name + "-wal")
    if log.exists():
        size += log.stat().st_size
    return size + store.logs.size_bytes()


def free_bytes(store: SQLiteStore) -> int:
    """Return the number of unused bytes in the file."""
    ((pages,),) = store.query("PRAGMA freelist_count")
    ((size,),) = store.query("PRAGMA page_size")
    return int(pages * size)


def paced(step: Callable[[], bool]) -> None:
    """Call `step` until it returns False, pausing after each call for as long as it took, so that others can write."""
    while True:
        began = time.monotonic()
        more = step()
        if not more:
            return
        time.sleep(max(_SHORTEST_WAIT_S, time.monotonic() - began))


def give_back(store: SQLiteStore, *, rewrite: bool = False) -> bool:
    """Shrink the file by its free space. Return False if that would take a rewrite of a large store."""
    shrinks = store.query("PRAGMA auto_vacuum")[0][0] == 2
    if rewrite or (not shrinks and file_bytes(store) <= _IN_ONE_GO):
        _rewrite(store)
    elif not shrinks:
        return not free_bytes(store)
    else:
        paced(lambda: _vacuum(store))
    _cut(store)
    return True


def _vacuum(store: SQLiteStore) -> bool:
    """Move pages from the end of the file into free ones for a short time; return whether there are more."""
    give_up = time.monotonic() + HELD_S
    with store.transaction() as db:
        while time.monotonic() < give_up:
            before = _free(db)
            if not before:
                return False
            db.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
            if _free(db) == before:  # nothing more can be moved
                return False
    return True


def _free(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA freelist_count").fetchone()[0])


def _rewrite(store: SQLiteStore) -> None:
    """Rewrite the whole store while others wait. Afterwards it can shrink step by step."""
    with store.lock:
        try:
            # For an existing database, this setting takes effect only with VACUUM.
            store.db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            store.db.execute("VACUUM")
        except sqlite3.Error as error:
            raise translate(error, str(store.path)) from None


def _cut(store: SQLiteStore) -> None:
    """Checkpoint the WAL so that the file shrinks. A concurrent reader postpones this to a later checkpoint."""
    with store.lock:
        (wait,) = store.db.execute("PRAGMA busy_timeout").fetchone()
        try:
            # A reader may hold the WAL for as long as it likes, so do not wait for the usual timeout.
            store.db.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
            store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise translate(error, str(store.path)) from None
        finally:
            store.db.execute(f"PRAGMA busy_timeout = {wait}")
