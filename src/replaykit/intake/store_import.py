"""Write imported runs to the store: importing a run again updates it."""

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
    UPDATED = "updated"  # the stored run differed, such as one that had not ended
    UNCHANGED = "unchanged"
    THERE = "there"  # the run came in another format first, and stays


def store_run(store: Store | None, run: TraceRun, *, dry_run: bool = False) -> StoreResult:
    """Store a run; raise `UsageError` if its id is invalid or belongs to a run that was not imported."""
    if not run.id.strip() or not run.id.isprintable():
        raise UsageError(f"{run.id[:40]!r} is not an id of a run")
    run = replace(run, event_count=len(run.events))
    if store is None:
        return StoreResult.IMPORTED
    run = store.cleaned(run)
    if dry_run:
        return _compared(store, run)
    with store.exclusive():
        landing = _compared(store, run)
        if landing in (StoreResult.IMPORTED, StoreResult.UPDATED):
            store.replace([run])  # not `add`, which would redact the run again
    return landing


class DryRun:
    """Reports what importing runs one after another would do, without writing."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._seen: dict[str, tuple[str | None, bytes]] = {}

    def store_run(self, run: TraceRun) -> StoreResult:
        """Return the result of storing this run after the ones before."""
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
        stored = store.header(run.id)
    except RunNotFound:
        return StoreResult.IMPORTED
    if stored.id != run.id:  # found by a prefix of its id, or by its name
        return StoreResult.IMPORTED
    if store.load(run.id) == run:
        return StoreResult.UNCHANGED
    if stored.origin.kind != run.origin.kind:
        hint = "It is not replaced. Keep this one elsewhere: --store PATH"
        raise UsageError(f"the store holds another run {run.id!r} already: {stored.origin.kind}", hint=hint)
    if stored.origin.format == run.origin.format:
        return StoreResult.UPDATED
    return StoreResult.THERE
