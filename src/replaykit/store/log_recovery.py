"""Recovery: the events that a killed process left in logs become packs, and logs of runs that are gone are removed.

The log of a shared run belongs to nobody between two turns, so it may be folded as well.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from replaykit.errors import StoreError
from replaykit.store.event_log import LogName
from replaykit.store.run_locks import running_numbers
from replaykit.store.writer import fold_rows

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore


def fold_abandoned_logs(store: SQLiteStore) -> None:
    """Fold the logs that nobody writes any more. One that is damaged, or for whose packs there is no room, stays."""
    names = list(store.logs.names())
    if not names:
        return
    written = running_numbers(store.real_path, [name.number for name in names])
    if written is None:  # nobody can tell here: they stay, and are read where they are
        return
    for name in names:
        if name.number not in written:
            try:
                _fold(store, name)
            except StoreError:
                continue


def _fold(store: SQLiteStore, name: LogName) -> None:
    with store.between_turns() as db:
        runs = db.execute("SELECT id FROM runs WHERE n = ?", (name.number,)).fetchall()
        if runs and LogName.of(name.number, runs[0][0]) == name:
            _, tail = store.rows_of(name.number)
            if tail:
                store.read_tail(tail)  # raises what is wrong with it
            fold_rows(db, tail, f"run {runs[0][0]}, log")
            db.execute("DELETE FROM events WHERE key >= ? AND key < ?", (name.number << 32, name.number + 1 << 32))
            store.after_commit(store.sync_commits)  # who wrote it may have been promised more than we promise
        store.after_commit(partial(store.logs.remove, name))
