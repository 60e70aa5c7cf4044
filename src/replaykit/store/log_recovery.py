"""Recovery: fold the logs that killed processes left, and delete the logs of deleted runs.

Nobody owns the log of a shared run between two turns, so it may be folded as well.
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
    """Fold all logs without a writer. A log stays if it is damaged or the disk has no room for its packs."""
    names = list(store.logs.names())
    if not names:
        return
    written = running_numbers(store.path, [name.number for name in names])
    if written is None:  # unknown on this system: the logs stay, and readers read them in place
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
                store.read_tail(tail)  # raises if the rows are damaged
            fold_rows(db, tail, f"run {runs[0][0]}, log")
            db.execute("DELETE FROM events WHERE key >= ? AND key < ?", (name.number << 32, name.number + 1 << 32))
            store.after_commit(store.sync_commits)  # its writer may have promised more durability
        # Only after the commit: until then, the log is the only copy of its events.
        store.after_commit(partial(store.logs.remove, name))
