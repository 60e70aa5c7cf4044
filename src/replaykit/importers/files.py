"""From a trace file to its runs, whatever its format."""

from __future__ import annotations

import os

from replaykit.errors import InvalidFile
from replaykit.importers import langsmith, native, otel, run_log
from replaykit.importers.registry import IMPORTERS, Imported, Importer
from replaykit.importers.source import Source, read_source

BUILT_IN = (run_log, native, langsmith, otel)
"""The modules whose import enters the built-in formats."""


def import_trace(path: str | os.PathLike[str], format: str | None = None) -> Imported:
    """The runs in a trace file, of the named format or of the one it looks like."""
    return import_source(read_source(path), format)


def import_source(source: Source, format: str | None = None) -> Imported:
    """The runs in a trace that was already read."""
    importer = IMPORTERS.get(format) if format is not None else _recognise(source)
    return importer.read(source)


def _recognise(source: Source) -> Importer:
    found = next((importer for importer in IMPORTERS.values() if importer.recognises(source)), None)
    if found is not None:
        return found
    _ = source.value  # not even JSON? then say that, and where
    raise InvalidFile(
        "not a trace of a known format: expected an object with `run_id`, `status` and `events`",
        file=source.file,
        hint=f"Name the format: --format {' | '.join(IMPORTERS)}",
    )
