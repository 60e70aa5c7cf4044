"""Prune: carry out the plan, and give the space back."""

from __future__ import annotations

import time
from collections.abc import Collection

from msgspec import Struct

from replaykit.errors import CorruptStore
from replaykit.retention.plan import Going, plan
from replaykit.retention.policy import Policy
from replaykit.store.discarding import discard
from replaykit.store.space import file_bytes, free_bytes, give_back
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.summaries import RunSummary, contents, last_event_at


class Pruned(Struct, frozen=True, kw_only=True):
    """What went, or in a dry run would go."""

    replaykit: int = 1
    dry_run: bool
    runs: tuple[Going, ...]
    kept: int
    stays: dict[str, int]
    """How many runs are past their time and stay, by the reason."""
    freed_bytes: int
    """What the runs that went took in the store."""
    file_bytes_before: int
    file_bytes: int
    free_bytes: int
    """What of the file holds nothing, and is used again before the file grows."""
    notes: tuple[str, ...] = ()


def prune(
    store: SQLiteStore,
    policy: Policy,
    *,
    named: Collection[str] = (),
    dry_run: bool = False,
    compact: bool = False,
    now: float | None = None,
) -> Pruned:
    """Take out what the policy lets go; others may write meanwhile. `compact` rewrites the whole file besides."""
    found = contents(store)
    wanted = plan(
        policy,
        found,
        now=time.time() if now is None else now,
        named=named,
        last_at=lambda run: _last_at(store, run),
    )
    notes = [*wanted.notes, *(f"{damage.where} is damaged, its run stays: {damage.what}" for damage in found.damage)]
    before = file_bytes(store)
    if dry_run:
        going = wanted.going
    else:
        gone = {run.id for run in discard(store, wanted.runs, newest=found.newest)}
        going = tuple(run for run in wanted.going if run.run in gone)
        if len(going) < len(wanted.going):
            notes.append(f"{len(wanted.going) - len(going)} changed or were forked meanwhile, and stay")
        if not give_back(store, rewrite=compact):
            notes.append("this store was made without a way to shrink; rewrite it once: replaykit prune --compact")
    lost = {run.run for run in wanted.going} - {run.run for run in going}
    return Pruned(
        dry_run=dry_run,
        runs=going,
        kept=wanted.kept + len(lost),
        stays=wanted.stays,
        freed_bytes=wanted.size_bytes - sum(run.size_bytes for run in wanted.going if run.run in lost),
        file_bytes_before=before,
        file_bytes=file_bytes(store),
        free_bytes=free_bytes(store),
        notes=tuple(notes),
    )


def _last_at(store: SQLiteStore, run: RunSummary) -> float | None:
    """A thread that cannot be read is not old."""
    try:
        return last_event_at(store, run.number)
    except CorruptStore:
        return float("inf")
