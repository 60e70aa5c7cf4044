"""Into the store: a run that is there already is one run, however often it comes in."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from replaykit.errors import RunNotFound, UsageError
from replaykit.model.run import TraceRun
from replaykit.store.protocol import Store


class Landing(StrEnum):
    """What became of a run that came in."""

    IMPORTED = "imported"
    UPDATED = "updated"  # it was there, and said something else: a run that had not ended, say
    UNCHANGED = "unchanged"


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
        if landing is not Landing.UNCHANGED:
            store.replace([run])  # `add` would clean it once more
    return landing


def _compared(store: Store, run: TraceRun) -> Landing:
    try:
        held = store.header(run.id)
    except RunNotFound:
        return Landing.IMPORTED
    if held.id != run.id:  # found by the beginning of its id, or by its name
        return Landing.IMPORTED
    if store.load(run.id) == run:
        return Landing.UNCHANGED
    if held.origin.kind != run.origin.kind or held.origin.format != run.origin.format:
        what = f"{held.origin.kind} ({held.origin.format})" if held.origin.format else held.origin.kind
        raise UsageError(f"the store holds another run {run.id!r} already: {what}")
    return Landing.UPDATED
