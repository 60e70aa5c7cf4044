"""Redact stored runs after the fact."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from replaykit.config import default_store_path
from replaykit.errors import UsageError
from replaykit.model.run import RunHeader, RunStatus, TraceRun, encode_run
from replaykit.redaction.files import Leak
from replaykit.store.open import existing_store_path
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.vacuum import give_back

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor


def redact_runs(path: Path | None, names: Iterable[str], redactor: Redactor, *, dry_run: bool = False) -> list[Leak]:
    """Redact runs and their families, all or none; return what was replaced in each run."""
    from replaykit.redaction.events import Door  # noqa: PLC0415 (reading a store does not need it)

    door, leaks = Door(redactor), list[Leak]()
    with existing_store_path(path or default_store_path(), read_only=dry_run) as store:
        changed = []
        for run_id in _families(store, names):
            run = store.load(run_id)
            clean = door.run(run)
            if clean == run:
                continue
            changed.append(clean)
            leaks += _leaks(run, redactor)
        if changed and not dry_run:
            store.replace(changed)
            give_back(store, rewrite=True)  # SQLite leaves deleted content in free pages until they are overwritten
    return leaks


def _families(store: SQLiteStore, names: Iterable[str]) -> list[str]:
    """Return the ids of the runs with all their ancestors and forks."""
    headers = {header.id: header for header in store.headers()}
    parents = {header.id: header.origin.run for header in headers.values()}
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys(_ancestors(store.header(name).id, parents))
    grown = True
    while grown:
        forks = [run_id for run_id, parent in parents.items() if parent in found and run_id not in found]
        found |= dict.fromkeys(forks)
        grown = bool(forks)
    for run_id in found:
        _refuse_running(headers[run_id])
    return list(found)


def _ancestors(run_id: str, parents: dict[str, str | None]) -> list[str]:
    family = [run_id]
    while (parent := parents.get(family[-1])) is not None and parent in parents and parent not in family:
        family.append(parent)
    return family


def _refuse_running(header: RunHeader) -> None:
    if header.status is RunStatus.RUNNING:
        raise UsageError(
            f"run {header.id} is being recorded, or was killed while it was",
            hint="Wait until it has ended. If it was killed: replaykit record --recover",
        )


def _leaks(run: TraceRun, redactor: Redactor) -> list[Leak]:
    """Return the leaks in a run by their places in the log.

    States are scanned in their stored form, change by change.
    """
    found = redactor.scan(encode_run(run))
    return [Leak(f"run {run.id}", 0, 0, one.kind, one.path) for one in found] or [Leak(f"run {run.id}", 0, 0, "state")]
