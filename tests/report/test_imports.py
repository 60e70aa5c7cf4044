"""The result of an import for programs: written piece by piece, it is the same document."""

from __future__ import annotations

import msgspec
import pytest

from replaykit.intake.entries import CaseMade, ImportEntry, ImportResult, Manifest
from replaykit.report.imports import import_json

ENTRIES = (
    ImportEntry(run="a", origin="x.json", result="imported", name='odd "entries": [] and\nlines'),
    ImportEntry(
        run="b",
        origin="x.json",
        result="failed",
        replayable=Manifest(calls=1, lacking=msgspec.Raw(b'[{"seq":1}]'), advice=("one", "two")),
        case=CaseMade(directory="cases/b", result="made"),
        problem="no",
    ),
)


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("notes", [(), ("one", 'two "entries"')])
def test_the_pieces_are_the_document(count: int, notes: tuple[str, ...]) -> None:
    result = ImportResult(entries=ENTRIES[:count], notes=notes, dry_run=True)

    assert "".join(import_json(result)) == msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
