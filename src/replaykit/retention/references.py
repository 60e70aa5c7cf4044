"""Which runs the cases of a project name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from replaykit.cases.case import MAX_CASE_BYTES
from replaykit.cases.document import load_document
from replaykit.cases.find import CaseFile, find_files
from replaykit.errors import NothingSelected

CASES = Path("cases")
"""Where cases are, unless a configuration says otherwise."""


def named_runs(places: Iterable[Path] = ()) -> set[str]:
    """The ids of runs that cases name, at these places and below `cases`.

    A case that cannot be read is an error: the run it names would go.
    """
    found: set[str] = set()
    for file in _files([*places, CASES]):
        value = load_document(file, limit_bytes=MAX_CASE_BYTES).value
        source = value.get("source") if isinstance(value, dict) else None
        run = source.get("run") if isinstance(source, dict) else None
        if isinstance(run, str):
            found.add(run)
    return found


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in dict.fromkeys(places):
        if not place.exists():
            continue
        try:
            yield from (found.file for found in find_files([place]).files if isinstance(found, CaseFile))
        except NothingSelected:
            continue
