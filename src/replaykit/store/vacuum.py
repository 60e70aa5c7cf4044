"""Space: what was deleted goes back to the file system, a few pages at a time, while others write."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from replaykit.store.schema import is_locked, translate
from replaykit.store.sqlite import SQLiteStore

HELD_S = 0.02
"""About how long a step holds the store."""
_SHORTEST_WAIT_S = 0.002
_PAGES = 64
_IN_ONE_GO = 64 * 1024 * 1024  # a store up to this size is rewritten in about a second
_CHECKPOINT_WAIT_MS = 500


def file_bytes(store: SQLiteStore) -> int:
    """Return the size of the store's file and its logs on the disk."""
    size = store.real_path.stat().st_size
    log = store.real_path.with_name(f"{store.real_path.name}-wal")
    if log.exists():
        size += log.stat().st_size
    return size + store.logs.size_bytes()


def free_bytes(store: SQLiteStore) -> int:
    """Of these, what holds nothing."""
    ((pages,),) = store.query("PRAGMA freelist_count")
    ((size,),) = store.query("PRAGMA page_size")
    return int(pages * size)


def paced(step: Callable[[], bool]) -> None:
    """Do steps until there is none left; after each wait as long as it took, so that others get their turn."""
    while True:
        began = time.monotonic()
        more = step()
        if not more:
            return
        time.sleep(max(_SHORTEST_WAIT_S, time.monotonic() - began))


def give_back(store: SQLiteStore, *, rewrite: bool = False) -> bool:
    """Shrink the file by what is free in it; False when only a rewrite would, and nobody asked for one."""
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
    """Move pages from the end of the file into holes for a moment; True when there are more."""
    give_up = time.monotonic() + HELD_S
    with store.transaction() as db:
        while time.monotonic() < give_up:
            before = _free(db)
            if not before:
                return False
            db.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
            if _free(db) == before:  # nothing moves: it is what it is
                return False
    return True


def _free(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA freelist_count").fetchone()[0])


def _rewrite(store: SQLiteStore) -> None:
    """Write the whole store anew; others wait for it. From then on it shrinks piece by piece."""
    with store.lock:
        try:
            store.db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            store.db.execute("VACUUM")
        except sqlite3.Error as error:
            raise translate(error, str(store.path)) from None


def _cut(store: SQLiteStore) -> None:
    """Bring the log into the file, which is cut then. Somebody who reads at this moment puts it off to a later one."""
    with store.lock:
        (wait,) = store.db.execute("PRAGMA busy_timeout").fetchone()
        try:
            store.db.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
            store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise translate(error, str(store.path)) from None
        finally:
            store.db.execute(f"PRAGMA busy_timeout = {wait}")
