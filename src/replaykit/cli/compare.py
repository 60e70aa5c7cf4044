"""`replaykit compare`: two runs beside each other."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.cli import options
from replaykit.cli.verbosity import is_verbose, reports
from replaykit.errors import UsageError, failed_if
from replaykit.formats.files import import_trace
from replaykit.report.comparison import comparison_text
from replaykit.store.open import open_store
from replaykit.travel.compare import compare

if TYPE_CHECKING:
    from replaykit.model.run import TraceRun


@click.command(name="compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.flag("--all", "whole", help="Show every event and every difference.")
@options.store
@options.as_json
@reports
def command(a: str, b: str, whole: bool, store_path: Path | None, as_json: bool) -> int:
    """Compare two runs and show where they first differ.

    A and B are runs (an id, the beginning of one, or a name) or trace files. Calls are aligned, so one extra call is
    one difference. Ids, times and durations never count. Exit 0 if the runs are identical, 1 if not.

    \b
    replaykit compare 20260215-143200 20260215-150112
    replaykit compare before.json after.json --all
    """
    comparison = compare(_load(a, store_path), _load(b, store_path))
    as_text = partial(comparison_text, a_name=a, b_name=b, whole=whole or is_verbose())
    options.show(as_json, comparison, as_text, brief=lambda found: as_text(found).partition("\n")[0])
    return failed_if(not comparison.identical)


def _load(name: str, store_path: Path | None) -> TraceRun:
    """The run of a trace file, or of the store."""
    if os.path.exists(name) or os.sep in name or name.endswith(".json"):
        imported = import_trace(name)
        options.note(*(f"{name}: {remark}" for remark in imported.remarks))
        if len(imported.runs) != 1:
            raise UsageError(f"{name} holds {len(imported.runs)} runs, and compare takes one from each file")
        return imported.runs[0]
    with open_store(store_path, read_only=True) as store:
        return store.load(name)
