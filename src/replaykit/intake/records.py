"""A record: one run that came in, or why it did not."""

from __future__ import annotations

from msgspec import Struct

from replaykit.model.run import TraceRun


class ImportRecord(Struct, frozen=True, kw_only=True):
    """One run of a file or of a service; without a run, `problem` says why there is none."""

    origin: str
    """The file, or what it was fetched from."""
    id: str = ""
    run: TraceRun | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()
