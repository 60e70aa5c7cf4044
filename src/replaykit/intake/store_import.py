"""Into the store: a run that is there already is one run, however often it comes in."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from msgspec.structs import replace

from replaykit.errors import RunNotFound, UsageError
from replaykit.model.run import TraceRun, encode_run
from replaykit.store.protocol import Store


class StoreResult(StrEnum):
    """The result of storing a run."""

    IMPORTED = "imported"
    UPDATED = "updated"  # it was there, and said something else: a run that had not ended, say
    UNCHANGED = "unchanged"
    THERE = "there"  # a file of another format told of it first, and that one stays


def store_run(store: Store | None, run: TraceRun, *, dry_run: bool = False) -> StoreResult:
    """Keep the run; a `UsageError` when its id is that of a run that was not imported, or is none."""
    if not run.id.strip() or not run.id.isprintable():
        raise UsageError(f"{run.id[:40]!r} is no id of a run")
    run = replace(run, event_count=len(run.events))
    if store is None:
        return StoreResult.IMPORTED
    run = store.cleaned(run)
    if dry_run:
        return _compared(store, run)
    with store.exclusive():
        landing = _compared(store, run)
        if landing in (StoreResult.IMPORTED, StoreResult.UPDATED):
            store.replace([run])  # `add` would clean it once more
    return landing


class DryRun:
    """Runs that come in one after another, without writing: returns what storing each would do."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._seen: dict[str, tuple[str | None, bytes]] = {}

    def store_run(self, run: TraceRun) -> StoreResult:
        """As the function, with what came before it in mind."""
        landing = store_run(self._store, run, dry_run=True)
        own = run.origin.format, hashlib.sha256(encode_run(run)).digest()
        before = self._seen.setdefault(run.id, own)
        if before is own:
            return landing
        if before[0] != own[0]:
            return StoreResult.THERE
        self._seen[run.id] = own
        if before == own:
            return StoreResult.UNCHANGED
        return StoreResult.UPDATED


def _compared(store: Store, run: TraceRun) -> StoreResult:
    try:
        held = store.header(run.id)
    except RunNotFound:
        return StoreResult.IMPORTED
    if held.id != run.id:  # found by the beginning of its id, or by its name
        return StoreResult.IMPORTED
    if store.load(run.id) == run:
        return StoreResult.UNCHANGED
    if held.origin.kind != run.origin.kind:
        hint = "It is not replaced. Keep this one elsewhere: --store PATH"
        raise UsageError(f"the store holds another run {run.id!r} already: {held.origin.kind}", hint=hint)
    if held.origin.format == run.origin.format:
        return StoreResult.UPDATED
    return StoreResult.THERE
