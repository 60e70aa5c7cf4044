"""`rk.scaffold`: a failed run becomes a case that was seen red."""

from __future__ import annotations

import os
from collections.abc import Sequence

from replaykit.candidates.case_check import check_case
from replaykit.cases.case import ReplayCase
from replaykit.cases.scaffold import scaffold as write_case
from replaykit.model.run import TraceRun


def scaffold(
    run: TraceRun,
    out: str | os.PathLike[str],
    *,
    source_text: bytes | None = None,
    source_format: str | None = None,
    case_id: str | None = None,
    title: str | None = None,
    remarks: Sequence[str] = (),
    force: bool = False,
    redact: bool | None = None,
) -> ReplayCase:
    """The case made from a run, written to the directory `out`.

    `source_text` is the trace the run was read from; without it the run log is kept in its place. `remarks` go
    into the notes. When no detector knows the failure, the case's `observed` is empty and the notes say so. The run is
    judged through the finished case, and where that reproduces the failure, `proof.json` says so.

    Nothing secret gets into the case: it is redacted as it is made, whatever the run's store was opened with, and a
    finding that is left refuses it. `redact=False` is for made-up data; without it the environment decides.
    """
    case = write_case(
        run,
        out,
        source_text=source_text,
        source_format=source_format,
        case_id=case_id,
        title=title,
        remarks=remarks,
        force=force,
        redact=redact,
    )
    check_case(case, run)
    return case
