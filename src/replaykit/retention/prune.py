"""Prune: carry out the plan, and return the space to the file system."""

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
from replaykit.wire.json_fields import object_in

CASES = Path("cases")
"""The default directory of cases."""


def referenced_runs(places: Iterable[Path] = ()) -> set[str]:
    """Return the ids of the runs that cases at these places and below `cases` refer to.

    An unreadable case is an error, because the run it refers to would be deleted.
    """
    runs: set[str] = set()
    for file in _files([*places, CASES]):
        value = load_document(file, limit_bytes=MAX_CASE_BYTES).value
        run = object_in(value, "source").get("run")
        if isinstance(run, str):
            runs.add(run)
    return runs


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in dict.fromkeys(places):
        if not place.exists():
            continue
        try:
            files = find_files([place]).files
        except NothingSelected:
            continue
        for case_file in files:
            if isinstance(case_file, CaseFile):
                yield case_file.file


class PruneResult(Struct, frozen=True, kw_only=True):
    """The runs that were deleted, or would be without the dry run."""

    replaykit: int = 1
    """Version of this format."""
    dry_run: bool
    """True if nothing was deleted."""
    runs: tuple[PrunedRun, ...]
    """The runs that were deleted, or would be."""
    remaining: int = field(name="kept")
    """The number of runs that stay."""
    stays: dict[str, int]
    """The number of expired runs that stay, by the reason."""
    freed_bytes: int
    """The space that the deleted runs took in the store."""
    file_bytes_before: int
    """The size of the store's file before."""
    file_bytes: int
    """The size of the store's file afterwards."""
    free_bytes: int
    """The free space in the file, which is reused before the file grows."""
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
    """Delete expired runs while others may write. `compact` also rewrites the whole file."""
    stored = contents(store)
    plan = plan_pruning(
        policy,
        stored,
        now=time.time() if now is None else now,
        named=named,
        last_at=lambda run: _last_at(store, run),
    )
    notes = list(plan.notes)
    for damage in stored.damage:
        notes.append(f"{damage.where} is damaged, its run stays: {damage.what}")
    before = file_bytes(store)
    deleted, missed_bytes, missed = plan.going, 0, 0
    if not dry_run:
        gone = {run.id for run in discard(store, plan.runs, newest=stored.newest)}
        deleted = tuple(run for run in plan.going if run.run in gone)
        missed = len(plan.going) - len(deleted)
        missed_bytes = sum(run.size_bytes for run in plan.going) - sum(run.size_bytes for run in deleted)
        if missed:
            notes.append(f"{missed} changed or were forked meanwhile, and stay")
        if not give_back(store, rewrite=compact):
            notes.append("this store cannot shrink as it is; rewrite it once: replaykit store prune --compact")
    return PruneResult(
        dry_run=dry_run,
        runs=deleted,
        remaining=plan.remaining + missed,
        stays=plan.stays,
        freed_bytes=plan.size_bytes - missed_bytes,
        file_bytes_before=before,
        file_bytes=file_bytes(store),
        free_bytes=free_bytes(store),
        notes=tuple(notes),
    )


def _last_at(store: SQLiteStore, run: RunSummary) -> float | None:
    """Return the time of a thread's last event; a damaged thread counts as new, so it stays."""
    try:
        return last_event_at(store, run.number)
    except CorruptStore:
        return float("inf")
