"""Prune: carry out the plan, and give the space back."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from replaykit.cases.case import MAX_CASE_BYTES
from replaykit.cases.find import CaseFile, find_files
from replaykit.documents.document import load_document
from replaykit.errors import CorruptStore, NothingSelected
from replaykit.retention.plan import PrunedRun, plan_pruning
from replaykit.retention.policy import RetentionPolicy
from replaykit.store.bulk_removal import discard
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.summaries import RunSummary, contents, last_event_at
from replaykit.store.vacuum import file_bytes, free_bytes, give_back

CASES = Path("cases")
"""The default directory of cases."""


def referenced_runs(places: Iterable[Path] = ()) -> set[str]:
    """The ids of runs that cases name, at these places and below `cases`.

    A case that cannot be read is an error: the run it names would go.
    """
    found: set[str] = set()
    for file in _files([*places, CASES]):
        value = load_document(file, limit_bytes=MAX_CASE_BYTES).value
        source = value.get("source") if isinstance(value, dict) else None
        run = source.get("run") if isinstance(source, dict) else None
        if isinstance(run, str):
            found.add(run)
    return found


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in dict.fromkeys(places):
        if not place.exists():
            continue
        try:
            files = find_files([place]).files
        except NothingSelected:
            continue
        for found in files:
            if isinstance(found, CaseFile):
                yield found.file


class PruneResult(Struct, frozen=True, kw_only=True):
    """The runs that were deleted, or in a dry run would be."""

    replaykit: int = 1
    """Version of this form."""
    dry_run: bool
    """True when nothing was deleted."""
    runs: tuple[PrunedRun, ...]
    """The runs that were deleted, or would be."""
    remaining: int = field(name="kept")
    """The number of runs that stay."""
    stays: dict[str, int]
    """The number of expired runs that stay, by the reason."""
    freed_bytes: int
    """The size of the deleted runs in the store."""
    file_bytes_before: int
    """The size of the store's file before."""
    file_bytes: int
    """The size of the store's file now."""
    free_bytes: int
    """The free space in the file, which is used again before the file grows."""
    notes: tuple[str, ...] = ()
    """Remarks, such as files that could not be read."""


def prune(
    store: SQLiteStore,
    policy: RetentionPolicy,
    *,
    named: Collection[str] = (),
    dry_run: bool = False,
    compact: bool = False,
    now: float | None = None,
) -> PruneResult:
    """Delete expired runs; others may write meanwhile. `compact` rewrites the whole file besides."""
    found = contents(store)
    deletions = plan_pruning(
        policy,
        found,
        now=time.time() if now is None else now,
        named=named,
        last_at=lambda run: _last_at(store, run),
    )
    notes = list(deletions.notes)
    for damage in found.damage:
        notes.append(f"{damage.where} is damaged, its run stays: {damage.what}")
    before = file_bytes(store)
    deleted, missed_bytes, missed = deletions.going, 0, 0
    if not dry_run:
        gone = {run.id for run in discard(store, deletions.runs, newest=found.newest)}
        deleted = tuple(run for run in deletions.going if run.run in gone)
        missed = len(deletions.going) - len(deleted)
        missed_bytes = sum(run.size_bytes for run in deletions.going) - sum(run.size_bytes for run in deleted)
        if missed:
            notes.append(f"{missed} changed or were forked meanwhile, and stay")
        if not give_back(store, rewrite=compact):
            notes.append("this store cannot shrink as it is; rewrite it once: replaykit store prune --compact")
    return PruneResult(
        dry_run=dry_run,
        runs=deleted,
        remaining=deletions.remaining + missed,
        stays=deletions.stays,
        freed_bytes=deletions.size_bytes - missed_bytes,
        file_bytes_before=before,
        file_bytes=file_bytes(store),
        free_bytes=free_bytes(store),
        notes=tuple(notes),
    )


def _last_at(store: SQLiteStore, run: RunSummary) -> float | None:
    """Return the time of a thread's last event; one that cannot be read counts as new."""
    try:
        return last_event_at(store, run.number)
    except CorruptStore:
        return float("inf")
