"""Runs from trace files of any format that is registered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from replaykit.errors import NothingSelected, ReplayKitError, UsageError
from replaykit.importers.files import find_runs
from replaykit.importers.registry import IMPORTERS
from replaykit.importers.source import read_source
from replaykit.importing.record import Record
from replaykit.model.run import TraceRun


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
        for found in find_runs(read_source(file), format):
            if isinstance(found, TraceRun):
                yield Record(origin=origin, id=found.id, run=found)
            elif isinstance(found, str):
                yield Record(origin=origin, notes=(found,))
            else:
                yield Record(origin=origin, problem=found.message)
    except (UsageError, ReplayKitError) as error:
        yield Record(origin=origin, problem=str(error))
