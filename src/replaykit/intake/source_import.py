"""`replaykit import sources`: the sources of a configuration, fetched and kept as session files."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from replaykit.errors import ReplayKitError
from replaykit.intake.entries import FAILED, ImportEntry, ImportResult
from replaykit.intake.job import ImportTarget, import_records
from replaykit.intake.source_sessions import OpenServices, contract_of, fetch
from replaykit.project.project import Project
from replaykit.project.sources import SessionSource


def import_sources(
    project: Project, into: ImportTarget, timeout_s: float, on_entry: Callable[[], None] = lambda: None
) -> ImportResult:
    """Bring in every source that is not fetched each time anyway; one that fails stops no other."""
    entries: list[ImportEntry] = []
    notes = [
        f"{source.label}: fetched each time, so nothing is kept of it"
        for source in project.sources
        if source.auto_import
    ]
    keepers = OpenServices(timeout_s)
    for source in project.sources:
        if source.auto_import:
            continue
        try:
            result = _imported(project, source, keepers, into, on_entry)
        except ReplayKitError as error:
            problem = f"{source.label}: {error}"
            entries.append(ImportEntry(run="", origin=source.service, result=FAILED, problem=problem))
        else:
            entries += result.entries
            notes += result.notes or ([] if result.entries else [f"{source.label}: no run is of that kind"])
    return ImportResult(dry_run=into.dry_run, entries=tuple(entries), notes=tuple(dict.fromkeys(notes)))


def _imported(
    project: Project, source: SessionSource, keepers: OpenServices, into: ImportTarget, on_entry: Callable[[], None]
) -> ImportResult:
    place = msgspec.structs.replace(
        into, output=project.directory / source.home / source.place, contract=contract_of(project, source)
    )
    return import_records(fetch(keepers.of(source), source), place, on_entry)
