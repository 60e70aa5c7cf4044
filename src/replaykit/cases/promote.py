"""Promote a failure to a case: from a trace file, or from a run in the store."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.incomplete_runs import incompleteness, refuse_incomplete
from replaykit.cases.run_selection import Picked, pick_run
from replaykit.cases.scaffold import scaffold
from replaykit.documents.slug import slug, typeable
from replaykit.errors import RunNotFound
from replaykit.formats.core.source import STDIN, read_source
from replaykit.model.run import Origin, TraceRun
from replaykit.store.open import StoreLike, open_store

CASES = Path("cases")
_PACKED = (".gz", ".zst")
_FILES = (*_PACKED, ".json", ".jsonl", ".ndjson", ".eval", ".traj", ".har")


class Promoted(Struct, frozen=True, kw_only=True):
    """A new case, and what is to be said about how it came to be."""

    case: ReplayCase
    run: TraceRun
    """The run it was made of, as it was read."""
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The program whose recording it was made of."""


def promote(
    source: str,
    out: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    run_id: str | None = None,
    case_id: str | None = None,
    title: str | None = None,
    allow_incomplete: bool = False,
    force: bool = False,
    store: StoreLike = None,
    redact: bool | None = None,
) -> Promoted:
    """Make a case of the trace file or the run that `source` names; `-` is what comes through the pipe.

    A run that a trace tells too little of is refused, unless `allow_incomplete`.
    """
    if _is_file(source):
        picked = pick_run(read_source(source), format, run_id)
    else:
        picked = _recorded(source, store)
    if not allow_incomplete:
        refuse_incomplete(picked.run)
    lacks = incompleteness(picked.run)
    case = scaffold(
        picked.run,
        out or CASES / _name(source, picked),
        source_text=picked.text,
        source_format=picked.format,
        case_id=case_id,
        title=title,
        remarks=(*picked.notes, *lacks),
        force=force,
        redact=redact,
    )
    notes = (*picked.notes, *lacks)
    command = () if _is_file(source) else _command(picked.run)
    return Promoted(case=case, run=picked.run, notes=notes, command=command)


def _command(run: TraceRun) -> tuple[str, ...]:
    """The command of a program that was recorded here. What a trace from elsewhere says of one is for nobody to run."""
    program = run.metadata.get("program") if run.origin == Origin() else None
    words = program.get("command") if isinstance(program, dict) else None
    if isinstance(words, list):
        return tuple(map(str, words))
    return ()


def _is_file(source: str) -> bool:
    return source == STDIN or os.path.exists(source) or os.sep in source or source.endswith(_FILES)


def _name(source: str, picked: Picked) -> str:
    """What the case is called: as the file where that holds the run alone, else as the run."""
    if not _is_file(source):
        return typeable(picked.run.name or picked.run.id)
    if source == STDIN or not picked.is_only:
        return slug("tool_call", picked.run.id)
    file = Path(source)
    if file.suffix in _PACKED:
        return Path(file.stem).stem
    return file.stem


def _recorded(run_id: str, store: StoreLike) -> Picked:
    try:
        with open_store(store, read_only=True) as source:
            return Picked(run=source.load(run_id))
    except RunNotFound as error:
        raise RunNotFound(
            f"{run_id!r} is neither a trace file nor a recorded run", hint="See what is recorded: replaykit runs"
        ) from error
