"""Upgrade a case: its files in the current format, and a proof where its own recording gives one."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from replaykit.candidates.case_check import check_case
from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.proof import read_proof
from replaykit.cases.upgrade import outdated_files, write_files
from replaykit.formats.files import import_trace
from replaykit.model.run import TraceRun


class Upgraded(Struct, frozen=True, kw_only=True):
    """What was done to a case, or would be."""

    directory: str
    rewritten: tuple[str, ...] = ()
    """The files that an older version wrote."""
    proven: bool = False
    """True when the case got a proof that it did not have."""
    unproven: str = ""
    """Why it has none, in words."""


def upgrade_case(directory: Path, *, dry_run: bool = False) -> Upgraded:
    """Rewrite the case's files, and prove it red by its source trace if nobody has."""
    files = outdated_files(directory)
    if not dry_run:
        write_files(files)
    case = load_case(directory)
    proven, unproven = _prove(case, dry_run=dry_run)
    return Upgraded(
        directory=str(directory), rewritten=tuple(str(one.file) for one in files), proven=proven, unproven=unproven
    )


def _prove(case: ReplayCase, *, dry_run: bool) -> tuple[bool, str]:
    """True when a proof was written; else why there is none, which is nothing where there was one before."""
    if read_proof(case).red is not None:
        return False, ""
    run = _source_run(case)
    if run is None:
        return False, "it has no source trace to check it with"
    check = check_case(case, run, dry_run=dry_run)
    return check.is_ready, check.problem


def _source_run(case: ReplayCase) -> TraceRun | None:
    if case.trace_path is None or not case.trace_path.is_file():
        return None
    runs = import_trace(case.trace_path, case.source.format).runs
    return next((run for run in runs if case.source.run in (None, run.id)), None)
