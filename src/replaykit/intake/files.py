"""Runs from trace files of any format that is registered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from replaykit.errors import InvalidFile, NothingSelected, ReplayKitError
from replaykit.formats.core.source import STDIN, read_source
from replaykit.formats.files import find_runs, importer_named, recognise
from replaykit.intake.entries import ImportRecord
from replaykit.model.run import TraceRun

_PACKED = (".gz", ".zst")
_TRACES = (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".har", ".pb")
"""Suffixes of trace files. In a directory, other files are skipped unless they begin like JSON."""
_NAMED = 5


def read_files(paths: Iterable[Path], format: str | None = None) -> Iterator[ImportRecord]:
    """The runs in these files, and in all below these directories; a file that is wrong is one record."""
    if format is not None:
        importer_named(format)
    for path in paths:
        if str(path) != STDIN and path.is_dir():
            yield from _below(path, format)
        else:
            yield from _read(path, format)


def _below(directory: Path, format: str | None) -> Iterator[ImportRecord]:
    found = list(_walk(directory))
    if not found:
        raise NothingSelected(f"{directory} holds no file")
    strangers: list[str] = []
    for file in found:
        if format is None and _is_stranger(file):
            strangers.append(str(file.relative_to(directory)))
        else:
            yield from _read(file, format)
    if strangers:
        files = "1 file that is no trace"
        if len(strangers) > 1:
            files = f"{len(strangers)} files that are no traces"
        names = ", ".join(strangers[:_NAMED])
        if len(strangers) > _NAMED:
            names += " …"
        yield ImportRecord(origin=str(directory), notes=(f"{directory}: passed over {files}: {names}",))


def _walk(directory: Path) -> Iterator[Path]:
    """The regular files from here on, but for hidden ones, by name."""
    for above, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        files = (Path(above) / name for name in sorted(names) if not name.startswith("."))
        yield from (file for file in files if file.is_file())


def _is_stranger(file: Path) -> bool:
    """True for a file that nobody would take for a trace: a page of text, an image."""
    name = file
    if file.suffix.lower() in _PACKED:
        name = Path(file.stem)
    if name.suffix.lower() in _TRACES:
        return False
    try:
        source = read_source(file)
        return source.head.lstrip()[:1] not in (b"{", b"[") and recognise(source) is None
    except InvalidFile:
        return False  # whoever reads it says why


def _read(file: Path, format: str | None) -> Iterator[ImportRecord]:
    """Return the records of a file; one without a run is a note, and no error."""
    notes: list[str] = []
    empty = True
    for record in _found(file, format):
        if empty and record.notes:
            notes += record.notes  # held until it is known what of
            continue
        if empty and notes:
            yield ImportRecord(origin=record.origin, notes=tuple(notes))
        empty = False
        yield record
    if empty:
        why = "; ".join(notes[:_NAMED])
        yield ImportRecord(origin=str(file), notes=(f"{file}: holds no run" + (f": {why}" if why else ""),))


def _found(file: Path, format: str | None) -> Iterator[ImportRecord]:
    origin = str(file)
    try:
        for found in find_runs(read_source(file), format):
            if isinstance(found, TraceRun):
                yield ImportRecord(origin=origin, id=found.id, run=found)
            elif isinstance(found, str):
                yield ImportRecord(origin=origin, notes=(found,))
            else:
                yield ImportRecord(origin=origin, problem=str(found))
    except ReplayKitError as error:
        yield ImportRecord(origin=origin, problem=str(error))
