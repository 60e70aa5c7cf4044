"""Promote a failure to a case: from a trace file, or from a run in the store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.scaffold import scaffold
from replaykit.errors import RunNotFound, UsageError
from replaykit.importers.files import import_source
from replaykit.importers.source import read_source
from replaykit.model.run import TraceRun
from replaykit.store.opening import StoreLike, opened

CASES = Path("cases")


class Promoted(Struct, frozen=True, kw_only=True):
    """A new case, and what is to be said about how it came to be."""

    case: ReplayCase
    notes: tuple[str, ...] = ()


def promote(
    source: str,
    out: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    run_id: str | None = None,
    case_id: str | None = None,
    title: str | None = None,
    force: bool = False,
    store: StoreLike = None,
    redact: bool | None = None,
) -> Promoted:
    """Make a case of the trace file or the run that `source` names."""
    notes: tuple[str, ...] = ()
    text: bytes | None = None
    found: str | None = None
    if _is_file(source):
        trace = read_source(source)
        imported = import_source(trace, format)
        run, notes = _pick(imported.runs, run_id, source), imported.remarks
        if trace.is_text:  # else the run log is kept: what nobody can read or redact has no place in git
            text, found = trace.text, imported.format
        name = Path(source).stem
    else:
        run = _recorded(source, store)
        name = run.name or run.id
    case = scaffold(
        run,
        out or CASES / name,
        source_text=text,
        source_format=found,
        case_id=case_id,
        title=title,
        remarks=notes,
        force=force,
        redact=redact,
    )
    if not case.observed:
        notes = (*notes, "no known failure was detected: say in `observed` how it went wrong")
    return Promoted(case=case, notes=notes)


def _is_file(source: str) -> bool:
    return os.path.exists(source) or os.sep in source or source.endswith(".json")


def _recorded(run_id: str, store: StoreLike) -> TraceRun:
    try:
        with opened(store, read_only=True) as source:
            return source.load(run_id)
    except RunNotFound as error:
        raise RunNotFound(
            f"{run_id!r} is neither a trace file nor a recorded run", hint="See what is recorded: replaykit runs"
        ) from error


def _pick(runs: Sequence[TraceRun], run_id: str | None, file: str) -> TraceRun:
    if run_id is None and len(runs) == 1:
        return runs[0]
    ids = ", ".join(run.id for run in runs[:5]) + (" …" if len(runs) > 5 else "")
    chosen = [run for run in runs if run.id == run_id]
    if len(chosen) == 1:
        return chosen[0]
    if run_id is None:
        raise UsageError(f"{file} holds {len(runs)} runs", hint=f"Name one with --run: {ids}")
    raise UsageError(f"{file} holds no run {run_id!r}", hint=f"It holds: {ids}")
