"""Bulk removal: delete many runs, a few per transaction, while others write."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

import msgspec

from replaykit.model.run import Origin
from replaykit.store.removal import remove_run
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.summaries import RunSummary, last_key
from replaykit.store.vacuum import HELD_S, paced

_AT_ONCE = 200  # runs per transaction at most


class _Kin(msgspec.Struct, frozen=True):
    origin: Origin = Origin()


_decode = msgspec.json.Decoder(_Kin).decode


def discard(store: SQLiteStore, runs: Sequence[RunSummary], *, newest: int) -> list[RunSummary]:
    """Delete runs and return the deleted ones. Runs that changed or were forked since they were listed are skipped.

    `newest` is the highest run number at the time of listing. Runs are deleted from the highest number down: a fork
    goes before its parent, so a kill never leaves a fork without its history.
    """
    work = _Discarding(store, sorted(runs, key=lambda run: run.number), newest)
    if runs:
        paced(work.step)
    return work.gone


class _Discarding:
    def __init__(self, store: SQLiteStore, left: list[RunSummary], newest: int) -> None:
        self._store = store
        self._left = left
        self._newest = newest
        self._forked: set[str] = set()
        self.gone: list[RunSummary] = []

    def step(self) -> bool:
        """Delete one transaction's worth of runs and return whether any are left."""
        give_up = time.monotonic() + HELD_S
        left, gone, looked_at = self._left, list[RunSummary](), 0
        with self._store.between_turns() as db:
            self._look_for_forks(db)
            while looked_at < len(left) and len(gone) < _AT_ONCE and time.monotonic() < give_up:
                looked_at += 1
                run = left[-looked_at]
                if run.id not in self._forked and _is_same(self._store, run):
                    remove_run(self._store, run.id)
                    gone.append(run)
        del left[len(left) - looked_at :]  # only after the commit
        self.gone += gone
        return bool(left)

    def _look_for_forks(self, db: sqlite3.Connection) -> None:
        for number, data in db.execute("SELECT n, header FROM runs WHERE n > ? ORDER BY n", (self._newest,)):
            self._newest = number
            # Most runs have no origin, so most headers need no decoding.
            if b'"origin":' not in data:
                continue
            try:
                origin = _decode(data[4:]).origin
            except msgspec.MsgspecError:
                continue
            if origin.run is not None:
                self._forked.add(origin.run)


def _is_same(store: SQLiteStore, run: RunSummary) -> bool:
    rows = store.query("SELECT n, substr(header, 1, 4) FROM runs WHERE id = ?", run.id)
    if rows != [(run.number, run.seal)]:
        return False
    return run.last_key is None or run.last_key == last_key(store, run.number)
