"""Runs from trace files of any format that is registered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from replaykit.errors import NothingSelected, ReplayKitError, UsageError
from replaykit.importers.files import import_trace
from replaykit.importers.registry import IMPORTERS
from replaykit.importing.record import Record


def read_files(paths: Iterable[Path], format: str | None = None) -> Iterator[Record]:
    """The runs in these files, and in all below these directories; a file that is wrong is one record."""
    if format is not None:
        IMPORTERS.get(format)
    for path in paths:
        if path.is_dir():
            yield from _below(path, format)
        else:
            yield from _read(path, format)


def _below(directory: Path, format: str | None) -> Iterator[Record]:
    found = list(_walk(directory))
    if not found:
        raise NothingSelected(f"{directory} holds no file")
    for file in found:
        yield from _read(file, format)


def _walk(directory: Path) -> Iterator[Path]:
    """The regular files from here on, but for hidden ones, by name."""
    for above, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        files = (Path(above) / name for name in sorted(names) if not name.startswith("."))
        yield from (file for file in files if file.is_file())


def _read(file: Path, format: str | None) -> Iterator[Record]:
    origin = str(file)
    try:
        imported = import_trace(file, format)
    except (UsageError, ReplayKitError) as error:
        yield Record(origin=origin, problem=str(error))
        return
    for run in imported.runs:
        yield Record(origin=origin, id=run.id, run=run)
    for problem in imported.left_out:
        yield Record(origin=origin, problem=problem)
    if imported.notes:
        yield Record(origin=origin, notes=imported.notes)
