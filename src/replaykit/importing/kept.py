"""`replaykit import sources`: the sources of a configuration, fetched and kept as session files."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from replaykit.errors import ReplayKitError
from replaykit.importing.job import FAILED, Entry, ImportResult, Into, import_records
from replaykit.importing.sources import Keepers, contract_of, fetch
from replaykit.project.project import Project
from replaykit.project.sources import Source


def import_sources(
    project: Project, into: Into, timeout_s: float, on_entry: Callable[[], None] = lambda: None
) -> ImportResult:
    """Bring in every source that is not fetched each time anyway; one that fails stops no other."""
    entries: list[Entry] = []
    notes = [f"{one.label}: fetched each time, so nothing is kept of it" for one in project.sources if one.auto_import]
    keepers = Keepers(timeout_s)
    for source in project.sources:
        if source.auto_import:
            continue
        try:
            result = _imported(project, source, keepers, into, on_entry)
        except ReplayKitError as error:
            entries.append(Entry(run="", origin=source.service, result=FAILED, problem=f"{source.label}: {error}"))
        else:
            entries += result.entries
            notes += result.notes or ([] if result.entries else [f"{source.label}: no run is of that kind"])
    return ImportResult(dry_run=into.dry_run, entries=tuple(entries), notes=tuple(dict.fromkeys(notes)))


def _imported(
    project: Project, source: Source, keepers: Keepers, into: Into, on_entry: Callable[[], None]
) -> ImportResult:
    place = msgspec.structs.replace(
        into, output=project.directory / source.home / source.place, contract=contract_of(project, source)
    )
    return import_records(fetch(keepers.of(source), source), place, on_entry)
