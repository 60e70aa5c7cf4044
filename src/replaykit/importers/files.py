"""From a trace file to its runs, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.importers.registry import IMPORTERS, Found, Imported, Importer, read_all
from replaykit.importers.source import Source, read_source



def import_trace(path: str | os.PathLike[str], format: str | None = None) -> Imported:
    """The runs in a trace file, of the named format or of the one it looks like."""
    return import_source(read_source(path), format)


def import_source(source: Source, format: str | None = None) -> Imported:
    """The runs in a trace that was already read; `InvalidFile` when none of them can be."""
    return read_all(importer_of(source, format), source)


def find_runs(source: Source, format: str | None = None) -> Iterator[Found]:
    """What is in a trace file, one by one: nothing is held but what is being read."""
    return importer_of(source, format).read(source)


def importer_of(source: Source, format: str | None = None) -> Importer:
    """The importer of the named format, or of the one that the file looks like."""
    if format is not None:
        return IMPORTERS.get(format)
    found = next((importer for importer in IMPORTERS.values() if importer.recognises(source)), None)
    if found is not None:
        return found
    _ = source.value  # not even JSON? then say that, and where
    raise InvalidFile(
        "not a trace of a known format",
        file=source.file,
        hint=f"Name the format: --format {' | '.join(IMPORTERS)}",
    )
