"""Into the store: a run that is there already is one run, however often it comes in."""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from replaykit.errors import RunNotFound, UsageError
from replaykit.model.run import TraceRun, encode_run
from replaykit.store.protocol import Store


class Landing(StrEnum):
    """What became of a run that came in."""

    IMPORTED = "imported"
    UPDATED = "updated"  # it was there, and said something else: a run that had not ended, say
    UNCHANGED = "unchanged"
    THERE = "there"  # a file of another format told of it first, and that one stays


def land(store: Store | None, run: TraceRun, *, dry_run: bool = False) -> Landing:
    """Keep the run; a `UsageError` when its id is that of a run that was not imported, or is none."""
    if not run.id.strip() or not run.id.isprintable():
        raise UsageError(f"{run.id[:40]!r} is no id of a run")
    run = msgspec.structs.replace(run, event_count=len(run.events))
    if store is None:
        return Landing.IMPORTED
    run = store.cleaned(run)
    if dry_run:
        return _compared(store, run)
    with store.exclusive():
        landing = _compared(store, run)
        if landing in (Landing.IMPORTED, Landing.UPDATED):
            store.replace([run])  # `add` would clean it once more
    return landing


class Rehearsal:
    """What would become of runs that come in one after another, where nothing is written."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._seen: dict[str, tuple[str | None, bytes]] = {}

    def land(self, run: TraceRun) -> Landing:
        """As `land`, with what came before it in mind."""
        landing = land(self._store, run, dry_run=True)
        own = run.origin.format, hashlib.sha256(encode_run(run)).digest()
        before = self._seen.setdefault(run.id, own)
        if before is own:
            return landing
        if before[0] != own[0]:
            return Landing.THERE
        self._seen[run.id] = own
        return Landing.UNCHANGED if before == own else Landing.UPDATED


def _compared(store: Store, run: TraceRun) -> Landing:
    try:
        held = store.header(run.id)
    except RunNotFound:
        return Landing.IMPORTED
    if held.id != run.id:  # found by the beginning of its id, or by its name
        return Landing.IMPORTED
    if store.load(run.id) == run:
        return Landing.UNCHANGED
    if held.origin.kind != run.origin.kind:
        hint = "It is not replaced. Keep this one elsewhere: --store PATH"
        raise UsageError(f"the store holds another run {run.id!r} already: {held.origin.kind}", hint=hint)
    return Landing.UPDATED if held.origin.format == run.origin.format else Landing.THERE
